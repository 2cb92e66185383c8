"""What the model can see of what it read before: in its view, in a file that the view names, or nowhere."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

from compactctl.context.naming import RESULTS
from compactctl.context.view import Item, Kind
from compactctl.measures._facts import Facts, facts_of
from compactctl.measures._own import Change, Piece, cut_pieces
from compactctl.measures._pairs import Pairs, pairs_of
from compactctl.measures._spec import Trace
from compactctl.ports import Span

_PATHS = f"{RESULTS}/"


class Found(IntEnum):
    """Where a reference can be found, from best to worst; ``ORPHANED`` is in a file that the view does not name."""

    VISIBLE = 0
    REACHABLE = 1
    ORPHANED = 2
    LOST = 3


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


class Sight:
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
        self._known: dict[int, Found] = {}
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

    def look(self, ref: int, last: int) -> Found:
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

    def _look(self, ref: int, last: int) -> Found:
        if ref in self.names():
            return Found.VISIBLE
        where = self._where[ref]
        whole, named = self._reached()
        if last >= whole and any(map(self._whole.__getitem__, where[bisect_left(where, whole) :])):
            return Found.VISIBLE
        if last >= named:
            files = [i for i in where[bisect_left(where, named) : bisect_right(where, last)] if self._named[i]]
            if any(ref in self._preview(self._placed[i]) for i in files if i in self._placed):
                return Found.VISIBLE
            if files:
                return Found.REACHABLE
        return Found.ORPHANED if ref in self.stored_refs else Found.LOST

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
