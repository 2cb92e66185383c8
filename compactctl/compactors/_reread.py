"""Files that a harness reads again after a compaction, found in what was read before it."""

from __future__ import annotations

from dataclasses import dataclass
from json import JSONDecodeError, loads
from typing import Any

from compactctl.context.base import Item, Kind
from compactctl.context.view import View
from compactctl.model import USER, Message, Origin, byte_length

READ_TOOLS = frozenset({"Read", "read", "read_file"})
PATH_KEYS = ("file_path", "path", "filename")
BYTES_PER_TOKEN = 4


@dataclass(frozen=True, slots=True)
class Reread:
    """How much is put back: so many files, so many tokens of each and of all, at four bytes a token."""

    files: int = 5
    tokens_each: int = 5_000
    tokens_total: int = 50_000


def read_again(view: View, start: int, limits: Reread) -> list[Item]:
    """Give a message for each of the files that were read last, the one read last first.

    What a file holds is what the newest reading of it gave; one that failed or is not whole any more counts like any.
    """
    found: dict[str, Item] = {}
    room = limits.tokens_total * BYTES_PER_TOKEN
    for position in range(len(view) - 1, start - 1, -1):
        if len(found) >= limits.files or room <= 0:
            break
        item = view.item(position)
        if item.kind is not Kind.RECORDED or not item.message.tool_call_id or item.message.is_error:
            continue
        call = view.base.call_of(item.index)
        path = _path(call.arguments) if call is not None and call.name in READ_TOOLS else None
        if path is None or path in found:
            continue
        text = _clipped(item.message.content, min(room, limits.tokens_each * BYTES_PER_TOKEN))
        message = Message(USER, f"[file read again after the compaction: {path}]\n{text}", origin=Origin.HARNESS)
        found[path] = view.made(message, Kind.REPLACED)
        room -= byte_length(text)
    return list(found.values())


def _path(arguments: str) -> str | None:
    try:
        given: Any = loads(arguments)
    except JSONDecodeError:
        return None
    if not isinstance(given, dict):
        return None
    return next((given[key] for key in PATH_KEYS if isinstance(given.get(key), str)), None)


def _clipped(text: str, room: int) -> str:
    if byte_length(text) <= room:
        return text
    return text.encode("utf-8", "surrogatepass")[:room].decode("utf-8", "ignore")
