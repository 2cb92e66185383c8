"""Clearing: the content of old tool results gives way to a fixed mark, the messages stay."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from compactctl.context.view import Item, Kind, View
from compactctl.model import byte_length

CLEARED = "[old tool result cleared]"
ANY_SIZE = -1


def clearable(view: View, keep: int, *, spared: Collection[str] = (), only: Collection[str] = ()) -> list[int]:
    """List the positions of the results that may be cleared: all but the newest ``keep``.

    Not those of ``spared`` tools, of tools that ``only`` does not name (where it names any), and not those that are
    cleared already or would not be smaller for it.
    """
    results = view.large_results(ANY_SIZE, 0, len(view))
    found = []
    for position in results[: max(len(results) - keep, 0)]:
        if byte_length(view.message(position).content) <= len(CLEARED):
            continue
        tool = view.tool_name(position) if spared or only else ""
        if tool not in spared and (not only or tool in only):
            found.append(position)
    return found


def cleared(view: View, positions: Sequence[int]) -> View:
    """Give the view in which these results are cleared."""
    return view.swapped([(position, _mark(view, view.item(position))) for position in positions])


def freed(view: View, positions: Sequence[int]) -> int:
    """Give the weight that clearing these results would free."""
    return sum(item.weight - _mark(view, item).weight for item in map(view.item, positions))


def _mark(view: View, item: Item) -> Item:
    # A cleared result is the same in every replay of the session.
    key = (CLEARED, item.index)
    known = view.base.placeholders.get(key) if item.index >= 0 else None
    if isinstance(known, Item):
        return known
    message = replace(item.message, content=CLEARED, parts=None)
    made = view.made(message, Kind.CLEARED, item.index)
    if item.index >= 0:
        view.base.placeholders[key] = made
    return made
