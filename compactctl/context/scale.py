"""Weighs views a second time, under another meter than the one that their compactor decides by."""

from __future__ import annotations

from bisect import bisect_left
from itertools import accumulate, islice

from compactctl.context.base import Base, Item, Kind, with_overhead
from compactctl.context.counting import Meter, MeterContext
from compactctl.context.growth import Growth
from compactctl.context.prefix import shared_items
from compactctl.context.view import View
from compactctl.context.weights import weight_where
from compactctl.model import Message


class Scale:
    """Counts views of one base under another meter; every message and every made item is weighed once.

    ``overhead`` is the weight under this meter of what transcripts do not hold: that of the stub system message, or
    what the first message has beside its own. ``native`` says that the scale weighs and
    counts as the base itself does.
    """

    def __init__(self, base: Base, meter: Meter, overhead: int = 0) -> None:
        self.base = base
        self.meter = meter
        self.overhead = overhead
        recorded = base.messages[base.offset :]
        # A meter that weighs as the base's own does shares its work: the weight of a view is then known already.
        self.native = meter == base.meter and base.overhead == overhead
        if self.native:
            self.prefix: list[int] = base.prefix
        elif base.offset:
            self.prefix = [0, *accumulate(map(meter.weigh, recorded), initial=overhead)]
        else:
            self.prefix = list(accumulate(with_overhead(map(meter.weigh, recorded), overhead), initial=0))
        self._weights = _Weights(self)
        self._above: dict[int, int] = {}
        self.growth = Growth(base.calls, self.prefix, meter)
        self._own: list[Item] = []
        # Running totals over the own items of the view that was looked at last; the next one mostly begins like it.
        self._sums: list[int] = [0]

    def weight(self, view: View) -> int:
        """Give the weight of a view."""
        if self.native:
            return view.weight
        if not view.own_length:
            return self.prefix[view.hi] - self.prefix[view.lo]
        return self._own_sums(view)[view.own_length] + self.prefix[view.hi] - self.prefix[view.lo]

    def tokens(self, view: View) -> int:
        """Give the tokens of a view."""
        return self.meter.tokens(self.weight(view), MeterContext(view.turn, view.pristine))

    def weight_before(self, view: View, position: int) -> int:
        """Give the weight of what stands before a position; costs what the nearer end of the own part does."""
        split, prefix = view.own_length, self.prefix
        own = view.own_buffer
        if position >= split:
            shift = view.lo - split
            return self.weight(view) - prefix[view.hi] + prefix[position + shift]
        if position * 2 < split:
            return sum(map(self.item_weight, own[:position]))
        whole = self.weight(view) - prefix[view.hi] + prefix[view.lo]
        return whole - sum(map(self.item_weight, own[position:split]))

    def weight_above(self, room: int) -> int:
        """Give the smallest weight whose tokens are more than ``room``; the meter must be steady."""
        if room not in self._above:
            self._above[room] = weight_where(self.meter, lambda tokens: tokens > room)
        return self._above[room]

    def first_above(self, view: View, room: int, turn: int, until: int) -> int:
        """Give the first turn before ``until`` at which the view, only grown, has more tokens than ``room``."""
        if turn >= until:
            return until
        calls, prefix, meter = self.base.calls, self.prefix, self.meter
        fixed = self.weight(view) - prefix[view.hi]

        def tokens_at(at: int) -> int:
            return meter.tokens(fixed + prefix[calls[at]], MeterContext(at, view.pristine))

        if meter.steady:
            if tokens_at(until - 1) <= room:
                return until
            return bisect_left(range(turn, until), room + 1, key=tokens_at) + turn
        return next((at for at in range(turn, until) if tokens_at(at) > room), until)

    def item_weight(self, item: Item) -> int:
        """Give the weight of one item."""
        return item.weight if self.native else self._weights[item]

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
            weights = map(self._weights.__getitem__, own[len(sums) - 1 : length])
            sums += islice(accumulate(weights, initial=sums[-1]), 1, None)
        return sums


class _Weights(dict[Item, int]):
    """The weights of items that all replays of a session share; what one replay made is weighed when it is met."""

    def __init__(self, scale: Scale) -> None:
        super().__init__()
        self._scale = scale

    def __missing__(self, item: Item) -> int:
        index = item.index
        if item.kind is Kind.RECORDED and index >= 0:
            weight = self[item] = self._scale.prefix[index + 1] - self._scale.prefix[index]
            return weight
        weight = self._scale.message_weight(item.message)
        if item.kind is Kind.OFFLOADED and index >= 0:
            self[item] = weight
        return weight
