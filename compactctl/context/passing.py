"""Leaps over turns at which results at most get their placeholders as they leave the tail, and nothing else happens.

Such a run needs no step for each turn: what a view weighs at each is a running sum of what was recorded and one of what
placeholders save. A compactor promises it (``Pass``); a property test holds leaps against steps.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from compactctl.context.counting import Meter, MeterContext, tokens_of_all
from compactctl.context.scale import Scale
from compactctl.context.view import Base, Item, View
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
        self.paths = [entry.file_path for entry in entries]
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
        """Give a view in which the results ``first`` to ``last`` - 1 have their placeholders."""
        if first == last:
            return view
        back = view.own_length - view.lo
        positions = [at + back for at in self.at[first:last]]
        applied = view.swapped(list(zip(positions, self.items[first:last], strict=True)))
        if self.threshold is not None:
            # The promise rests on own items none of which is large, and those that joined them are placeholders now.
            self.base.note_clean(self.threshold, applied)
        return applied


class _Sums:
    """Running weights: ``recorded[t]`` of all messages before turn t, ``grown[n]`` of what n placeholders change."""

    def __init__(self, passing: Passing, prefix: Sequence[int], weights: Sequence[int]) -> None:
        self.recorded = [prefix[call] for call in passing.base.calls]
        self.grown = [0]
        for at, weight in zip(passing.at, weights, strict=True):
            self.grown.append(self.grown[-1] + weight - prefix[at + 1] + prefix[at])


class Heights(NamedTuple):
    """What views weigh at consecutive turns, each less by ``base``."""

    weights: Sequence[int]
    base: int

    def tokens(self, meter: Meter, turn: int) -> list[int]:
        """Give the tokens of each; the meter must be steady. ``turn`` is the first of all."""
        return tokens_of_all(meter, self.weights, self.base, MeterContext(turn, False))

    def peak(self, meter: Meter, turn: int, above: int) -> tuple[int, int] | None:
        """Give the most tokens and the first turn that has them (``turn`` is the first of all); None if not above."""
        context = MeterContext(turn, False)
        most = meter.tokens(max(self.weights) + self.base, context)
        if most <= above:
            return None
        least = weight_where(meter, lambda tokens: tokens >= most) - self.base
        return most, turn + next(i for i, weight in enumerate(self.weights) if weight >= least)


@dataclass(frozen=True, slots=True)
class Leap:
    """Turns after ``turn`` and before ``until``, as they went: what each view weighs, in decision and in real weight.

    ``warned`` of these turns were at the tier that offloads, the others did nothing. The results ``first`` to
    ``last`` - 1 got their placeholders on the way: at each turn of ``acted`` those that ``done`` says, behind ``first``
    or behind those of the turn of ``acted`` before. ``view`` is what is sent at the last turn.
    """

    passing: Passing
    turn: int
    until: int
    heights: Heights
    real_heights: Heights
    warned: int
    first: int
    acted: Sequence[int]
    done: Sequence[int]
    view: View

    @property
    def last(self) -> int:
        """The first result that got no placeholder."""
        return self.done[-1] if self.done else self.first

    @property
    def entries(self) -> Sequence[OffloadEntry]:
        """The files of the results that got their placeholders."""
        return self.passing.entries[self.first : self.last]

    @property
    def paths(self) -> Sequence[str]:
        """The paths of those files."""
        return self.passing.paths[self.first : self.last]

    def events(self) -> Iterator[tuple[int, int, int]]:
        """Give each turn that placed something, with the first of the results placed at it and that behind the last."""
        first = self.first
        for turn, done in zip(self.acted, self.done, strict=True):
            yield turn, first, done
            first = done


@dataclass(frozen=True, slots=True)
class Pass:
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
        acted: list[int] = []
        upto: list[int] = []
        weights: list[int] = []
        real_weights = weights if same else []
        warned = 0
        saved, turn = grown[done], now + 1
        while turn < stop:
            weight = recorded[turn] + saved
            after = done
            if weight < low:
                # Nothing is done until the view has grown to ``low``: these turns are taken together.
                until = bisect_left(recorded, low - saved, turn, stop)
                until = bisect_left(real.recorded, room - real.grown[done], turn, until)
                weights += [height + saved for height in recorded[turn:until]]
                if not same:
                    real_weights += [height + real.grown[done] for height in real.recorded[turn:until]]
                if until == turn:
                    break
                turn = until
                continue
            if weight >= high:
                break
            if behind[turn] > done:
                after = behind[turn]
                weight += grown[after] - saved
            real_weight = weight if same else real.recorded[turn] + real.grown[after]
            if real_weight >= room:
                break
            warned += 1
            if after != done:
                done, saved = after, grown[after]
                acted.append(turn)
                upto.append(done)
            weights.append(weight)
            if not same:
                real_weights.append(real_weight)
            turn += 1
        if not weights:
            return None
        landed = passing.applied(view.advanced(turn - 1), first, done)
        heights, real_heights = Heights(weights, base), Heights(real_weights, real_base)
        return Leap(passing, now, turn, heights, real_heights, warned, first, acted, upto, landed)
