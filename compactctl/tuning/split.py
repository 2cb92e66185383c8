"""Keeping some sessions back, and how sure a difference is: both seeded, so that a run can be repeated."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

from compactctl.tuning.dice import Dice

HELD_OUT_SHARE = 1 / 3
FEWEST_SESSIONS = 6
FEWEST_IN_PART = 2
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
    """Keep about a third of the sessions back.

    A session's part follows from its id and the seed alone, so it stays where it is when others come.
    """
    everything = tuple(range(len(session_ids)))
    if len(session_ids) < FEWEST_SESSIONS:
        return Split(
            everything,
            (),
            f"{_count(len(session_ids))}: too few to keep some back ({FEWEST_SESSIONS} are needed); the choice is "
            "checked on nothing else",
        )
    held = tuple(i for i in everything if _share(session_ids[i], seed) < HELD_OUT_SHARE)
    tuned = tuple(i for i in everything if i not in set(held))
    if min(len(held), len(tuned)) < FEWEST_IN_PART:
        return Split(everything, (), f"seed {seed} splits {_count(len(session_ids))} too unevenly; take another --seed")
    return Split(tuned, held)


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean difference and the bounds between which it lies in 95 of 100 resamples of the sessions."""

    mean: float
    low: float
    high: float
    sessions: int

    @property
    def excludes_zero(self) -> bool:
        """Whether it is a difference and not noise, as far as these sessions tell."""
        return self.sessions > 1 and (self.low > 0 or self.high < 0)


def bootstrap(differences: Sequence[float], seed: int) -> Interval | None:
    """Give the percentile interval of the mean of paired differences; None without any.

    >>> bootstrap([1.0, 1.0, 1.0], seed=1)
    Interval(mean=1.0, low=1.0, high=1.0, sessions=3)
    """
    count = len(differences)
    if count == 0:
        return None
    dice = Dice(seed)
    means = sorted(sum(differences[dice.below(count)] for _ in range(count)) / count for _ in range(RESAMPLES))
    edge = int(RESAMPLES * (1 - CONFIDENCE) / 2)
    return Interval(sum(differences) / count, means[edge], means[-1 - edge], count)


def _share(session_id: str, seed: int) -> float:
    digest = hashlib.sha256(f"{seed}:{session_id}".encode("utf-8", "surrogatepass")).digest()
    return int.from_bytes(digest[:8], "big") / 2**64


def _count(number: int) -> str:
    return f"{number} session{'s' if number != 1 else ''}"
