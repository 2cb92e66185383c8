"""Numbers that look random and follow from a seed alone: the same on every machine and version of Python."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator


class Dice:
    """A stream of numbers out of the hashes of a seed and a counter."""

    def __init__(self, seed: int) -> None:
        self._numbers = _numbers(seed)

    def below(self, limit: int) -> int:
        """Give a number from 0 to ``limit`` - 1. Raises ValueError where ``limit`` is not from 1 to 2**64."""
        if not 1 <= limit <= 2**64:
            raise ValueError(f"{limit} is not a limit from 1 to 2**64")
        # Numbers at the ragged end are drawn again, so that none comes more often than another.
        usable = 2**64 - 2**64 % limit
        return next(number for number in self._numbers if number < usable) % limit

    def shuffled(self, count: int) -> list[int]:
        """Give the numbers from 0 to ``count`` - 1 in an order of the seed's."""
        order = list(range(count))
        for at in range(count - 1, 0, -1):
            other = self.below(at + 1)
            order[at], order[other] = order[other], order[at]
        return order


def _numbers(seed: int) -> Iterator[int]:
    counter = 0
    while True:
        digest = hashlib.blake2b(f"{seed}:{counter}".encode(), digest_size=64).digest()
        for at in range(0, 64, 8):
            yield int.from_bytes(digest[at : at + 8], "big")
        counter += 1
