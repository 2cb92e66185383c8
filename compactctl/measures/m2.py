"""M2, context load: how much is sent over the whole session, in real tokens."""

from __future__ import annotations

from collections.abc import Mapping

from compactctl.measures._cost import amounts_of, uncompacted_amounts
from compactctl.measures._load import load_of
from compactctl.measures._spec import Direction, Key, Measured, MeasureSpec, Pool, Trace, share

SENT, MEAN, SHARE = "m2.tokens_sent", "m2.mean_occupancy", "m2.share_of_uncompacted"


def context_load(tokens: list[int], window: int, whole: list[int]) -> tuple[int, float, float]:
    """Give the tokens sent, the mean occupancy, and the sent as a share of what no compaction would send.

    >>> context_load([10, 20, 15], window=100, whole=[10, 20, 30])
    (45, 0.15, 0.75)
    """
    sent = sum(tokens)
    return sent, sent / len(tokens) / window, sent / sum(whole)


def _compute(trace: Trace) -> Mapping[str, Measured]:
    tokens = load_of(trace).tokens
    sent, whole = amounts_of(trace).sent, uncompacted_amounts(trace).sent
    mean = (
        share(sent, len(tokens) * trace.window, "no model call")
        if trace.window > 0
        else Measured(None, "no window is known")
    )
    return {SENT: Measured(sent), MEAN: mean, SHARE: share(sent, whole, "no model call")}


MEASURE = MeasureSpec(
    "m2",
    "context load",
    (
        Key(SENT, "tokens", Direction.LOWER, "real tokens sent over all turns (the area under the curve)"),
        Key(MEAN, "share of the window", Direction.NEUTRAL, "mean occupancy in real tokens"),
        Key(
            SHARE,
            "share",
            Direction.LOWER,
            "tokens sent / those of the same session without compaction",
            Pool.SHARE,
        ),
    ),
    _compute,
)
