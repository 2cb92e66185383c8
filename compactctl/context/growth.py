"""Totals and peaks over turns in which a view only grows, without looking at each of them."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple

from compactctl.context.counting import Meter, MeterContext
from compactctl.context.view import View


class Run(NamedTuple):
    """A view that is sent at ``turn`` and, grown by what was recorded since, up to ``until`` - 1.

    ``weight`` is that of the view at its first turn, under the meter that counts.
    """

    view: View
    weight: int
    turn: int
    until: int


class Growth:
    """Counts runs of turns under one meter; ``prefix`` are the running weights of the recorded messages under it.

    ``calls`` are the indices of the messages before which each turn stands. A meter that has a ``divisor`` (its tokens
    are the weight divided by it, rounded down) makes totals O(1); others are asked turn by turn.
    """

    def __init__(self, calls: Sequence[int], prefix: Sequence[int], meter: Meter) -> None:
        self._calls = calls
        self._prefix = prefix
        self.meter = meter
        self._divisor: int | None = getattr(meter, "divisor", None)
        self._sums: dict[int, list[int]] = {}
        # So many turns are added one by one before running sums are made, which cost as much: one replay needs none.
        self._one_by_one = 4 * len(calls)

    def total(self, run: Run) -> int:
        """Give the tokens of all turns of a run together."""
        view, weight, turn, until = run
        first = self.meter.tokens(weight, MeterContext(turn, view.pristine))
        if until == turn + 1:
            return first
        if self._divisor is None:
            return first + sum(self._tokens(run, at) for at in range(turn + 1, until))
        return first + self.total_of([(weight - self._prefix[view.hi], turn + 1, until)])

    def total_of(self, stretches: Sequence[tuple[int, int, int]]) -> int:
        """Give the tokens of all turns of some stretches together; a meter without a divisor must be steady.

        A stretch is a weight and two turns: from the first up to the second one, views weigh as much as was recorded
        before them, and that weight. They are not the recorded ones.
        """
        divisor = self._divisor
        if divisor is None:
            prefix, calls, tokens = self._prefix, self._calls, self.meter.tokens
            context = MeterContext(0, False)
            return sum(
                [tokens(prefix[at] + added, context) for added, *span in stretches for at in calls[slice(*span)]]
            )
        total = 0
        if self._one_by_one > 0:
            prefix, calls = self._prefix, self._calls
            for added, turn, until in stretches:
                self._one_by_one -= until - turn
                total += sum([(prefix[at] + added) // divisor for at in calls[turn:until]])
            return total
        for added, turn, until in stretches:
            # floor((q d + r + p) / d) = q + floor((r + p) / d): the second part is the same for all of one remainder.
            whole, rest = divmod(added, divisor)
            sums = self._sums.get(rest) or self._sums_for(rest, divisor)
            total += whole * (until - turn) + sums[until] - sums[turn]
        return total

    def peak(self, run: Run, above: int) -> tuple[int, int] | None:
        """Give the most tokens of a run and the first turn that has them; None where they are not above a number."""
        turn, until = run.turn, run.until
        if self.meter.steady:
            most = self._tokens(run, until - 1)
            if most <= above:
                return None
            return most, turn + bisect_left(range(turn, until), most, key=lambda at: self._tokens(run, at))
        most, best = max((self._tokens(run, at), -at) for at in range(turn, until))
        return (most, -best) if most > above else None

    def _tokens(self, run: Run, at: int) -> int:
        view, weight, turn, _ = run
        if at > turn:
            prefix = self._prefix
            weight += prefix[self._calls[at]] - prefix[view.hi]
        return self.meter.tokens(weight, MeterContext(at, view.pristine))

    def _sums_for(self, rest: int, divisor: int) -> list[int]:
        prefix = self._prefix
        sums = self._sums[rest] = list(accumulate([(rest + prefix[at]) // divisor for at in self._calls], initial=0))
        return sums
