"""Clearing: the content of old tool results gives way to a fixed mark, the messages stay."""

from __future__ import annotations

from collections.abc import Collection

from compactctl.context.base import Item, Kind
from compactctl.context.view import View
from compactctl.model import changed

CLEARED = "[old tool result cleared]"
ANY_SIZE = -1


class Clearing:
    """Clears all results but the newest ``keep``.

    Not those of ``spared`` tools, of tools that ``only`` does not name (where it names any), and not those that would
    not be smaller for it. A view that only grew since the last time costs what is new in it.
    """

    def __init__(self, keep: int, *, spared: Collection[str] = (), only: Collection[str] = ()) -> None:
        self.keep = keep
        self.spared = frozenset(spared)
        self.only = frozenset(only)
        self._given: View | None = None
        self._cleared: View | None = None
        self._next = 0

    def apply(self, view: View) -> View:
        """Give the view in which the old results are cleared; the view itself where there is none."""
        start, current = 0, view
        if self._given is not None and self._cleared is not None:
            if view.is_grown_from(self._cleared):
                start = self._next
            elif view.is_grown_from(self._given):
                start, current = self._next, self._cleared.advanced(view.turn)
        results = current.large_results(ANY_SIZE, start, len(current))
        old = results[: max(len(results) - self.keep, 0)]
        after = current.swapped([(p, _mark(current, current.item(p))) for p in old if self._may_clear(current, p)])
        self._given, self._cleared, self._next = view, after, old[-1] + 1 if old else start
        return after

    def _may_clear(self, view: View, position: int) -> bool:
        if view.item(position).result_bytes <= len(CLEARED):
            return False
        tool = view.tool_name(position) if self.spared or self.only else ""
        return tool not in self.spared and (not self.only or tool in self.only)


def _mark(view: View, item: Item) -> Item:
    # A cleared result is the same in every replay of the session.
    key = (CLEARED, item.index)
    known = view.base.placeholders.get(key) if item.index >= 0 else None
    if isinstance(known, Item):
        return known
    message = changed(item.message, content=CLEARED, parts=None)
    made = view.made(message, Kind.CLEARED, item.index)
    if item.index >= 0:
        view.base.placeholders[key] = made
    return made
