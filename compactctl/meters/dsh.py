"""dsh's heuristic: UTF-16 code units / 4, rounded up block by block, plus fixed overheads (dsh.md 2.2)."""

from __future__ import annotations

from dataclasses import dataclass

from compactctl.context.counting import MeterContext
from compactctl.meters._images import IMAGE_TOKENS, image_count
from compactctl.model import ASSISTANT, SYSTEM, Message, Session
from compactctl.ports import MeterSpec, RankSource

OVERHEAD = 4  # tokens for each message, and again for each block in it


def utf16_units(text: str) -> int:
    """Give the length of a text in UTF-16 code units: what lies outside the basic plane counts two.

    >>> utf16_units("abc"), utf16_units("上下文"), utf16_units("🚀")
    (3, 3, 2)
    """
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2


def quarter(text: str) -> int:
    """Give a quarter of a text's code units, rounded up."""
    return (utf16_units(text) + 3) // 4


@dataclass(frozen=True, slots=True)
class Dsh:
    """Prices blocks: each text, thinking and call has its quarter and 4 tokens, each message 4 more.

    A call is priced by its name and its arguments, not its id; a result is a block around its texts. A system message
    is a text alone, and an assistant message with nothing in it is not sent. An image counts a fixed number of tokens
    (``IMAGE_TOKENS``); dsh itself would price the characters of its base64 form.
    """

    name = "dsh"
    steady = True
    divisor = 1

    def weigh(self, message: Message) -> int:
        """Give the tokens of a message.

        >>> [Dsh().weigh(Message("user", text)) for text in ("abc", "🚀" * 5, "")]
        [9, 11, 4]
        """
        content = message.content
        parts = message.parts
        if message.role == SYSTEM:
            return quarter(content) + OVERHEAD if content else 0
        texts = parts.texts if parts is not None and parts.texts else (content,) if content else ()
        weight = 0
        for text in texts:
            weight += quarter(text) + OVERHEAD
        for call in message.tool_calls:
            weight += quarter(call.name) + quarter(call.arguments) + OVERHEAD
        if parts is not None:
            weight += image_count(message) * (IMAGE_TOKENS + OVERHEAD)
            if parts.thinking_chars:
                weight += (parts.thinking_chars + 3) // 4 + OVERHEAD
        if message.role == ASSISTANT and not weight:
            return 0
        return weight + OVERHEAD + (OVERHEAD if message.tool_call_id else 0)

    def tokens(self, weight: int, context: MeterContext) -> int:
        """Give the weight: it is already in tokens."""
        return weight


def _make(session: Session | None, ranks: RankSource | None = None) -> Dsh:
    return Dsh()


METER = MeterSpec("dsh", "UTF-16 units / 4, rounded up block by block, plus 4 a block and 4 a message (dsh)", _make)
