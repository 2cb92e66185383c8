"""Runs of turns in which results get their placeholders one by one as they leave the tail, and nothing else happens.

Such a run needs no step for each turn: what the view weighs before and after each is a difference of running sums.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

from compactctl.context.scale import Scale
from compactctl.context.view import Base, Item, MeterContext, View
from compactctl.model import OffloadEntry

# So many turns are looked at together for one that ends a run.
_STRIDE = 64


class Passing:
    """What becomes of a session's large results as the newest ``tail`` messages move on.

    ``at`` are the indices of the results, ``items`` their placeholders, ``entries`` their files, all in order.
    ``before[t]`` and ``after[t]`` are what a view weighs before and after the step of turn t, but for a constant that
    holds as long as nothing else is done to it.
    """

    def __init__(
        self, base: Base, at: Sequence[int], items: Sequence[Item], entries: Sequence[OffloadEntry], tail: int
    ) -> None:
        self.base = base
        self.at = at
        self.items = items
        self.entries = entries
        self.done = [bisect_left(at, call - tail) for call in base.calls]
        self.after = self._sums(base.prefix, [item.weight for item in items])
        before = [0, *self.done[:-1]]
        gained = self._gained(base.prefix, [item.weight for item in items])
        self.before = [base.prefix[call] + gained[count] for call, count in zip(base.calls, before, strict=True)]
        self._others: dict[int, tuple[Scale, list[int]]] = {}

    def under(self, scale: Scale) -> list[int]:
        """Give ``after`` under the meter of a scale."""
        known = self._others.get(id(scale))
        if known is None:
            sums = self._sums(scale.prefix, list(map(scale.item_weight, self.items)))
            known = self._others[id(scale)] = (scale, sums)
        return known[1]

    def view_at(self, view: View, turn: int) -> View:
        """Give what a view that was sent before ``turn`` has become at it."""
        back = view.own_length - view.lo
        first, last = self.done[view.turn], self.done[turn]
        changes = [(self.at[i] + back, self.items[i]) for i in range(first, last)]
        return view.advanced(turn).swapped(changes)

    def _gained(self, prefix: Sequence[int], weights: Sequence[int]) -> list[int]:
        gained = [0]
        for at, weight in zip(self.at, weights, strict=True):
            gained.append(gained[-1] + weight - prefix[at + 1] + prefix[at])
        return gained

    def _sums(self, prefix: Sequence[int], weights: Sequence[int]) -> list[int]:
        gained = self._gained(prefix, weights)
        return [prefix[call] + gained[count] for call, count in zip(self.base.calls, self.done, strict=True)]


@dataclass(frozen=True, slots=True)
class Pass:
    """The promise to do only that while a view weighs at least ``low`` and less than ``high`` before each step."""

    passing: Passing
    low: int
    high: int

    def end(self, view: View, stop: int, scale: Scale, room: int) -> int:
        """Give the first turn after the view's own, and before ``stop``, at which the promise ends; else ``stop``.

        It also ends where a view would have more real tokens than ``room``, which only the turn itself can say.
        """
        now = view.turn
        before, after = self.passing.before, self.passing.under(scale)
        fixed = view.weight - self.passing.after[now]
        low, high = self.low - fixed, self.high - fixed
        lift = scale.weight(view) - after[now]
        context = MeterContext(now, False)
        for start in range(now + 1, stop, _STRIDE):
            last = min(start + _STRIDE, stop)
            part = before[start:last]
            most = max(after[start:last]) + lift
            if min(part) >= low and max(part) < high and scale.meter.tokens(most, context) <= room:
                continue
            for turn in range(start, last):
                if not low <= before[turn] < high or scale.meter.tokens(after[turn] + lift, context) > room:
                    return turn
        return stop
