"""What a view is made of: weight by role, and tool results by tool, without walking the view at each turn."""

from __future__ import annotations

from bisect import bisect_left

from compactctl.context.view import Base, Item, View
from compactctl.model import Message


def part_of(message: Message) -> str:
    """Give the part that a message belongs to: its role, or ``tool:<name>`` for the result of a known tool."""
    return f"tool:{message.name}" if message.tool_call_id and message.name else message.role


class Composition:
    """Weighs the parts of the views of one replay; each message is looked at once."""

    def __init__(self, base: Base) -> None:
        self._base = base
        self._positions: dict[str, list[int]] = {}
        self._sums: dict[str, list[int]] = {}
        for i, message in enumerate(base.messages):
            part = part_of(message)
            sums = self._sums.setdefault(part, [0])
            self._positions.setdefault(part, []).append(i)
            sums.append(sums[-1] + base.prefix[i + 1] - base.prefix[i])
        self._own: list[Item] | None = None
        self._own_length = 0
        self._own_parts: dict[str, int] = {}

    def parts(self, view: View) -> dict[str, int]:
        """Give the weight of each part of a view, parts in the order of their names, none of them 0."""
        found = dict(self._of_own(view))
        for part, positions in self._positions.items():
            sums = self._sums[part]
            weight = sums[bisect_left(positions, view.hi)] - sums[bisect_left(positions, view.lo)]
            if weight:
                found[part] = found.get(part, 0) + weight
        return {part: found[part] for part in sorted(found) if found[part]}

    def _of_own(self, view: View) -> dict[str, int]:
        own = view.own_buffer
        if own is not self._own or view.own_length < self._own_length:
            self._own, self._own_length, self._own_parts = own, 0, {}
        for item in own[self._own_length : view.own_length]:
            part = part_of(item.message)
            self._own_parts[part] = self._own_parts.get(part, 0) + item.weight
        self._own_length = view.own_length
        return self._own_parts
