"""Replays a recorded session through a compactor, one turn for each model call (DESIGN.md, Replay).

``replay`` is the public face. ``walk`` is what the commands use: it gives spans, so that runs of turns in which a
compactor promised to do nothing cost nothing where nobody wants their records.
"""

from __future__ import annotations

import sys
from bisect import bisect_left
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from compactctl.compactors._list_face import ListCompactor
from compactctl.context.base import Base, Kind
from compactctl.context.counting import Meter, Standing
from compactctl.context.lived import as_cleared
from compactctl.context.passing import Leap
from compactctl.context.scale import Scale
from compactctl.context.view import View
from compactctl.context.weights import weight_reaching
from compactctl.meters.bytes4 import Bytes4
from compactctl.model import (
    SYSTEM,
    CompactionRecord,
    Message,
    Origin,
    RecordedCompaction,
    Session,
    Tier,
    Trigger,
)
from compactctl.ports import (
    Clock,
    Compactor,
    HistoryMode,
    Quiet,
    RecordedCompactor,
    RecordedMode,
    Span,
    Step,
    StepCompactor,
    Turn,
)


@dataclass(frozen=True, slots=True)
class Limits:
    """What a provider would accept: the window in real tokens, and how many retries an overflow gets.

    ``scale`` is the base of the replay weighed under ``real``, where the caller has it already.
    """

    window: int
    real: Meter
    reserve: int = 0
    overflow_retries: int = 0
    scale: Scale | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    """How a session is replayed.

    ``compact_at`` are the turns at which the user forces a compaction. ``skip`` allows quiet turns to be skipped,
    ``leap`` also those at which a compactor only offloads what passes by.
    ``limits`` is None where nobody said what a provider would accept. ``follow`` says that the history is what the
    harness really sent, with ``compactions`` applied where they happened.
    """

    history: HistoryMode = HistoryMode.VIEW
    compactions: tuple[RecordedCompaction, ...] = ()
    compact_at: frozenset[int] = frozenset()
    limits: Limits | None = None
    skip: bool = False
    clock: Clock | None = None
    leap: bool = False
    follow: bool = False


def base_of(
    session: Session | Sequence[Message],
    meter: Meter,
    *,
    follow: bool = False,
    overhead: int = 0,
    altered: bool = False,
) -> tuple[Base, tuple[RecordedCompaction, ...]]:
    """Weigh a session's messages, and give the recorded compactions that the replay is to follow.

    Unless recorded compactions are followed, the summaries that the harness wrote are left out: the history is then
    what it would have been without them. A Session without a system message gets a stub first (a bare list never does).
    ``overhead`` tokens of weight are in the stub, else in the recorded system message beside its own: tools are in
    neither. ``altered`` says that some messages are not as they were recorded.
    """
    if not isinstance(session, Session):
        return Base(session, meter, altered=altered), ()
    messages: Sequence[Message] = session.messages
    if not follow:
        summary = Origin.RECORDED_SUMMARY
        messages = [m for m in messages if m.origin is not summary]
    weight = overhead_weight(meter, overhead)
    if messages and messages[0].role == SYSTEM:
        base = Base(messages, meter, overhead=weight, altered=altered)
    else:
        base = Base(messages, meter, weight, altered=altered)
    return base, session.compactions if follow else ()


def overhead_weight(meter: Meter, tokens: int) -> int:
    """Give the smallest weight that counts for so many tokens, what the meter counts for no message among them."""
    return weight_reaching(meter, tokens) if tokens > 0 else 0


def replay(
    session: Session | Sequence[Message],
    compactor: StepCompactor | Compactor | RecordedCompactor,
    history: HistoryMode | str | None = None,
    clock: Clock | None = None,
    *,
    recorded: RecordedMode | str = RecordedMode.IGNORE,
    overhead: int = 0,
    compact_at: Collection[int] = (),
    limits: Limits | None = None,
) -> Iterator[Turn]:
    """Replay a session or a list of messages; gives exactly one Turn for each model call, in order.

    ``history`` is ``view`` (each turn compacts the whole recorded history) or ``write-back`` (a compaction's view is
    the history of the next turns); None takes the compactor's own. ``recorded`` is ``ignore`` or ``follow`` (the
    session's own compactions applied where they happened). Without a clock all durations are None. Raises ValueError
    for a word that is none of these.
    """
    driver = as_step_compactor(compactor)
    meter: Meter = getattr(driver, "meter", None) or Bytes4()
    follow = RecordedMode(recorded) is RecordedMode.FOLLOW
    base, compactions = base_of(session, meter, follow=follow, overhead=overhead)
    mode = HistoryMode(history) if history else getattr(driver, "history", HistoryMode.VIEW)
    plan = Plan(mode, compactions, frozenset(compact_at), limits, clock=clock, follow=follow)
    for span in walk(base, driver, plan):
        yield Turn(span.turn, span.records, span.view, span.failed)


def as_step_compactor(compactor: Any) -> StepCompactor:
    """Give what the replay can drive: an object with the list face alone is wrapped."""
    if hasattr(compactor, "step"):
        driver: StepCompactor = compactor
        return driver
    return ListCompactor(compactor)


def walk(base: Base, compactor: StepCompactor, plan: Plan) -> Iterator[Span]:
    """Drive a compactor over a session's turns; without ``plan.skip`` every span is one turn."""
    turns = len(base.calls)
    reality = _Reality(base, plan.compactions)
    scale = (plan.limits.scale or Scale(base, plan.limits.real)) if plan.limits else None
    history = View.before(base, 0)
    if plan.follow and history.pristine:
        history = history.standing(Standing.SENT)
    turn = 0
    while turn < turns:
        before = history = reality.applied(history.advanced(turn))
        manual = turn in plan.compact_at
        step = _timed(compactor, history, Trigger.MANUAL if manual else Trigger.PRESSURE, plan)
        records = [step.record]
        failed = False
        if plan.limits is not None and scale is not None:
            step, failed = _until_accepted(compactor, step, records, plan, plan.limits, scale)
        if step.view is not history and step.write_back and plan.history is HistoryMode.WRITE_BACK:
            history = step.view
        until, quiet_tier, leap = turn + 1, Tier.NONE, None
        quiet = step.promise() if plan.skip and history is step.view and not failed else None
        if quiet is not None:
            stop = _stop(base, turn, plan, reality)
            quiet_tier, leap = quiet.tier, _leap(history, quiet, plan, stop, scale)
            # A leap in which something is done goes beyond the quiet turns; only another one need be compared.
            if leap is None or not (leap.last > leap.first or (leap.warned and quiet_tier is Tier.NONE)):
                until = _wake(base, history, quiet, plan, stop, scale)
            if leap is not None and leap.until > until:
                until, history = leap.until, leap.view
            else:
                leap = None
        yield Span(turn, until, tuple(records), step.view, failed, before, quiet_tier, leap)
        turn = until


def _until_accepted(
    compactor: StepCompactor, step: Step, records: list[CompactionRecord], plan: Plan, limits: Limits, scale: Scale
) -> tuple[Step, bool]:
    """Give a compactor with an overflow path its retries while a provider would reject the view (dsh.md 2.6)."""
    tries = 0
    while scale.tokens(step.view) + limits.reserve > limits.window:
        if tries >= limits.overflow_retries:
            return step, True
        tries += 1
        again = _timed(compactor, step.view, Trigger.CONTEXT_OVERFLOW, plan)
        records.append(again.record)
        # Progress is a new generation of the surface: token estimates are what was wrong to begin with.
        progressed = again.view.generation > step.view.generation
        step = Step(again.view, again.record, step.write_back or again.write_back)
        if not progressed:
            return step, True
    return step, False


def _timed(compactor: StepCompactor, view: View, trigger: Trigger, plan: Plan) -> Step:
    started = plan.clock.now() if plan.clock else None
    step = compactor.step(view, trigger)
    if plan.skip or (step.record.tier is Tier.NONE and not step.record.error):
        return step
    stamp = view.base.messages[view.base.calls[view.turn]].timestamp
    duration = plan.clock.now() - started if plan.clock and started is not None else None
    record = step.record.stamped(plan.history.value, stamp, duration)
    return Step(step.view, record, step.write_back, step.quiet)


def _wake(base: Base, view: View, quiet: Quiet, plan: Plan, stop: int, scale: Scale | None) -> int:
    """Give the first turn at which the compactor must be asked again, at the latest ``stop``."""
    now = view.turn
    wake = stop
    if quiet.weight is not None:
        wanted = quiet.weight - view.weight + base.prefix[view.hi]
        wake = min(wake, bisect_left(base.call_weights, wanted, lo=now + 1))
    if quiet.messages is not None:
        wanted = quiet.messages - len(view) + view.hi
        wake = min(wake, bisect_left(base.calls, wanted, lo=now + 1))
    if scale is not None and plan.limits is not None:
        room = plan.limits.window - plan.limits.reserve
        wake = scale.first_above(view, room, now + 1, wake)
    return max(wake, now + 1)


def _leap(view: View, quiet: Quiet, plan: Plan, stop: int, scale: Scale | None) -> Leap | None:
    """Leap as far as a compactor promised to do no more than offload; None where it did not or nobody wants it."""
    if quiet.passing is None or not plan.leap or plan.history is not HistoryMode.WRITE_BACK:
        return None
    if plan.limits is None or scale is None or not scale.meter.steady:
        return None
    room = scale.weight_above(plan.limits.window - plan.limits.reserve)
    return quiet.passing.leap(view, stop, scale, room)


def _stop(base: Base, now: int, plan: Plan, reality: _Reality) -> int:
    """Give the next turn at which something comes from outside: a compaction of the user or of the recording."""
    stop = len(base.calls)
    for forced in plan.compact_at:
        if forced > now:
            stop = min(stop, forced)
    if reality.next_at is not None:
        stop = min(stop, bisect_left(base.calls, reality.next_at, lo=now + 1))
    return stop


class _Reality:
    """The session's own compactions, applied where they really happened."""

    def __init__(self, base: Base, compactions: Sequence[RecordedCompaction]) -> None:
        self._base = base
        self._waiting = sorted(compactions, key=lambda compaction: compaction.at)

    @property
    def next_at(self) -> int | None:
        """The index of the message before which the next one happened, None where there is no more."""
        return self._waiting[0].at + self._base.offset if self._waiting else None

    def applied(self, view: View) -> View:
        """Give the history with those compactions applied that happened by now."""
        while self._waiting and self._waiting[0].at + self._base.offset <= view.hi:
            compaction = self._waiting.pop(0)
            if compaction.kind == "micro":
                view = as_cleared(view, compaction)
            else:
                view = self._reset(view, compaction)
        return view

    def _reset(self, view: View, compaction: RecordedCompaction) -> View:
        at = compaction.at + self._base.offset
        system = [view.item(0)] if view.has_system else []
        replacement = [m for m in compaction.replacement or () if m.role != SYSTEM or not system]
        own = system + [view.made(m, Kind.REPLACED) for m in replacement]
        # What was recorded after the compaction goes on behind it.
        pristine = Standing.CHANGED if self._base.altered else Standing.SENT
        # What is put there may hold torn pairs of its own, and the cut may go between a call and its result: then no
        # more is known of the view than of any list of messages.
        cut_tears = at < len(self._base.messages) and bool(self._base.messages[at].tool_call_id)
        tidy = not cut_tears and not any(m.tool_calls or m.tool_call_id for m in replacement)
        weight = sum(item.weight for item in own)
        return View(self._base, own, len(own), weight, at, view.hi, view.turn, 0, pristine, tidy)


class _CallableModule(ModuleType):
    """Python puts this module under the name of the function, ``compactctl.replay``, whenever it is imported."""

    def __call__(self, *args: Any, **kwargs: Any) -> Iterator[Turn]:
        return replay(*args, **kwargs)


sys.modules[__name__].__class__ = _CallableModule
