"""The bytes of a message as harness9 counts them, for the meters that build on them."""

from __future__ import annotations

from compactctl.model import Message, byte_length


def message_bytes(message: Message) -> int:
    """Give the UTF-8 bytes of content, call ids, names and arguments, and the result id (harness9.md 1.2)."""
    content = message.content
    weight = len(content) if content.isascii() else byte_length(content)
    if message.tool_calls:
        for call in message.tool_calls:
            weight += byte_length(call.id + call.name)
            arguments = call.arguments
            weight += len(arguments) if arguments.isascii() else byte_length(arguments)
    if call_id := message.tool_call_id:
        weight += len(call_id) if call_id.isascii() else byte_length(call_id)
    return weight
