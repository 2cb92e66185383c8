"""From the figures of all points to a choice: the point to recommend, the flat region around it, whether it holds.

There is no blended score. A point is recommended when it passes the gates, is no worse than the present setting in
any objective, and is better in the preferred one by more than noise; otherwise the result says why there is none.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from compactctl.tuning.effects import Effect, effects_of
from compactctl.tuning.figures import Objective
from compactctl.tuning.gates import Gate, Row, gates_left_out, gates_of
from compactctl.tuning.grid import Grid
from compactctl.tuning.judging import Judged, Prefer, judge, objectives_of, values_of
from compactctl.tuning.split import Interval, Split, bootstrap, split

TOLERANCE = 0.01


@dataclass(frozen=True, slots=True)
class Recommendation:
    """The point to take, or None and why not.

    ``best`` is the point that was looked at most closely, taken or not, ``flat`` the points around it that are as good.
    Differences are those between it and the present setting, by objective; None where it is the present setting.
    """

    number: int | None
    reason: str
    best: int | None = None
    flat: tuple[int, ...] = ()
    tuning: Mapping[str, Interval | None] | None = None
    held_out: Mapping[str, Interval | None] | None = None


@dataclass(frozen=True, slots=True)
class Result:
    """All that a search found. ``present`` is the number of the point that the present setting is."""

    objectives: tuple[Objective, ...]
    gates: tuple[Gate, ...]
    split: Split
    points: tuple[Judged, ...]
    present: int
    effects: tuple[Effect, ...]
    recommendation: Recommendation
    notes: tuple[str, ...]


def decide(
    grid: Grid,
    rows: Sequence[Sequence[Row]],
    session_ids: Sequence[str],
    present: int,
    *,
    seed: int,
    prefer: Prefer = Prefer.COST,
    tolerance: float = TOLERANCE,
) -> Result:
    """Judge all points; ``rows`` are the figures of each point in each session.

    ``present`` may be a number beyond the grid's points: the present setting, when no point of the grid is it.
    """
    parts = split(session_ids, seed)
    objectives, notes = objectives_of(rows)
    table = {objective.name: values_of(rows, objective) for objective in objectives}
    gates = gates_of(rows)
    judged = judge(rows, objectives, table, gates, parts)
    # Some point passes: each gate is what is reached by those that pass the ones before it.
    passing = next(point for point in (judged[present], *judged) if not point.broken)
    choice = _Choice(grid, judged, objectives, table, parts, present, seed, prefer, tolerance)
    # Turns that fail are mostly those above the window: what helps is said once.
    advised: dict[str, list[str]] = {}
    for gate in gates:
        if gate.note:
            advised.setdefault(gate.advice(rows[passing.number]), []).append(gate.note)
    notes += [f"{'; '.join(told)}; {advice}" for advice, told in advised.items()]
    notes += [words for words in (gates_left_out(rows), parts.note) if words]
    return Result(
        objectives,
        gates,
        parts,
        tuple(judged),
        present,
        effects_of(grid, objectives, {o.name: [point.tuning[o.name] for point in judged] for o in objectives}),
        choice.recommended(),
        tuple(notes),
    )


class _Choice:
    """Finds the point to recommend among judged points."""

    def __init__(
        self,
        grid: Grid,
        judged: Sequence[Judged],
        objectives: Sequence[Objective],
        table: Mapping[str, Sequence[Sequence[float | None]]],
        parts: Split,
        present: int,
        seed: int,
        prefer: Prefer,
        tolerance: float,
    ) -> None:
        self.grid = grid
        self.judged = judged
        self.objectives = objectives
        self.table = table
        self.parts = parts
        self.present = judged[present]
        self.seed = seed
        self.prefer = prefer
        self.tolerance = tolerance

    def recommended(self) -> Recommendation:
        """Give the recommendation, or why there is none."""
        if not self._anything_matters(lambda point: point.tuning):
            if self._anything_matters(lambda point: point.held_out):
                reason = (
                    "nothing matters on the sessions tuned on, but on those kept back it does: "
                    "take more sessions, or others (--seed)"
                )
                return Recommendation(None, reason)
            if len(self.judged) == 1:
                return Recommendation(None, "there is nothing to choose from: only the present setting was tried")
            return Recommendation(None, "nothing here matters: every setting gives the same figures on these sessions")
        where = " on the sessions tuned on" if self.parts.held_out else ""
        if not self._is_known(Prefer.RECALL):
            reason = f"recall was not measured{where}, and without it a cheaper setting may only have forgotten more"
            return Recommendation(None, reason)
        if not self._is_known(self.prefer):
            return Recommendation(None, f"{self.prefer} was not measured{where}; prefer another objective")
        passing = [point for point in self.judged if not point.broken]
        if self.present.broken:
            return self._rescued(passing)
        able = [point for point in passing if self._no_worse(point)]
        best = self._best(able)
        flat = self._flat(best)
        if best.number == self.present.number or self._loss(self.prefer, self.present, best) <= self.tolerance:
            return self._with_figures(
                None,
                f"keep the present setting: none that loses nothing against it betters {self.prefer} by more than "
                f"{self.tolerance:.0%}",
                best.number,
                flat,
            )
        return self._checked(best, flat)

    def _rescued(self, passing: Sequence[Judged]) -> Recommendation:
        """Where the present setting fails a gate: the best that loses nothing against it, else what loses least."""
        able = [point for point in passing if self._no_worse(point)]
        best = self._best(able) if able else min(passing, key=lambda point: (max(self._losses(point)), point.number))
        reason = f"the present setting fails a gate: {', '.join(self.present.broken)}"
        found = self._with_figures(best.number, reason, best.number, self._flat(best))
        change = (found.tuning or {}).get(self.prefer)
        if change is not None and not change.excludes_zero:
            return replace(found, reason=f"{reason}; what this one changes in {self.prefer} may be chance")
        return found

    def _checked(self, best: Judged, flat: tuple[int, ...]) -> Recommendation:
        found = self._with_figures(best.number, "", best.number, flat)
        here = (found.tuning or {}).get(self.prefer)
        there = (found.held_out or {}).get(self.prefer)
        higher = next(o for o in self.objectives if o.name == self.prefer).higher
        if here is not None and here.sessions > 1 and not here.excludes_zero:
            reason = (
                f"the gain in {self.prefer} is within what chance gives on these sessions; keep the present setting"
            )
            return self._with_figures(None, reason, best.number, flat)
        if there is not None and (there.change < 0 if higher else there.change > 0):
            reason = f"the gain in {self.prefer} does not hold on the sessions kept back; keep the present setting"
            return self._with_figures(None, reason, best.number, flat)
        held_out = {
            o.name: o.loss(value, now)
            for o in self.objectives
            if (o.name != Prefer.PEAK or (best.held_out[o.name] or 0) > 1)
            and (value := best.held_out[o.name]) is not None
            and (now := self.present.held_out[o.name]) is not None
        }
        lost = [name for name, loss in held_out.items() if loss > self.tolerance]
        if lost:
            reason = (
                f"what is better in {self.prefer} loses {' and '.join(lost)} on the sessions kept back; "
                "keep the present setting"
            )
            return self._with_figures(None, reason, best.number, flat)
        # All within the tolerance, or it would not be the best.
        loses = max([*self._losses(best), *held_out.values()]) > 0
        words = f"better in {self.prefer} than the present setting, and " + (
            f"worse in nothing by more than {self.tolerance:.0%}" if loses else "no worse in anything else"
        )
        others = [objective.name for objective in self.objectives if objective.name != self.prefer]
        if Prefer.PEAK in others and self._loss(Prefer.PEAK, best, self.present) > self.tolerance:
            words += "; the window gets fuller, which is no loss while requests fit it"
        if here is None or here.sessions < 2:
            words += "; on one session alone, which does not rule out chance"
        return self._with_figures(best.number, words, best.number, flat)

    def _is_known(self, name: str) -> bool:
        return self.present.tuning.get(name) is not None

    def _anything_matters(self, part: Callable[[Judged], Mapping[str, float | None]]) -> bool:
        for objective in self.objectives:
            known = [v for point in self.judged if (v := part(point)[objective.name]) is not None]
            if known and max(known) - min(known) > 1e-9 * max(abs(max(known)), abs(min(known))):
                return True
        return len({point.broken for point in self.judged}) > 1

    def _loss(self, name: str, point: Judged, against: Judged) -> float:
        objective = next(o for o in self.objectives if o.name == name)
        value, other = point.tuning[name], against.tuning[name]
        return 0.0 if value is None or other is None else objective.loss(value, other)

    def _losses(self, point: Judged) -> list[float]:
        """Give what a point loses against the present setting; a fuller window is no loss while requests fit it."""
        peak = point.tuning[Prefer.PEAK]
        counted = [o.name for o in self.objectives if o.name != Prefer.PEAK or peak is None or peak > 1]
        return [self._loss(name, point, self.present) for name in counted]

    def _no_worse(self, point: Judged) -> bool:
        return all(loss <= self.tolerance for loss in self._losses(point))

    def _best(self, able: Sequence[Judged]) -> Judged:
        """Give the middle of those that are within the tolerance of the best, in the preferred objective first."""
        order = [self.prefer, *(o.name for o in self.objectives if o.name != self.prefer)]
        left = list(able)
        for name in order:
            objective = next(o for o in self.objectives if o.name == name)
            known = [point for point in left if point.tuning[name] is not None]
            if not known:
                continue
            top = known[0]
            for point in known[1:]:
                if objective.better(point.tuning[name] or 0.0, top.tuning[name] or 0.0):
                    top = point
            left = [point for point in known if self._loss(name, point, top) <= self.tolerance]
        if self.present in left:
            return self.present
        inside = [point for point in left if point.number < len(self.grid.places)]
        if not inside:
            return left[0]
        middle = [
            sum(self.grid.places[p.number][at] for p in inside) / len(inside) for at in range(len(self.grid.axes))
        ]

        def off_middle(point: Judged) -> tuple[float, int]:
            places = self.grid.places[point.number]
            return sum((place - want) ** 2 for place, want in zip(places, middle, strict=True)), point.number

        return min(inside, key=off_middle)

    def _flat(self, best: Judged) -> tuple[int, ...]:
        """Give the points around the best that pass the gates and lose no more than the tolerance against it."""
        alike = {
            point.number
            for point in self.judged[: len(self.grid.places)]
            if not point.broken and all(self._loss(o.name, point, best) <= self.tolerance for o in self.objectives)
        }
        if self.grid.sampled or best.number not in alike:
            return tuple(sorted(alike))
        by_place = {self.grid.places[number]: number for number in alike}
        reached, waiting = {best.number}, [best.number]
        while waiting:
            places = self.grid.places[waiting.pop()]
            for at in range(len(places)):
                for step in (-1, 1):
                    near = by_place.get((*places[:at], places[at] + step, *places[at + 1 :]))
                    if near is not None and near not in reached:
                        reached.add(near)
                        waiting.append(near)
        return tuple(sorted(reached))

    def _with_figures(self, number: int | None, reason: str, shown: int, flat: tuple[int, ...]) -> Recommendation:
        if shown == self.present.number:
            return Recommendation(number, reason, shown, flat)
        return Recommendation(
            number,
            reason,
            shown,
            flat,
            {o.name: self._interval(o, shown, self.parts.tuning) for o in self.objectives},
            {o.name: self._interval(o, shown, self.parts.held_out) for o in self.objectives},
        )

    def _interval(self, objective: Objective, number: int, part: Sequence[int]) -> Interval | None:
        """Give the interval of the differences between a point and the present setting, paired by session.

        It is the change of what is shown for the two: amounts are added up and then compared.
        """
        table = self.table[objective.name]
        pairs = [
            (here, there)
            for at in part
            if (here := table[number][at]) is not None and (there := table[self.present.number][at]) is not None
        ]
        return bootstrap(pairs, objective.change, self.seed)
