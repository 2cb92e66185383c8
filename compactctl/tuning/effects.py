"""What each parameter does alone: the effects of an additive model, so that gaps in a grid do not feign any.

Where low values of one threshold come with low values of another only, since the rest is impossible, plain means over a
value compare different sets of points. Here each objective is taken as a mean and an effect of each parameter's value,
fitted by least squares. In a grid without gaps these are the plain means. Where the points allow several fits that are
equally good, say since each value of one parameter came with one of another alone, a parameter has no level at all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from compactctl.tuning.figures import Objective
from compactctl.tuning.grid import Grid

# Of the parameters but the one with most values; the work grows with the third power of it.
_MOST_VALUES = 300
_NOTHING = 1e-9
# What a fit leaves of nothing, as a share of the largest.
_LEFT_BY_A_FIT = 1e-6
_TOO_MANY = (
    f"there are more than {_MOST_VALUES} values beside those of the longest parameter, too many to work out what each "
    "does; take larger steps"
)
_NOT_APART = "its values cannot be told apart from those of other parameters by these points"
_MORE = f"{_NOT_APART}; more --trials"
_NO_MORE = f"{_NOT_APART}, and all other points are impossible"

Points = Sequence[tuple[Sequence[int], float]]


@dataclass(frozen=True, slots=True)
class Effect:
    """What one parameter does alone: the level of each objective at each of its values, and how far they are apart.

    ``spread`` is the largest less the smallest level: a share of the smallest for amounts, the difference for shares.
    A level is None where no point has that value, and all of them where they cannot be told; a spread also where the
    smallest level of an amount is nothing to take a share of. ``reason`` says why.
    """

    name: str
    means: Mapping[str, tuple[float | None, ...]]
    spread: Mapping[str, float | None]
    reason: str = ""


def effects_of(
    grid: Grid, objectives: Sequence[Objective], values: Mapping[str, Sequence[float | None]]
) -> tuple[Effect, ...]:
    """Give the effect of each axis; ``values`` are those of each objective by point, in the order of the grid's."""
    points = {
        objective.name: [
            (places, value)
            for places, value in zip(grid.places, values[objective.name], strict=False)
            if value is not None
        ]
        for objective in objectives
    }
    sizes = [len(axis.values) for axis in grid.axes]
    levels = {name: _levels(sizes, some) for name, some in points.items()}

    def reason(at: int) -> str:
        for name, found in levels.items():
            if points[name] and all(level is None for level in found[at]):
                if _solved(sizes, points[name]) > _MOST_VALUES:
                    return _TOO_MANY
                return _MORE if len(grid.points) + grid.impossible < grid.of else _NO_MORE
        of_nothing = [o.name for o in objectives if _is_of_nothing(o, levels[o.name][at])]
        if of_nothing:
            return f"the least {' and '.join(of_nothing)} is not above 0, so that there is no share of it"
        return ""

    return tuple(
        Effect(
            axis.name,
            {name: found[at] for name, found in levels.items()},
            {objective.name: _spread(objective, levels[objective.name][at]) for objective in objectives},
            reason(at),
        )
        for at, axis in enumerate(grid.axes)
    )


def _solved(sizes: Sequence[int], points: Points) -> int:
    """Count the values that points have on all axes but that with most: so many are solved for."""
    counts = [len({places[axis] for places, _ in points}) for axis in range(len(sizes))]
    return sum(counts) - max(counts)


def _levels(sizes: Sequence[int], points: Points) -> list[tuple[float | None, ...]]:
    """Give the level of each value of each axis: the mean over all points and the effect of the value.

    All of an axis are None where the points leave open what its values do; where there are too many values, all are.

    >>> # y is 10 with 1 more at each step of the first axis; the second does nothing, but lacks a corner.
    >>> _levels([2, 2], [((0, 0), 10.0), ((1, 0), 11.0), ((1, 1), 11.0)])[1]
    (10.666..., 10.666...)
    >>> _levels([2, 2], [((0, 0), 10.0), ((1, 1), 11.0)])[1]  # whether it was the first or the second
    (None, None)
    """
    nothing: list[tuple[float | None, ...]] = [(None,) * size for size in sizes]
    if not points or (dense := _solved(sizes, points)) > _MOST_VALUES:
        return nothing
    middle = sum(value for _, value in points) / len(points)
    counts = [[0] * size for size in sizes]
    for places, _ in points:
        for axis, place in enumerate(places):
            counts[axis][place] += 1
    # The axis with most values comes last in what is solved, which is cheap: no point has two of its values.
    longest = max(range(len(sizes)), key=lambda axis: sum(map(bool, counts[axis])))
    at = {
        (axis, place): number
        for number, (axis, place) in enumerate(
            (axis, place)
            for axis in sorted(range(len(sizes)), key=lambda axis: axis == longest)
            for place in range(sizes[axis])
            if counts[axis][place]
        )
    }
    fitted, open_directions = _fit(at, longest, dense, [(places, value - middle) for places, value in points])
    found: list[tuple[float | None, ...]] = []
    for axis, size in enumerate(sizes):
        mine = [at.get((axis, place)) for place in range(size)]
        known = [number for number in mine if number is not None]
        # Moving all values of an axis alike moves none against another.
        if any(max(way[n] for n in known) - min(way[n] for n in known) > 1e-6 for way in open_directions):
            found.append(nothing[axis])
            continue
        off = sum(fitted[n] * count for n, count in zip(known, filter(None, counts[axis]), strict=True)) / len(points)
        found.append(tuple(None if number is None else middle + fitted[number] - off for number in mine))
    return found


def _fit(
    at: Mapping[tuple[int, int], int], longest: int, dense: int, points: Points
) -> tuple[list[float], list[list[float]]]:
    """Give a least-squares fit of the values by their numbers, and the directions in which it may be moved freely.

    Gauss-Jordan on the normal equations: the values of the longest axis are put in by hand, then the rest is reduced.
    """
    count = len(at)
    # The values of the longest axis: how many points each has, their sum, and how many with each other value.
    sums, totals = [0.0] * (count - dense), [0] * (count - dense)
    beside: list[dict[int, int]] = [{} for _ in sums]
    rows = [[0.0] * (dense + 1) for _ in range(dense)]
    for places, value in points:
        numbers = [at[axis, place] for axis, place in enumerate(places) if axis != longest]
        mine = at[longest, places[longest]] - dense
        sums[mine] += value
        totals[mine] += 1
        for one in numbers:
            beside[mine][one] = beside[mine].get(one, 0) + 1
            rows[one][dense] += value
            for other in numbers:
                rows[one][other] += 1
    for held, total, amount in zip(beside, totals, sums, strict=True):
        for one, times in held.items():
            rows[one][dense] -= times * amount / total
            for other, as_often in held.items():
                rows[one][other] -= times * as_often / total
    leading: list[int] = []
    for column in range(dense):
        done = len(leading)
        pivot = max(range(done, dense), key=lambda row: abs(rows[row][column]), default=done)
        if done == dense or abs(rows[pivot][column]) <= _NOTHING * len(points):
            continue
        rows[done], rows[pivot] = rows[pivot], rows[done]
        head = [value / rows[done][column] for value in rows[done]]
        rows[done] = head
        for number, row in enumerate(rows):
            if number != done and (factor := row[column]):
                rows[number] = [value - factor * by for value, by in zip(row, head, strict=True)]
        leading.append(column)

    def whole(short: list[float], own: Sequence[float]) -> list[float]:
        return short + [
            (amount - sum(times * short[one] for one, times in held.items())) / total
            for held, total, amount in zip(beside, totals, own, strict=True)
        ]

    short = [0.0] * dense
    for row, column in zip(rows, leading, strict=False):
        short[column] = row[dense]
    open_directions = []
    for free in sorted(set(range(dense)) - set(leading)):
        way = [0.0] * dense
        way[free] = 1.0
        for row, column in zip(rows, leading, strict=False):
            way[column] = -row[free]
        open_directions.append(whole(way, [0.0] * len(sums)))
    return whole(short, sums), open_directions


def _spread(objective: Objective, levels: Sequence[float | None]) -> float | None:
    known = [level for level in levels if level is not None]
    if not known or _is_of_nothing(objective, known):
        return None
    low, high = min(known), max(known)
    if high - low <= _LEFT_BY_A_FIT * max(abs(low), abs(high)):
        return 0.0
    return (high - low) / low if objective.is_amount else high - low


def _is_of_nothing(objective: Objective, levels: Sequence[float | None]) -> bool:
    """Whether an amount differs and its smallest level is none; what effects add up to may even be below nothing."""
    known = [level for level in levels if level is not None]
    if not objective.is_amount or not known:
        return False
    size = max(map(abs, known))
    return min(known) <= _LEFT_BY_A_FIT * size < max(known) - min(known)
