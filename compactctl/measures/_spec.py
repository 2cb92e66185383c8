"""What a measure is: a pure function of one replay, with the keys that it fills."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from compactctl.context.base import Base
from compactctl.context.scale import Scale
from compactctl.model import Session
from compactctl.ports import ALONE, Span, Spread


class Direction(StrEnum):
    """Which way a figure is better."""

    LOWER = "lower"
    HIGHER = "higher"
    NEUTRAL = "neutral"


class Pool(StrEnum):
    """How the figures of several sessions become one."""

    SUM = "sum"
    MEAN = "mean"
    MAX = "max"
    SHARE = "share"  # all of one amount over all of another


# Units of what adds up over sessions.
_AMOUNTS = frozenset(
    (
        "tokens",
        "turns",
        "calls",
        "files",
        "faults",
        "results",
        "messages",
        "references",
        "lines",
        "compactions",
        "summaries",
        "US dollars",
    )
)


@dataclass(frozen=True, slots=True)
class Key:
    """One figure of a measure: its key (``m1.overshoot_turns``), unit, direction and meaning.

    ``over`` says how it is taken over sessions where its unit does not: amounts add up, of all else it is the mean.
    """

    key: str
    unit: str
    direction: Direction
    help: str
    over: Pool | None = None

    @property
    def pool(self) -> Pool:
        """How it is taken over sessions.

        >>> [str(Key("m9.key", unit, Direction.LOWER, "").pool) for unit in ("turns", "share")]
        ['sum', 'mean']
        """
        return self.over or (Pool.SUM if self.unit in _AMOUNTS else Pool.MEAN)


@dataclass(frozen=True, slots=True)
class Measured:
    """A figure, or None and the reason why there is none. None is not zero and passes no budget.

    ``amounts`` are what a share was made of, the part and the whole. They go with it, so that what it is over sessions
    does not hang on which other measures were computed.
    """

    value: float | int | None
    reason: str = ""
    amounts: tuple[float, float] | None = None


def dollars(cost: float | None, sign: str = "") -> str:
    """Give a cost in US dollars as people read it: in cents, and as finely as a small one needs.

    >>> dollars(3.1512), dollars(0.01946), dollars(0.00212), dollars(0), dollars(None)
    ('3.15', '0.019', '0.0021', '0.00', 'n/a')
    >>> dollars(3.1512, "$"), dollars(0.00004, "$")
    ('$3.15', '<$0.0001')
    """
    if cost is None:
        return "n/a"
    if 0 < cost < 0.00005:
        return f"<{sign}0.0001"
    digits = 2 if cost >= 0.1 or not cost else 3 if cost >= 0.01 else 4
    return f"{sign}{cost:.{digits}f}"


@dataclass(frozen=True, slots=True)
class Prices:
    """US dollars for a million tokens, with where and when they are from."""

    input: float
    output: float
    cache_read: float | None
    cache_write: float | None
    source: str = ""
    date: str = ""

    @property
    def write(self) -> float:
        """What a token costs that is not in the cache: the price of a cache write, else that of plain input."""
        return self.input if self.cache_write is None else self.cache_write

    @property
    def cached(self) -> float:
        """What a token costs that is in the cache; the price of plain input where the model has no cache."""
        return self.input if self.cache_read is None else self.cache_read


@dataclass(frozen=True, slots=True)
class Trace:
    """One replay as the measures see it.

    ``spans`` cover every turn in order. ``scale`` counts real tokens; ``window`` is in tokens, 0 for unknown.
    ``options`` are the compactor's, by name. ``summary_tokens`` is the cap of a summary. ``shared`` belongs to the
    session and is the same for all its replays: what needs the text is found once and kept there under the measure's
    own key. ``cache`` belongs to this replay: what several measures need is worked out once and kept there. ``bound``
    is the session without a compactor (and without spilling), shared by its replays; None where the trace is its own.
    ``spread`` says who reads the text of many messages.
    """

    session: Session
    base: Base
    spans: tuple[Span, ...]
    scale: Scale
    window: int
    reserve: int = 0
    prices: Prices | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    summary_tokens: int = 2000
    shared: dict[str, Any] = field(default_factory=dict)
    cache: dict[str, Any] = field(default_factory=dict)
    bound: Trace | None = None
    # What another model than the session's costs that made some of the calls.
    prices_of: Callable[[str], Prices | None] = lambda model: None
    spread: Spread = ALONE

    @property
    def turns(self) -> int:
        """How many model calls the replay made."""
        return self.spans[-1].until if self.spans else 0


@dataclass(frozen=True, slots=True)
class MeasureSpec:
    """A measure plug-in: ``compute`` fills each declared key; a key that it leaves out is None without a reason."""

    name: str
    title: str
    keys: tuple[Key, ...]
    compute: Callable[[Trace], Mapping[str, Measured]]


def share(part: float, whole: float, reason: str = "nothing to divide by") -> Measured:
    """Give a part of a whole, None with the reason where the whole is nothing.

    >>> share(1, 4), share(0, 0, "no turns").reason
    (Measured(value=0.25, reason='', amounts=(1, 4)), 'no turns')
    """
    return Measured(part / whole, amounts=(part, whole)) if whole else Measured(None, reason)
