"""The figures of one replay by key: what the measures give, and a few that every replay has without them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from compactctl.measures import all_keys
from compactctl.measures._spec import Direction, Key, Measured, Pool
from compactctl.runs import Outcome

TOKENS, REDUCTION = "tokens", "reduction"
PEAK, REAL_PEAK = "peak_occupancy", "real_peak_occupancy"
FAILED, CALLS, FILES = "failed_turns", "summarizer_calls", "offloaded_files"

PLAIN_KEYS = (
    Key(TOKENS, "tokens", Direction.LOWER, "decision tokens sent over all turns"),
    Key(REDUCTION, "share", Direction.HIGHER, "decision tokens that were not sent / those without compaction"),
    Key(PEAK, "share of the window", Direction.LOWER, "largest view in decision tokens / window", Pool.MAX),
    Key(REAL_PEAK, "share of the window", Direction.LOWER, "largest view in real tokens / window", Pool.MAX),
    Key(FAILED, "turns", Direction.LOWER, "turns that a provider would have rejected"),
    Key(CALLS, "calls", Direction.LOWER, "summaries that were asked for and came"),
    Key(FILES, "files", Direction.NEUTRAL, "results that were moved to files"),
)


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


def pooled(pool: Pool, values: Sequence[float]) -> float:
    """Take one value over sessions."""
    if pool is Pool.MAX:
        return max(values)
    total = sum(values)
    return total / len(values) if pool is Pool.MEAN else total


@dataclass(frozen=True, slots=True)
class Pooled:
    """A figure over several sessions: its value, and in how many of them it was measured.

    ``how`` is how it was taken: the sum, the largest, the mean, or ``share`` for all of one amount over all of another.
    ``reason`` says why the rest lacks it.
    """

    value: float | None
    sessions: int
    how: str
    reason: str = ""


def pooled_figures(sessions: Iterable[Mapping[str, Measured]]) -> dict[str, Pooled]:
    """Give each figure over the sessions that have it.

    >>> rows = [
    ...     {"m2.tokens_sent": Measured(90), "m2.share_of_uncompacted": Measured(0.9)},
    ...     {"m2.tokens_sent": Measured(450), "m2.share_of_uncompacted": Measured(0.5)},
    ... ]
    >>> pooled_figures(rows)["m2.share_of_uncompacted"].value  # 540 of 100 + 900, not the mean of 0.9 and 0.5
    0.54
    """
    rows = list(sessions)
    # The measures are loaded only where there is a figure of one.
    keys = {key.key: key for key in PLAIN_KEYS}
    if rows and not keys.keys() >= rows[0].keys():
        keys = known_keys()
    found: dict[str, Pooled] = {}
    for key in rows[0] if rows else ():
        having = [row for row in rows if row[key].value is not None]
        lacking = next((row[key].reason for row in rows if row[key].value is None), "")
        if not having:
            found[key] = Pooled(None, 0, str(keys[key].pool), f"not measured in any session: {lacking}")
            continue
        share = _share_of_all(keys[key], having)
        if share is not None:
            found[key] = Pooled(share, len(having), "share", lacking)
        else:
            values = [row[key].value or 0 for row in having]
            found[key] = Pooled(pooled(keys[key].pool, values), len(having), str(keys[key].pool), lacking)
    return found


def _share_of_all(key: Key, rows: Sequence[Mapping[str, Measured]]) -> float | None:
    """Give a share over sessions out of its parts; None where it is no share or a part of it is not known."""
    shares = [float(row[key.key].value or 0) for row in rows]
    if key.key == REDUCTION:
        # What was not sent is a share of what would have been: tokens / (1 - reduction).
        kept = [1 - share for share in shares]
        sent = [float(row[TOKENS].value or 0) for row in rows]
        if not all(share > 0 for share in kept):
            return None
        return 1 - sum(sent) / sum(part / share for part, share in zip(sent, kept, strict=True))
    parts = _known(key.part, rows)
    wholes = _known(key.whole, rows)
    if wholes is None and parts is not None and all(share > 0 for share in shares):
        wholes = [amount / share for amount, share in zip(parts, shares, strict=True)]
    if wholes is None or sum(wholes) <= 0:
        return None
    if parts is None:
        parts = [share * amount for share, amount in zip(shares, wholes, strict=True)]
    return sum(parts) / sum(wholes)


def _known(key: str, rows: Sequence[Mapping[str, Measured]]) -> list[float] | None:
    if not key or any(key not in row or row[key].value is None for row in rows):
        return None
    return [float(row[key].value or 0) for row in rows]


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

    def change(self, pairs: Sequence[tuple[float, float]]) -> float | None:
        """Give the change over sessions of what is taken over them, (here, there): of amounts the share of there.

        None where there is nothing to be a share of.

        >>> Objective("tokens", "tokens", Pool.SUM).change([(90.0, 100.0), (300.0, 400.0)])  # 390 of 500
        -0.22
        """
        here, there = (pooled(self.pool, [pair[at] for pair in pairs]) for at in (0, 1))
        if self.pool is not Pool.SUM:
            return here - there
        return (here - there) / there if there else None

    def loss(self, value: float, against: float) -> float:
        """Give by how much a value is worse than another: a share of it, for shares the difference; gains are < 0."""
        worse = against - value if self.higher else value - against
        return worse if self.pool is not Pool.SUM else worse / abs(against) if against else worse
