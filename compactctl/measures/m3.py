"""M3, cost with prompt cache: what is sent again at the cached price, and what each compaction makes new.

A turn finds in the cache what its view has in common with the one before, fixed part included. How long a provider
keeps a cache is not modelled: a pause between turns may cost more than this says. What the session itself cost by its
recorded usage stands beside it, each call at its own model's prices, cache writes at the price of the shortest time to
live.
"""

from __future__ import annotations

from collections.abc import Mapping

from compactctl.measures._cost import (
    amounts_of,
    input_cost,
    output_cost,
    recorded_cost,
    replay_cost,
    uncompacted_amounts,
)
from compactctl.measures._load import Cut, load_of
from compactctl.measures._spec import Direction, Key, Measured, MeasureSpec, Pool, Prices, Trace, share

COST, WHOLE, SHARE = "m3.cost_usd", "m3.uncompacted_cost_usd", "m3.cost_share_of_uncompacted"
RECORDED = "m3.recorded_cost_usd"
HITS, REWRITES, UNPAID = "m3.cache_hit_ratio", "m3.rewrites_per_100", "m3.unpaid_compactions"


def pays_back(cut: Cut, remaining: int, prices: Prices) -> bool:
    """Whether a compaction saves more, over the calls for which it lasts, than its broken cache costs.

    It does if remaining > (I / H) * (write - cached) / cached: I the tokens that must be written anew, H those that are
    no longer sent.

    >>> prices = Prices(input=10, output=50, cache_read=1, cache_write=11)
    >>> cut = Cut(turn=5, shared=100, previous=900, grown=1000, after=400, acted=True)
    >>> pays_back(cut, 5, prices), pays_back(cut, 6, prices)  # (300 / 600) * (11 - 1) / 1 = 5
    (False, True)
    """
    gone = cut.grown - cut.after
    if gone <= 0:
        return False
    anew = max(cut.after - cut.shared, 0)
    # Zero-priced cache reads save nothing ever; then only what fits counts, not the price.
    if prices.cached <= 0:
        return False
    return remaining > anew / gone * (prices.write - prices.cached) / prices.cached


def unpaid(trace: Trace) -> tuple[int, ...] | None:
    """Give the turns whose compaction never pays back in this session; None where no price is known.

    It saves at every call from there on, until the history is compacted afresh.
    """
    if trace.prices is None:
        return None
    found: list[int] = []
    end, later = trace.turns, None
    for cut in reversed(load_of(trace).cuts):
        if later is not None and later.afresh:
            end = later.turn
        if cut.acted and not pays_back(cut, end - cut.turn, trace.prices):
            found.append(cut.turn)
        later = cut
    return tuple(reversed(found))


def _compute(trace: Trace) -> Mapping[str, Measured]:
    load = load_of(trace)
    sent, cached = amounts_of(trace)
    turns = len(load.tokens)
    found = {
        HITS: share(cached, sent, "nothing was sent"),
        REWRITES: share(100 * len(load.cuts), turns, "no model call"),
    }
    prices = trace.prices
    if prices is None:
        reason = f"no price is known for the model {trace.session.model!r}; set prices in the settings"
        return found | dict.fromkeys((COST, WHOLE, SHARE, UNPAID, RECORDED), Measured(None, reason))
    cost = replay_cost(trace, prices)
    whole = input_cost(*uncompacted_amounts(trace), prices) + output_cost(trace, prices)
    return found | {
        COST: Measured(cost),
        WHOLE: Measured(whole),
        SHARE: share(cost, whole, "the session costs nothing"),
        UNPAID: Measured(len(unpaid(trace) or ())),
        RECORDED: recorded_cost(trace, prices),
    }


MEASURE = MeasureSpec(
    "m3",
    "cost with prompt cache",
    (
        Key(
            COST,
            "US dollars",
            Direction.LOWER,
            "prompts, replies and summarizer calls, with a cache that never expires",
        ),
        Key(WHOLE, "US dollars", Direction.NEUTRAL, "the same session without compaction"),
        Key(
            SHARE,
            "share",
            Direction.LOWER,
            "cost / that of the same session without compaction",
            Pool.SHARE,
        ),
        Key(
            RECORDED,
            "US dollars",
            Direction.NEUTRAL,
            "what the session cost by its recorded usage, each call at its own model's price",
        ),
        Key(
            HITS,
            "share",
            Direction.HIGHER,
            "tokens sent that the prompt cache holds / tokens sent",
            Pool.SHARE,
        ),
        Key(REWRITES, "a 100 calls", Direction.LOWER, "calls whose view does not begin with the one before"),
        Key(UNPAID, "compactions", Direction.LOWER, "compactions whose broken cache costs more than they ever save"),
    ),
    _compute,
)
