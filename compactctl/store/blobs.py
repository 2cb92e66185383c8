"""Bytes under a hash (summarizer cassettes): whole or not there, and never another's."""

from __future__ import annotations

import hashlib

from compactctl.context.naming import safe_name
from compactctl.store.layout import CASSETTES, Layout


class FileBlobs:
    """Keeps each blob as a file that begins with the hash of its content, so that damage is noticed.

    The first content under a key stays: two replays that ask the same at once get the same answer afterwards.
    """

    def __init__(self, layout: Layout) -> None:
        self._layout = layout

    def get(self, key: str) -> bytes | None:
        """Give the bytes under a key; None where there are none or the file is damaged (verify tells of it)."""
        with self._layout.room(CASSETTES) as home:
            data = home.read(safe_name(key)) if home is not None else None
        return None if data is None else blob_content(data)

    def put(self, key: str, value: bytes) -> None:
        """Store bytes durably; raises StoreError."""
        name = safe_name(key)
        with self._layout.make_room(CASSETTES) as home, home.alone():
            damaged = (old := home.read(name)) is not None and blob_content(old) is None
            home.publish(name, [hashlib.sha256(value).hexdigest().encode() + b"\n", value], replace=damaged)
            home.sync()


def blob_content(data: bytes) -> bytes | None:
    """Give the content of a blob's file, None where it is not what its hash says."""
    digest, newline, value = data.partition(b"\n")
    return value if newline and hashlib.sha256(value).hexdigest().encode() == digest else None
