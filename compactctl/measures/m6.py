"""M6, future-reference recall: when the model named something again, could it still see where it had read it?

References are found as in ``_facts.py``. For every reply, each reference that occurred before, but not within the last
8,000 real tokens of the history, is looked for in the view of that turn. Keyword survival overstates what a model
recalls: a name that is still there does not say that what was known about it is.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import compress, filterfalse
from typing import NamedTuple

from compactctl.context.naming import RESULTS
from compactctl.context.scale import Scale
from compactctl.context.view import Item, Kind, MeterContext
from compactctl.measures._facts import Facts, facts_of
from compactctl.measures._own import Change, Piece, cut_pieces, own_changes
from compactctl.measures._pairs import Pairs, pairs_of
from compactctl.measures._spec import Direction, Key, Measured, MeasureSpec, Trace, share
from compactctl.ports import Span

DISTANCE = 8_000  # D of the reference: real tokens that must lie between a reference and its use
CAVEAT = "keyword survival overstates what a model recalls"
NUMBER, VISIBLE, REACHABLE = "m6.references", "m6.recall_visible", "m6.recall_reachable"
ORPHANED, LOST = "m6.orphaned", "m6.lost"
_VISIBLE, _REACHABLE, _ORPHANED, _LOST = range(4)
_PATHS = f"{RESULTS}/"


@dataclass(frozen=True, slots=True)
class Queries:
    """The references that replies took up again: ``refs`` and the index where each was last read, turn by turn.

    Those of turn k are from ``start[k]`` to ``start[k + 1]``. ``where[ref]`` lists every message that mentions it,
    ``held[i]`` what of all these message i mentions.
    """

    refs: list[int]
    last: list[int]
    start: list[int]
    where: dict[int, list[int]]
    held: list[tuple[int, ...]]


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
    return counts[_VISIBLE] / total, (counts[_VISIBLE] + counts[_REACHABLE]) / total


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
    sight = _Sight(trace, queries)
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
        counts[_VISIBLE] += len(asked) - len(near) - len(far)
        for ref, at in near:
            counts[sight.look(ref, at)] += 1
        rest = list(filterfalse(sight.names().__contains__, far))
        stored = sum(map(sight.stored_refs.__contains__, rest))
        counts[_VISIBLE] += len(far) - len(rest)
        counts[_ORPHANED] += stored
        counts[_LOST] += len(rest) - stored
    return counts


class _Sight:
    """What can be seen in the own part of the view at hand."""

    def __init__(self, trace: Trace, queries: Queries) -> None:
        self._facts: Facts = facts_of(trace)
        self._pairs: Pairs = pairs_of(trace)
        self._where = queries.where
        self._held = queries.held
        size = len(trace.base.messages)
        self._whole = bytearray(size)  # recorded messages in the view as they were
        self._named = bytearray(size)  # results in a file whose path is in the view
        self._placed: dict[int, Item] = {}  # the placeholders in the view, by the result that each stands for
        self._stored: set[int] = set()  # results in any file
        self.stored_refs: set[int] = set()
        self._head_refs: dict[int, set[int]] = {}  # what the first messages name, by their number
        self._made: dict[int, int] = {}  # how often references stand in summaries and other made text
        self._known: dict[int, int] = {}
        self._paths: dict[str, int] = {}
        # Placeholders are the same in every replay of the session; other made text is this replay's own.
        self._previews: dict[int, tuple[Item, set[int]]] = trace.shared.setdefault("m6 previews", {})
        self._of_made: dict[int, _Seen] = {}
        self._reach: tuple[int, int] | None = None
        self._names: set[int] | None = None
        self._pieces: list[Piece] = []

    def move(self, span: Span, change: Change | None) -> None:
        """Go on to a span; what it leaves is forgotten, what it brings is looked at once."""
        for record in span.records:
            for entry in record.offloaded:
                if entry.file_path not in self._paths:
                    index = self._pairs.result(entry.tool_call_id, span.view.hi)
                    self._paths[entry.file_path] = -1 if index is None else index
                    if index is not None:
                        self._store(index)
        if change is None:
            return
        self._known.clear()
        self._reach = None
        if change.keep <= (self._pieces[0].stop if self._pieces else 0):
            self._names = None  # the first stretch may have changed
        for piece in change.removed:
            if piece.item is None:
                self._whole[piece.start : piece.stop] = bytes(piece.stop - piece.start)
            else:
                self._leave(piece.item)
        for piece in change.added:
            if piece.item is None:
                self._whole[piece.start : piece.stop] = b"\x01" * (piece.stop - piece.start)
            else:
                self._bring(piece.item)
        cut_pieces(self._pieces, change.keep)
        self._pieces += change.added

    def look(self, ref: int, last: int) -> int:
        """Say where a reference can be found that the recorded range of the view does not hold.

        ``last`` is the last message before the turn that mentions it.
        """
        known = self._known.get(ref)
        if known is None:
            known = self._known[ref] = self._look(ref, last)
        return known

    def lowest(self) -> int:
        """Give the lowest index of what the own part holds or names, its first stretch left out."""
        return min(self._reached())

    def names(self) -> set[int]:
        """Give the references that can be seen in made text and in the first stretch of the view."""
        if self._names is None:
            self._names = self._head().union(self._made)
        return self._names

    def _head(self) -> set[int]:
        head = self._pieces[0] if self._pieces else None
        if head is None or head.item is not None:
            return set()
        known = self._head_refs.get(head.stop)
        if known is None:
            known = self._head_refs[head.stop] = set().union(*self._held[head.start : head.stop])
        return known

    def _look(self, ref: int, last: int) -> int:
        if ref in self.names():
            return _VISIBLE
        where = self._where[ref]
        whole, named = self._reached()
        if last >= whole and any(map(self._whole.__getitem__, where[bisect_left(where, whole) :])):
            return _VISIBLE
        if last >= named:
            files = [i for i in where[bisect_left(where, named) : bisect_right(where, last)] if self._named[i]]
            if any(ref in self._preview(self._placed[i]) for i in files if i in self._placed):
                return _VISIBLE
            if files:
                return _REACHABLE
        return _ORPHANED if ref in self.stored_refs else _LOST

    def _reached(self) -> tuple[int, int]:
        """Give the lowest index of a whole message behind the first piece, and of a result whose file is named."""
        if self._reach is None:
            size = len(self._whole)
            first = self._pieces[0].stop if self._pieces and self._pieces[0].item is None else 0
            whole, named = self._whole.find(1, first), self._named.find(1)
            self._reach = whole if whole >= 0 else size, named if named >= 0 else size
        return self._reach

    def _store(self, index: int) -> None:
        if index not in self._stored:
            self._stored.add(index)
            self.stored_refs.update(self._held[index])
            self._known.clear()

    def _bring(self, item: Item) -> None:
        if item.kind is Kind.OFFLOADED and item.index >= 0:
            self._placed[item.index] = item
            self._named[item.index] = 1
            self._store(item.index)
            return
        seen = self._seen_in(item)
        self._names = None
        for ref in seen.refs:
            self._made[ref] = self._made.get(ref, 0) + 1
        for index in seen.files:
            self._named[index] = 1

    def _leave(self, item: Item) -> None:
        if item.kind is Kind.OFFLOADED and item.index >= 0:
            self._placed.pop(item.index, None)
            self._named[item.index] = 0
            return
        seen = self._seen_in(item)
        self._names = None
        for ref in seen.refs:
            self._made[ref] -= 1
            if not self._made[ref]:
                del self._made[ref]
        for index in seen.files:
            self._named[index] = 0

    def _preview(self, item: Item) -> set[int]:
        """Give the references in a placeholder."""
        known = self._previews.get(id(item))
        if known is None:
            # The item is kept, so that its id cannot be taken by another one.
            known = self._previews[id(item)] = (item, self._facts.references.of_message(item.message))
        return known[1]

    def _seen_in(self, item: Item) -> _Seen:
        """Give the references and the offloaded results that a made item names."""
        known = self._of_made.get(id(item))
        if known is None:
            mentioned = self._facts.references.of_message(item.message)
            refs = tuple(ref for ref in mentioned if ref in self._where)
            known = self._of_made[id(item)] = _Seen(item, refs, self._files_in(item.message.content))
        return known

    def _files_in(self, text: str) -> tuple[int, ...]:
        found: set[int] = set()
        at = text.find(_PATHS) if self._paths else -1
        while at >= 0:
            end = at
            while end < len(text) and text[end] not in " \n|]":
                end += 1
            index = self._paths.get(text[at:end], -1)
            if index >= 0:
                found.add(index)
            at = text.find(_PATHS, end)
        return tuple(sorted(found))


class _Seen(NamedTuple):
    """What a made item names; it holds the item, so that its id cannot be taken by another one."""

    item: Item
    refs: tuple[int, ...]
    files: tuple[int, ...]


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
        ORPHANED: share(counts[_ORPHANED], total),
        LOST: share(counts[_LOST], total),
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
