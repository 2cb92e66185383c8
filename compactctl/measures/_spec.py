"""What a measure is: a pure function of one replay, with the keys that it fills."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from compactctl.context.scale import Scale
from compactctl.context.view import Base
from compactctl.model import Session
from compactctl.ports import Span


class Direction(StrEnum):
    """Which way a figure is better."""

    LOWER = "lower"
    HIGHER = "higher"
    NEUTRAL = "neutral"


@dataclass(frozen=True, slots=True)
class Key:
    """One figure of a measure: its key (``m1.overshoot_turns``), unit, direction and meaning."""

    key: str
    unit: str
    direction: Direction
    help: str


@dataclass(frozen=True, slots=True)
class Measured:
    """A figure, or None and the reason why there is none. None is not zero and passes no budget."""

    value: float | int | None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Prices:
    """US dollars for a million tokens, with where and when they are from."""

    input: float
    output: float
    cache_read: float | None
    cache_write: float | None
    source: str = ""
    date: str = ""


@dataclass(frozen=True, slots=True)
class Trace:
    """One replay as the measures see it.

    ``spans`` cover every turn in order. ``scale`` counts real tokens; ``window`` is in real tokens, 0 for unknown.
    ``shared`` belongs to the session and is the same for all its replays: what needs the text is found once and kept
    there under the measure's own key.
    """

    session: Session
    base: Base
    spans: tuple[Span, ...]
    scale: Scale
    window: int
    reserve: int = 0
    prices: Prices | None = None
    files: Mapping[str, str] = field(default_factory=dict)
    shared: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class MeasureSpec:
    """A measure plug-in: ``compute`` fills each declared key; a key that it leaves out is None without a reason."""

    name: str
    title: str
    keys: tuple[Key, ...]
    compute: Callable[[Trace], Mapping[str, Measured]]
