"""The figures of one replay by key: what the measures give, and a few that every replay has without them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from compactctl.measures import all_keys
from compactctl.measures._spec import Direction, Key, Measured
from compactctl.runs import Outcome

TOKENS, REDUCTION = "tokens", "reduction"
PEAK, REAL_PEAK = "peak_occupancy", "real_peak_occupancy"
FAILED, CALLS, FILES = "failed_turns", "summarizer_calls", "offloaded_files"

PLAIN_KEYS = (
    Key(TOKENS, "tokens", Direction.LOWER, "decision tokens sent over all turns"),
    Key(REDUCTION, "share", Direction.HIGHER, "decision tokens that were not sent / those without compaction"),
    Key(PEAK, "share of the window", Direction.LOWER, "largest view in decision tokens / window"),
    Key(REAL_PEAK, "share of the window", Direction.LOWER, "largest view in real tokens / window"),
    Key(FAILED, "turns", Direction.LOWER, "turns that a provider would have rejected"),
    Key(CALLS, "calls", Direction.LOWER, "summaries that were asked for and came"),
    Key(FILES, "files", Direction.NEUTRAL, "results that were moved to files"),
)


class Pool(StrEnum):
    """How the figures of several sessions become one."""

    SUM = "sum"
    MEAN = "mean"
    MAX = "max"


def known_keys() -> dict[str, Key]:
    """Give every figure that a replay can have, by key."""
    return {key.key: key for key in PLAIN_KEYS} | all_keys()


def figures_of(outcome: Outcome) -> dict[str, Measured]:
    """Give the figures of a replay; those of measures that were not computed are left out."""
    tally, window = outcome.tally, outcome.window.tokens
    unknown = "the window is not known"
    plain: dict[str, tuple[float | None, str]] = {
        TOKENS: (tally.tokens_sent, ""),
        REDUCTION: (outcome.reduction, "nothing is sent"),
        PEAK: (tally.peak.occupancy(window), unknown),
        REAL_PEAK: (tally.real_peak.occupancy(window), unknown),
        FAILED: (tally.failed_turns, ""),
        CALLS: (tally.summarizer_calls, ""),
        FILES: (len(tally.offloaded), ""),
    }
    found = {key: Measured(value, reason if value is None else "") for key, (value, reason) in plain.items()}
    return found | dict(outcome.measures)


def pool_of(key: Key) -> Pool:
    """Say how a figure is taken over sessions: peaks by the largest, amounts by their sum, shares by their mean."""
    if key.key in (PEAK, REAL_PEAK) or key.key.endswith(("peak", "largest_input", "floor", "spiral", "longest_run")):
        return Pool.MAX
    if key.unit in _AMOUNTS:
        return Pool.SUM
    return Pool.MEAN


_AMOUNTS = frozenset(
    ("tokens", "turns", "calls", "files", "faults", "results", "messages", "compactions", "US dollars", "summaries")
)


def pooled(pool: Pool, values: Sequence[float]) -> float:
    """Take one value over sessions."""
    if pool is Pool.MAX:
        return max(values)
    total = sum(values)
    return total / len(values) if pool is Pool.MEAN else total


def pooled_figures(sessions: Iterable[Mapping[str, Measured]]) -> dict[str, Measured]:
    """Give each figure over sessions; None, with how many lack it, where a session has none."""
    rows = list(sessions)
    keys = known_keys()
    found: dict[str, Measured] = {}
    for key in rows[0] if rows else ():
        values = [row[key].value for row in rows]
        known = [value for value in values if value is not None]
        if len(known) == len(values):
            found[key] = Measured(pooled(pool_of(keys[key]), known))
        else:
            lacking = next(row[key].reason for row in rows if row[key].value is None)
            found[key] = Measured(None, f"not measured in {len(values) - len(known)} of {len(values)}: {lacking}")
    return found


@dataclass(frozen=True, slots=True)
class Objective:
    """A figure that settings are compared by; ``higher`` says which way is better."""

    key: str
    name: str
    pool: Pool
    higher: bool = False

    def better(self, one: float, other: float) -> bool:
        """Whether one value is better than another."""
        return one > other if self.higher else one < other

    def loss(self, value: float, against: float) -> float:
        """Give by how much a value is worse than another: a share of it, for shares the difference; gains are < 0."""
        worse = against - value if self.higher else value - against
        return worse if self.pool is not Pool.SUM else worse / abs(against) if against else worse
