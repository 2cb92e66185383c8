"""What becomes of each point: its objectives on both parts of the sessions, the gates it fails, the Pareto front."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from compactctl.measures._spec import Pool
from compactctl.tuning.figures import REAL_PEAK, TOKENS, Objective, pooled
from compactctl.tuning.gates import Gate, Row, gate_value
from compactctl.tuning.split import Split


class Prefer(StrEnum):
    """The objective that a recommendation must better."""

    COST = "cost"
    RECALL = "recall"
    PEAK = "peak"


@dataclass(frozen=True, slots=True)
class Judged:
    """A point and what became of it.

    ``tuning`` and ``held_out`` are its objectives over each part by name; ``broken`` are the gates that it fails,
    ``dominated_by`` the number of a point that is better in one objective and worse in none.
    """

    number: int
    tuning: Mapping[str, float | None]
    held_out: Mapping[str, float | None]
    broken: tuple[str, ...]
    dominated_by: int | None = None

    @property
    def on_front(self) -> bool:
        """Whether no other point that passes the gates is better in one objective and worse in none."""
        return not self.broken and self.dominated_by is None


def objectives_of(rows: Sequence[Sequence[Row]]) -> tuple[tuple[Objective, ...], list[str]]:
    """Choose what is compared, as far as it was measured: cost or else tokens, recall, and the real peak."""
    cost = Objective("m3.cost_usd", Prefer.COST, Pool.SUM)
    recall = Objective("m6.recall_visible", Prefer.RECALL, Pool.MEAN, higher=True)
    notes: list[str] = []
    if not _measured(rows, cost.key):
        notes.append(f"cost is counted in tokens sent: {_why_not(rows, cost.key)}")
        cost = Objective(TOKENS, Prefer.COST, Pool.SUM)
    found = [cost]
    if _measured(rows, recall.key):
        found.append(recall)
    else:
        notes.append(f"recall is not compared: {_why_not(rows, recall.key)}")
    found.append(Objective(REAL_PEAK, Prefer.PEAK, Pool.MAX))
    for objective in found:
        lacking = sum(value is None for value in values_of(rows, objective)[0])
        if lacking:
            which = "1 session that has" if lacking == 1 else f"{lacking} sessions that have"
            notes.append(f"{objective.name} leaves out {which} no {objective.key}")
    return tuple(found), notes


def values_of(rows: Sequence[Sequence[Row]], objective: Objective) -> list[list[float | None]]:
    """Give an objective by point and session; a session that lacks it at any point has it at none."""
    values = [[row[objective.key].value if objective.key in row else None for row in point] for point in rows]
    lacking = {at for point in values for at, value in enumerate(point) if value is None}
    return [[None if at in lacking else value for at, value in enumerate(point)] for point in values]


def _measured(rows: Sequence[Sequence[Row]], key: str) -> bool:
    return any(
        all(key in point[at] and point[at][key].value is not None for point in rows) for at in range(len(rows[0]))
    )


def _why_not(rows: Sequence[Sequence[Row]], key: str) -> str:
    for row in rows[0]:
        if key in row and row[key].value is None:
            return f"{key}: {row[key].reason or 'not measured'}"
    return f"{key} was not computed (--measures)"


def judge(
    rows: Sequence[Sequence[Row]],
    objectives: Sequence[Objective],
    table: Mapping[str, Sequence[Sequence[float | None]]],
    gates: Sequence[Gate],
    parts: Split,
) -> list[Judged]:
    """Judge all points. ``table`` has what ``values_of`` gives by the name of each objective."""
    judged = [
        Judged(
            number,
            {o.name: _over(o, table[o.name][number], parts.tuning) for o in objectives},
            {o.name: _over(o, table[o.name][number], parts.held_out) for o in objectives},
            tuple(gate.name for gate in gates if gate_value(row, gate.key) > gate.limit),
        )
        for number, row in enumerate(rows)
    ]
    return _with_front(judged, objectives)


def _over(objective: Objective, values: Sequence[float | None], part: Sequence[int]) -> float | None:
    known = [value for value in (values[at] for at in part) if value is not None]
    return pooled(objective.pool, known) if known else None


def _with_front(judged: Sequence[Judged], objectives: Sequence[Objective]) -> list[Judged]:
    def figures(point: Judged) -> tuple[float | None, ...]:
        return tuple(point.tuning[objective.name] for objective in objectives)

    # Points with the same figures are one here: where nothing matters, all are.
    first: dict[tuple[float | None, ...], Judged] = {}
    for point in judged:
        if not point.broken:
            first.setdefault(figures(point), point)
    # Whoever is dominated is dominated by one of the front, so that only these need be asked.
    front: list[Judged] = []
    for point in first.values():
        if any(_dominates(other, point, objectives) for other in front):
            continue
        front = [other for other in front if not _dominates(point, other, objectives)]
        front.append(point)
    by: dict[tuple[float | None, ...], int | None] = {}
    for point in judged:
        if (known := figures(point)) not in by:
            by[known] = next((other.number for other in front if _dominates(other, point, objectives)), None)
    return [replace(point, dominated_by=by[figures(point)]) for point in judged]


def _dominates(one: Judged, other: Judged, objectives: Sequence[Objective]) -> bool:
    better = False
    for objective in objectives:
        a, b = one.tuning[objective.name], other.tuning[objective.name]
        if a is None or b is None:
            continue
        if objective.better(b, a):
            return False
        better = better or objective.better(a, b)
    return better
