"""Replays of one session that went alike: what was worked out for one holds for the other.

Grids of thresholds have many such points, mostly next to each other, since most of what they change is never reached.
"""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Iterator
from dataclasses import replace
from itertools import chain

from compactctl.context.passing import Leap
from compactctl.context.view import View
from compactctl.measures._own import Change, own_changes
from compactctl.measures._spec import Trace
from compactctl.model import CompactionRecord
from compactctl.ports import Span

MOST = 4  # replays whose work is kept at a time


def with_known(trace: Trace) -> Trace:
    """Give the trace with what was worked out for one of the last few that went just as this one did.

    Everything in ``trace.cache`` follows from the spans, the base and the scale; what depends on options, prices or
    windows is not kept there.
    """
    known = trace.shared.setdefault("alike", {})
    key = _key(trace)
    cache = known[key] = known.pop(key, trace.cache)
    if len(known) > MOST:
        del known[next(iter(known))]
    return replace(trace, cache=cache)


def _key(trace: Trace) -> tuple[int, int, bytes]:
    """Give a hash of all that a replay did; bases and scales live as long as what is shared."""
    numbers = array("q")
    for span, changes in zip(trace.spans, own_changes(trace), strict=True):
        numbers.extend((span.turn, span.until, span.failed, span.quiet_tier))
        numbers.extend(_view(span.view))
        if span.before is not None:
            numbers.extend(_view(span.before))
            numbers.append(span.before.generation == span.view.generation)
        numbers.extend(_change(changes.first))
        numbers.extend(_leap(span))
        for record in span.records:
            numbers.extend(_record(record))
    return id(trace.base), id(trace.scale), hashlib.blake2b(numbers.tobytes(), digest_size=16).digest()


def _view(view: View) -> tuple[int, ...]:
    return view.lo, view.hi, view.own_length, view.weight, int(view.pristine)


def _change(change: Change | None) -> Iterator[int]:
    if change is None:
        return
    yield from (change.keep, change.tail, len(change.removed), len(change.come), len(change.made))
    for start, stop, item in change.come:
        yield from (start, stop, 0 if item is None else hash(item.message.content))
    for item in change.made:
        yield from (item.index, item.kind, hash(item.message.content))


def _leap(span: Span) -> Iterator[int]:
    leap: Leap | None = span.leap
    if leap is None:
        return
    # What passes lives as long as the base.
    yield from (id(leap.passing), leap.first, leap.last, leap.warned, leap.heights.base, leap.real_heights.base)
    yield from chain.from_iterable(leap.heights.stretches)


def _record(record: CompactionRecord) -> tuple[int, ...]:
    calls = tuple([(call.input_tokens, call.output_tokens, call.charged) for call in record.summaries])
    known = (calls, record.tokens_after_offload)
    return (
        record.tier,
        record.tokens_before,
        record.tokens_after,
        record.msgs_before,
        record.msgs_after,
        record.summarized,
        record.preserved_tail,
        record.dropped,
        hash((known, record.error, record.notes, record.summary_text)),
        hash(tuple([(anchor.type, anchor.content, anchor.origin) for anchor in record.anchors])),
        hash(tuple([entry.file_path for entry in record.offloaded])),
    )
