"""What prompts, replies and summaries cost, with the provider's prompt cache."""

from __future__ import annotations

from collections.abc import Iterable

from compactctl.context.counting import MeterContext
from compactctl.measures._load import Cut, load_of
from compactctl.measures._spec import Measured, Prices, Trace
from compactctl.model import ASSISTANT, Message

MILLION = 1_000_000


def input_cost(tokens: list[int], cuts: Iterable[Cut], prices: Prices) -> float:
    """Give what the prompts of all turns cost in US dollars: the cached part cheap, the new part dear.

    >>> prices = Prices(input=10, output=50, cache_read=1, cache_write=12)
    >>> cost = input_cost([1000, 1500], [], prices)  # 1000 new; 1000 cached and 500 new
    >>> round(cost * MILLION)  # 1000 * 12 + 1000 * 1 + 500 * 12
    19000
    """
    cached = cached_tokens(tokens, cuts)
    return (cached * prices.cached + (sum(tokens) - cached) * prices.write) / MILLION


def cached_tokens(tokens: list[int], cuts: Iterable[Cut]) -> int:
    """Give how many of the tokens sent were sent the turn before already, at the same place.

    >>> cut = Cut(turn=2, shared=100, previous=1500, grown=1600, after=400, acted=True)
    >>> cached_tokens([1000, 1500, 400], [cut])  # 1000 at turn 1, 100 at turn 2
    1100
    """
    repeated = sum(map(min, tokens, tokens[1:]))
    return repeated - sum(max(min(cut.previous, cut.after) - cut.shared, 0) for cut in cuts)


def replay_cost(trace: Trace, prices: Prices) -> float:
    """Give what a whole replay costs in US dollars: prompts, replies and summarizer calls."""
    load = load_of(trace)
    return input_cost(load.tokens, load.cuts, prices) + output_cost(trace, prices) + summarizer_cost(trace, prices)


def recorded_cost(trace: Trace, prices: Prices) -> Measured:
    """Give what the session's own calls cost by their recorded usage; None where one of them lacks it."""
    usages = [message.usage for message in trace.session.messages if message.role == ASSISTANT]
    known = [usage for usage in usages if usage is not None]
    if not usages or len(known) < len(usages):
        return Measured(None, f"{len(usages) - len(known)} of {len(usages)} model calls recorded no usage")
    total = 0.0
    for usage in known:
        if usage.cache_read is None and usage.cache_write is None:
            return Measured(None, "the recorded usage does not say what was cached")
        read, write = usage.cache_read or 0, usage.cache_write or 0
        total += read * prices.cached + write * prices.write + usage.output * prices.output
        total += max(usage.prompt - read - write, 0) * prices.input
    return Measured(total / MILLION)


def output_cost(trace: Trace, prices: Prices) -> float:
    """Give what the replies cost in US dollars."""
    return _output_tokens(trace) * prices.output / MILLION


def summarizer_cost(trace: Trace, prices: Prices) -> float:
    """Give what the summarizer's calls cost in US dollars, none of them cached."""
    total = 0.0
    for span in trace.spans:
        for record in span.records:
            if record.summary_input_tokens is not None:
                total += record.summary_input_tokens * prices.input
                total += (record.summary_output_tokens or 0) * prices.output
    return total / MILLION


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
