"""Weighs views a second time, under another meter than the one that their compactor decides by."""

from __future__ import annotations

from bisect import bisect_left
from itertools import accumulate

from compactctl.context.prefix import shared_items
from compactctl.context.view import Base, Item, Kind, Meter, MeterContext, View
from compactctl.model import Message


class Scale:
    """Counts views of one base under another meter; every message and every made item is weighed once.

    ``stub_weight`` is the weight of the stub system message under this meter.
    """

    def __init__(self, base: Base, meter: Meter, stub_weight: int = 0) -> None:
        self.base = base
        self.meter = meter
        recorded = base.messages[base.offset :]
        start = [0] * base.offset
        first = stub_weight if base.offset else 0
        self.prefix: list[int] = start + list(accumulate(map(meter.weigh, recorded), initial=first))
        self._made: dict[int, tuple[Item, int]] = {}
        self._own: list[Item] = []
        # Running totals over the own items of the view that was looked at last; the next one mostly begins like it.
        self._sums: list[int] = [0]

    def weight(self, view: View) -> int:
        """Give the weight of a view."""
        if not view.own_length:
            return self.prefix[view.hi] - self.prefix[view.lo]
        return self._own_sums(view)[view.own_length] + self.prefix[view.hi] - self.prefix[view.lo]

    def tokens(self, view: View) -> int:
        """Give the tokens of a view."""
        return self.meter.tokens(self.weight(view), MeterContext(view.turn, view.pristine))

    def first_above(self, view: View, room: int, turn: int, until: int) -> int:
        """Give the first turn before ``until`` at which the view, only grown, has more tokens than ``room``."""
        if turn >= until:
            return until
        calls, prefix, meter = self.base.calls, self.prefix, self.meter
        fixed = self.weight(view) - prefix[view.hi]

        def tokens_at(at: int) -> int:
            return meter.tokens(fixed + prefix[calls[at]], MeterContext(at, view.pristine))

        if meter.steady:
            return bisect_left(range(turn, until), room + 1, key=tokens_at) + turn
        return next((at for at in range(turn, until) if tokens_at(at) > room), until)

    def item_weight(self, item: Item) -> int:
        """Give the weight of one item."""
        if item.kind is Kind.RECORDED and item.index >= 0:
            return self.prefix[item.index + 1] - self.prefix[item.index]
        known = self._made.get(id(item))
        if known is None:
            # The item is kept beside its weight, so that its id cannot be taken by another one.
            known = self._made[id(item)] = (item, self.meter.weigh(item.message))
        return known[1]

    def message_weight(self, message: Message) -> int:
        """Give the weight of a message that is in no view."""
        return self.meter.weigh(message)

    def _own_sums(self, view: View) -> list[int]:
        own, length, sums = view.own_buffer, view.own_length, self._sums
        if own is not self._own:
            same = shared_items(self._own, own, min(len(sums) - 1, length))
            del sums[same + 1 :]
            self._own = own
        if len(sums) <= length:
            total = sums[-1]
            for item in own[len(sums) - 1 : length]:
                total += self.item_weight(item)
                sums.append(total)
        return sums
