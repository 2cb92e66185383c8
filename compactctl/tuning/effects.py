"""What each parameter does alone: the effects of an additive model, so that gaps in a grid do not feign any.

Where low values of one threshold come with low values of another only, since the rest is impossible, plain means over a
value compare different sets of points. Here each objective is taken as a mean and an effect of each parameter's value,
fitted by least squares (backfitting). In a grid without gaps these are the plain means.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from compactctl.measures._spec import Pool
from compactctl.tuning.figures import Objective
from compactctl.tuning.grid import Grid

_MOST_ROUNDS = 60
_PRECISION = 1e-7


@dataclass(frozen=True, slots=True)
class Effect:
    """What one parameter does alone: the level of each objective at each of its values, and how far they are apart.

    ``spread`` is the largest less the smallest level: a share of the smallest for amounts, the difference for shares.
    A level is None where no point has that value.
    """

    name: str
    means: Mapping[str, tuple[float | None, ...]]
    spread: Mapping[str, float | None]


def effects_of(
    grid: Grid, objectives: Sequence[Objective], values: Mapping[str, Sequence[float | None]]
) -> tuple[Effect, ...]:
    """Give the effect of each axis; ``values`` are those of each objective by point, in the order of the grid's."""
    levels = {
        objective.name: _levels(
            [len(axis.values) for axis in grid.axes],
            [
                (places, value)
                for places, value in zip(grid.places, values[objective.name], strict=False)
                if value is not None
            ],
        )
        for objective in objectives
    }
    return tuple(
        Effect(
            axis.name,
            {name: found[at] for name, found in levels.items()},
            {objective.name: _spread(objective, levels[objective.name][at]) for objective in objectives},
        )
        for at, axis in enumerate(grid.axes)
    )


def _levels(sizes: Sequence[int], points: Sequence[tuple[Sequence[int], float]]) -> list[tuple[float | None, ...]]:
    """Give the level of each value of each axis: the mean over all points and the effect of the value.

    >>> # y is 10 with 1 more at each step of the first axis; the second does nothing, but lacks a corner.
    >>> _levels([2, 2], [((0, 0), 10.0), ((1, 0), 11.0), ((1, 1), 11.0)])[1]
    (10.666..., 10.666...)
    """
    counts = [[0] * size for size in sizes]
    for places, _ in points:
        for axis, place in enumerate(places):
            counts[axis][place] += 1
    if not points:
        return [(None,) * size for size in sizes]
    middle = sum(value for _, value in points) / len(points)
    scale = max(abs(value - middle) for _, value in points)
    effects = [[0.0] * size for size in sizes]
    for _ in range(_MOST_ROUNDS):
        moved = 0.0
        for axis, mine in enumerate(effects):
            sums = [0.0] * len(mine)
            for places, value in points:
                others = sum(effects[other][place] for other, place in enumerate(places) if other != axis)
                sums[places[axis]] += value - middle - others
            fresh = [total / count if count else 0.0 for total, count in zip(sums, counts[axis], strict=True)]
            moved = max([moved, *(abs(new - old) for new, old in zip(fresh, mine, strict=True))])
            mine[:] = fresh
        if moved <= _PRECISION * scale:
            break
    return [
        tuple(middle + effect if count else None for effect, count in zip(effects[axis], counts[axis], strict=True))
        for axis in range(len(sizes))
    ]


def _spread(objective: Objective, levels: Sequence[float | None]) -> float | None:
    known = [level for level in levels if level is not None]
    if not known:
        return None
    low, high = min(known), max(known)
    # What a fit leaves of nothing is nothing.
    if high - low <= 1e-6 * max(abs(low), abs(high)):
        return 0.0
    return (high - low) / abs(low) if objective.pool is Pool.SUM and low else high - low
