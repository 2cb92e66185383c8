"""What the model can see of what it read before: in its view, in a file that the view names, or nowhere."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property
from itertools import accumulate, islice
from operator import add
from typing import NamedTuple

from compactctl.context.naming import RESULTS
from compactctl.context.passing import Leap
from compactctl.context.view import Item, Kind
from compactctl.measures._facts import Facts, facts_of
from compactctl.measures._own import Change, Changes
from compactctl.measures._pairs import Pairs, pairs_of
from compactctl.measures._spec import Trace
from compactctl.model import Message, OffloadEntry
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
        self.refs, self.last = _in_a_row(self.refs), _in_a_row(self.last)

    @cached_property
    def where(self) -> dict[int, list[int]]:
        """For each reference that was taken up again, every message that mentions it."""
        found: dict[int, list[int]] = {ref: [] for ref in set(self.refs)}
        for i, mentioned in enumerate(self.of):
            for ref in found.keys() & mentioned:
                found[ref].append(i)
        return found


def _in_a_row(numbers: list[int]) -> list[int]:
    """Give a list of the same numbers as new objects that lie behind each other in memory.

    Every replay reads these lists from end to end. Numbers that lie where the text was read from cost several times as
    much to reach.
    """
    return array("q", numbers).tolist()


class Placed(NamedTuple):
    """Which recorded messages made items stood for in some views.

    ``items`` are the placeholders by the result that each always stands for. ``others`` are the messages that anything
    else stood for, or more than one placeholder.
    """

    items: dict[int, Item]
    others: set[int]


def placed_in(changes: Iterable[Changes]) -> Placed:
    """Find what made items stood for in the views of a replay."""
    recorded, offloaded = Kind.RECORDED, Kind.OFFLOADED
    items: dict[int, Item] = {}
    others: set[int] = set()
    for both in changes:
        for change in both:
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
    the messages before i are replaced in some view, ``first[ref]`` the first of them that mentions a reference, or -1.
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
        self.shown = _in_a_row(self.shown)
        self.first = [-1] * len(facts.references.names)
        for ref, where in queries.where.items():
            self.first[ref] = next(filter(previews.__contains__, where), -1)

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
    """What can be seen in the own part of the view at hand, and ``counts`` of what was looked for so far.

    ``counts`` are in the order of Found. What the replies of some turns take up is looked for when the own part is
    about to change in more than placeholders that come in order: one look for many turns.
    """

    def __init__(self, trace: Trace, queries: Queries, signs: Signs) -> None:
        self.counts = [0] * len(Found)
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
        self._made: dict[int, int] = {}  # how often references stand in summaries and other made text
        self._files: dict[int, int] = {}  # how often made text names the file of a result
        self._paths: dict[str, int] = {}
        self._of_made: dict[int, _Seen] = {}
        self._head_refs: dict[tuple[int, int], set[int]] = {}
        self._lo = 0  # where the recorded range begins
        self._range_at: list[int] = []  # the same for each query that was met
        self._looked_for = 0  # how many queries were looked for
        self._order: _Order | None = _Order(0, (0, 0))
        self._names: set[int] | None = None
        self._in_files: set[int] | None = None

    def move(self, span: Span, change: Change | None) -> None:
        """Go on to a span; what it leaves is forgotten, what it brings is looked at once."""
        for record in span.records:
            self._store(record.offloaded, span.view.hi)
        lo = span.view.lo
        if change is None and lo == self._lo:
            return
        if change is not None and self._is_joining(change, lo):
            self._join(lo, [item for item in change.added if item.kind is not Kind.RECORDED])
            return
        self._look_for_all()
        if change is not None:
            self._change(change.removed, 0)
            self._change(change.added, 1)
        self._lo = lo
        self._order = self._look_for_order()

    def leap(self, leap: Leap) -> None:
        """Go through the turns of a leap."""
        passing = leap.passing
        for turn, first, done in leap.events():
            self.grow(turn)
            at = passing.at[first:done]
            self._paths.update(zip(passing.paths[first:done], at, strict=True))
            self._join(at[-1] + 1, passing.items[first:done])

    def _is_joining(self, change: Change, lo: int) -> bool:
        """Whether all that changes is that the recorded range up to ``lo`` becomes the own part's, as it comes."""
        indices = [item.index for item in change.added]
        return not change.removed and not change.tail and indices == list(range(self._lo, lo)) and lo > self._lo

    def _join(self, lo: int, made: Sequence[Item]) -> None:
        """Let the own part have the recorded range up to ``lo``; ``made`` are the items that stand for some of it."""
        # What is in order stays so, and what was shown before stays in sight.
        if self._order is None:
            self._look_for_all()
        self._change_range(self._lo, lo, made, 1)
        self._lo = lo
        if self._order is None or self._odd:
            self._look_for_all()
            self._order = self._look_for_order()

    def _store(self, entries: Sequence[OffloadEntry], hi: int) -> None:
        """Know the files of results that were offloaded before message ``hi``."""
        paths = self._paths
        for entry in [entry for entry in entries if entry.file_path not in paths]:
            index = self._pairs.result(entry.tool_call_id, hi)
            paths[entry.file_path] = -1 if index is None else index
            if index is not None:
                self._stored[index] = 1

    def grow(self, until: int) -> None:
        """Go on to a turn; up to there the view only grows."""
        known = self._range_at
        known += [self._lo] * (self._queries.start[until] - len(known))

    def finish(self) -> list[int]:
        """Give the counts."""
        self._look_for_all()
        return self.counts

    def _change(self, items: list[Item], there: int) -> None:
        """Bring items into the own part, or take them out of it."""
        made = next((at for at, item in enumerate(items) if item.index >= 0), len(items))
        self._change_made(items[:made], there)
        items = items[made:]
        if not items:
            return
        start, stop = items[0].index, items[-1].index + 1
        recorded = Kind.RECORDED
        if not self._signs.placed.others and [item.index for item in items] == list(range(start, stop)):
            self._change_range(start, stop, [item for item in items if item.kind is not recorded], there)
            return
        for item in items:
            if item.index >= 0:
                made_one = [item] if item.kind is not recorded else []
                self._change_range(item.index, item.index + 1, made_one, there)
            else:
                self._change_made([item], there)

    def _change_range(self, start: int, stop: int, made: Sequence[Item], there: int) -> None:
        """Bring a range of recorded messages or take it out; ``made`` are those items that stand for one of them."""
        sign = 1 if there else -1
        flags = (b"\x01" if there else b"\x00") * (stop - start)
        self._present[start:stop] = self._whole[start:stop] = flags
        placed, replaced = self._signs.placed.items, self._signs.replaced
        self._count += sign * (stop - start)
        self._odd += sign * (replaced[stop] - replaced[start])
        for item in made:
            index = item.index
            self._whole[index] = 0
            if item.kind is Kind.OFFLOADED:
                self._stored[index] = 1
            if item is placed.get(index):
                self._odd -= sign
            else:
                self._change_made([item], there)

    def _change_made(self, items: Iterable[Item], there: int) -> None:
        """Bring made text or take it out."""
        for item in items:
            seen = self._seen_in(item)
            _count(self._made, seen.refs, 1 if there else -1)
            _count(self._files, seen.files, 1 if there else -1)
            self._names = self._in_files = None

    def _look_for_order(self) -> _Order | None:
        """Say what order the own part is in, None where there is none that helps."""
        present, lo = self._present, self._lo
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

    def _look_for_all(self) -> None:
        """Count where the references that were not looked for yet can be found; the order held at all their turns."""
        here, there = self._looked_for, len(self._range_at)
        if here == there:
            return
        self._looked_for = there
        refs, last, shown, range_at = self._queries.refs, self._queries.last, self._signs.shown, self._range_at
        if self._order is None:
            present = self._present
            unseen = [q for q in range(here, there) if last[q] < range_at[q] and not present[shown[q]]]
            self.counts[Found.VISIBLE] += there - here - len(unseen)
            for query in unseen:
                self.counts[self._look(refs[query], last[query])] += 1
            return
        # From the lowest on everything is there, so what was shown since can be seen.
        lowest, names = self._order.lowest, self._named(self._order)
        unseen = [q for q in range(here, there) if shown[q] < lowest]
        near = [q for q in unseen if last[q] >= lowest]
        # Where it was last read is still in the recorded range, or a placeholder now.
        seen = sum([last[q] >= range_at[q] or refs[q] in names for q in near])
        self.counts[Found.VISIBLE] += there - here - len(unseen) + seen
        self.counts[Found.REACHABLE] += len(near) - seen
        self._look_for_far([q for q in unseen if last[q] < lowest], names)

    def _look_for_far(self, queries: list[int], names: set[int]) -> None:
        """Count where references can be found that stand in no message from the lowest on."""
        refs, last, files = self._queries.refs, self._queries.last, self._named_files()
        hidden = [q for q in queries if refs[q] not in names]
        away = [q for q in hidden if refs[q] not in files] if files else hidden
        stored, first = self._stored, self._signs.first
        lost = [q for q in away if not (stored[first[refs[q]]] and first[refs[q]] <= last[q])]
        lost = [q for q in lost if not self._is_stored(refs[q], last[q])]
        parts = (len(queries) - len(hidden), len(hidden) - len(away), len(away) - len(lost), len(lost))
        self.counts = list(map(add, self.counts, parts))

    def _named_files(self) -> set[int]:
        """Give the references in the results whose files are named in made text."""
        if self._in_files is None:
            self._in_files = set().union(*(self._queries.of[index] for index in self._files))
        return self._in_files

    def _is_stored(self, ref: int, last: int) -> bool:
        """Whether a file holds a reference; files stay where they are."""
        where = self._queries.where[ref]
        return any(map(self._stored.__getitem__, islice(where, bisect_right(where, last))))

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
        if files or ref in self._named_files():
            return Found.REACHABLE
        return Found.ORPHANED if self._is_stored(ref, last) else Found.LOST

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
            refs = self._facts.references.of_made(text).union(self._in_calls(item.message))
            known = self._of_made[id(item)] = _Seen(item, refs, self._files_in(text))
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
