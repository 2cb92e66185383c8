"""compactctl's own format: a header line, then one message a line."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..conversation import Conversation, Line, iso
from ._rows import lines


def write(conversation: Conversation) -> bytes:
    """Write a conversation as neutral messages with a header that states the window."""
    return lines(_rows(conversation))


def _rows(conversation: Conversation) -> Iterator[dict[str, Any]]:
    yield {
        "compactctl": 1,
        "session_id": conversation.uuid("session"),
        "model": conversation.model,
        "context_window": conversation.window,
    }
    for line in conversation.lines:
        yield {
            key: value
            for key, value in _message(line).items()
            if key == "content" or value not in ("", [], None, False)
        }


def _message(line: Line) -> dict[str, Any]:
    return {
        "role": line.role,
        "content": line.text,
        "tool_calls": [{"id": call.id, "name": call.name, "arguments": call.arguments_json} for call in line.calls],
        "tool_call_id": line.call_id,
        "name": line.tool,
        "is_error": line.is_error,
        "timestamp": iso(line.at),
        "usage": line.charge
        and {
            "prompt": line.charge.prompt,
            "output": line.charge.output,
            "cache_read": line.charge.cache_read,
            "cache_write": line.charge.cache_write,
        },
    }
