"""Drawings for the HTML report as data for its template: plain SVG that follows the page's colours.

Coordinates are rounded to a tenth, so that the same session gives the same bytes everywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from operator import add
from typing import Any

from compactctl.model import Tier
from compactctl.reports._notices import Notice
from compactctl.reports._stored import StoredSession
from compactctl.reports._timeline import Point
from compactctl.reports._words import percent, tokens

WIDTH = 960
LEFT, RIGHT, TOP, BOTTOM = 48, 84, 14, 250
STRIP, STRIP_HEIGHT = 262, 16
THRESHOLDS = ("warn_threshold", "soft_threshold", "full_threshold", "emergency_threshold")
_LETTERS = " wsFE"
MOST_PARTS = 7


@dataclass(frozen=True, slots=True)
class Box:
    """A rectangle with its words: a band, a hover column or a run of turns at one tier."""

    x: float
    y: float
    width: float
    height: float
    tier: str
    words: str
    letter: str = ""
    link: str = ""


@dataclass(frozen=True, slots=True)
class Line:
    """A curve: the points as SVG wants them, the kind that styles it and its name in the legend."""

    points: str
    kind: str
    name: str


@dataclass(frozen=True, slots=True)
class Tick:
    """A label at a place of an axis; ``tier`` where it names a band."""

    at: float
    words: str
    tier: str = ""


@dataclass(frozen=True, slots=True)
class Drawing:
    """All that the template puts into one SVG."""

    lines: tuple[Line, ...]
    bands: tuple[Box, ...]
    columns: tuple[Box, ...]
    marks: tuple[Box, ...]
    rows: tuple[Tick, ...]
    turns: tuple[Tick, ...]
    full: float | None = None
    names: tuple[Tick, ...] = ()


def timeline(
    session: Mapping[str, Any], detail: StoredSession, points: Sequence[Point], notices: Sequence[Notice], prefix: str
) -> Drawing | None:
    """Draw occupancy over turns with tier bands, or None where the run holds no turns or no window.

    ``points`` are those of the timeline to draw; ``prefix`` and the number of a notice make the address to which its
    mark links.
    """
    window: int | None = session["window"]
    if not points or not window:
        return None
    values = [v for p in points for v in (p.before, p.tokens, p.real, p.recorded) if v is not None]
    top = max(1.0, max(values) / window) * 1.04
    place = _across(points)

    def up(share: float) -> float:
        return round(BOTTOM - share / top * (BOTTOM - TOP), 1)

    lines = [_line(points, place, up, window, lambda p: p.before, "given", "given to the compactor, decision tokens")]
    lines.append(_line(points, place, up, window, lambda p: p.tokens, "sent", "sent, decision tokens"))
    if any(p.real not in (None, p.tokens) for p in points):
        lines.append(_line(points, place, up, window, lambda p: p.real, "real", "sent, real tokens"))
    if any(p.recorded is not None for p in points):
        lines.append(_line(points, place, up, window, lambda p: p.recorded, "recorded", "recorded, real tokens"))
    columns = tuple(
        Box(left, TOP, right - left, BOTTOM - TOP, _tier(p.tier), _told(p, window))
        for p, left, right in _columns(points)
    )
    step = 0.25 if top < 2 else 0.5 if top < 4 else round(top / 5)
    shares = [i * step for i in range(int(top / step) + 1)]
    bands = _bands(detail, top, up)
    return Drawing(
        tuple(lines),
        tuple(bands),
        columns,
        tuple(_marks(points, notices, window, prefix)),
        tuple(Tick(up(share), f"{share:.0%}") for share in shares),
        tuple(Tick(place(turn), str(turn)) for turn in _turn_ticks(points)),
        up(1.0),
        tuple(_names(bands)),
    )


def composition(detail: StoredSession, points: Sequence[Point]) -> Drawing | None:
    """Draw what views were made of over turns as stacked areas; ``lines`` are areas, largest part first."""
    parts = detail.timeline.parts()
    if not points or not parts:
        return None
    shown = parts[:MOST_PARTS]
    place = _across(points)
    stacks = [[point.parts.get(part, 0) for point in points] for part in shown]
    if len(parts) > MOST_PARTS:
        stacks.append([sum(point.parts.get(part, 0) for part in parts[MOST_PARTS:]) for point in points])
        shown = [*shown, f"{len(parts) - MOST_PARTS} more"]
    # The upper edge of each area, which is the lower edge of the next.
    edges = list(accumulate(stacks, lambda below, stack: list(map(add, below, stack)), initial=[0] * len(points)))
    top = max(edges[-1]) * 1.04 or 1.0

    def up(value: float) -> float:
        return round(BOTTOM - value / top * (BOTTOM - TOP), 1)

    across = [place(point.first) for point in points]
    drawn = [[f"{x},{up(value)}" for x, value in zip(across, edge, strict=True)] for edge in edges]
    areas = [
        Line(" ".join([*above, *reversed(below)]), f"part{number}", part)
        for number, (part, (below, above)) in enumerate(zip(shown, pairwise(drawn), strict=True))
    ]
    columns = tuple(
        Box(left, TOP, right - left, BOTTOM - TOP, _tier(p.tier), _contents(p)) for p, left, right in _columns(points)
    )
    step = _round_step(top / 4)
    ticks = tuple(Tick(up(value), tokens(value)) for value in range(0, int(top) + 1, step))
    turns = tuple(Tick(place(turn), str(turn)) for turn in _turn_ticks(points))
    return Drawing(tuple(areas), (), columns, (), ticks, turns)


def _across(points: Sequence[Point]) -> Callable[[int], float]:
    first, span = points[0].first, max(1, points[-1].last - points[0].first)

    def place(turn: int) -> float:
        return round(LEFT + (turn - first) / span * (WIDTH - LEFT - RIGHT), 1)

    return place


def _line(
    points: Sequence[Point],
    place: Callable[[int], float],
    up: Callable[[float], float],
    window: int,
    value: Callable[[Point], int | None],
    kind: str,
    name: str,
) -> Line:
    known = [(point, number) for point in points if (number := value(point)) is not None]
    return Line(" ".join(f"{place(point.first)},{up(number / window)}" for point, number in known), kind, name)


def _bands(detail: StoredSession, top: float, up: Callable[[float], float]) -> list[Box]:
    options = detail.settings.get("options") or {}
    if not all(name in options for name in THRESHOLDS):
        return []
    marks = [min(top, float(options[name])) for name in THRESHOLDS]
    across = WIDTH - LEFT - RIGHT
    return [
        Box(LEFT, up(high), across, round(up(low) - up(high), 1), _tier(tier), tier.label)
        for tier, low, high in zip(list(Tier)[1:], marks, (*marks[1:], top), strict=True)
        if high > low
    ]


def _names(bands: Sequence[Box]) -> list[Tick]:
    """Give the names of the bands, beside their middles and apart from one another however thin the bands are."""
    places = spread([-(band.y + band.height / 2) for band in bands], 13)
    return [Tick(round(4 - place, 1), band.words, band.tier) for place, band in zip(places, bands, strict=True)]


def spread(places: Sequence[float], gap: float) -> list[float]:
    """Move rising places up, as little as it takes to keep them ``gap`` apart.

    >>> spread([1.0, 2.0, 9.0], 3.0)
    [1.0, 4.0, 9.0]
    """
    moved: list[float] = []
    for place in places:
        moved.append(max(place, moved[-1] + gap) if moved else place)
    return moved


def _columns(points: Sequence[Point]) -> list[tuple[Point, float, float]]:
    """Give each point with the left and right edge of the column that stands for it."""
    place = _across(points)
    middles = [place(point.first) for point in points]
    edges = [float(LEFT), *(round((a + b) / 2, 1) for a, b in pairwise(middles)), WIDTH - RIGHT]
    return [(point, edges[i], round(max(edges[i + 1], edges[i] + 0.1), 1)) for i, point in enumerate(points)]


def _marks(points: Sequence[Point], notices: Sequence[Notice], window: int, prefix: str) -> list[Box]:
    place = _across(points)
    width = (WIDTH - LEFT - RIGHT) / max(1, points[-1].last - points[0].first)
    marks = []
    for number, notice in enumerate(notices):
        if notice.first["turn"] is None:
            continue
        left = max(float(LEFT), round(place(notice.first["turn"]) - width / 2, 1))
        right = min(WIDTH - RIGHT, round(place(notice.last["turn"]) + width / 2, 1))
        tier = notice.first["tier"]
        occupied = percent(notice.first["tokens_before"] / window)
        words = f"{notice.head}, {occupied} of the window before"
        letter = _LETTERS[tier] if right - left > 10 else ""
        marks.append(
            Box(
                left,
                STRIP,
                max(2.0, round(right - left, 1)),
                STRIP_HEIGHT,
                _tier(tier),
                words,
                letter,
                f"{prefix}{number}",
            )
        )
    return marks


def _turn_ticks(points: Sequence[Point]) -> list[int]:
    first, last = points[0].first, points[-1].last
    return list(range(first, last + 1, _round_step((last - first) / 8)))


def _round_step(least: float) -> int:
    """Give the first of 1, 2, 5, 10, 20, 50, ... that is not below ``least``."""
    magnitude: int = 10 ** max(0, len(str(int(least))) - 1)
    return next(factor * magnitude for factor in (1, 2, 5, 10) if factor * magnitude >= least)


def _told(point: Point, window: int) -> str:
    words = f"{point.turns}: {Tier(point.tier).label}, {tokens(point.before)} given, {tokens(point.tokens)} sent"
    words += f" ({percent(point.tokens / window)})"
    if point.real is not None and point.real != point.tokens:
        words += f", {tokens(point.real)} real"
    if point.recorded is not None:
        words += f", {tokens(point.recorded)} recorded"
    return words + (", failed" if point.failed else "")


def _contents(point: Point) -> str:
    listed = sorted(point.parts.items(), key=lambda item: (-item[1], item[0]))
    return f"{point.turns}: " + ", ".join(f"{part} {tokens(number)}" for part, number in listed[:6])


def _tier(tier: int) -> str:
    return Tier(tier).name.lower()
