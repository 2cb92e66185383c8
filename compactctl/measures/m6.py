"""M6, future-reference recall: when the model named something again, could it still see where it had read it?

References are found as in ``_facts.py``. For every reply, each reference that occurred before, but not within the last
8,000 real tokens of the history, is looked for in the view of that turn. Keyword survival overstates what a model
recalls: a name that is still there does not say that what was known about it is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import compress, filterfalse

from compactctl.context.counting import MeterContext
from compactctl.context.scale import Scale
from compactctl.measures._facts import facts_of
from compactctl.measures._own import own_changes
from compactctl.measures._sight import Found, Queries, Sight
from compactctl.measures._spec import Direction, Key, Measured, MeasureSpec, Trace, share

DISTANCE = 8_000  # D of the reference: real tokens that must lie between a reference and its use
CAVEAT = "keyword survival overstates what a model recalls"
NUMBER, VISIBLE, REACHABLE = "m6.references", "m6.recall_visible", "m6.recall_reachable"
ORPHANED, LOST = "m6.orphaned", "m6.lost"


def find_queries(of: Sequence[Sequence[int]], calls: Sequence[int], limits: Sequence[int]) -> Queries:
    """Find what the reply of each turn takes up again; ``limits[k]`` is the first message too near to turn k.

    >>> found = find_queries([(7,), (), (7, 9)], calls=[2], limits=[1])  # 9 is new, 7 was read in message 0
    >>> found.refs, found.last, found.start
    ([7], [0], [0, 1])
    """
    refs: list[int] = []
    last: list[int] = []
    start = [0]
    seen: dict[int, int] = {}
    turn = 0
    for i, mentioned in enumerate(of):
        if turn < len(calls) and i == calls[turn]:
            for ref in mentioned:
                at = seen.get(ref)
                if at is not None and at < limits[turn]:
                    refs.append(ref)
                    last.append(at)
            turn += 1
            start.append(len(refs))
        seen.update(dict.fromkeys(mentioned, i))
    wanted = set(refs)
    where: dict[int, list[int]] = {ref: [] for ref in wanted}
    held = [tuple(wanted.intersection(mentioned)) for mentioned in of]
    for i, mentioned in enumerate(held):
        for ref in mentioned:
            where[ref].append(i)
    return Queries(refs, last, start, where, held)


def recall(counts: Sequence[int]) -> tuple[float, float]:
    """Give the visible and the reachable recall of counts in the order visible, reachable, orphaned, lost.

    >>> recall([6, 2, 1, 1])
    (0.6, 0.8)
    """
    total = sum(counts)
    return counts[Found.VISIBLE] / total, (counts[Found.VISIBLE] + counts[Found.REACHABLE]) / total


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
        known = find_queries(facts_of(trace).of, base.calls, _limits(scale, base.calls))
        trace.shared[key] = known
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
    sight = Sight(trace, queries)
    counts = [0, 0, 0, 0]
    refs, last, start = queries.refs, queries.last, queries.start
    for span, change in zip(trace.spans, own_changes(trace), strict=True):
        sight.move(span, change)
        here, there = start[span.turn], start[span.until]
        if here == there:
            continue
        # Whatever was last read in the recorded range of the view is seen as it was; only the rest is looked for, and
        # what was last read before anything that the own part holds, or a named file, only by its name.
        asked, when = refs[here:there], last[here:there]
        low, lo = sight.lowest(), span.view.lo
        near = [pair for pair in zip(asked, when, strict=True) if low <= pair[1] < lo]
        far = list(compress(asked, map(min(low, lo).__gt__, when)))
        counts[Found.VISIBLE] += len(asked) - len(near) - len(far)
        for ref, at in near:
            counts[sight.look(ref, at)] += 1
        rest = list(filterfalse(sight.names().__contains__, far))
        stored = sum(map(sight.stored_refs.__contains__, rest))
        counts[Found.VISIBLE] += len(far) - len(rest)
        counts[Found.ORPHANED] += stored
        counts[Found.LOST] += len(rest) - stored
    return counts


def _compute(trace: Trace) -> Mapping[str, Measured]:
    counts = recall_counts(trace)
    total = sum(counts)
    if not total:
        reason = f"no reply names anything that was last read more than {DISTANCE:,} tokens before"
        return {NUMBER: Measured(0)} | dict.fromkeys((VISIBLE, REACHABLE, ORPHANED, LOST), Measured(None, reason))
    visible, reachable = recall(counts)
    return {
        NUMBER: Measured(total),
        VISIBLE: Measured(visible),
        REACHABLE: Measured(reachable),
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
        Key(VISIBLE, "share", Direction.HIGHER, "of those, what the view of the turn shows"),
        Key(REACHABLE, "share", Direction.HIGHER, "of those, what the view shows or names the file of"),
        Key(ORPHANED, "share", Direction.LOWER, "of those, what is in a file that the view does not name"),
        Key(LOST, "share", Direction.LOWER, "of those, what is neither in the view nor in a file"),
    ),
    _compute,
)
