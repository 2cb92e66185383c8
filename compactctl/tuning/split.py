"""Keeping some sessions back, and how sure a difference is: both seeded, so that a run can be repeated."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeVar

from compactctl.context.words import quantity
from compactctl.tuning.dice import Dice

Pair = TypeVar("Pair")

FEWEST_SESSIONS = 6
# Of fewer, resamples are hardly more than the least and the most of them, which chance alone often puts on one side.
FEWEST_TO_RESAMPLE = 5
RESAMPLES = 1000
CONFIDENCE = 0.95


@dataclass(frozen=True, slots=True)
class Split:
    """Which sessions settings are chosen on and which the choice is tried on, as positions in the input order.

    ``held_out`` is empty where there are too few sessions; ``note`` says so.
    """

    tuning: tuple[int, ...]
    held_out: tuple[int, ...]
    note: str = ""


def split(session_ids: Sequence[str], seed: int) -> Split:
    """Keep a third of the sessions back, rounded up: those whose hashes of seed and id are the smallest.

    The order of the input has no part in it, and a session changes its part only where others come between.

    >>> split(["a", "b", "c", "d", "e", "f", "g"], seed=1).held_out
    (0, 3, 6)
    """
    everything = tuple(range(len(session_ids)))
    if len(session_ids) < FEWEST_SESSIONS:
        return Split(
            everything,
            (),
            f"{quantity(len(session_ids), 'session')}: too few to keep some back ({FEWEST_SESSIONS} are needed); the "
            "choice is checked on nothing else",
        )
    by_hash = sorted(everything, key=lambda at: (_hash(session_ids[at], seed), at))
    held = frozenset(by_hash[: -(-len(session_ids) // 3)])
    return Split(tuple(at for at in everything if at not in held), tuple(sorted(held)))


@dataclass(frozen=True, slots=True)
class Interval:
    """A change over all sessions and the bounds between which it lies in 95 of 100 resamples of them.

    Each is infinite where there was nothing that it is a share of.
    """

    change: float
    low: float
    high: float
    sessions: int

    @property
    def excludes_zero(self) -> bool:
        """Whether it is a difference and not noise, as far as these sessions tell."""
        return self.sessions > 1 and (self.low > 0 or self.high < 0)


def bootstrap(
    pairs: Sequence[Pair],
    change: Callable[[Sequence[Pair]], float | None],
    seed: int,
) -> Interval | None:
    """Give the percentile interval of a change over sessions that are drawn again and again, with replacement.

    ``pairs`` are each session's figure here and there; ``change`` takes the change over some of them, None where there
    is none. None without any.

    >>> bootstrap([(1.0, 2.0), (2.0, 4.0)], lambda some: sum(a for a, _ in some) / sum(b for _, b in some) - 1, seed=1)
    Interval(change=-0.5, low=-0.5, high=-0.5, sessions=2)
    """
    count = len(pairs)
    whole = change(pairs) if pairs else None
    if whole is None:
        return None
    drawn = (change([pairs[at] for at in sample]) for sample in _resamples(count, seed))
    found = sorted(one for one in drawn if one is not None)
    edge = int(len(found) * (1 - CONFIDENCE) / 2)
    return Interval(whole, found[edge], found[-1 - edge], count)


# The objectives of a search are drawn alike, each on both parts.
@lru_cache(maxsize=2)
def _resamples(count: int, seed: int) -> list[list[int]]:
    dice = Dice(seed)
    return [[dice.below(count) for _ in range(count)] for _ in range(RESAMPLES)]


def _hash(session_id: str, seed: int) -> str:
    return hashlib.sha256(f"{seed}:{session_id}".encode("utf-8", "surrogatepass")).hexdigest()
