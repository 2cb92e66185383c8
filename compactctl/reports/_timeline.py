"""What happened over the turns of one run, small enough to keep for hundreds of sessions."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NamedTuple, Self

from compactctl.reports._words import blocks, scale_of

# More points than this no screen and no page shows; longer runs are kept as buckets of turns.
MOST = 480
# How many places a sparkline in a table has.
SPARK = 24

_MARKS = " wsFE"


class Point(NamedTuple):
    """One turn, or a bucket of consecutive turns with the largest figure of each kind.

    Tokens are decision tokens unless said otherwise: ``before`` is what the compactor was given, ``tokens`` what it
    gave, ``lowest`` the smallest such view of the bucket; ``real`` and ``recorded`` are real tokens, None where
    unknown. ``parts`` is what the largest view was made of.
    """

    first: int
    last: int
    tier: int
    before: int
    tokens: int
    lowest: int = 0
    real: int | None = None
    recorded: int | None = None
    failed: bool = False
    parts: Mapping[str, int] = MappingProxyType({})

    @property
    def turns(self) -> str:
        """The turns in words: ``turn 7`` or ``turns 8-15``."""
        return f"turn {self.first}" if self.first == self.last else f"turns {self.first}-{self.last}"


@dataclass(frozen=True, slots=True)
class Timeline:
    """The turn lines of a run as points in the order of their turns; empty where the store holds none."""

    points: tuple[Point, ...] = ()
    turns: int = 0

    @classmethod
    def of(cls, rows: Sequence[Mapping[str, Any]], most: int = MOST) -> Self:
        """Take the turn lines of a run; more than ``most`` become buckets."""
        width = -(-len(rows) // most) if rows else 1
        if width == 1:
            return cls(tuple(map(_point, rows)), len(rows))
        return cls(tuple(_bucket(rows[i : i + width]) for i in range(0, len(rows), width)), len(rows))

    def at_most(self, most: int) -> tuple[Point, ...]:
        """Give at most so many points, merging neighbours."""
        width = -(-len(self.points) // most) if self.points else 1
        if width == 1:
            return self.points
        return tuple(merged(self.points[i : i + width]) for i in range(0, len(self.points), width))

    def parts(self) -> list[str]:
        """Give the parts that views were made of, largest first."""
        sums: dict[str, int] = {}
        for point in self.points:
            for part, tokens in point.parts.items():
                sums[part] = sums.get(part, 0) + tokens
        return sorted(sums, key=lambda part: (-sums[part], part))


def _point(row: Mapping[str, Any]) -> Point:
    turn, tokens = row["turn"], row["tokens"]
    return Point(
        turn,
        turn,
        row["tier"],
        row["before"],
        tokens,
        tokens,
        row.get("real"),
        row.get("recorded"),
        "failed" in row,
        row.get("by") or {},
    )


def _bucket(rows: Sequence[Mapping[str, Any]]) -> Point:
    tokens = [row["tokens"] for row in rows]
    highest = max(tokens)
    return Point(
        rows[0]["turn"],
        rows[-1]["turn"],
        max([row["tier"] for row in rows]),
        max([row["before"] for row in rows]),
        highest,
        min(tokens),
        _most([row.get("real") for row in rows]),
        _most([row.get("recorded") for row in rows]),
        any("failed" in row for row in rows),
        rows[tokens.index(highest)].get("by") or {},
    )


def merged(points: Sequence[Point]) -> Point:
    """Give several neighbours as one point."""
    first, last, tier, before, tokens, lowest, real, recorded, failed, parts = zip(*points, strict=True)
    highest = max(tokens)
    return Point(
        first[0],
        last[-1],
        max(tier),
        max(before),
        highest,
        min(lowest),
        _most(real),
        _most(recorded),
        any(failed),
        parts[tokens.index(highest)],
    )


def sparkline(
    firsts: Sequence[int],
    values: Sequence[int | None],
    tiers: Sequence[tuple[int | None, int]],
    window: int | None,
    width: int = SPARK,
) -> tuple[str, str]:
    """Give tokens over turns in blocks on a scale from 0 to the window, and below them the highest tier of each place.

    Each value stands for the turns from its ``first`` on; ``tiers`` are (turn, tier), drawn as ``w`` Warn, ``s`` Soft,
    ``F`` Full and ``E`` Emergency.

    >>> sparkline([0, 4, 8], [1, 50, 99], [(5, 1), (9, 2)], 100)
    ('▁▅█', ' ws')
    >>> sparkline([0], [13], [], 100)
    ('▂', ' ')
    """
    step = -(-len(values) // width) if values else 1
    known = [value or 0 for value in values]
    highest = [max(known[i : i + step]) for i in range(0, len(known), step)]
    drawn = blocks(highest, scale_of(window, known))
    starts = firsts[::step]
    marks = [0] * len(starts)
    for turn, tier in tiers:
        if turn is not None:
            place = bisect_right(starts, turn) - 1
            marks[place] = max(marks[place], tier)
    return drawn, "".join(_MARKS[mark] for mark in marks)


def _most(values: Sequence[int | None]) -> int | None:
    return max([value for value in values if value is not None], default=None)
