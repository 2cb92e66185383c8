"""M1, window safety: does what is sent fit the window, and does the compactor's own count tell the truth?"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from statistics import median

from compactctl.context.counting import MeterContext
from compactctl.measures._load import load_of
from compactctl.measures._spec import Direction, Key, Measured, MeasureSpec, Pool, Trace, share

PEAK, OVERSHOOT, RATIO, DISAGREE = (
    "m1.peak_occupancy",
    "m1.overshoot_turns",
    "m1.estimate_ratio",
    "m1.tier_disagreement",
)
_THRESHOLDS = ("warn_threshold", "soft_threshold", "full_threshold", "emergency_threshold")


def window_safety(tokens: list[int], window: int, reserve: int) -> tuple[float, int]:
    """Give the peak occupancy and how many turns, with the reserve, exceed the window.

    >>> window_safety([50, 90, 110], window=100, reserve=20)  # 90 + 20 and 110 + 20 do not fit
    (1.1, 2)
    """
    return max(tokens) / window, sum(1 for count in tokens if count + reserve > window)


def estimate_ratio(real: list[int], decision: list[int]) -> float | None:
    """Give the median of real / decision tokens over the turns at which the compactor counted anything.

    >>> estimate_ratio([30, 60, 90], [10, 30, 0])  # 3.0 and 2.0; the third says nothing
    2.5
    """
    ratios = [r / d for r, d in zip(real, decision, strict=True) if d > 0]
    return median(ratios) if ratios else None


def _compute(trace: Trace) -> Mapping[str, Measured]:
    real = load_of(trace).tokens
    if not real:
        nothing = Measured(None, "no model call")
        return dict.fromkeys((PEAK, OVERSHOOT, RATIO, DISAGREE), nothing)
    # Where real tokens are counted as the compactor counts, there is nothing to compare.
    decision = real if trace.scale.prefix is trace.base.prefix else _decision_tokens(trace)
    found: dict[str, Measured] = {}
    if trace.window > 0:
        peak, over = window_safety(real, trace.window, trace.reserve)
        found[PEAK], found[OVERSHOOT] = Measured(peak), Measured(over)
    else:
        found[PEAK] = found[OVERSHOOT] = Measured(None, "no window is known")
    ratio = estimate_ratio(real, decision) if decision is not real else 1.0 if any(real) else None
    found[RATIO] = Measured(ratio, "" if ratio is not None else "the compactor counted no tokens")
    found[DISAGREE] = _disagreement(trace, real, decision)
    return found


def _decision_tokens(trace: Trace) -> list[int]:
    base = trace.base
    prefix, calls, meter = base.prefix, base.calls, base.meter
    found: list[int] = []
    for span in trace.spans:
        view = span.view
        fixed = view.weight - prefix[view.hi]
        found.append(meter.tokens(fixed + prefix[view.hi], MeterContext(span.turn, view.pristine)))
        if span.leap is not None:
            found += span.leap.heights.tokens(meter)
        elif span.until > span.turn + 1:
            found += [
                meter.tokens(fixed + prefix[calls[turn]], MeterContext(turn, view.pristine))
                for turn in range(span.turn + 1, span.until)
            ]
    return found


def _disagreement(trace: Trace, real: list[int], decision: list[int]) -> Measured:
    limits = [trace.options.get(name) for name in _THRESHOLDS]
    levels = [limit * trace.window for limit in limits if isinstance(limit, int | float)]
    if len(levels) < len(_THRESHOLDS) or trace.window <= 0:
        return Measured(None, "the compactor has no tiers by occupancy")
    levels.sort()
    if decision is real:
        return Measured(0.0)
    pairs = zip(real, decision, strict=True)
    return share(sum(bisect_right(levels, one) != bisect_right(levels, two) for one, two in pairs), len(real))


MEASURE = MeasureSpec(
    "m1",
    "window safety",
    (
        Key(PEAK, "share of the window", Direction.LOWER, "largest view in real tokens / window", Pool.MAX),
        Key(OVERSHOOT, "turns", Direction.LOWER, "turns whose real tokens + reserve exceed the window"),
        Key(RATIO, "ratio", Direction.NEUTRAL, "median over the turns of real / decision tokens; 1 is a true estimate"),
        Key(DISAGREE, "share of turns", Direction.LOWER, "turns at which real tokens would give another tier"),
    ),
    _compute,
)
