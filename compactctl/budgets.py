"""Budgets: what figures may be, and the verdicts; the one place where pass or fail is decided.

A budget names a figure, how it is taken over all sessions, and a bound: ``max``, ``min``, or against a baseline
``max_increase`` and ``max_decrease``. Text, JSON, JUnit, annotations and exit status all come from the same verdicts.
A figure that could not be measured in some session passes no budget; a budget with ``skip_unmeasured`` leaves such
sessions out and says how many, and still fails where no session is left.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from compactctl.errors import SettingsError, nearest
from compactctl.measures._spec import Measured

# What is judged: for each session its figures by key.
Figures = Mapping[str, Mapping[str, Measured]]

MOST_WORST = 5


class Level(StrEnum):
    """How bad a broken budget is."""

    ERROR = "error"
    WARN = "warn"


class Bound(StrEnum):
    """The kinds of bound, as they are written."""

    MAX = "max"
    MIN = "min"
    MAX_INCREASE = "max_increase"
    MAX_DECREASE = "max_decrease"


RELATIVE = (Bound.MAX_INCREASE, Bound.MAX_DECREASE)


def _quantile(share: float) -> Callable[[Sequence[float]], float]:
    """Make the quantile that is a value of the list itself: the smallest that so large a share is not above."""

    def take(values: Sequence[float]) -> float:
        ordered = sorted(values)
        return ordered[max(math.ceil(share * len(ordered)) - 1, 0)]

    return take


# ``worst`` is the largest value where a budget has a ceiling and the smallest where it has a floor.
AGGREGATES: dict[str, Callable[[Sequence[float]], float]] = {
    "mean": statistics.fmean,
    "median": statistics.median,
    "p10": _quantile(0.10),
    "p90": _quantile(0.90),
    "sum": math.fsum,
    "min": min,
    "max": max,
}
WORST = "worst"


@dataclass(frozen=True, slots=True)
class Budget:
    """One bound on one figure; ``relative`` says that ``limit`` is a share of the baseline's value."""

    measure: str
    aggregate: str
    bound: Bound
    limit: float
    relative: bool = False
    level: Level = Level.ERROR
    skip_unmeasured: bool = False

    @property
    def has_floor(self) -> bool:
        """Whether small values break it."""
        return self.bound in (Bound.MIN, Bound.MAX_DECREASE)

    @property
    def needs_baseline(self) -> bool:
        """Whether it is judged against a baseline."""
        return self.bound in RELATIVE

    def take(self, values: Sequence[float]) -> float:
        """Take one value over all sessions."""
        if self.aggregate == WORST:
            return min(values) if self.has_floor else max(values)
        return AGGREGATES[self.aggregate](values)

    @property
    def sentence(self) -> str:
        """Say the budget in words, for reports.

        >>> Budget("m3.cost_usd", "mean", Bound.MAX_INCREASE, 0.05, relative=True).sentence
        'mean m3.cost_usd may rise by at most 5% against the baseline'
        """
        limit = f"{self.limit * 100:g}%" if self.relative else f"{self.limit:g}"
        if self.needs_baseline:
            way = "rise" if self.bound is Bound.MAX_INCREASE else "fall"
            return f"{self.aggregate} {self.measure} may {way} by at most {limit} against the baseline"
        return f"{self.aggregate} {self.measure} must be at {'least' if self.has_floor else 'most'} {limit}"


@dataclass(frozen=True, slots=True)
class Verdict:
    """A budget and what became of it.

    ``limit`` is the bound that the value was held to (worked out from the baseline where it is relative to one), None
    where there is none. ``value`` is None where it was not measured; ``reason`` then says why, and the budget is
    broken. ``worst`` are the sessions nearest to the bound where it holds, and where it is broken those that break it,
    the worst first; ``before`` is what sessions had in the baseline. ``left_out`` counts those that have no such figure
    and need none.
    """

    budget: Budget
    passed: bool
    value: float | None
    limit: float | None
    reason: str = ""
    baseline: float | None = None
    worst: tuple[tuple[str, float | None], ...] = ()
    left_out: int = 0
    before: Mapping[str, float] = field(default_factory=dict)

    def fails(self, fail_on: Level) -> bool:
        """Whether it makes the command fail: broken, and at least as bad as ``fail_on``."""
        return not self.passed and (self.budget.level is Level.ERROR or fail_on is Level.WARN)


def parse_budgets(tables: Iterable[Mapping[str, Any]], known: Iterable[str], place: str = "budgets") -> list[Budget]:
    """Read budgets as they are written in a settings file; a table with two bounds gives two.

    Raises SettingsError for an unknown figure, key or aggregate (it offers the nearest) and for a value of the wrong
    type; ``place`` is the file that the text names.
    """
    keys = list(known)
    return [budget for number, table in enumerate(tables, 1) for budget in _parsed(table, keys, f"{place} {number}")]


def judge(
    budgets: Sequence[Budget], figures: Figures, baseline: Mapping[str, Mapping[str, float | None]] | None = None
) -> tuple[Verdict, ...]:
    """Give a verdict for each budget, in their order.

    ``figures`` holds each session's by id. ``baseline`` holds the values of a baseline by session and figure; budgets
    against it look at the sessions that both have.
    """
    return tuple(_verdict(budget, figures, baseline) for budget in budgets)


def _verdict(budget: Budget, figures: Figures, baseline: Mapping[str, Mapping[str, float | None]] | None) -> Verdict:
    if not figures:
        return _broken(budget, "no session was replayed")
    if budget.needs_baseline and baseline is not None:
        # Sessions that the baseline lacks are no part of what is compared with it.
        figures = {session: known for session, known in figures.items() if session in baseline}
        if not figures:
            return _broken(budget, "the baseline has none of these sessions; write it anew with --update-baseline")
    values: dict[str, float] = {}
    for session, known in figures.items():
        measured = known.get(budget.measure)
        if measured is not None and measured.value is not None:
            values[session] = float(measured.value)
        elif not budget.skip_unmeasured:
            why = (measured.reason if measured is not None else "") or "no reason is known"
            return _broken(budget, f"not measured in {session}: {why}", worst=((session, None),))
    left_out = len(figures) - len(values)
    if not values:
        return _broken(budget, "measured in no session", left_out=left_out)
    if budget.needs_baseline:
        return _against(budget, values, baseline, left_out)
    value = budget.take(list(values.values()))
    passed = _holds(budget, value, budget.limit)
    worst = _worst(budget, values if passed else _breaking(budget, values))
    return Verdict(budget, passed, value, budget.limit, worst=worst, left_out=left_out)


def _against(
    budget: Budget,
    values: Mapping[str, float],
    baseline: Mapping[str, Mapping[str, float | None]] | None,
    left_out: int,
) -> Verdict:
    """Judge against the sessions that a baseline has, too."""
    if baseline is None:
        return _broken(budget, "there is no baseline; write one with --update-baseline", left_out=left_out)
    if not any(budget.measure in baseline[session] for session in values):
        why = f"the baseline has {budget.measure} of none of these sessions; write it anew with --update-baseline"
        return _broken(budget, why, left_out=left_out)
    before: dict[str, float] = {}
    for session in values:
        earlier = baseline[session].get(budget.measure)
        if earlier is not None:
            before[session] = earlier
        elif not budget.skip_unmeasured:
            why = f"the baseline says that it was not measured in {session}"
            if budget.measure not in baseline[session]:
                why = f"the baseline has no {budget.measure} of {session}; write it anew with --update-baseline"
            return _broken(budget, why, ((session, values[session]),), left_out)
    left_out += len(values) - len(before)
    if not before:
        return _broken(budget, "measured in no session of the baseline", left_out=left_out)
    common = {session: values[session] for session in before}
    value, old = budget.take(list(common.values())), budget.take(list(before.values()))
    change = abs(old) * budget.limit if budget.relative else budget.limit
    limit = old - change if budget.has_floor else old + change
    passed = _holds(budget, value, limit)
    return Verdict(
        budget,
        passed,
        value,
        limit,
        baseline=old,
        worst=_worst(budget, common if passed else _moved(budget, common, before), before),
        left_out=left_out,
        before=before,
    )


def _broken(
    budget: Budget, reason: str, worst: tuple[tuple[str, float | None], ...] = (), left_out: int = 0
) -> Verdict:
    return Verdict(budget, False, None, None, reason, worst=worst, left_out=left_out)


def _breaking(budget: Budget, values: Mapping[str, float]) -> Mapping[str, float]:
    """Give the sessions that break a budget: each by its own figure, for a sum those that add to it."""
    if budget.aggregate == "sum":
        return values if budget.has_floor else {session: value for session, value in values.items() if value > 0}
    return {session: value for session, value in values.items() if not _holds(budget, value, budget.limit)}


def _moved(budget: Budget, values: Mapping[str, float], before: Mapping[str, float]) -> Mapping[str, float]:
    """Give the sessions whose figure is worse than in the baseline."""
    return {session: value for session, value in values.items() if not _holds(budget, value, before[session])}


def _worst(
    budget: Budget, values: Mapping[str, float], before: Mapping[str, float] | None = None
) -> tuple[tuple[str, float | None], ...]:
    """Give the sessions that are nearest to the bound or furthest beyond it, by how far they moved where they did."""

    def badness(session: str) -> float:
        moved = values[session] - (before or {}).get(session, 0.0)
        return moved if budget.has_floor else -moved

    ordered = sorted(values, key=lambda session: (badness(session), session))
    return tuple((session, values[session]) for session in ordered[:MOST_WORST])


def _holds(budget: Budget, value: float, limit: float) -> bool:
    # A limit that was worked out from decimals must not fail by the last bit of a binary fraction.
    slack = 1e-12 * max(abs(value), abs(limit))
    return value >= limit - slack if budget.has_floor else value <= limit + slack


_FIELDS = ("measure", "aggregate", "level", "skip_unmeasured", *map(str, Bound))


def _parsed(table: Mapping[str, Any], known: Sequence[str], place: str) -> list[Budget]:
    for key in table:
        if key not in _FIELDS:
            raise SettingsError(f"{place}: unknown key {key!r}.{nearest(key, _FIELDS)}")
    measure = table.get("measure")
    if not isinstance(measure, str):
        raise SettingsError(f"{place}: it needs a measure, for example measure = 'm1.overshoot_turns'")
    if measure not in known:
        raise SettingsError(f"{place}: unknown measure {measure!r}.{nearest(measure, known)}")
    aggregates = (WORST, *AGGREGATES)
    level = table.get("level", str(Level.ERROR))
    if level not in tuple(Level):
        raise SettingsError(f"{place}: level {level!r} is not one of {', '.join(Level)}")
    skips = table.get("skip_unmeasured", False)
    if not isinstance(skips, bool):
        raise SettingsError(f"{place}: skip_unmeasured {skips!r} is not true or false")
    bounds = [bound for bound in Bound if bound in table]
    if not bounds:
        raise SettingsError(f"{place}: {measure} needs a bound: {', '.join(Bound)}")
    budgets = []
    for bound in bounds:
        aggregate = table.get("aggregate", "mean" if bound in RELATIVE else WORST)
        if aggregate not in aggregates:
            raise SettingsError(f"{place}: unknown aggregate {aggregate!r}.{nearest(str(aggregate), aggregates)}")
        limit, relative = _limit(table[bound], bound, f"{place}: {measure}: {bound}")
        budgets.append(Budget(measure, aggregate, bound, limit, relative, Level(level), skips))
    return budgets


def _limit(raw: Any, bound: Bound, place: str) -> tuple[float, bool]:
    number, relative = raw, False
    if bound in RELATIVE and isinstance(raw, str) and raw.strip().endswith("%"):
        relative = True
        try:
            number = float(raw.strip()[:-1]) / 100
        except ValueError:
            number = None
    allowed = "a number, or a share such as '5%'" if bound in RELATIVE else "a number"
    if isinstance(number, bool) or not isinstance(number, int | float) or not math.isfinite(number):
        raise SettingsError(f"{place} = {raw!r} is not {allowed}")
    if bound in RELATIVE and number < 0:
        raise SettingsError(f"{place} = {raw!r} is below 0; write max_decrease for the other way")
    return float(number), relative
