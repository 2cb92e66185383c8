"""Leaps over turns at which results at most get their placeholders as they leave the tail, and nothing else happens.

Such a run needs no step for each turn: what a view weighs at each is a running sum of what was recorded and one of what
placeholders save. A compactor promises it (``Pass``); a property test holds leaps against steps.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import accumulate

from msgspec import Struct

from compactctl.context.base import Base, Item
from compactctl.context.counting import Meter, MeterContext, tokens_of_all
from compactctl.context.growth import Growth
from compactctl.context.scale import Scale
from compactctl.context.view import View
from compactctl.context.weights import weight_where
from compactctl.model import OffloadEntry


class Passing:
    """What becomes of a session's large results as the newest ``tail`` messages move on.

    ``at`` are the indices of the results, ``items`` their placeholders, ``entries`` their files, all in order.
    ``behind[t]`` is how many of them lie behind the tail at turn t. ``threshold`` is the size that they are all above,
    None where there are other results above it too.
    """

    def __init__(
        self,
        base: Base,
        at: Sequence[int],
        items: Sequence[Item],
        entries: Sequence[OffloadEntry],
        tail: int,
        threshold: int | None = None,
    ) -> None:
        self.base = base
        self.threshold = threshold
        self.at = at
        self.items = items
        self.entries = entries
        self._bytes = list(accumulate([entry.bytes for entry in entries], initial=0))
        self.behind = [bisect_left(at, call - tail) for call in base.calls]
        self._sums: dict[int, tuple[object, _Sums]] = {}

    def sums(self, weighed: Base | Scale) -> _Sums:
        """Give the running sums under the meter of the base or of a scale; worked out once for each."""
        known = self._sums.get(id(weighed))
        if known is None:
            weigh = weighed.item_weight if isinstance(weighed, Scale) else lambda item: item.weight
            known = self._sums[id(weighed)] = (weighed, _Sums(self, weighed.prefix, list(map(weigh, self.items))))
        return known[1]

    def applied(self, view: View, first: int, last: int) -> View:
        """Give a view in which the results ``first`` to ``last`` - 1 have their placeholders, its first large ones."""
        if first == last:
            return view
        until = self.at[last - 1] + 1
        items, sums = self._all_placed
        applied = view.taken_over(until, items[view.lo : until], sums)
        if self.threshold is not None:
            # The promise rests on own items none of which is large, and those that joined them are placeholders now.
            self.base.note_clean(self.threshold, applied.own_buffer, applied.own_length)
        return applied

    def bytes_between(self, first: int, last: int) -> int:
        """Give the size of the files ``first`` to ``last`` - 1."""
        return self._bytes[last] - self._bytes[first]

    @cached_property
    def _all_placed(self) -> tuple[list[Item], list[int]]:
        """All recorded messages as items, each result with its placeholder, and their running weights."""
        items = self.base.items.copy()
        for at, item in zip(self.at, self.items, strict=True):
            items[at] = item
        return items, list(accumulate([item.weight for item in items], initial=0))


class _Sums:
    """Running weights: ``recorded[t]`` of all messages before turn t, ``grown[n]`` of what n placeholders change."""

    def __init__(self, passing: Passing, prefix: Sequence[int], weights: Sequence[int]) -> None:
        self.recorded = [prefix[call] for call in passing.base.calls]
        self.grown = [0]
        for at, weight in zip(passing.at, weights, strict=True):
            self.grown.append(self.grown[-1] + weight - prefix[at + 1] + prefix[at])


# Turns from the first number up to the second one, at which the third one of all results have their placeholders.
Stretch = tuple[int, int, int]


class Heights(Struct, frozen=True, gc=False):
    """What views weigh at consecutive turns, in stretches in which they only grow; ``base`` is added to each."""

    sums: _Sums
    stretches: Sequence[Stretch]
    base: int

    def tokens(self, meter: Meter) -> list[int]:
        """Give the tokens of each; the meter must be steady."""
        recorded, grown, base = self.sums.recorded, self.sums.grown, self.base
        context = MeterContext(self.stretches[0][0], False)
        found: list[int] = []
        for turn, until, placed in self.stretches:
            found += tokens_of_all(meter, recorded[turn:until], grown[placed] + base, context)
        return found

    def total(self, growth: Growth) -> int:
        """Give the tokens of all of them together, as ``growth`` counts them; its meter must be steady."""
        grown, base = self.sums.grown, self.base
        return growth.total_of([(grown[placed] + base, turn, until) for turn, until, placed in self.stretches])

    def peak(self, meter: Meter, above: int) -> tuple[int, int] | None:
        """Give the most tokens and the first turn that has them; None where they are not above a number."""
        recorded, grown, base = self.sums.recorded, self.sums.grown, self.base
        highest = max([recorded[until - 1] + grown[placed] for _, until, placed in self.stretches])
        most = meter.tokens(highest + base, MeterContext(self.stretches[0][0], False))
        if most <= above:
            return None
        least = weight_where(meter, lambda tokens: tokens >= most) - base
        reaching = (one for one in self.stretches if recorded[one[1] - 1] + grown[one[2]] >= least)
        turn, until, placed = next(reaching)
        return most, bisect_left(recorded, least - grown[placed], turn, until)


class Leap(Struct, frozen=True, gc=False):
    """Turns after ``turn`` and before ``until``, as they went: what each view weighs, in decision and in real weight.

    ``warned`` of these turns were at the tier that offloads, the others did nothing. The results ``first`` to
    ``last`` - 1 got their placeholders on the way. ``view`` is what is sent at the last turn.
    """

    passing: Passing
    turn: int
    until: int
    heights: Heights
    real_heights: Heights
    warned: int
    first: int
    last: int
    view: View

    @property
    def entries(self) -> Sequence[OffloadEntry]:
        """The files of the results that got their placeholders."""
        return self.passing.entries[self.first : self.last]

    @property
    def bytes(self) -> int:
        """How large those files are together."""
        return self.passing.bytes_between(self.first, self.last)

    def events(self) -> Iterator[tuple[int, int, int]]:
        """Give each turn that placed something, with the first of the results placed at it and that behind the last."""
        done = self.first
        for turn, _, placed in self.heights.stretches:
            if placed > done:
                yield turn, done, placed
            done = placed


class Pass(Struct, frozen=True, gc=False):
    """A compactor's promise of what it does until a view weighs ``high``, before a step and under the base's meter.

    Below ``low`` it does nothing; from there on it puts placeholders for the results behind the tail, and the view is
    written back.
    """

    passing: Passing
    low: int
    high: int

    def leap(self, view: View, stop: int, scale: Scale, room: int) -> Leap | None:
        """Go as far as the promise holds, at most to the turn ``stop``; None where that is no turn at all.

        It also ends where a view would weigh ``room`` under the scale: what then happens only a step can say.
        """
        passing, now = self.passing, view.turn
        own = passing.sums(view.base)
        same = scale.prefix is view.base.prefix
        real = own if same else passing.sums(scale)
        done = first = bisect_left(passing.at, view.lo)
        recorded, grown, behind = own.recorded, own.grown, passing.behind
        base = view.weight - recorded[now] - grown[done]
        real_base = scale.weight(view) - real.recorded[now] - real.grown[done]
        low, high, room = self.low - base, self.high - base, room - real_base
        quiet = min(low, room) if same else low
        stretches: list[Stretch] = []
        warned = 0
        saved, turn = grown[done], now + 1
        start = turn
        while turn < stop:
            weight = recorded[turn] + saved
            if weight < low:
                # Nothing is done until the view has grown to ``low``: these turns are taken together.
                until = bisect_left(recorded, quiet - saved, turn, stop)
                if not same:
                    until = bisect_left(real.recorded, room - real.grown[done], turn, until)
                if until == turn:
                    break
                turn = until
                continue
            if weight >= high:
                break
            after = behind[turn]
            if after <= done:
                after = done
            elif same:
                weight += grown[after] - saved
            if (weight if same else real.recorded[turn] + real.grown[after]) >= room:
                break
            if after > done:
                if turn > start:
                    stretches.append((start, turn, done))
                start, done, saved = turn, after, grown[after]
            warned += 1
            turn += 1
        if turn == now + 1:
            return None
        stretches.append((start, turn, done))
        heights, real_heights = Heights(own, stretches, base), Heights(real, stretches, real_base)
        landed = passing.applied(view.advanced(turn - 1), first, done)
        return Leap(passing, now, turn, heights, real_heights, warned, first, done, landed)
