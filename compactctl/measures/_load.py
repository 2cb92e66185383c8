"""The real tokens of every turn of a replay, and where a view does not begin like the one before it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from compactctl.context.counting import MeterContext, Standing, tokens_of_all
from compactctl.context.passing import Leap
from compactctl.context.prefix import shared_messages
from compactctl.context.scale import Scale
from compactctl.context.view import View
from compactctl.measures._own import Change, Stretch, own_changes
from compactctl.measures._spec import Trace

NOT_SENT = MeterContext(0, Standing.CHANGED)


class Cut(NamedTuple):
    """A turn whose view is not just the last one grown; all figures are real tokens, the fixed part included.

    ``shared`` is the common beginning of the two views, ``previous`` what was sent the turn before, ``grown`` what
    would be sent now had this turn changed nothing, ``after`` what is sent. ``acted`` says that the compactor changed
    the view at this turn: the rest are returns from a view to the untouched history. ``afresh`` says that the history
    holds nothing of what was changed before: in view mode a compaction lasts until the next one.
    """

    turn: int
    shared: int
    previous: int
    grown: int
    after: int
    acted: bool
    afresh: bool = False


@dataclass(frozen=True, slots=True)
class Load:
    """What a replay sends: the tokens of each turn and the cuts, in order."""

    tokens: list[int]
    cuts: tuple[Cut, ...]


def load_of(trace: Trace) -> Load:
    """Give the load of a replay; worked out once for all measures. Costs O(turns + what compactions changed)."""
    known = trace.cache.get("load")
    if not isinstance(known, Load):
        known = trace.cache["load"] = _load(trace)
    return known


def uncompacted(trace: Trace) -> list[int]:
    """Give the tokens of each turn without any compaction; worked out once for all replays with this bound."""
    return load_of(trace.bound or trace).tokens


def _call_weights(trace: Trace) -> list[int]:
    prefix = trace.scale.prefix
    return [prefix[index] for index in trace.base.calls]


def _grown(scale: Scale, fixed: int, weights: Sequence[int], turn: int, pristine: int) -> list[int]:
    """Give the tokens of consecutive turns of a view that only grows; ``weights`` are those of the recorded part."""
    if scale.meter.steady:
        return tokens_of_all(scale.meter, weights, fixed, MeterContext(turn, pristine))
    tokens = scale.meter.tokens
    return [tokens(fixed + weight, MeterContext(at, pristine)) for at, weight in enumerate(weights, turn)]


def _load(trace: Trace) -> Load:
    scale = trace.scale
    prefix, meter = scale.prefix, scale.meter
    weights = _call_weights(trace)
    sent: list[int] = []
    cuts: list[Cut] = []
    last: View | None = None
    last_fixed = 0
    for span, (change, _) in zip(trace.spans, own_changes(trace), strict=True):
        view, turn = span.view, span.turn
        weight = scale.weight(view)
        fixed = weight - prefix[view.hi]
        now = meter.tokens(weight, MeterContext(turn, view.pristine))
        if last is not None and (change is not None or last.lo != view.lo):
            # The view of the turn before, which is the last of its span.
            before = last if last.turn == turn - 1 else last.advanced(turn - 1)
            common = _common(before, view, change)
            if common < len(before):
                shared = meter.tokens(scale.weight_before(view, common), MeterContext(turn, False))
                given = span.before
                acted = given is None or given.generation != view.generation
                if last.pristine in (Standing.SENT, Standing.LIVED):
                    # What this turn's own prompt says is what the harness made of it, so the last one is added to.
                    was, is_now = (meter.tokens(last_fixed + weights[at], NOT_SENT) for at in (turn - 1, turn))
                    grown = sent[-1] + is_now - was
                elif given is not None and given.pristine:
                    grown = meter.tokens(prefix[given.hi], MeterContext(turn, True))
                else:
                    grown = meter.tokens(last_fixed + weights[turn], MeterContext(turn, last.pristine))
                afresh = given is not None and given.generation < last.generation
                cuts.append(Cut(turn, min(shared, now), sent[-1], grown, now, acted, afresh))
        sent.append(now)
        if span.leap is not None:
            cuts += _leapt(span.leap, scale, sent)
            last, last_fixed = span.leap.view, scale.weight(span.leap.view) - prefix[span.leap.view.hi]
            continue
        if span.until > turn + 1:
            sent += _grown(scale, fixed, weights[turn + 1 : span.until], turn + 1, view.pristine)
        last, last_fixed = view, fixed
    return Load(sent, tuple(cuts))


def _leapt(leap: Leap, scale: Scale, sent: list[int]) -> Iterator[Cut]:
    """Add what was sent at the turns of a leap, and give the cuts where placeholders broke the cache."""
    calls, prefix, context = scale.base.calls, scale.prefix, MeterContext(leap.turn, False)
    at, sums, fixed = leap.passing.at, leap.passing.sums(scale), leap.real_heights.base
    before = len(sent) - leap.turn - 1  # the place of turn 0
    sent += leap.real_heights.tokens(scale.meter)
    # A result of the turn just before was never sent, so it broke nothing.
    events = [(turn, placed) for turn, placed, _ in leap.events() if at[placed] < calls[turn - 1]]
    shares = tokens_of_all(scale.meter, [prefix[at[n]] + sums.grown[n] for _, n in events], fixed, context)
    growths = tokens_of_all(scale.meter, [sums.recorded[turn] + sums.grown[n] for turn, n in events], fixed, context)
    for (turn, _), shared, grown in zip(events, shares, growths, strict=True):
        previous, after = sent[before + turn - 1], sent[before + turn]
        yield Cut(turn, shared if shared < after else after, previous, grown, after, True)


def _common(before: View, view: View, change: Change | None) -> int:
    """Give how many first messages two views share, without looking at those that are known to be the same."""
    if change is None:
        return shared_messages(before, view, view.own_length)
    at = change.keep
    if at == before.own_length:
        # What the own part took over from the recorded range of the view before is still what it was.
        start, stop, _ = change.come[0] if change.come else Stretch(-1, -1, None)
        if start == before.lo:
            made = [item.index for item in change.made[:1] if start <= item.index < stop]
            at += min(stop, before.hi, *made) - start
    return shared_messages(before, view, at)
