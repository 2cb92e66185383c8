"""The figures of one replay by key: what the measures give, and a few that every replay has without them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from compactctl.measures import all_keys
from compactctl.measures._spec import Direction, Key, Measured, Pool
from compactctl.runs import Outcome

TOKENS, REDUCTION = "tokens", "reduction"
PEAK, REAL_PEAK = "peak_occupancy", "real_peak_occupancy"
FAILED, CALLS, FILES = "failed_turns", "summarizer_calls", "offloaded_files"

PLAIN_KEYS = (
    Key(TOKENS, "tokens", Direction.LOWER, "decision tokens sent over all turns"),
    Key(
        REDUCTION,
        "share",
        Direction.HIGHER,
        "decision tokens that were not sent / those without compaction",
        Pool.SHARE,
    ),
    Key(PEAK, "share of the window", Direction.LOWER, "largest view in decision tokens / window", Pool.MAX),
    Key(REAL_PEAK, "share of the window", Direction.LOWER, "largest view in real tokens / window", Pool.MAX),
    Key(FAILED, "turns", Direction.LOWER, "turns that are above the window by real tokens and reserve"),
    Key(CALLS, "calls", Direction.LOWER, "summaries that were asked for and came"),
    Key(FILES, "files", Direction.NEUTRAL, "results that were moved to files"),
)


def key_named(name: str) -> Key:
    """Give the key of a figure; the measures are loaded only for one of theirs."""
    plain = {key.key: key for key in PLAIN_KEYS}
    return plain[name] if name in plain else all_keys()[name]


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
    without = outcome.bound.tokens_sent
    found[REDUCTION] = replace(found[REDUCTION], amounts=(without - tally.tokens_sent, without) if without else None)
    return found | dict(outcome.measures)


# What one session has of a figure: of a share the amount and what it is a share of, of all else the value and 1.
Amount = tuple[float, float]


def amount_of(key: Key, measured: Measured) -> Amount | None:
    """Give what a session adds to a figure over several; None where it has none, or of a share not its amounts."""
    if measured.value is None:
        return None
    return measured.amounts if key.pool is Pool.SHARE else (measured.value, 1)


def lack_of(key: Key, measured: Measured) -> str:
    """Say why a session adds nothing to a figure over several."""
    if measured.value is None:
        return measured.reason or "not measured"
    return "it is not known what it is a share of"


def taken(how: str, amounts: Sequence[Amount]) -> float | None:
    """Take one value over sessions; None where there is nothing to be a share of.

    >>> [taken(how, [(9, 10), (1, 90)]) for how in ("sum", "max", "share")]
    [10, 9, 0.1]
    """
    if how == Pool.MAX:
        return max([part for part, _ in amounts])
    total = sum([part for part, _ in amounts])
    if how == Pool.SUM:
        return total
    whole = sum([whole for _, whole in amounts])
    return total / whole if whole else None


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

    >>> rows = [{"m6.lost": Measured(0.9, amounts=(90, 100))}, {"m6.lost": Measured(0.5, amounts=(450, 900))}]
    >>> pooled_figures(rows)["m6.lost"].value  # 540 of 100 + 900, not the mean of 0.9 and 0.5
    0.54
    """
    rows = list(sessions)
    # The measures are loaded only where there is a figure of one.
    keys = {key.key: key for key in PLAIN_KEYS}
    if rows and not keys.keys() >= rows[0].keys():
        keys = known_keys()
    found: dict[str, Pooled] = {}
    for name in rows[0] if rows else ():
        key, how = keys[name], str(keys[name].pool)
        having = [amount for row in rows if (amount := amount_of(key, row[name])) is not None]
        lacking = next((lack_of(key, row[name]) for row in rows if amount_of(key, row[name]) is None), "")
        if having:
            found[name] = Pooled(taken(how, having), len(having), how, lacking)
        else:
            found[name] = Pooled(None, 0, how, f"not measured in any session: {lacking}")
    return found


@dataclass(frozen=True, slots=True)
class Objective:
    """A figure that settings are compared by; ``higher`` says which way is better.

    ``over`` is how it is taken over sessions, by the same rule as the figure of its key.
    """

    key: str
    name: str
    over: str
    higher: bool = False

    @property
    def is_amount(self) -> bool:
        """Whether differences are told as a share of it; those of shares are differences."""
        return self.over == Pool.SUM

    def better(self, one: float, other: float) -> bool:
        """Whether one value is better than another."""
        return one > other if self.higher else one < other

    def change(self, pairs: Sequence[tuple[Amount, Amount]]) -> float | None:
        """Give the change over sessions of what is taken over them, (here, there): of amounts the share of there.

        Infinite where an amount comes from nothing: it is more than any share of that. None where a share has no whole.

        >>> tokens = Objective("tokens", "tokens", "sum")
        >>> tokens.change([((90.0, 1), (100.0, 1)), ((300.0, 1), (400.0, 1))])  # 390 of 500
        -0.22
        """
        here, there = taken(self.over, [one for one, _ in pairs]), taken(self.over, [other for _, other in pairs])
        if here is None or there is None:
            return None
        return _of(here - there, there) if self.is_amount else here - there

    def loss(self, value: float, against: float) -> float:
        """Give by how much a value is worse than another: a share of it, for shares the difference; gains are < 0.

        >>> Objective("tokens", "tokens", "sum").loss(0.009, 0), Objective("m6.lost", "lost", "share").loss(0.009, 0)
        (inf, 0.009)
        """
        worse = against - value if self.higher else value - against
        return _of(worse, against) if self.is_amount else worse


def _of(difference: float, amount: float) -> float:
    """Give a difference as a share of an amount: of nothing any difference is infinite, and none is none."""
    if amount:
        return difference / abs(amount)
    return math.copysign(math.inf, difference) if difference else 0.0
