"""M4, summarizer burden: how often a model is asked for a summary, how much it reads, and what it need not have read.

Tokens are real ones: as charged, or what the compactor's own count comes to by the density of its meter.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from compactctl.context.view import View
from compactctl.measures._cost import amounts_of, asked_of, replay_cost, summarizer_cost
from compactctl.measures._own import Change, own_changes
from compactctl.measures._spec import Direction, Key, Measured, MeasureSpec, Pool, Trace, share
from compactctl.model import CompactionRecord
from compactctl.ports import Span

CALLS, RATE, READ, WRITTEN = (
    "m4.summarizer_calls",
    "m4.calls_per_100_turns",
    "m4.summary_input_tokens",
    "m4.summary_output_tokens",
)
READ_SHARE, COST_SHARE, LARGEST = "m4.input_share", "m4.cost_share", "m4.largest_input"
AGAIN, AVOIDABLE = "m4.resummarized_messages", "m4.avoidable_calls"
OFTEN = 2


def summaries(trace: Trace) -> list[tuple[Span, CompactionRecord]]:
    """Give the records that hold a summary, with their spans; found once."""
    known = trace.cache.get("m4 summaries")
    if not isinstance(known, list):
        known = trace.cache["m4 summaries"] = [
            (span, record) for span in trace.spans for record in span.records if record.summaries
        ]
    return known


def summarised_again(ranges: Iterable[tuple[int, int]]) -> int:
    """Count the messages that are in more than two of some half open ranges.

    >>> summarised_again([(0, 4), (1, 4), (3, 9)])
    1
    """
    steps: Counter[int] = Counter()
    for start, stop in ranges:
        steps[start] += 1
        steps[stop] -= 1
    found = level = before = 0
    for at, step in sorted(steps.items()):
        if level > OFTEN:
            found += at - before
        level, before = level + step, at
    return found


def summary_level(trace: Trace) -> float | None:
    """Give the decision tokens at which the compactor begins to summarise: its threshold, else the least seen."""
    for name in ("soft_threshold", "threshold_ratio"):
        threshold = trace.options.get(name)
        if isinstance(threshold, int | float) and trace.window > 0:
            return threshold * trace.window
    return min((record.tokens_before for _, record in summaries(trace)), default=None)


def avoidable(trace: Trace) -> tuple[int, ...]:
    """Give the turns whose summary was not needed: what was offloaded before it was enough by itself."""
    level = summary_level(trace)
    return tuple(
        span.turn
        for span, record in summaries(trace)
        if level is not None and record.tokens_after_offload is not None and record.tokens_after_offload < level
    )


def largest_input(trace: Trace) -> tuple[float, int] | None:
    """Give the largest summarizer request with its cap in real tokens, and its turn; None without requests."""
    found = max(asked_of(trace), key=lambda call: (call.read, -call.turn), default=None)
    return None if found is None else (found.read + trace.summary_tokens, found.turn)


def _again(trace: Trace) -> int:
    """Count the messages that were summarised more than twice; worked out once."""
    known = trace.cache.get("m4 again")
    if not isinstance(known, int):
        known = trace.cache["m4 again"] = summarised_again(_ranges(trace))
    return known


def _ranges(trace: Trace) -> Iterator[tuple[int, int]]:
    """Give the recorded messages that each summary replaced, as ranges of indices."""
    spans = trace.spans
    sent: dict[int, tuple[View, Change | None]] = {
        span.turn: (last.last_view, change)
        for last, span, (change, _) in zip(spans, spans[1:], own_changes(trace)[1:], strict=False)
    }
    for span, record in summaries(trace):
        view = span.before
        if view is None or not record.summarized or record.error:
            continue
        start = 1 if view.has_system else 0
        stop = start + record.summarized
        own = view.own_length
        last, change = sent.get(span.turn, (view, None))
        is_sent = last.own_buffer is view.own_buffer and last.own_length == own
        yield from _own_ranges(view, change if is_sent else None, start, min(stop, own))
        if stop > own:
            yield view.lo + max(start - own, 0), min(view.lo + stop - own, view.hi)


def _own_ranges(view: View, change: Change | None, start: int, stop: int) -> Iterator[tuple[int, int]]:
    """Give the recorded messages among the own items of a view from ``start`` on, as ranges of indices.

    ``change`` is what became of the own items, None where that is not known.
    """
    if change is None or change.keep != start or len(change.removed) < stop - start:
        yield from ((item.index, item.index + 1) for item in view.own_buffer[start:stop] if item.index >= 0)
        return
    # As nearly always, what was summarised is gone, and its stretches are known.
    left = stop - start
    for part in change.gone:
        if part.item is None and left > 0:
            yield part.start, min(part.stop, part.start + left)
        left -= part.size


def _compute(trace: Trace) -> Mapping[str, Measured]:
    records = [record for _, record in summaries(trace)]
    asked = asked_of(trace)
    read, written = sum(call.read for call in asked), sum(call.written for call in asked)
    refused = any(record.summary_failed for span in trace.spans for record in span.records)
    none = Measured(None, "every summary that was asked for failed" if refused else "the summarizer was never asked")
    found = {
        CALLS: Measured(len(asked)),
        RATE: share(100 * len(asked), trace.turns, "no model call"),
        READ: Measured(round(read)),
        WRITTEN: Measured(round(written)),
        READ_SHARE: share(read, amounts_of(trace).sent, "nothing was sent"),
    }
    prices = trace.prices
    if prices is None:
        found[COST_SHARE] = Measured(None, f"no price is known for the model {trace.session.model!r}")
    else:
        found[COST_SHARE] = share(
            summarizer_cost(trace, prices), replay_cost(trace, prices), "the session costs nothing"
        )
    largest = largest_input(trace)
    if largest is None:
        found[LARGEST] = none
    elif trace.window > 0:
        found[LARGEST] = Measured(largest[0] / trace.window)
    else:
        found[LARGEST] = Measured(None, "no window is known")
    found[AGAIN] = Measured(_again(trace)) if records else none
    known = any(record.tokens_after_offload is not None for record in records)
    if not records:
        found[AVOIDABLE] = none
    elif known:
        found[AVOIDABLE] = Measured(len(avoidable(trace)))
    else:
        found[AVOIDABLE] = Measured(None, "the compactor offloads nothing before it summarises")
    return found


MEASURE = MeasureSpec(
    "m4",
    "summarizer burden",
    (
        Key(CALLS, "calls", Direction.LOWER, "summaries that were asked for and came"),
        Key(RATE, "a 100 turns", Direction.LOWER, "summarizer calls for each hundred model calls"),
        Key(READ, "tokens", Direction.LOWER, "real tokens that the summarizer read"),
        Key(WRITTEN, "tokens", Direction.NEUTRAL, "real tokens that the summarizer wrote"),
        Key(READ_SHARE, "share", Direction.LOWER, "tokens that the summarizer read / tokens sent to the model"),
        Key(
            COST_SHARE,
            "share",
            Direction.LOWER,
            "cost of the summarizer / cost of the whole replay",
            Pool.SHARE,
        ),
        Key(
            LARGEST, "share of the window", Direction.LOWER, "largest summarizer request and its cap / window", Pool.MAX
        ),
        Key(AGAIN, "messages", Direction.LOWER, "recorded messages that were summarised more than twice"),
        Key(AVOIDABLE, "calls", Direction.LOWER, "summaries that the offloads before them had made unnecessary"),
    ),
    _compute,
)
