"""The count of bytes that several meters rest on."""

from __future__ import annotations

from dataclasses import dataclass

from compactctl.context.view import MeterContext
from compactctl.model import Message, byte_length


@dataclass(frozen=True, slots=True)
class Bytes4:
    """Counts UTF-8 bytes of content, call ids, names and arguments, and result ids; four make a token.

    Not counted: roles, images, thinking, framing, tool definitions. CJK text is far denser than this says.
    """

    name = "bytes4"
    steady = True
    divisor = 4

    def weigh(self, message: Message) -> int:
        """Give the bytes of a message."""
        content = message.content
        weight = len(content) if content.isascii() else byte_length(content)
        if message.tool_calls:
            for call in message.tool_calls:
                weight += byte_length(call.id) + byte_length(call.name) + byte_length(call.arguments)
        if message.tool_call_id:
            weight += byte_length(message.tool_call_id)
        return weight

    def tokens(self, weight: int, context: MeterContext) -> int:
        """Give bytes / 4, rounded down."""
        return weight // 4
