"""What the model can see of what it read before: in its view, in a file that the view names, or nowhere."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property
from itertools import accumulate
from typing import NamedTuple

from compactctl.context.naming import RESULTS
from compactctl.context.view import Item, Kind, View
from compactctl.measures._facts import Facts, facts_of
from compactctl.measures._own import Change
from compactctl.measures._pairs import Pairs, pairs_of
from compactctl.measures._spec import Trace
from compactctl.model import Message
from compactctl.ports import Span

_PATHS = f"{RESULTS}/"


class Found(IntEnum):
    """Where a reference can be found, from best to worst; ``ORPHANED`` is in a file that the view does not name."""

    VISIBLE = 0
    REACHABLE = 1
    ORPHANED = 2
    LOST = 3


class Queries:
    """The references that replies took up again: ``refs`` and the index where each was last read, turn by turn.

    Those of turn k are from ``start[k]`` to ``start[k + 1]``. ``of[i]`` is what message i mentions; the reply of turn k
    is message ``calls[k]`` and too new is what stands from message ``limits[k]`` on.
    """

    def __init__(self, of: Sequence[Sequence[int]], calls: Sequence[int], limits: Sequence[int]) -> None:
        self.of = of
        self.refs: list[int] = []
        self.last: list[int] = []
        self.start = [0]
        seen: dict[int, int] = {}
        for i, mentioned in enumerate(of):
            turn = len(self.start) - 1
            if turn < len(calls) and i == calls[turn]:
                limit = limits[turn]
                for ref in mentioned:
                    at = seen.get(ref, limit)
                    if at < limit:
                        self.refs.append(ref)
                        self.last.append(at)
                self.start.append(len(self.refs))
            seen.update(dict.fromkeys(mentioned, i))

    @cached_property
    def where(self) -> dict[int, list[int]]:
        """For each reference that was taken up again, every message that mentions it."""
        found: dict[int, list[int]] = {ref: [] for ref in set(self.refs)}
        for i, mentioned in enumerate(self.of):
            for ref in found.keys() & mentioned:
                found[ref].append(i)
        return found


class Placed(NamedTuple):
    """Which recorded messages made items stood for in some views.

    ``items`` are the placeholders by the result that each always stands for. ``others`` are the messages that anything
    else stood for, or more than one placeholder.
    """

    items: dict[int, Item]
    others: set[int]


def placed_in(changes: Iterable[Change | None]) -> Placed:
    """Find what made items stood for in the views of a replay."""
    recorded, offloaded = Kind.RECORDED, Kind.OFFLOADED
    items: dict[int, Item] = {}
    others: set[int] = set()
    for change in changes:
        for item in change.added if change is not None else ():
            kind, index = item.kind, item.index
            if kind is recorded or index < 0:
                continue
            if kind is not offloaded or items.setdefault(index, item) is not item:
                others.add(index)
    for index in others.intersection(items):
        del items[index]
    return Placed(items, others)


class Signs:
    """Where each query's reference was last shown by something that no placeholder takes out of sight.

    ``shown[q]`` is the last message before the reply that mentions the reference of query q and is replaced by
    nothing, or by a placeholder whose preview still shows it; -1 where there is none. ``replaced[i]`` is how many of
    the messages before i are replaced in some view.
    """

    def __init__(self, queries: Queries, calls: Sequence[int], placed: Placed, facts: Facts) -> None:
        self.placed = placed
        of_message = facts.references.of_message
        previews = {index: of_message(item.message) for index, item in placed.items.items()}
        previews |= {index: set() for index in placed.others}
        self.replaced = list(accumulate((i in previews for i in range(len(queries.of))), initial=0))
        self.previews = previews
        self.shown: list[int] = []
        seen: dict[int, int] = {}
        turn, refs, start = 0, queries.refs, queries.start
        for i, mentioned in enumerate(queries.of):
            if turn < len(calls) and i == calls[turn]:
                self.shown += [seen.get(ref, -1) for ref in refs[start[turn] : start[turn + 1]]]
                turn += 1
            seen.update(dict.fromkeys(previews[i].intersection(mentioned) if i in previews else mentioned, i))

    def cover(self, placed: Placed) -> bool:
        """Whether these are the signs of a replay in whose views made items stood for these messages."""
        known = self.placed.items
        return self.placed.others == placed.others and all(known.get(i) is item for i, item in placed.items.items())

    def joined(self, placed: Placed) -> Placed:
        """Give what is replaced in any of the replays, where one placeholder stands for a result in all of them."""
        known = self.placed
        if known.others != placed.others or not self.cover(Placed(_common(known.items, placed.items), placed.others)):
            return placed
        return Placed(known.items | placed.items, placed.others)


def _common(one: dict[int, Item], other: dict[int, Item]) -> dict[int, Item]:
    return {index: item for index, item in other.items() if index in one}


@dataclass(frozen=True, slots=True)
class _Order:
    """What is known of a view whose own part is in good order: at most some first messages, then all from ``lowest``.

    From there to the recorded range each message is there as it was or as a placeholder. ``head`` are the first
    messages, all as they were.
    """

    lowest: int
    head: tuple[int, int]


class Sight:
    """What can be seen in the own part of the view at hand."""

    def __init__(self, trace: Trace, queries: Queries, signs: Signs) -> None:
        self._facts: Facts = facts_of(trace)
        self._pairs: Pairs = pairs_of(trace)
        self._queries = queries
        self._signs = signs
        size = len(trace.base.messages) + 1  # so that nothing is at -1
        self._present = bytearray(size)  # recorded messages in the own part, as they were or as a placeholder
        self._whole = bytearray(size)  # of these those that are as they were
        self._count = 0  # how many items these are
        self._odd = 0  # of the items those that are not as the signs take it
        self._stored = bytearray(size)  # results in any file
        self._known_stored: set[int] = set()
        self._made: dict[int, int] = {}  # how often references stand in summaries and other made text
        self._files: dict[int, int] = {}  # how often made text names the file of a result
        self._paths: dict[str, int] = {}
        self._of_made: dict[int, _Seen] = {}
        self._of_text: dict[str, set[int]] = {}
        self._head_refs: dict[tuple[int, int], set[int]] = {}
        self._view: View | None = None
        self._order: _Order | None = None
        self._names: set[int] | None = None
        self._in_files: set[int] | None = None

    def move(self, span: Span, change: Change | None) -> None:
        """Go on to a span; what it leaves is forgotten, what it brings is looked at once."""
        for record in span.records:
            for entry in record.offloaded:
                if entry.file_path not in self._paths:
                    index = self._pairs.result(entry.tool_call_id, span.view.hi)
                    self._paths[entry.file_path] = -1 if index is None else index
                    if index is not None:
                        self._stored[index] = 1
        if change is not None:
            self._change(change.removed, 0)
            self._change(change.added, 1)
        if change is not None or self._view is None or self._view.lo != span.view.lo:
            self._order = self._look_for_order(span.view)
        self._view = span.view

    def _change(self, items: Iterable[Item], there: int) -> None:
        """Bring items into the own part, or take them out of it."""
        present, whole, recorded = self._present, self._whole, Kind.RECORDED
        replaced, placed = self._signs.replaced, self._signs.placed.items
        sign = 1 if there else -1
        for item in items:
            index = item.index
            if index >= 0:
                self._count += sign
                present[index] = there
                if item.kind is recorded:
                    whole[index] = there
                    self._odd += sign * (replaced[index + 1] - replaced[index])
                    continue
                if item.kind is Kind.OFFLOADED:
                    self._stored[index] = 1
                if item is placed.get(index):
                    continue
                self._odd += sign
            seen = self._seen_in(item)
            _count(self._made, seen.refs, sign)
            _count(self._files, seen.files, sign)
            self._names = self._in_files = None

    def _look_for_order(self, view: View) -> _Order | None:
        """Say what order the own part is in, None where there is none that helps."""
        present, lo = self._present, view.lo
        first = present.find(1, 0, lo)
        if first < 0:
            return _Order(lo, (0, 0)) if not self._count else None
        stop = present.find(0, first, lo)
        head = (0, 0)
        lowest = first
        if stop >= 0:
            head = (first, stop)
            lowest = present.find(1, stop, lo)
            lowest = lo if lowest < 0 else lowest
        counted = lo - lowest + head[1] - head[0]
        ordered = counted == self._count and present.count(1, lowest, lo) == lo - lowest
        if not ordered or self._odd or self._whole.count(1, *head) != head[1] - head[0]:
            return None
        if self._order is None or self._order.head != head:
            self._names = None
        return _Order(lowest, head)

    def judge(self, turn: int, until: int, counts: list[int]) -> None:
        """Count where what the replies of some turns take up again can be found; the view only grows meanwhile."""
        queries, order = self._queries, self._order
        here, there = queries.start[turn], queries.start[until]
        if here == there or self._view is None:
            return
        last, shown, lo = queries.last, self._signs.shown, self._view.lo
        if order is None:
            present = self._present
            unseen = [q for q in range(here, there) if last[q] < lo and not present[shown[q]]]
            counts[Found.VISIBLE] += there - here - len(unseen)
            for query in unseen:
                counts[self._look(queries.refs[query], last[query])] += 1
            return
        lowest = order.lowest
        # From the lowest on everything is there, so what was shown since can be seen, and what was last read in the
        # recorded range as well.
        unseen = [q for q in range(here, there) if shown[q] < lowest and last[q] < lo]
        counts[Found.VISIBLE] += there - here - len(unseen)
        self._judge_unseen(unseen, order, counts)

    def _judge_unseen(self, unseen: list[int], order: _Order, counts: list[int]) -> None:
        """Count where references can be found that neither the range nor any message from the lowest on shows."""
        refs, last, lowest = self._queries.refs, self._queries.last, order.lowest
        names, files, stored = self._named(order), self._named_files(), self._known_stored
        visible = reachable = orphaned = 0
        for query in unseen:
            ref = refs[query]
            if ref in names:
                visible += 1
            elif last[query] >= lowest or ref in files:
                reachable += 1  # where it was last read is a placeholder now, or made text names the file
            elif ref in stored or self._is_stored(ref):
                orphaned += 1
        counts[Found.VISIBLE] += visible
        counts[Found.REACHABLE] += reachable
        counts[Found.ORPHANED] += orphaned
        counts[Found.LOST] += len(unseen) - visible - reachable - orphaned

    def _named_files(self) -> set[int]:
        """Give the references in the results whose files are named in made text."""
        if self._in_files is None:
            self._in_files = set().union(*(self._queries.of[index] for index in self._files))
        return self._in_files

    def _look_for_file(self, ref: int) -> Found:
        if ref in self._named_files():
            return Found.REACHABLE
        return Found.ORPHANED if self._is_stored(ref) else Found.LOST

    def _is_stored(self, ref: int) -> bool:
        """Whether a file holds a reference; files stay where they are."""
        if ref in self._known_stored:
            return True
        if any(map(self._stored.__getitem__, self._queries.where[ref])):
            self._known_stored.add(ref)
            return True
        return False

    def _look(self, ref: int, last: int) -> Found:
        """Say where a reference can be found that the recorded range of the view does not hold, in whatever order."""
        if ref in self._made:
            return Found.VISIBLE
        where = self._queries.where[ref]
        where = where[: bisect_right(where, last)]
        if any(map(self._whole.__getitem__, where)):
            return Found.VISIBLE
        # What is there but not as it was and stands in for itself is a placeholder; other made text was looked at.
        placed = self._signs.placed.items
        files = [index for index in where if self._present[index] and index in placed]
        if any(ref in self._signs.previews[index] for index in files):
            return Found.VISIBLE
        return Found.REACHABLE if files else self._look_for_file(ref)

    def _named(self, order: _Order) -> set[int]:
        """Give the references that can be seen in made text and in the first messages of the view."""
        if self._names is None:
            head = self._head_refs.get(order.head)
            if head is None:
                head = self._head_refs[order.head] = set().union(*self._queries.of[slice(*order.head)])
            self._names = head.union(self._made)
        return self._names

    def _seen_in(self, item: Item) -> _Seen:
        """Give the references and the offloaded results that a made item names."""
        known = self._of_made.get(id(item))
        if known is None:
            text = item.message.content
            # Many summaries of one replay can have the same text.
            refs = self._of_text.get(text)
            if refs is None:
                refs = self._of_text[text] = self._facts.references.of(text)
            known = self._of_made[id(item)] = _Seen(
                item, refs.union(self._in_calls(item.message)), self._files_in(text)
            )
        return known

    def _in_calls(self, message: Message) -> Iterator[int]:
        for call in message.tool_calls:
            yield from self._facts.references.of(call.arguments)

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
    refs: set[int]
    files: tuple[int, ...]


def _count(counts: dict[int, int], keys: Iterable[int], step: int) -> None:
    """Count keys up or down; what comes to nothing is forgotten."""
    for key in keys:
        now = counts.get(key, 0) + step
        if now:
            counts[key] = now
        else:
            del counts[key]
