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

from compactctl.model import ROLES, Message, Origin, Parts, RecordedCompaction, Session, ToolCall, Usage
from compactctl.transcripts._blocks import (
    as_text,
    count_of,
    quick_call,
    quick_message,
    quick_usage,
)

VERSION = 1
_KEYS = frozenset(
    "role content tool_calls tool_call_id name is_error timestamp model usage origin parts".split()  # noqa: SIM905
)
_LARGEST = 2**53
_ORIGINS = {str(origin): origin for origin in Origin}


def write_neutral(session: Session) -> Iterator[bytes]:
    """Give a session as lines of the neutral format, each with its newline."""
    header: dict[str, Any] = {"compactctl": VERSION, "session_id": session.id}
    for key in ("model", "context_window", "overhead_tokens", "harness", "harness_version", "parent_id"):
        value = getattr(session, key)
        if value not in (None, ""):
            header[key] = value
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
    """Read a row that is exactly in the neutral form, None for any other: the quick way of large files."""
    keys = tuple(row)
    form = _forms.get(keys)
    if form is None:
        form = _form(keys)
    if form < 0:
        return None
    role, content = row["role"], row["content"]
    if content.__class__ is not str or role not in ROLES:
        return None
    get = row.get
    calls: tuple[ToolCall, ...] = ()
    ident = name = model = ""
    failed, timestamp, usage = False, None, None
    if form & _CALLING:
        made = _calls(row["tool_calls"])
        if made is None:
            return None
        calls = made
    if form & _ANSWERING:
        ident, name = get("tool_call_id", ""), get("name", "")
        if ident.__class__ is not str or name.__class__ is not str or (ident and role != "tool"):
            return None
    if form & _MORE:
        failed, timestamp, model, recorded = get("is_error", False), get("timestamp"), get("model", ""), get("usage")
        if (
            failed.__class__ is not bool
            or model.__class__ is not str
            or (timestamp is not None and timestamp.__class__ is not str)
            or (recorded is not None and (usage := _usage(recorded)) is None)
        ):
            return None
        if form & _RICH:
            parts, origin = _parts(get("parts")), origin_of(row)
            return Message(role, content, calls, ident, name, failed, timestamp, model, usage, parts, origin)
    return quick_message(role, content, calls, ident, name, failed, timestamp, model, usage)


# A file has few sets of keys: what a set holds beside role and content is worked out once, as a sum of these. Bounded,
# since a hostile file may have many.
_CALLING, _ANSWERING, _MORE, _RICH = 1, 2, 4, 8
_OTHER = -1
_forms: dict[tuple[str, ...], int] = {}


def _form(keys: tuple[str, ...]) -> int:
    have = set(keys)
    if {"role", "content"} <= have <= _KEYS:
        form = _CALLING * ("tool_calls" in have) + _ANSWERING * bool(have & {"tool_call_id", "name"})
        rich = bool(have & {"origin", "parts"})
        form += _MORE * (rich or bool(have & {"is_error", "timestamp", "model", "usage"})) + _RICH * rich
    else:
        form = _OTHER
    if len(_forms) < 1000:
        _forms[keys] = form
    return form


def _calls(listed: Any) -> tuple[ToolCall, ...] | None:
    if listed.__class__ is not list:
        return None
    made = []
    for call in listed:
        if call.__class__ is not dict or len(call) != 3:
            return None
        ident, name, arguments = call.get("id"), call.get("name"), call.get("arguments")
        if ident.__class__ is not str or name.__class__ is not str or arguments.__class__ is not str:
            return None
        made.append(quick_call(ident, name, arguments))
    return tuple(made)


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


def _usage(row: Any) -> Usage | None:
    if row.__class__ is not dict:
        return None
    get = row.get
    prompt, output, read, write = get("prompt"), get("output"), get("cache_read"), get("cache_write")
    if (
        prompt.__class__ is int
        and output.__class__ is int
        and 0 <= prompt <= _LARGEST
        and 0 <= output <= _LARGEST
        and (read is None or (read.__class__ is int and 0 <= read <= _LARGEST))
        and (write is None or (write.__class__ is int and 0 <= write <= _LARGEST))
    ):
        return quick_usage(prompt, output, read, write)
    return None


def _parts(row: Any) -> Parts | None:
    if not isinstance(row, dict):
        return None
    texts = row.get("texts")
    return Parts(
        tuple(as_text(text) for text in texts) if isinstance(texts, list) else (),
        count_of(row.get("images")) or 0,
        count_of(row.get("image_bytes")) or 0,
        count_of(row.get("thinking_chars")) or 0,
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
