"""What a view is made of: weight by role, and tool results by tool, without walking the view at each turn."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping

from compactctl.context.base import Base, Item
from compactctl.context.view import View
from compactctl.model import Message


class Composition:
    """Weighs the parts of the views of one replay: roles, and ``tool:<name>`` for results of a known tool.

    Each message is looked at once. A result that does not say which tool it is from is looked up by its call.
    """

    def __init__(self, base: Base) -> None:
        self._base = base
        self._positions: dict[str, list[int]] = {}
        self._sums: dict[str, list[int]] = {}
        self._parts: list[str] = []
        self._called = called = dict[str, str]()
        for i, message in enumerate(base.messages):
            called.update((call.id, call.name) for call in message.tool_calls)
            part = _part(message, called)
            self._parts.append(part)
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
            part = self._parts[item.index] if item.index >= 0 else _part(item.message, self._called)
            self._own_parts[part] = self._own_parts.get(part, 0) + item.weight
        self._own_length = view.own_length
        return self._own_parts


def _part(message: Message, called: Mapping[str, str]) -> str:
    if not message.tool_call_id:
        return message.role
    name = message.name or called.get(message.tool_call_id, "")
    return f"tool:{name}" if name else message.role
