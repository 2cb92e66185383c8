"""What changes from one view of a replay to the next in the part that compactions made.

Every view is own items and then one range of the recorded messages. Measures that need to know what a view holds follow
the own items step by step. So a replay costs what its compactions changed and not the length of its views.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from compactctl.context.base import Item, Kind
from compactctl.context.prefix import shared_items, shared_last_items
from compactctl.measures._spec import Trace


class Stretch(NamedTuple):
    """Consecutive recorded messages from ``start`` to ``stop`` - 1, or one made item that stands for none of them.

    A made item that stands for a recorded message is in the stretch of its neighbours: it has the same role and ids.
    """

    start: int
    stop: int
    item: Item | None

    @property
    def size(self) -> int:
        """How many messages it is in the view."""
        return 1 if self.item is not None else self.stop - self.start


@dataclass(frozen=True, slots=True)
class Change:
    """How the own items of a view differ from those before it.

    The ``keep`` first and the ``tail`` last items stay; between them, ``removed`` are gone, which are the stretches
    ``gone``, and the stretches ``come`` are there now. ``made`` are the items among these that stand for a recorded
    message, in order.
    """

    keep: int
    tail: int
    removed: list[Item]
    gone: list[Stretch]
    come: list[Stretch]
    made: Sequence[Item]


class Changes(NamedTuple):
    """The change that the first turn of a span brings, and that of the turns that were leapt over; None for none."""

    first: Change | None
    leapt: Change | None


def own_changes(trace: Trace) -> list[Changes]:
    """Give the changes of each span; worked out once."""
    known = trace.cache.get("own changes")
    if not isinstance(known, list):
        known = trace.cache["own changes"] = list(_changes(trace))
    return known


def _changes(trace: Trace) -> Iterator[Changes]:
    own: list[Item] = []
    length = 0
    stretches = Stretches()
    recorded = Kind.RECORDED
    for span in trace.spans:
        now, size = span.view.own_buffer, span.view.own_length
        keep, tail = min(length, size), 0
        # A list that goes on only ever grows, so nothing but the end can differ.
        if now is not own:
            keep = shared_items(own, now, keep)
            tail = shared_last_items(own, now, length, size, min(length, size) - keep)
        first = leapt = None
        if not keep == length == size:
            removed, added = own[keep : length - tail], now[keep : size - tail]
            come = list(_stretches_of(added))
            made = [item for item in added if item.kind is not recorded and item.index >= 0]
            first = Change(keep, tail, removed, stretches.replace(tail, len(removed), come), come, made)
        own, length = now, size
        leap = span.leap
        if leap is not None and leap.last > leap.first:
            # Placeholders took the place of results in the range: these and what was before them are own items now.
            own, length = leap.view.own_buffer, leap.view.own_length
            come = [Stretch(span.view.lo, leap.view.lo, None)]
            stretches.replace(0, 0, come)
            leapt = Change(size, 0, [], [], come, leap.passing.items[leap.first : leap.last])
        yield Changes(first, leapt)


class Stretches:
    """The own items of the view at hand as stretches, in order."""

    def __init__(self) -> None:
        self.all: list[Stretch] = []

    def replace(self, tail: int, count: int, come: list[Stretch]) -> list[Stretch]:
        """Put stretches in place of ``count`` messages before the last ``tail`` ones; give what was there."""
        behind = self._take(tail)
        gone = self._take(count)
        for stretch in (*come, *behind):
            last = self.all[-1] if self.all else None
            if last is not None and stretch.start >= 0 and stretch.start == last.stop:
                self.all[-1] = Stretch(last.start, stretch.stop, None)
            else:
                self.all.append(stretch)
        return gone

    def _take(self, count: int) -> list[Stretch]:
        """Take the last ``count`` messages away and give their stretches."""
        taken: list[Stretch] = []
        while count:
            last = self.all.pop()
            if last.size > count:
                self.all.append(Stretch(last.start, last.stop - count, None))
                last = Stretch(last.stop - count, last.stop, None)
            taken.append(last)
            count -= last.size
        taken.reverse()
        return taken


def _stretches_of(items: Sequence[Item]) -> Iterator[Stretch]:
    start = stop = -1
    for item in items:
        index = item.index
        if index == stop and index >= 0:
            stop += 1
            continue
        if stop >= 0:
            yield Stretch(start, stop, None)
        start, stop = index, index + 1
        if index < 0:
            yield Stretch(-1, -1, item)
            stop = -1
    if stop >= 0:
        yield Stretch(start, stop, None)
