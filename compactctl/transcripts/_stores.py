"""Tells what lies in a state directory from transcripts, so that a replay never takes its own output for input."""

from __future__ import annotations

import os

from compactctl.context.naming import RESULTS

# What the store keeps of sessions lies in these; the store's own layout names them too, on the same floor.
ROOMS = frozenset({RESULTS, "compaction_records", "turns", "memories", "cassettes", "locks", ".trash"})
_MARK = b"*\n"


class Stores:
    """The directories of a store that a command was given, and those that are one by what lies in them."""

    def __init__(self, state_dir: str | None = None, records_dir: str | None = None) -> None:
        self._records = os.path.realpath(records_dir) if records_dir else None
        self._chosen = {self._records, os.path.realpath(state_dir) if state_dir else None}
        self._known: dict[str, bool] = {}

    def is_store(self, path: str) -> bool:
        """Say whether a directory is one: a chosen one, or one with the store's mark and one of its rooms."""
        real = os.path.realpath(path)
        if real not in self._known:
            self._known[real] = real in self._chosen or _marked(real)
        return self._known[real]

    def holds(self, path: str) -> bool:
        """Say whether a path is a state directory or lies in a room of one."""
        real = os.path.realpath(path)
        if self.is_store(real):
            return True
        parent, name = os.path.split(real)
        while name:
            if parent == self._records or (name in ROOMS and self.is_store(parent)):
                return True
            parent, name = os.path.split(parent)
        return False


def _marked(path: str) -> bool:
    try:
        with os.scandir(path) as listing:
            if not any(entry.name in ROOMS and entry.is_dir(follow_symlinks=False) for entry in listing):
                return False
        with open(os.path.join(path, ".gitignore"), "rb") as mark:  # noqa: PTH118, PTH123 - may be any bytes
            return mark.read(len(_MARK) + 1) == _MARK
    except OSError:
        return False
