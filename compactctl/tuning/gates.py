"""Gates: what no setting may do more of than the best of them, however cheap it is, and what helps where all do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from compactctl.context.words import quantity
from compactctl.measures._spec import Measured
from compactctl.ports import HistoryMode
from compactctl.tuning.figures import FAILED

# Figures of one replay; of one point, a row for each session.
Row = Mapping[str, Measured]
OVERSHOOT, _ESTIMATE = "m1.overshoot_turns", "m1.estimate_ratio"
# Real tokens for each that the meter sees, from where on overshoot comes from the estimate.
_UNDERESTIMATE = 1.1
# Where truncated views hold next to nothing, the ratio to what is always sent beside them says nothing of the meter.
_NONSENSE = 10
SPIRAL = 3
_IDLE = "m8.no_progress"
SPIRALS = "m8.spiral"  # a session counts where its longest chain is a spiral


@dataclass(frozen=True, slots=True)
class Gate:
    """A figure that no setting may exceed: 0, or else a tenth more than the least that is reached.

    The tenth is there since one rejected turn more or less among a hundred tells no setting from another.
    """

    key: str
    name: str
    least: float

    @property
    def limit(self) -> float:
        """The most that a setting may have; of a least below 10 it is the least, since these are counts."""
        return self.least + self.least // 10

    @property
    def note(self) -> str:
        """Say where no point is free of it; empty where one is."""
        if not self.least:
            return ""
        slack = f", up to {self.limit:g} pass" if self.limit > self.least else ""
        return f"no setting that passes the other gates is free of {self.name}: the least is {self.least:g}{slack}"

    def advice(self, rows: Sequence[Row], history: HistoryMode = HistoryMode.VIEW) -> str:
        """Say what may help where the sessions of a point exceed it, replayed in a mode of history."""
        if self.key in (FAILED, OVERSHOOT):
            beyond = [row for row in rows if row[self.key].value]
            ratios = [row[_ESTIMATE].value for row in beyond if _ESTIMATE in row]
            known = [ratio for ratio in ratios if ratio is not None]
            if known and _UNDERESTIMATE < max(known) < _NONSENSE:
                return (
                    f"the meter counts 1 token where there are {max(known):.2f} (median of a session), so that tiers "
                    "fire too late: try --meter calibrated, or else lower thresholds"
                )
            return "try lower thresholds, or another compactor (`compactctl compare`)"
        if self.key == "m5.faults":
            return "try a compactor that keeps calls and results together, such as progressive-safe"
        return _against_spirals(rows, history)


def _against_spirals(rows: Sequence[Row], history: HistoryMode) -> str:
    """Say what the finding of a spiral says, and that compactions free too little only where they do."""
    ways = "leave more room: keep less (a smaller tail), or compact harder earlier (a lower full threshold)"
    if history is HistoryMode.VIEW:
        ways = "each turn compacts the history afresh: let a compaction become the history (--history write-back)"
    chained = [row for row in rows if SPIRALS in row and (row[SPIRALS].value or 0) >= SPIRAL]
    idle = sum(row[_IDLE].value or 0 for row in chained if _IDLE in row)
    little = f"{quantity(idle, 'compaction')} in these sessions freed too little: offload more, or keep less"
    return f"{ways}; {little}" if idle else ways


_GATES = (
    (FAILED, "failed turns"),
    (OVERSHOOT, "turns above the window"),
    ("m5.faults", "protocol faults"),
    (SPIRALS, "sessions with a compaction spiral"),
)


def gates_of(rows: Sequence[Sequence[Row]]) -> tuple[Gate, ...]:
    """Give the gates whose figures all points have; ``rows`` are those of each point in the sessions that count.

    Each is made by the points that pass those before it, so that some point passes all. A figure that is known of no
    session is no 0 that all points reach.
    """
    gates: list[Gate] = []
    passing = list(rows)
    for key, name in _GATES:
        if _is_computed(rows, key) and any(row[key].value is not None for point in rows for row in point):
            values = [gate_value(point, key) for point in passing]
            gates.append(Gate(key, name, min(values)))
            passing = [point for point, value in zip(passing, values, strict=True) if value <= gates[-1].limit]
    return tuple(gates)


def gates_left_out(gates: Sequence[Gate], rows: Sequence[Sequence[Row]]) -> list[str]:
    """Say which gates were not held because their figure was not measured in ``rows``; empty where all were."""
    held = {gate.key for gate in gates}
    left = [(key, name) for key, name in _GATES if key not in held]
    missing = [f"{name} ({key})" for key, name in left if not _is_computed(rows, key)]
    unknown = [f"{name} ({key}: {rows[0][0][key].reason})" for key, name in left if _is_computed(rows, key)]
    told = [f"not held as gates, since --measures leaves them out: {', '.join(missing)}"] if missing else []
    return told + ([f"not held as gates, since no session has them: {', '.join(unknown)}"] if unknown else [])


def _is_computed(rows: Sequence[Sequence[Row]], key: str) -> bool:
    return all(key in row for point in rows for row in point)


def gate_value(point: Sequence[Row], key: str) -> float:
    """Give what a point has of a gate's figure over these sessions."""
    values = [row[key].value for row in point if key in row]
    if key == SPIRALS:
        # The figure is the longest chain of compactions that follow each other closely; from 3 on it is a spiral.
        return sum(1 for value in values if value is not None and value >= SPIRAL)
    return sum(value for value in values if value is not None)
