"""The text of a conversation as a summarizer is given it (conformance/README.md, fixed texts)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from compactctl.model import Message


def conversation_lines(messages: Iterable[Message]) -> Iterator[str]:
    """Give the lines of a conversation, one item for each text, result and call.

    >>> list(conversation_lines([Message("user", "fix it"), Message("tool", "ok", tool_call_id="c1")]))
    ['[user]: fix it', '[tool_result c1]: ok']
    """
    for message in messages:
        if message.tool_call_id:
            yield f"[tool_result {message.tool_call_id}]: {message.content}"
        elif message.content:
            yield f"[{message.role}]: {message.content}"
        for call in message.tool_calls:
            yield f"[tool_call {call.name}({call.id})]: {call.arguments}"


def conversation_text(messages: Iterable[Message]) -> str:
    """Give a conversation as one text, its lines joined by newlines."""
    return "\n".join(conversation_lines(messages))
