"""What changes from one view of a replay to the next in the part that compactions made.

Every view is own items and then one range of the recorded messages. Measures that need to know what a view holds follow
the own items step by step. So a replay costs what its compactions changed and not the length of its views.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from compactctl.context.prefix import shared_items, shared_last_items
from compactctl.context.view import Item
from compactctl.measures._spec import Trace


@dataclass(frozen=True, slots=True)
class Change:
    """How the own items of a span's view differ from those before it.

    The ``keep`` first and the ``tail`` last items stay; of those between them, ``removed`` are gone and ``added`` are
    there now.
    """

    keep: int
    tail: int
    removed: list[Item]
    added: list[Item]


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
    for span in trace.spans:
        now, size = span.view.own_buffer, span.view.own_length
        if now is own:
            # A list that goes on only ever grows, so nothing but the end can differ.
            keep = min(length, size)
            change = None if size == length else Change(keep, 0, own[keep:length], now[keep:size])
        else:
            keep = shared_items(own, now, min(length, size))
            tail = shared_last_items(own, now, length, size, min(length, size) - keep)
            change = Change(keep, tail, own[keep : length - tail], now[keep : size - tail])
            if keep == length == size:
                change = None
        own, length = now, size
        leapt = None
        if span.leap is not None and span.leap.view.own_length > size:
            # Placeholders took the place of results in the range: these and what was before them are own items now.
            own, length = span.leap.view.own_buffer, span.leap.view.own_length
            leapt = Change(size, 0, [], own[size:length])
        yield Changes(change, leapt)


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


class Stretches:
    """The own items of the view at hand as stretches, in order."""

    def __init__(self) -> None:
        self.all: list[Stretch] = []

    def apply(self, change: Change) -> None:
        """Go on to the next view."""
        behind: list[Stretch] = []
        left = change.tail
        while left:
            last = self.all.pop()
            if last.size > left:
                self.all.append(Stretch(last.start, last.stop - left, None))
                last = Stretch(last.stop - left, last.stop, None)
            behind.append(last)
            left -= last.size
        gone = len(change.removed)
        while gone:
            last = self.all.pop()
            if last.size > gone:
                self.all.append(Stretch(last.start, last.stop - gone, None))
            gone -= min(gone, last.size)
        start = stop = -1
        for item in change.added:
            index = item.index
            if index == stop and index >= 0:
                stop += 1
                continue
            if stop >= 0:
                self._append(Stretch(start, stop, None))
            start, stop = index, index + 1
            if index < 0:
                self._append(Stretch(-1, -1, item))
                stop = -1
        if stop >= 0:
            self._append(Stretch(start, stop, None))
        for stretch in reversed(behind):
            self._append(stretch)

    def _append(self, stretch: Stretch) -> None:
        """Put a stretch behind the last one, as part of it where it goes on with it."""
        last = self.all[-1] if self.all else None
        if last is not None and stretch.start >= 0 and stretch.start == last.stop:
            self.all[-1] = Stretch(last.start, stretch.stop, None)
        else:
            self.all.append(stretch)
