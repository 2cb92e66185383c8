"""Numbers as people read them, the same in every report."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence


def tokens(count: float | None) -> str:
    """Give a token count in short (harness9.md 1.2).

    >>> tokens(999), tokens(45_200), tokens(1_250_000), tokens(None)
    ('999', '45.2K', '1.2M', 'n/a')
    """
    if count is None:
        return "n/a"
    if count >= 1_000_000:
        return f"{count / 1_000_000:.1f}M"
    return f"{count / 1000:.1f}K" if count >= 1000 else f"{count:.0f}"


def size(count: int) -> str:
    """Give a number of bytes in short, in units of 1000.

    >>> size(900), size(42_300), size(3_100_000)
    ('900B', '42KB', '3.1MB')
    """
    if count >= 1_000_000:
        return f"{count / 1_000_000:.1f}MB"
    return f"{count / 1000:.0f}KB" if count >= 1000 else f"{count}B"


def percent(share: float | None, digits: int = 0) -> str:
    """Give a share in percent; what is unknown is ``n/a``.

    >>> percent(0.8214), percent(None), percent(-0.05)
    ('82%', 'n/a', '-5%')
    """
    return "n/a" if share is None else f"{share * 100:.{digits}f}%"


def tiers(counts: Mapping[str, int]) -> str:
    """Give counts by tier in one cell, tiers that never came left out.

    >>> tiers({"warn": 3, "soft": 0, "full": 1, "emergency": 0})
    '3 Warn, 1 Full'
    """
    return ", ".join(f"{n} {name.capitalize()}" for name, n in counts.items() if n) or "none"


def blocks(values: Sequence[int | None], top: int) -> str:
    """Give figures as a row of blocks on a scale from 0 to ``top``; what is unknown is a space.

    >>> blocks([0, 4, 8, None], 8)
    '▁▅█ '
    """
    heights = "▁▂▃▄▅▆▇█"
    return "".join(" " if v is None else heights[min(7, v * 8 // top) if top else 0] for v in values)


SCALE = "a full block is the window or more"


def scale_of(window: int | None, values: Iterable[int | None]) -> int:
    """Give where the scale of tokens over turns ends: at the window, so that lines of different runs are alike.

    What is above it fills its block. Where no window is known the scale ends at the largest value.

    >>> scale_of(200, [50, 320]), scale_of(None, [50, None, 320])
    (200, 320)
    """
    return window or max((value for value in values if value is not None), default=0)
