"""The bytes of a message as harness9 counts them, for the meters that build on them."""

from __future__ import annotations

from compactctl.model import Message, byte_length


def message_bytes(message: Message) -> int:
    """Give the UTF-8 bytes of content, call ids, names and arguments, and the result id (harness9.md 1.2)."""
    content = message.content
    weight = len(content) if content.isascii() else byte_length(content)
    if message.tool_calls:
        for call in message.tool_calls:
            weight += byte_length(call.id) + byte_length(call.name) + byte_length(call.arguments)
    if message.tool_call_id:
        weight += byte_length(message.tool_call_id)
    return weight
