"""The neutral format: what ``convert`` writes and what any harness can be converted to.

An optional first line ``{"compactctl": 1, "session_id", "model", "context_window", "overhead_tokens", ...}``, then one
object a line: a message ``{"role", "content", ...}`` or ``{"event": "recorded_compaction", ...}`` where one happened.
All keys of a message but role and content are optional. Beyond DESIGN.md's keys a message may have ``origin`` and
``parts``, and a compaction ``cleared`` and ``replacement``: the history that the harness went on with, each item the
number of an earlier message of the file (from 0, messages only) or a message of its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import orjson
from msgspec import MsgspecError, convert
from msgspec.json import Decoder

from compactctl.model import ROLES, TOOL, Message, Origin, RecordedCompaction, Session
from compactctl.transcripts._blocks import (
    as_text,
    count_of,
)

VERSION = 1
_ROLES = frozenset(ROLES)
_MOST_MISSES = 20
_OPEN, _CLOSE = b"{}"
_ORIGINS = {str(origin): origin for origin in Origin}


def write_neutral(session: Session) -> Iterator[bytes]:
    """Give a session as lines of the neutral format, each with its newline."""
    header: dict[str, Any] = {"compactctl": VERSION, "session_id": session.id}
    for key in ("model", "context_window", "overhead_tokens", "harness", "harness_version", "parent_id"):
        value = getattr(session, key)
        if value not in (None, ""):
            header[key] = value
    if not session.model and any(message.model for message in session.messages):
        header["model"] = ""  # said, so that no reader takes a reply's model for the session's
    yield _line(header)
    place = {id(message): number for number, message in reversed(list(enumerate(session.messages)))}
    due = sorted(enumerate(session.compactions), key=lambda item: (item[1].at, item[0]))
    events = iter([compaction for _, compaction in due])
    event = next(events, None)
    for number, message in enumerate(session.messages):
        while event is not None and event.at <= number:
            yield _line(_event_row(event, place))
            event = next(events, None)
        yield _line(message_row(message))
    while event is not None:
        yield _line(_event_row(event, place))
        event = next(events, None)


def message_row(message: Message) -> dict[str, Any]:
    """Give a message as a row of the neutral format; what has its default is left out."""
    row: dict[str, Any] = {"role": message.role, "content": message.content}
    if message.tool_calls:
        row["tool_calls"] = [{"id": c.id, "name": c.name, "arguments": c.arguments} for c in message.tool_calls]
    for key in ("tool_call_id", "name", "is_error", "model"):
        if value := getattr(message, key):
            row[key] = value
    if message.timestamp is not None:
        row["timestamp"] = message.timestamp
    if message.usage is not None:
        row["usage"] = _set(message.usage, ("prompt", "output", "cache_read", "cache_write"), None)
    if message.parts is not None:
        row["parts"] = _set(message.parts, ("texts", "images", "image_bytes", "thinking_chars"), 0)
    if message.origin is not None:
        row["origin"] = str(message.origin)
    return row


def neutral_message(row: dict[str, Any]) -> Message | None:
    """Read a row that is exactly in the neutral form, None for any other."""
    try:
        return _checked(convert(row, Message))
    except MsgspecError:
        return None


class NeutralLines:
    """Reads lines that are exactly in the neutral form straight into messages, in the time of decoding them.

    Called with a buffer and the end of the whole lines with which it begins, gives their messages, None where one of
    them is anything else. A file of another form is given up on after some attempts, since they cost as much as a
    decoding.
    """

    def __init__(self) -> None:
        self._decoder = Decoder(Message)
        self._misses = 0

    def __call__(self, buffer: bytearray, end: int) -> list[Message] | None:
        """Read the lines, of which the last one has its newline, too."""
        if self._misses > _MOST_MISSES:
            return None
        made: list[Message] | None
        try:
            made = self._decoded(buffer, end)
        except (MsgspecError, UnicodeDecodeError, RecursionError):
            made = None
        if made is not None and not (
            _ROLES.issuperset([m.role for m in made]) and not [m for m in made if m.tool_call_id and m.role != TOOL]
        ):
            made = None
        self._misses = 0 if made is not None else self._misses + 1
        return made

    def _decoded(self, buffer: bytearray, end: int) -> list[Message]:
        with memoryview(buffer) as whole, whole[:end] as block:
            # Decoded together, messages need not be one a line; where each line looks like one object, they are.
            if lines := _object_lines(buffer, end):
                made = self._decoder.decode_lines(block)
                if len(made) == lines:
                    return made
            return list(map(self._decoder.decode, bytes(block[:-1]).split(b"\n")))


def _object_lines(buffer: bytearray, end: int) -> int:
    """Count the lines up to ``end``; 0 where one of them does not begin with ``{`` and end with ``}``.

    A newline between these two can only stand between two objects, since a comma parts them within one and a string
    holds no newline. So where as many objects as lines were decoded, each line is one of them.
    """
    if buffer[0] != _OPEN:
        return 0
    lines, at, find = 0, buffer.find(b"\n", 0, end), buffer.find
    while at >= 0:
        lines += 1
        following = at + 1
        if buffer[at - 1] != _CLOSE or (following < end and buffer[following] != _OPEN):
            return 0
        at = find(b"\n", following, end)
    return lines


def _checked(message: Message) -> Message | None:
    if message.role not in ROLES or (message.tool_call_id and message.role != TOOL):
        return None
    return message


def origin_of(row: dict[str, Any]) -> Origin | None:
    """Read who wrote a message; what is no origin gives None."""
    said = row.get("origin")
    return _ORIGINS.get(said) if isinstance(said, str) else None


def compaction_of(row: dict[str, Any], messages: list[Message], calls: int) -> RecordedCompaction:
    """Read the row of a compaction that happened behind ``messages``, which hold ``calls`` model calls."""
    replacement = None
    listed = row.get("replacement")
    if isinstance(listed, list):
        kept = []
        for item in listed:
            if isinstance(item, int) and 0 <= item < len(messages):
                kept.append(messages[item])
            elif isinstance(item, dict) and (message := neutral_message(item)) is not None:
                kept.append(message)
        replacement = tuple(kept)
    cleared = row.get("cleared")
    return RecordedCompaction(
        as_text(row.get("kind")) or "full",
        as_text(row.get("trigger")),
        at=len(messages),
        before_model_call=calls,
        tokens_before=count_of(row.get("tokens_before")),
        tokens_after=count_of(row.get("tokens_after")),
        replacement=replacement,
        cleared=tuple(as_text(ident) for ident in cleared) if isinstance(cleared, list) else (),
    )


def _event_row(compaction: RecordedCompaction, place: dict[int, int]) -> dict[str, Any]:
    row: dict[str, Any] = {"event": "recorded_compaction", "kind": compaction.kind, "trigger": compaction.trigger}
    for key in ("tokens_before", "tokens_after"):
        value = getattr(compaction, key)
        if value is not None:
            row[key] = value
    if compaction.cleared:
        row["cleared"] = compaction.cleared
    if compaction.replacement is not None:
        row["replacement"] = [
            number if (number := place.get(id(message), compaction.at)) < compaction.at else message_row(message)
            for message in compaction.replacement
        ]
    return row


def _set(held: Any, names: tuple[str, ...], default: object) -> dict[str, Any]:
    return {name: value for name in names if (value := getattr(held, name)) != default and value != ()}


def _line(row: dict[str, Any]) -> bytes:
    try:
        return orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE)
    except TypeError:  # a lone surrogate, which no loader lets in but a caller's own session may hold
        import json

        whole = json.dumps(row, ensure_ascii=False, separators=(",", ":"))
        return whole.encode("utf-8", "replace") + b"\n"
