"""One JSON array of chat messages, as home-made harnesses and evaluation sets keep them."""

from __future__ import annotations

import json
from typing import Any

from ..conversation import Conversation, Line


def write(conversation: Conversation) -> bytes:
    """Write a conversation as an indented array; it holds no times, no model and no usage."""
    return (json.dumps([_message(line) for line in conversation.lines], ensure_ascii=False, indent=1) + "\n").encode()


def _message(line: Line) -> dict[str, Any]:
    if line.role == "tool":
        return {"role": "tool", "tool_call_id": line.call_id, "content": line.text}
    message: dict[str, Any] = {"role": line.role, "content": line.text or None}
    if line.calls:
        message["tool_calls"] = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments_json}}
            for call in line.calls
        ]
    return message
