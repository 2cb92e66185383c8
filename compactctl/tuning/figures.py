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
    return found | dict(outcome.measures)


# What one session has of a figure: of a share the amount and what it is a share of, of all else the value and 1.
Amount = tuple[float, float]
SHARE = "share"


def amounts_of(key: Key, rows: Sequence[Mapping[str, Measured]]) -> tuple[str, list[Amount]]:
    """Say how a figure is taken over sessions that have it, and give what each of them adds.

    It is ``share`` where each session's share can be told in amounts, otherwise what the key says.
    """
    shares = [amount for row in rows if (amount := _in_amounts(key, row)) is not None]
    if len(shares) == len(rows) and sum(whole for _, whole in shares) > 0:
        return SHARE, shares
    return str(key.pool), [(row[key.key].value or 0, 1) for row in rows]


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


def _in_amounts(key: Key, row: Mapping[str, Measured]) -> Amount | None:
    """Give a session's share as an amount and its whole; None where it is no share or neither amount is known."""
    if not (key.part or key.whole or key.key == REDUCTION):
        return None
    share = float(row[key.key].value or 0)
    if key.key == REDUCTION:
        # What was not sent is a share of what would have been: tokens / (1 - reduction).
        sent = _known(TOKENS, row)
        if sent is None or share >= 1:
            return None
        return sent / (1 - share) - sent, sent / (1 - share)
    part, whole = _known(key.part, row), _known(key.whole, row)
    if whole is None and part is not None and share > 0:
        whole = part / share
    if whole is None:
        return None
    return share * whole if part is None else part, whole


def _known(key: str, row: Mapping[str, Measured]) -> float | None:
    value = row[key].value if key in row else None
    return None if value is None else float(value)


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
        how, amounts = amounts_of(keys[key], having)
        found[key] = Pooled(taken(how, amounts), len(having), how, lacking)
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

        None where there is nothing to be a share of.

        >>> tokens = Objective("tokens", "tokens", "sum")
        >>> tokens.change([((90.0, 1), (100.0, 1)), ((300.0, 1), (400.0, 1))])  # 390 of 500
        -0.22
        """
        here, there = taken(self.over, [one for one, _ in pairs]), taken(self.over, [other for _, other in pairs])
        if here is None or there is None:
            return None
        if not self.is_amount:
            return here - there
        return (here - there) / there if there else None

    def loss(self, value: float, against: float) -> float:
        """Give by how much a value is worse than another: a share of it, for shares the difference; gains are < 0."""
        worse = against - value if self.higher else value - against
        return worse / abs(against) if self.is_amount and against else worse
