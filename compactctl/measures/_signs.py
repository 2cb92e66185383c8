"""What replies take up again, and where the views of a session's replays always show it: shared by all of them."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import accumulate, repeat
from typing import NamedTuple

from compactctl.context.base import Item, Kind
from compactctl.measures._facts import Facts
from compactctl.measures._own import Changes

# So many queries are looked at together.
_BLOCK = 128


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
        """For each reference, every message that mentions it; only for what cannot be told without it."""
        found: dict[int, list[int]] = defaultdict(list)
        for i, mentioned in enumerate(self.of):
            for ref in mentioned:
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

    def within(self, more: Mapping[int, Item]) -> Placed | None:
        """Give the same with more placeholders; None where they are not of one kind with these."""
        if any(more.get(index) is not item for index, item in self.items.items()):
            return None
        return Placed({index: item for index, item in more.items() if index not in self.others}, self.others)


def placed_in(changes: Iterable[Changes]) -> Placed:
    """Find what made items stood for in the views of a replay."""
    items: dict[int, Item] = {}
    others: set[int] = set()
    for both in changes:
        for change in both:
            for item in change.made if change is not None else ():
                index = item.index
                if items.setdefault(index, item) is not item or item.kind is not Kind.OFFLOADED:
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
        refs, last, start = queries.refs, queries.last, queries.start
        seen: dict[int, int] = {}
        turn = 0
        for i, mentioned in enumerate(queries.of):
            if turn < len(calls) and i == calls[turn]:
                self.shown += [seen.get(ref, -1) for ref in refs[start[turn] : start[turn + 1]]]
                turn += 1
            seen.update(dict.fromkeys(previews[i].intersection(mentioned) if i in previews else mentioned, i))
        # The queries in blocks, each in the order of ``shown``, so that a replay need not look at most of them. Plain
        # arrays keep what it reads close together in memory.
        order: list[int] = []
        for block in range(0, len(self.shown), _BLOCK):
            order += sorted(range(block, min(block + _BLOCK, len(self.shown))), key=self.shown.__getitem__)
        first: dict[int, int] = {}
        for i in sorted(previews, reverse=True):
            first.update(dict.fromkeys(queries.of[i], i))
        firsts = zip(map(first.get, refs, repeat(-1)), last, strict=True)
        filed = [at if at <= until else -1 for at, until in firsts]
        self._shown = array("q", [self.shown[query] for query in order])
        self._columns = [array("q", [column[q] for q in order]) for column in (range(len(order)), refs, last, filed)]

    def unseen(self, here: int, there: int, lowest: int) -> Iterator[Iterator[Sequence[int]]]:
        """Give the queries of a range whose reference was last shown before a message, in some groups.

        Each comes with its reference, the message where that was last read, and the first message up to there that
        mentions it and is replaced in some view, or -1.
        """
        for block in range(here - here % _BLOCK, there, _BLOCK):
            stop = bisect_left(self._shown, lowest, block, min(block + _BLOCK, len(self._shown)))
            some = zip(*(column[block:stop] for column in self._columns), strict=True)
            inside = here <= block and block + _BLOCK <= there
            yield some if inside else (query for query in some if here <= query[0] < there)

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
