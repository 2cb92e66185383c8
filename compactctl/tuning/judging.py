"""What becomes of each point: its objectives on both parts of the sessions, the gates it fails, the Pareto front."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from compactctl.context.words import quantity
from compactctl.measures._spec import Direction
from compactctl.tuning.figures import REAL_PEAK, TOKENS, Amount, Objective, amount_of, key_named, lack_of, taken
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

    ``tuning`` and ``held_out`` are its objectives over each part by name; ``broken`` are the gates that it fails on the
    sessions tuned on, ``dominated_by`` the number of a point that is better in one objective and worse in none.
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
    cost, recall = "m3.cost_usd", "m6.recall_visible"
    notes: list[str] = []
    if not _measured(rows, cost):
        notes.append(f"cost is counted in tokens sent: {_why_not(rows, cost)}")
        cost = TOKENS
    found = [_objective(cost, Prefer.COST)]
    if _measured(rows, recall):
        found.append(_objective(recall, Prefer.RECALL))
    else:
        notes.append(f"recall is not compared: {_why_not(rows, recall)}")
    found.append(_objective(REAL_PEAK, Prefer.PEAK))
    for objective in found:
        lacking = len(_lacking(rows, objective.key))
        if lacking:
            which = quantity(lacking, "session that has", "sessions that have")
            notes.append(f"{objective.name} leaves out {which} no {objective.key}")
    return tuple(found), notes


def _objective(name: str, prefer: Prefer) -> Objective:
    key = key_named(name)
    return Objective(name, prefer, str(key.pool), key.direction is Direction.HIGHER)


def values_of(rows: Sequence[Sequence[Row]], objective: Objective) -> list[list[Amount | None]]:
    """Give what is known of an objective by point and session; a session that lacks it at any point has it at none."""
    key, lacking = key_named(objective.key), _lacking(rows, objective.key)
    return [
        [None if at in lacking else amount_of(key, row[objective.key]) for at, row in enumerate(point)]
        for point in rows
    ]


def _lacking(rows: Sequence[Sequence[Row]], name: str) -> set[int]:
    found = {at for point in rows for at, row in enumerate(point) if name not in row}
    if len(found) < len(rows[0]):  # of a measure that was not computed nothing need be loaded
        key = key_named(name)
        found |= {
            at for point in rows for at, row in enumerate(point) if name in row and amount_of(key, row[name]) is None
        }
    return found


def _measured(rows: Sequence[Sequence[Row]], name: str) -> bool:
    return len(_lacking(rows, name)) < len(rows[0])


def _why_not(rows: Sequence[Sequence[Row]], name: str) -> str:
    held = [row[name] for point in rows for row in point if name in row]
    key = key_named(name) if held else None
    for measured in held:
        if key is not None and amount_of(key, measured) is None:
            return f"{name}: {lack_of(key, measured)}"
    return f"{name} was not computed (--measures)"


def judge(
    rows: Sequence[Sequence[Row]],
    objectives: Sequence[Objective],
    table: Mapping[str, Sequence[Sequence[Amount | None]]],
    gates: Sequence[Gate],
    parts: Split,
) -> list[Judged]:
    """Judge all points. ``table`` has what ``values_of`` gives by the name of each objective, for all sessions.

    Of ``rows`` those are wanted that ``gates`` are held on.
    """
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


def _over(objective: Objective, amounts: Sequence[Amount | None], part: Sequence[int]) -> float | None:
    known = [amount for amount in (amounts[at] for at in part) if amount is not None]
    return taken(objective.over, known) if known else None


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
