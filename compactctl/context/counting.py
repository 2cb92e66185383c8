"""What counts: a meter, and what it is asked about."""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum
from typing import Protocol

from msgspec import Struct

from compactctl.model import Message


class Standing(IntEnum):
    """What a view has to do with what was recorded; only CHANGED is false, and True is as good as RECORDED."""

    CHANGED = 0  # nobody ever sent it
    RECORDED = 1  # all that was recorded, as if the harness had never compacted
    SENT = 2  # what the harness sent, its own compactions included, also those that left no record
    LIVED = 3  # that, grown on since the harness compacted all of it, which this replay leaves out


class MeterContext(Struct, frozen=True, gc=False):
    """Where a total is asked for: before which turn, and what the view has to do with the recorded history."""

    turn: int
    pristine: int


class Meter(Protocol):
    """Counts tokens. Weights are additive integers in the meter's own unit; ``tokens`` turns a total into tokens."""

    @property
    def name(self) -> str:
        """The name that users write and reports print."""

    @property
    def steady(self) -> bool:
        """Whether ``tokens`` depends on the total alone and never falls when it grows."""

    def weigh(self, message: Message) -> int:
        """Give the weight of one message."""

    def tokens(self, weight: int, context: MeterContext) -> int:
        """Give the tokens of a view of this total weight."""


def tokens_of_all(meter: Meter, weights: Iterable[int], more: int, context: MeterContext) -> list[int]:
    """Give the tokens of many totals, each ``more`` than its weight; the meter must be steady.

    A meter that has a ``divisor`` counts the weight divided by it, rounded down.
    """
    divisor = getattr(meter, "divisor", None)
    if divisor is not None:
        return [(weight + more) // divisor for weight in weights]
    tokens = meter.tokens
    return [tokens(weight + more, context) for weight in weights]
