"""Numbers that look random and are the same on every machine and Python version."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

Item = TypeVar("Item")


class Dice:
    """A linear congruential generator; the standard library's promises less than a committed file needs.

    >>> dice = Dice(7)
    >>> [dice.below(100) for _ in range(4)]
    [25, 19, 90, 96]
    """

    def __init__(self, seed: int) -> None:
        """Start the sequence that belongs to ``seed``."""
        self.state = (seed * 2862933555777941757 + 3037000493) % 2**64

    def below(self, limit: int) -> int:
        """The next number, from 0 up to but not including ``limit``."""
        self.state = (self.state * 6364136223846793005 + 1442695040888963407) % 2**64
        return (self.state >> 33) % limit

    def between(self, low: int, high: int) -> int:
        """The next number from ``low`` to ``high``, both included."""
        return low + self.below(high - low + 1)

    def pick(self, items: Sequence[Item]) -> Item:
        """One of the items."""
        return items[self.below(len(items))]
