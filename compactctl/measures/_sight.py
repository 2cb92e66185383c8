"""What the model can see of what it read before: in its view, in a file that the view names, or nowhere."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from enum import IntEnum
from itertools import islice
from operator import add
from typing import NamedTuple

from compactctl.context.base import Item, Kind
from compactctl.context.naming import RESULTS, SUFFIX
from compactctl.context.passing import Leap
from compactctl.measures._facts import Facts, facts_of
from compactctl.measures._own import Change
from compactctl.measures._pairs import Pairs, pairs_of
from compactctl.measures._signs import Queries, Signs
from compactctl.measures._spec import Trace
from compactctl.model import OffloadEntry
from compactctl.ports import Span

# Names are of a closed alphabet, whatever stands around them.
_PATHS = re.compile(rf"{re.escape(RESULTS)}(?:/[A-Za-z0-9_~-]+)+{re.escape(SUFFIX)}")


class Found(IntEnum):
    """Where a reference can be found, from best to worst; ``ORPHANED`` is in a file that the view does not name."""

    VISIBLE = 0
    REACHABLE = 1
    ORPHANED = 2
    LOST = 3


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
        self._elsewhere: set[int] = set()  # references in files of results that no placeholder stands for
        self._made: dict[int, int] = {}  # how often references stand in made text and in the first messages
        self._named = bytearray(len(self._facts.references.names))  # the references that do
        self._head = (0, 0)  # the first messages
        self._files: dict[int, int] = {}  # how often made text names the file of a result
        self._in_files: set[int] | None = None  # the references in these results
        self._paths: dict[str, int] = {}
        self._of_made: dict[int, _Seen] = {}
        self._lo = 0  # where the recorded range begins
        self._range_at: list[int] = []  # the same for each query that was met
        self._looked_for = 0  # how many queries were looked for
        # From here to the recorded range each message is in the own part, as it was or as a placeholder, and before it
        # only some first messages as they were; None where the own part is in no such order.
        self._lowest: int | None = 0

    def move(self, span: Span, change: Change | None) -> None:
        """Go on to a span; what it leaves is forgotten, what it brings is looked at once."""
        for record in span.records:
            self._store(record.offloaded, span.view.hi)
        lo = span.view.lo
        if change is None and lo == self._lo:
            return
        if change is not None and not change.removed and change.come == [(self._lo, lo, None)]:
            self._join(lo, change.made)
            return
        self._look_for_all()
        if change is not None:
            self._leave(change)
            for start, stop, item in change.come:
                if item is not None:
                    self._say(item, 1)
                else:
                    self._bring(start, stop, [made for made in change.made if start <= made.index < stop])
        self._lo = lo
        self._lowest = self._look_for_lowest()

    def leap(self, leap: Leap) -> None:
        """Go through the turns of a leap."""
        passing, at = leap.passing, leap.passing.at
        self._paths.update(zip([e.file_path for e in leap.entries], at[leap.first : leap.last], strict=True))
        items = passing.items[leap.first : leap.last]
        if self._lowest is None or self._others(items):
            for turn, first, done in leap.events():
                self.grow(turn)
                self._join(at[done - 1] + 1, passing.items[first:done])
            return
        known, start, lo = self._range_at, self._queries.start, self._lo
        for turn, _, done in leap.events():
            known += [lo] * (start[turn] - len(known))
            lo = at[done - 1] + 1
        if items:
            self._join(lo, items)

    def _join(self, lo: int, made: Sequence[Item]) -> None:
        """Let the own part have the recorded range up to ``lo``; ``made`` are the items that stand for some of it."""
        # What is in order stays so, and what placeholders leave in sight was taken from the signs already.
        if self._lowest is None or self._others(made):
            self._look_for_all()
        self._bring(self._lo, lo, made)
        self._lo = lo
        if self._lowest is None or self._odd:
            self._look_for_all()
            self._lowest = self._look_for_lowest()

    def _others(self, made: Iterable[Item]) -> list[Item]:
        """Give those of some items that stand for a recorded message and are no placeholder as the signs take it."""
        placed, others = self._signs.placed
        return [item for item in made if item is not placed.get(item.index)] if others else []

    def _store(self, entries: Sequence[OffloadEntry], hi: int) -> None:
        """Know the files of results that were offloaded before message ``hi``."""
        paths = self._paths
        for entry in [entry for entry in entries if entry.file_path not in paths]:
            index = self._pairs.result(entry.tool_call_id, entry.text, hi)
            paths[entry.file_path] = -1 if index is None else index
            if index is not None:
                # What was asked before must not find it; what stands from the lowest on is not looked for in files.
                if self._lowest is None or index < self._lowest or index not in self._signs.previews:
                    self._look_for_all()
                if index not in self._signs.previews:
                    self._elsewhere.update(self._queries.of[index])
                self._stored[index] = 1

    def grow(self, until: int) -> None:
        """Go on to a turn; up to there the view only grows."""
        known = self._range_at
        known += [self._lo] * (self._queries.start[until] - len(known))

    def finish(self) -> list[int]:
        """Give the counts."""
        self._look_for_all()
        return self.counts

    def _leave(self, change: Change) -> None:
        """Take out of the own part what a change removes."""
        if self._signs.placed.others:
            made = [item for item in change.removed if item.kind is not Kind.RECORDED and item.index >= 0]
            for item in self._others(made):
                self._say(item, -1)
                self._whole[item.index] = 1  # as the signs count it: replaced by nothing that they know
        replaced = self._signs.replaced
        for start, stop, text in change.gone:
            if text is not None:
                self._say(text, -1)
                continue
            self._count -= stop - start
            # All but those that are as they were are placeholders as the signs take them.
            self._odd -= replaced[stop] - replaced[start] - self._whole.count(0, start, stop)
            self._present[start:stop] = self._whole[start:stop] = bytes(stop - start)

    def _bring(self, start: int, stop: int, made: Sequence[Item]) -> None:
        """Bring a range of recorded messages into the own part; ``made`` are the items that stand for one of them."""
        replaced, others = self._signs.replaced, self._others(made)
        self._count += stop - start
        self._odd += replaced[stop] - replaced[start] - len(made) + len(others)
        self._present[start:stop] = self._whole[start:stop] = b"\x01" * (stop - start)
        for item in made:
            self._whole[item.index] = 0
            if item.kind is Kind.OFFLOADED:
                self._stored[item.index] = 1
        for item in others:
            self._say(item, 1)

    def _say(self, item: Item, step: int) -> None:
        """Count what made text names, up or down."""
        seen = self._seen_in(item)
        self._name(seen.refs, step)
        for index in seen.files:
            self._files[index] = self._files.get(index, 0) + step
            if not self._files[index]:
                del self._files[index]
            self._in_files = None

    def _look_for_lowest(self) -> int | None:
        """Say what order the own part is in, None where there is none that helps."""
        present, lo = self._present, self._lo
        first = present.find(1, 0, lo)
        head = (0, 0)
        lowest = lo if first < 0 else first
        stop = present.find(0, lowest, lo)
        if stop >= 0:
            head = (first, stop)
            lowest = present.find(1, stop, lo)
            lowest = lo if lowest < 0 else lowest
        counted = lo - lowest + head[1] - head[0]
        ordered = counted == self._count and present.count(1, lowest, lo) == lo - lowest
        ordered = ordered and not self._odd and self._whole.count(1, *head) == head[1] - head[0]
        self._know_head(head if ordered else (0, 0))
        return lowest if ordered else None

    def _know_head(self, head: tuple[int, int]) -> None:
        """Count what the first messages name as named, instead of what those before did."""
        if head != self._head:
            for messages, step in ((self._head, -1), (head, 1)):
                self._name(set().union(*self._queries.of[slice(*messages)]), step)
            self._head = head

    def _look_for_all(self) -> None:
        """Count where the references that were not looked for yet can be found; the order held at all their turns."""
        here, there = self._looked_for, len(self._range_at)
        if here == there:
            return
        self._looked_for = there
        refs, last, shown, range_at = self._queries.refs, self._queries.last, self._signs.shown, self._range_at
        if self._lowest is None:
            present = self._present
            unseen = [q for q in range(here, there) if last[q] < range_at[q] and not present[shown[q]]]
            self.counts[Found.VISIBLE] += there - here - len(unseen)
            for query in unseen:
                self.counts[self._look(refs[query], last[query])] += 1
            return
        # From the lowest on everything is there, so what was shown since can be seen.
        lowest, named, stored, files = self._lowest, self._named, self._stored, self._in_named_files()
        elsewhere = self._elsewhere
        reachable = orphaned = lost = 0
        for group in self._signs.unseen(here, there, lowest):
            for query, ref, at, filed in group:
                if named[ref]:
                    continue
                if at >= lowest:
                    # Where it was last read is still in the recorded range, or a placeholder now.
                    if at < range_at[query]:
                        reachable += 1
                elif ref in files:
                    reachable += 1
                elif stored[filed] or ref in elsewhere or (filed >= 0 and self._is_stored(ref, at)):
                    orphaned += 1
                else:
                    lost += 1
        visible = there - here - reachable - orphaned - lost
        self.counts = list(map(add, self.counts, (visible, reachable, orphaned, lost)))

    def _in_named_files(self) -> set[int]:
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
        if self._named[ref]:
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
        if files or ref in self._in_named_files():
            return Found.REACHABLE
        return Found.ORPHANED if self._is_stored(ref, last) else Found.LOST

    def _name(self, refs: Iterable[int], step: int) -> None:
        """Count references that made text or the first messages name, up or down."""
        counts, named = self._made, self._named
        for ref in refs:
            counts[ref] = now = counts.get(ref, 0) + step
            if ref < len(named):
                named[ref] = now > 0

    def _seen_in(self, item: Item) -> _Seen:
        """Give the references and the offloaded results that a made item names."""
        known = self._of_made.get(id(item))
        if known is None:
            text = item.message.content
            refs = self._facts.references.of_made(text)
            for call in item.message.tool_calls:
                refs |= self._facts.references.of(call.arguments)
            known = self._of_made[id(item)] = _Seen(item, refs, self._files_in(text))
        return known

    def _files_in(self, text: str) -> set[int]:
        """Give the results whose files a text names."""
        paths = self._paths
        found = {paths.get(path, -1) for path in _PATHS.findall(text)} if paths else set()
        found.discard(-1)
        return found


class _Seen(NamedTuple):
    """What a made item names; it holds the item, so that its id cannot be taken by another one."""

    item: Item
    refs: set[int]
    files: set[int]
