"""From the figures of all points to a choice: the point to recommend, the flat region around it, whether it holds.

There is no blended score. A point is recommended when it passes the gates, loses no more than the tolerance against the
present setting in any objective, and is better in the preferred one by more than noise; or when the present setting
fails a gate. Either must hold on the sessions kept back. Otherwise the result says why there is none.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from compactctl.ports import HistoryMode
from compactctl.tuning.effects import Effect, effects_of
from compactctl.tuning.figures import Amount, Objective, taken
from compactctl.tuning.gates import Gate, Row, gate_value, gates_left_out, gates_of
from compactctl.tuning.grid import Grid
from compactctl.tuning.judging import Judged, Prefer, judge, objectives_of, values_of
from compactctl.tuning.regions import Regions
from compactctl.tuning.split import FEWEST_TO_RESAMPLE, Interval, Split, bootstrap, split

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
    history: HistoryMode = HistoryMode.VIEW,
) -> Result:
    """Judge all points; ``rows`` are the figures of each point in each session, replayed in a mode of history.

    ``present`` may be a number beyond the grid's points: the present setting, when no point of the grid is it.
    """
    parts = split(session_ids, seed)
    objectives, notes = objectives_of(rows)
    table = {objective.name: values_of(rows, objective) for objective in objectives}
    tuned, kept_back = ([[row[at] for at in part] for row in rows] for part in (parts.tuning, parts.held_out))
    gates = gates_of(tuned)
    judged = judge(tuned, objectives, table, gates, parts)
    # Some point passes: each gate is made by those that pass the ones before it.
    passing = next(point for point in (judged[present], *judged) if not point.broken)
    # Turns that fail are mostly those above the window: what helps is said once.
    advised: dict[str, list[str]] = {}
    for gate in gates:
        if gate.note:
            advised.setdefault(gate.advice(tuned[passing.number], history), []).append(gate.note)
    notes += [f"{'; '.join(told)}; {advice}" for advice, told in advised.items()]
    notes += gates_left_out(gates, tuned)
    notes += [parts.note] if parts.note else []
    choice = _Choice(grid, judged, objectives, table, parts, tuned, kept_back, gates, present, seed, prefer, tolerance)
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
        table: Mapping[str, Sequence[Sequence[Amount | None]]],
        parts: Split,
        tuned: Sequence[Sequence[Row]],
        kept_back: Sequence[Sequence[Row]],
        gates: Sequence[Gate],
        present: int,
        seed: int,
        prefer: Prefer,
        tolerance: float,
    ) -> None:
        self.grid = grid
        self.judged = judged
        self.objectives = {objective.name: objective for objective in objectives}
        self.table = table
        self.parts = parts
        self.tuned = tuned
        self.kept_back = kept_back
        self.gates = gates
        self.present = judged[present]
        self.seed = seed
        self.prefer = prefer
        self.tolerance = tolerance
        self.regions = Regions(grid)

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
        able = [point for point in passing if self._no_worse(point)]
        if self.present.broken:
            return self._rescued(passing, able)
        # What is claimed of the choice must be true of it and not only of the best that it stands for.
        gaining = [point for point in able if -self._loss(self.prefer, point, self.present) > self.tolerance]
        if not gaining:
            reason = (
                f"keep the present setting: none that loses nothing against it betters {self.prefer} by more than "
                f"{self.tolerance * 100:g}%"
            )
            return self._shown(self.present, reason, take=False)
        best = self._best(gaining)
        against = self._against(best)
        return self._shown(best, against or self._gain(best), take=not against)

    def _rescued(self, passing: Sequence[Judged], able: Sequence[Judged]) -> Recommendation:
        """Where the present setting fails a gate: the best of those that lose nothing against it, if there are any."""
        reason = f"the present setting fails a gate: {', '.join(self.present.broken)}"
        if not able:
            nearest = min(passing, key=lambda point: (max(self._losses(point)), point.number))
            each = "the one setting that passes" if len(passing) == 1 else "each that passes"
            least = "" if len(passing) == 1 else ", this one least"
            reason += f"; {each} loses something against it{least}: {', '.join(self._trade(nearest))}"
            return self._shown(nearest, reason, take=False)
        best = self._best(able)
        lost = self._lost_there(best)
        if lost:
            return self._shown(best, f"{reason}; what passes it {lost} on the sessions kept back", take=False)
        there = self._interval(self.objectives[self.prefer], best.number, self.parts.held_out)
        if there is not None and there.change and not there.excludes_zero:
            reason += f"; what this one changes in {self.prefer} may be chance"
        return self._shown(best, reason + self._alone(), take=True)

    def _against(self, best: Judged) -> str:
        """Say what speaks against a point that is better where it was tuned; empty where nothing does.

        A point was chosen among many, which no interval over the sessions that chose it can make good. So chance is
        asked once, of the one point, on sessions that had no part in the choice.
        """
        objective, keep = self.objectives[self.prefer], "keep the present setting"
        if not self.parts.held_out:
            here = self._interval(objective, best.number, self.parts.tuning)
            if here is not None and here.sessions > 1 and not here.excludes_zero:
                return f"the gain in {self.prefer} is within what chance gives on these sessions; {keep}"
            return ""
        there = self._interval(objective, best.number, self.parts.held_out)
        if there is None:
            return f"{self.prefer} was not measured on the sessions kept back; {keep}"
        if objective.is_amount and not self.present.held_out[self.prefer] and not there.change:
            return f"{self.prefer} is nothing on the sessions kept back, so that they show no gain in it; {keep}"
        if not objective.better(there.change, 0):
            return f"the gain in {self.prefer} does not hold on the sessions kept back; {keep}"
        lost = self._lost_there(best)
        if lost:
            return f"what is better in {self.prefer} {lost} on the sessions kept back; {keep}"
        if not there.excludes_zero:
            return f"the gain in {self.prefer} on the sessions kept back is within what chance gives; {keep}"
        losing = self._losing(best)
        if there.sessions < FEWEST_TO_RESAMPLE and losing:
            return (
                f"the gain in {self.prefer} may be chance: with fewer than {FEWEST_TO_RESAMPLE} sessions kept back no "
                f"session may lose, and {losing} of {len(self.table[self.prefer][best.number])} do; {keep}"
            )
        return ""

    def _gain(self, best: Judged) -> str:
        """Say what a recommended point is better in, and what it gives up for that."""
        # All within the tolerance, or it would not be recommended.
        loses = max([*self._losses(best), *self._losses_there(best).values()]) > 0
        words = f"better in {self.prefer} than the present setting, and " + (
            f"worse in nothing by more than {self.tolerance * 100:g}%" if loses else "no worse in anything else"
        )
        if self.prefer != Prefer.PEAK and self._loss(Prefer.PEAK, best, self.present) > self.tolerance:
            words += "; the window gets fuller, which is no loss while requests fit it"
        return words + self._alone()

    def _alone(self) -> str:
        """Say that nothing was kept back; empty where something was."""
        count = len(self.parts.tuning)
        sessions = "one session" if count == 1 else f"{count} sessions"
        return "" if self.parts.held_out else f"; on {sessions} alone, which does not rule out chance"

    def _is_known(self, name: str) -> bool:
        return self.present.tuning.get(name) is not None

    def _anything_matters(self, part: Callable[[Judged], Mapping[str, float | None]]) -> bool:
        for name in self.objectives:
            known = [v for point in self.judged if (v := part(point)[name]) is not None]
            if known and max(known) - min(known) > 1e-9 * max(abs(max(known)), abs(min(known))):
                return True
        return len({point.broken for point in self.judged}) > 1

    def _loss(self, name: str, point: Judged, against: Judged) -> float:
        value, other = point.tuning[name], against.tuning[name]
        return 0.0 if value is None or other is None else self.objectives[name].loss(value, other)

    def _counted(self, figures: Mapping[str, float | None]) -> list[str]:
        """Give the objectives in which a loss counts; a fuller window is none while requests fit it."""
        peak = figures[Prefer.PEAK]
        return [name for name in self.objectives if name != Prefer.PEAK or peak is None or peak > 1]

    def _losses(self, point: Judged) -> list[float]:
        """Give what a point loses against the present setting."""
        return [self._loss(name, point, self.present) for name in self._counted(point.tuning)]

    def _losses_there(self, point: Judged) -> dict[str, float]:
        """Give what a point loses against the present setting on the sessions kept back, by objective."""
        return {
            name: self.objectives[name].loss(value, now)
            for name in self._counted(point.held_out)
            if (value := point.held_out[name]) is not None and (now := self.present.held_out[name]) is not None
        }

    def _worse_counts(self, point: Judged) -> list[tuple[str, float, float]]:
        """Give what gates count more of at a point than at the present setting and than is unavoidable."""
        worse = []
        for gate in self.gates:
            here, there = (gate_value(self.tuned[one.number], gate.key) for one in (point, self.present))
            if here > max(there, gate.least):
                worse.append((gate.name, here, there))
        return worse

    def _no_worse(self, point: Judged) -> bool:
        return all(loss <= self.tolerance for loss in self._losses(point)) and not self._worse_counts(point)

    def _trade(self, point: Judged) -> list[str]:
        """Say what a point loses against the present setting."""
        told = []
        for name in self._counted(point.tuning):
            value, now = point.tuning[name], self.present.tuning[name]
            if value is None or now is None or self._loss(name, point, self.present) <= self.tolerance:
                continue
            if not self.objectives[name].is_amount:
                told.append(f"{name} {(value - now) * 100:+.1f} points")
            elif now:
                told.append(f"{name} {(value - now) / now * 100:+.1f}%")
            else:
                told.append(f"{name} from nothing")
        return told + [f"{name} {here:g} instead of {there:g}" for name, here, there in self._worse_counts(point)]

    def _lost_there(self, point: Judged) -> str:
        """Say what a point loses on the sessions kept back, and which gates it fails there; empty where nothing."""
        lost = [name for name, loss in self._losses_there(point).items() if loss > self.tolerance]
        gates = [
            gate.name
            for gate in gates_of(self.kept_back)
            if (count := gate_value(self.kept_back[point.number], gate.key)) > gate.limit
            and count > gate_value(self.kept_back[self.present.number], gate.key)
        ]
        told = [f"loses {' and '.join(lost)}"] if lost else []
        return " and ".join([*told, *([f"fails a gate ({', '.join(gates)})"] if gates else [])])

    def _losing(self, point: Judged) -> int:
        """Count the sessions, tuned on or kept back, in which a point loses the preferred objective."""
        objective, table = self.objectives[self.prefer], self.table[self.prefer]
        count = 0
        for pair in zip(table[point.number], table[self.present.number], strict=True):
            here, there = (taken(objective.over, [amount]) if amount is not None else None for amount in pair)
            count += here is not None and there is not None and objective.loss(here, there) > self.tolerance
        return count

    def _best(self, able: Sequence[Judged]) -> Judged:
        """Give the middle of those that are within the tolerance of the best, in the preferred objective first.

        Of several regions it is that of the largest, of equal ones that with the best: the further from an edge, the
        less it takes to stay on the good side.
        """
        left = list(able)
        for name in (self.prefer, *(name for name in self.objectives if name != self.prefer)):
            objective = self.objectives[name]
            known = [point for point in left if point.tuning[name] is not None]
            if not known:
                continue
            top = known[0]
            for point in known[1:]:
                if objective.better(point.tuning[name] or 0.0, top.tuning[name] or 0.0):
                    top = point
            left = [point for point in known if self._loss(name, point, top) <= self.tolerance]
        inside = {point.number for point in left if point.number < len(self.grid.places)}
        if not inside:
            return left[0]
        objective = self.objectives[self.prefer]

        def order(region: Sequence[int]) -> tuple[int, float]:
            known = [value for n in region if (value := self.judged[n].tuning[self.prefer]) is not None]
            return -len(region), min(-value if objective.higher else value for value in known)

        chosen = min(self.regions.of(inside), key=order)
        return self.judged[self.regions.middle(chosen)]

    def _flat(self, best: Judged) -> tuple[int, ...]:
        """Give the points around the best that pass the gates and are as good: none loses to it, nor it to one of them.

        Another one that loses less in something else is as good; what is shown need not be the best of all.
        """
        alike = {
            point.number
            for point in self.judged[: len(self.grid.places)]
            if not point.broken
            and all(self._loss(name, point, best) <= self.tolerance for name in self.objectives)
            and self._loss(self.prefer, best, point) <= self.tolerance
        }
        around = (region for region in self.regions.of(alike) if best.number in region)
        # The present setting may lie beside the grid: then it has no neighbours, and all that are alike are told.
        return tuple(sorted(next(around, alike)))

    def _shown(self, best: Judged, reason: str, *, take: bool) -> Recommendation:
        """Give the recommendation of a point, or the refusal, with its figures against the present setting."""
        number, flat = best.number if take else None, self._flat(best)
        if best.number == self.present.number:
            return Recommendation(number, reason, best.number, flat)
        tuning, held_out = (
            {name: self._interval(objective, best.number, part) for name, objective in self.objectives.items()}
            for part in (self.parts.tuning, self.parts.held_out)
        )
        return Recommendation(number, reason, best.number, flat, tuning, held_out)

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
