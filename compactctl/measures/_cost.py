"""What prompts, replies and summaries cost, with the provider's prompt cache."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from compactctl.context.counting import MeterContext
from compactctl.measures._load import Cut, load_of
from compactctl.measures._spec import Measured, Prices, Trace
from compactctl.model import ASSISTANT, Message

MILLION = 1_000_000


def input_cost(sent: int, cached: int, prices: Prices) -> float:
    """Give what tokens that were sent cost in US dollars: the cached of them cheap, the new dear.

    >>> prices = Prices(input=10, output=50, cache_read=1, cache_write=12)
    >>> round(input_cost(2500, 1000, prices) * MILLION)  # 1000 * 1 + 1500 * 12
    19000
    """
    return (cached * prices.cached + (sent - cached) * prices.write) / MILLION


def cached_tokens(tokens: list[int], cuts: Iterable[Cut]) -> int:
    """Give how many of the tokens sent were sent the turn before already, at the same place.

    >>> cut = Cut(turn=2, shared=100, previous=1500, grown=1600, after=400, acted=True)
    >>> cached_tokens([1000, 1500, 400], [cut])  # 1000 at turn 1, 100 at turn 2
    1100
    """
    repeated = sum(map(min, tokens, tokens[1:]))
    return repeated - sum(max(min(cut.previous, cut.after) - cut.shared, 0) for cut in cuts)


class Amounts(NamedTuple):
    """Tokens that a replay sent, and how many of them the prompt cache held."""

    sent: int
    cached: int


def amounts_of(trace: Trace) -> Amounts:
    """Give what a replay sends; worked out once for all measures."""
    known = trace.cache.get("amounts")
    if not isinstance(known, Amounts):
        load = load_of(trace)
        known = trace.cache["amounts"] = Amounts(sum(load.tokens), cached_tokens(load.tokens, load.cuts))
    return known


def uncompacted_amounts(trace: Trace) -> Amounts:
    """Give what would be sent without any compaction; worked out once for all replays with this bound."""
    return amounts_of(trace.bound or trace)


def replay_cost(trace: Trace, prices: Prices) -> float:
    """Give what a whole replay costs in US dollars: prompts, replies and summarizer calls."""
    return input_cost(*amounts_of(trace), prices) + output_cost(trace, prices) + summarizer_cost(trace, prices)


def recorded_cost(trace: Trace, prices: Prices) -> Measured:
    """Give what the session's own calls cost by their recorded usage, each at the prices of its own model.

    None where a call lacks its usage, or its model a price.
    """
    known = trace.shared.get("recorded usage")
    if known is None:
        known = trace.shared["recorded usage"] = _recorded_usage(trace)
    if isinstance(known, str):
        return Measured(None, known)
    total = 0.0
    for model, (calls, plain, read, write, output) in known.items():
        own = prices if model in ("", trace.session.model) else trace.prices_of(model)
        if own is None:
            return Measured(
                None, f"several models, and no price is known for {model!r}, which made {calls:,} of the calls"
            )
        total += read * own.cached + write * own.write + output * own.output + plain * own.input
    return Measured(total / MILLION)


def _recorded_usage(trace: Trace) -> dict[str, tuple[int, int, int, int, int]] | str:
    """Sum up by model: calls, plain input, read from the cache, written to it, output; a text says what is missing."""
    calls = [message for message in trace.session.messages if message.role == ASSISTANT]
    known = [(message.model or "", message.usage) for message in calls if message.usage is not None]
    if not calls or len(known) < len(calls):
        return f"{len(calls) - len(known)} of {len(calls)} model calls recorded no usage"
    if any(usage.cache_read is None and usage.cache_write is None for _, usage in known):
        return "the recorded usage does not say what was cached"
    sums: dict[str, tuple[int, int, int, int, int]] = {}
    for model, usage in known:
        read, write = usage.cache_read or 0, usage.cache_write or 0
        number, plain, reads, writes, output = sums.get(model, (0, 0, 0, 0, 0))
        plain += max(usage.prompt - read - write, 0)
        sums[model] = (number + 1, plain, reads + read, writes + write, output + usage.output)
    return sums


def output_cost(trace: Trace, prices: Prices) -> float:
    """Give what the replies cost in US dollars."""
    return _output_tokens(trace) * prices.output / MILLION


def density(trace: Trace) -> float:
    """Give the real tokens for each decision token, over the text of the whole session without its fixed part."""
    base, scale, context = trace.base, trace.scale, MeterContext(0, False)
    counted, real = (
        meter.tokens(prefix[-1], context) - meter.tokens(overhead, context)
        for meter, prefix, overhead in (
            (base.meter, base.prefix, base.overhead),
            (scale.meter, scale.prefix, scale.overhead),
        )
    )
    return real / counted if counted > 0 else 1.0


class Asked(NamedTuple):
    """A summarizer's call at a turn, in real tokens."""

    turn: int
    read: float
    written: float


def asked_of(trace: Trace) -> list[Asked]:
    """Give the summarizer's calls that brought a summary, in order; found once.

    What was charged is in real tokens already; a compactor's own count becomes real by the density of its meter.
    """
    known = trace.cache.get("asked")
    if not isinstance(known, list):
        by = density(trace)
        known = trace.cache["asked"] = [
            Asked(span.turn, call.input_tokens * share, call.output_tokens * share)
            for span in trace.spans
            for record in span.records
            for call in record.summaries
            for share in (1.0 if call.charged else by,)
        ]
    return known


def summarizer_cost(trace: Trace, prices: Prices) -> float:
    """Give what the summarizer's calls cost in US dollars, none of them cached."""
    return sum(call.read * prices.input + call.written * prices.output for call in asked_of(trace)) / MILLION


def _output_tokens(trace: Trace) -> int:
    """Give the tokens of all replies: recorded, or what their text weighs under the real meter."""
    known = trace.shared.get("output tokens")
    if not isinstance(known, int):
        messages, scale = trace.base.messages, trace.scale
        known = trace.shared["output tokens"] = sum(
            _reply(messages[index], scale.prefix[index + 1] - scale.prefix[index], trace) for index in trace.base.calls
        )
    return known


def _reply(message: Message, weight: int, trace: Trace) -> int:
    context = MeterContext(0, False)
    meter = trace.scale.meter
    estimate = meter.tokens(weight, context) - meter.tokens(0, context)
    # Some versions record the reply's tokens before it was written: then its text is the better witness.
    return max(message.usage.output if message.usage is not None else 0, estimate)
