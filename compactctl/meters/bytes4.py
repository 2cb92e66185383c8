"""harness9's estimate: UTF-8 bytes / 4, rounded down once over the whole (harness9.md 1.2)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from compactctl.context.counting import MeterContext
from compactctl.meters._bytes import message_bytes
from compactctl.model import Message, Session
from compactctl.ports import MeterSpec, RankSource


@dataclass(frozen=True, slots=True)
class Bytes4:
    """Counts UTF-8 bytes of content, call ids, names and arguments, and result ids; four make a token.

    Not counted: roles, images, thinking, framing, tool definitions. CJK text is far denser than this says.
    """

    name = "bytes4"
    steady = True
    divisor = 4

    # A function of its own, since it is called for every message.
    weigh = staticmethod(message_bytes)

    def tokens(self, weight: int, context: MeterContext) -> int:
        """Give bytes / 4, rounded down."""
        return weight // 4


def estimate_tokens(messages: Iterable[Message]) -> int:
    """Estimate the tokens of messages as harness9 does.

    >>> estimate_tokens([Message("user", "abc"), Message("user", "abc"), Message("user", "abc")])  # 9 bytes / 4
    2
    """
    return sum(map(message_bytes, messages)) // 4


def _make(session: Session | None, ranks: RankSource | None = None) -> Bytes4:
    return Bytes4()


METER = MeterSpec("bytes4", "UTF-8 bytes / 4, rounded down over the whole (harness9)", _make)
