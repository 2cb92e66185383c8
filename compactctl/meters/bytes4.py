"""harness9's estimate: UTF-8 bytes / 4, rounded down once over the whole (harness9.md 1.2)."""

from __future__ import annotations

from collections.abc import Iterable

from compactctl.meters._bytes import Bytes4
from compactctl.model import Message, Session
from compactctl.ports import MeterSpec, RankSource

__all__ = ["METER", "Bytes4", "estimate_tokens"]


def estimate_tokens(messages: Iterable[Message]) -> int:
    """Estimate the tokens of messages as harness9 does.

    >>> estimate_tokens([Message("user", "abc"), Message("user", "abc"), Message("user", "abc")])  # 9 bytes / 4
    2
    """
    return sum(map(Bytes4().weigh, messages)) // 4


def _make(session: Session | None, ranks: RankSource | None = None) -> Bytes4:
    return Bytes4()


METER = MeterSpec("bytes4", "UTF-8 bytes / 4, rounded down over the whole (harness9)", _make)
