"""M6, future-reference recall: when the model named something again, could it still see where it had read it?

References are found as in ``_facts.py``. For every reply, each reference that occurred before, but not within the last
8,000 real tokens of the history, is looked for in the view of that turn. Keyword survival overstates what a model
recalls: a name that is still there does not say that what was known about it is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from compactctl.context.counting import MeterContext
from compactctl.context.scale import Scale
from compactctl.measures._facts import facts_of
from compactctl.measures._own import own_changes
from compactctl.measures._sight import Found, Sight
from compactctl.measures._signs import Queries, Signs, placed_in
from compactctl.measures._spec import Direction, Key, Measured, MeasureSpec, Pool, Trace, share

DISTANCE = 8_000  # D of the reference: real tokens that must lie between a reference and its use
CAVEAT = "keyword survival overstates what a model recalls"
NUMBER, VISIBLE, REACHABLE = "m6.references", "m6.recall_visible", "m6.recall_reachable"
ORPHANED, LOST = "m6.orphaned", "m6.lost"


def recall(counts: Sequence[int]) -> tuple[Measured, Measured]:
    """Give the visible and the reachable recall of counts in the order visible, reachable, orphaned, lost.

    >>> [found.value for found in recall([6, 2, 1, 1])]
    [0.6, 0.8]
    """
    total = sum(counts)
    return share(counts[Found.VISIBLE], total), share(counts[Found.VISIBLE] + counts[Found.REACHABLE], total)


def recall_counts(trace: Trace) -> list[int]:
    """Count the references of a replay: visible, reachable in a file that the view names, orphaned on disk, lost."""
    known = trace.cache.get("m6 counts")
    if not isinstance(known, list):
        known = trace.cache["m6 counts"] = _count(trace)
    return known


def _queries(trace: Trace) -> Queries:
    scale, base = trace.scale, trace.base
    key = f"m6 queries {scale.meter.name} {base.offset} {len(base.messages)} {scale.prefix[-1]}"
    known = trace.shared.get(key)
    if not isinstance(known, Queries):
        known = trace.shared[key] = Queries(facts_of(trace).of, base.calls, _limits(scale, base.calls))
    return known


def _signs(trace: Trace, queries: Queries) -> Signs:
    """Give the signs of a replay; replays of one session that offload alike share them."""
    key = f"m6 signs {trace.base.offset} {len(trace.base.messages)} {id(queries)}"
    placed = placed_in(own_changes(trace))
    known = trace.shared.get(key)
    if not isinstance(known, Signs) or not known.cover(placed):
        joined = known.joined(placed) if isinstance(known, Signs) else placed
        # Another replay will place what this one did not come to.
        joined = next(filter(None, map(joined.within, trace.base.placeholder_sets)), joined)
        known = trace.shared[key] = Signs(queries, trace.base.calls, joined, facts_of(trace))
    return known


def _limits(scale: Scale, calls: Sequence[int]) -> list[int]:
    """For each turn, give the first message after which no more than D tokens come before the turn's call."""
    prefix, tokens, context = scale.prefix, scale.meter.tokens, MeterContext(0, False)
    limits: list[int] = []
    at = 0
    for call in calls:
        now = tokens(prefix[call], context)
        while at < call and now - tokens(prefix[at + 1], context) > DISTANCE:
            at += 1
        limits.append(at)
    return limits


def _count(trace: Trace) -> list[int]:
    queries = _queries(trace)
    sight = Sight(trace, queries, _signs(trace, queries))
    for span, (change, _) in zip(trace.spans, own_changes(trace), strict=True):
        sight.move(span, change)
        if span.leap is not None:
            sight.leap(span.leap)
        sight.grow(span.until)
    return sight.finish()


def _compute(trace: Trace) -> Mapping[str, Measured]:
    counts = recall_counts(trace)
    total = sum(counts)
    if not total:
        reason = f"no reply names anything that was last read more than {DISTANCE:,} tokens before"
        return {NUMBER: Measured(0)} | dict.fromkeys((VISIBLE, REACHABLE, ORPHANED, LOST), Measured(None, reason))
    visible, reachable = recall(counts)
    return {
        NUMBER: Measured(total),
        VISIBLE: visible,
        REACHABLE: reachable,
        ORPHANED: share(counts[Found.ORPHANED], total),
        LOST: share(counts[Found.LOST], total),
    }


_D = f"D = {DISTANCE:,} tokens"

MEASURE = MeasureSpec(
    "m6",
    f"future-reference recall ({_D}; {CAVEAT})",
    (
        Key(
            NUMBER, "references", Direction.NEUTRAL, f"what replies named again that was last read {_D} before or more"
        ),
        Key(VISIBLE, "share", Direction.HIGHER, "of those, what the view of the turn shows", Pool.SHARE),
        Key(REACHABLE, "share", Direction.HIGHER, "of those, what the view shows or names the file of", Pool.SHARE),
        Key(ORPHANED, "share", Direction.LOWER, "of those, what is in a file that the view does not name", Pool.SHARE),
        Key(LOST, "share", Direction.LOWER, "of those, what is neither in the view nor in a file", Pool.SHARE),
    ),
    _compute,
)
