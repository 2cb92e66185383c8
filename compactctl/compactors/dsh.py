"""dsh's escalation ladder: prune, measure again, compact, and give up aloud (dsh.md 2.1-2.7)."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from compactctl.compactors._ask import Answer, ask, failure_note
from compactctl.compactors._list_face import ListFace, record_of
from compactctl.context.base import Kind
from compactctl.context.counting import Meter
from compactctl.context.cuts import balanced_cut
from compactctl.context.prune import ToolResultPruner
from compactctl.context.sections import DSH_PREAMBLE, DSH_TAG
from compactctl.context.view import View
from compactctl.context.weights import tokens_added, weight_adding, weight_reaching
from compactctl.errors import SettingsError, SummarizerError
from compactctl.meters.dsh import Dsh
from compactctl.model import USER, Message, Note, Parts, Session, Tier, Trigger, summary_failure
from compactctl.ports import CompactorSpec, HistoryMode, Option, Ports, Quiet, Step, Summarizer, SummaryFormat

PREAMBLE = f"{DSH_PREAMBLE}\n\n{DSH_TAG}"
CLOSING = "</compacted-summary>"
DEFAULT_PRUNER = ToolResultPruner()


class DshCompactor(ListFace):
    """Climbs a ladder only as far as it must, and never stops a turn because of its own failure.

    Pressure: from ``threshold_ratio`` of the window on, long results are pruned; where that is not enough, the head is
    summarised into a checkpoint up to the newest ``retain_ratio`` of the window, once and ``compaction_retries`` times
    more. Overflow (the provider rejected the request): pruned, then everything but the newest message, or the newest
    calls with their results, is summarised, whatever the size. A checkpoint that would not be smaller than what it
    replaces is refused. A summary has at most ``summary_tokens``; dsh's own cap is 8,192, the default here is the one
    that all compactors are compared with. ``trigger`` makes every turn take one path: the vectors reach the overflow
    path by it.

    Raises SettingsError where the ratios contradict each other.
    """

    name = "dsh"
    history = HistoryMode.WRITE_BACK

    def __init__(
        self,
        summarizer: Summarizer | None,
        context_window: int,
        *,
        threshold_ratio: float = 0.8,
        retain_ratio: float = 0.16,
        compaction_retries: int = 1,
        pruner: ToolResultPruner | None = DEFAULT_PRUNER,
        trigger: Trigger | str | None = None,
        meter: Meter | None = None,
        summary_tokens: int = 2000,
        protect: Collection[str] = (),
    ) -> None:
        for sentence in _impossible(threshold_ratio, retain_ratio):
            raise SettingsError(sentence)
        self.summarizer = summarizer
        self.context_window = context_window
        self.threshold = math.floor(context_window * threshold_ratio)
        self.retain = math.floor(context_window * retain_ratio)
        self.attempts = compaction_retries + 1
        self.pruner = pruner
        self.trigger = Trigger(trigger) if trigger else None
        self.meter: Meter = meter or Dsh()
        self.summary_tokens = summary_tokens
        self.protect = frozenset(protect)
        self._quiet: Quiet | None = None

    def step(self, view: View, trigger: Trigger) -> Step:
        """Relieve the pressure, answer an overflow, or do what the user's /compact asks for."""
        way = self.trigger if self.trigger and trigger is Trigger.PRESSURE else trigger
        climb = _Climb(view)
        if way is Trigger.PRESSURE:
            # Before the first request nothing is known of the model, so nothing is done.
            if self.context_window > 0 and view.turn > 0:
                self._relieve(climb)
        else:
            if way is Trigger.CONTEXT_OVERFLOW:
                self._prune(climb)
            self._compact(climb, 0)
        record = record_of(
            view,
            climb.view,
            tier=climb.tier,
            compactor=self.name,
            trigger=way,
            preserved_tail=len(climb.view) - (1 if climb.summarized else 0) - (1 if view.has_system else 0),
            summarized=climb.summarized,
            replaced=climb.replaced,
            error=climb.error,
            notes=tuple(climb.notes),
            answer=climb.answer,
            summary_text=climb.summary,
        )
        return Step(climb.view, record, climb.view is not view, self._promise(climb, way))

    # -- the rungs -----------------------------------------------------------------------------------------------

    def _relieve(self, climb: _Climb) -> None:
        if climb.view.tokens < self.threshold:
            return
        self._prune(climb)
        if climb.view.tokens < self.threshold:
            return
        for _ in range(self.attempts):
            if not self._compact(climb, self.retain) or climb.view.tokens < self.threshold:
                return
        climb.error = (
            f"still above the threshold after {self.attempts} compactions "
            f"({climb.view.tokens} tokens, threshold {self.threshold}); the turn goes on"
        )

    def _prune(self, climb: _Climb) -> None:
        if self.pruner is None:
            return
        pruned = self.pruner.apply(climb.view, self.protect)
        if pruned is not climb.view:
            climb.view, climb.tier = pruned, Tier.WARN

    def _compact(self, climb: _Climb, retain: int) -> bool:
        """Put a checkpoint in place of everything before the cut; False where that cannot be done."""
        view = climb.view
        start = 1 if view.has_system else 0
        cut = self._cut(view, start, retain)
        if cut <= start:
            climb.notes.append(Note.HEAD_EMPTY)
            return False
        climb.tier = Tier.FULL
        shadowed = view.weight_between(start, cut)
        try:
            answer = ask(
                self.summarizer,
                view.messages(start, cut),
                self.meter,
                weight=shadowed,
                format=SummaryFormat.DSH,
                budget=self.summary_tokens,
            )
        except SummarizerError as error:
            climb.error = summary_failure(str(error))
            climb.notes.append(failure_note(error))
            return False
        climb.charge(answer)
        if not answer.text:
            climb.error = summary_failure("the answer holds no text")
            return False
        checkpoint = view.made(checkpoint_message(answer.text), Kind.SUMMARY)
        if checkpoint.weight >= shadowed:
            climb.error = (
                f"the checkpoint is refused: it has {tokens_added(self.meter, checkpoint.weight)} tokens, "
                f"what it would replace {tokens_added(self.meter, shadowed)}"
            )
            return False
        climb.view = view.replaced(start, cut, [checkpoint])
        # A second attempt summarises the first one's checkpoint, which is none of the view's messages.
        climb.replaced += cut - start - (1 if climb.replaced else 0)
        climb.summarized, climb.summary = cut - start, answer.text
        return True

    def _cut(self, view: View, start: int, retain: int) -> int:
        """Give the position from which on the tail is kept (dsh.md 2.4)."""
        # Messages have weights, in whatever unit the meter has: what is to be retained is put in it as well.
        enough = weight_adding(self.meter, retain)
        position, kept = len(view) - 1, 0
        while position > start:
            kept += view.weight_between(position, position + 1)
            if kept >= enough:
                break
            position -= 1
        return balanced_cut(view, start, position) if position > start else start

    # -- around them ---------------------------------------------------------------------------------------------

    def _promise(self, climb: _Climb, way: Trigger) -> Quiet | None:
        if self.trigger or way is not Trigger.PRESSURE:
            return None
        if self.context_window <= 0:
            return Quiet()
        if not self.meter.steady or climb.view.tokens >= self.threshold:
            return None
        if self._quiet is None:
            self._quiet = Quiet(weight=weight_reaching(self.meter, self.threshold))
        return self._quiet


class _Climb:
    """How far one step has come."""

    def __init__(self, view: View) -> None:
        self.view = view
        self.tier = Tier.NONE
        self.summarized = 0  # by the last attempt that came through, as dsh counts
        self.replaced = 0  # by all of them
        self.summary = ""
        self.error = ""
        self.notes: list[str] = []
        self.answer: Answer | None = None

    def charge(self, answer: Answer) -> None:
        """Add what an attempt cost to those before it."""
        before = self.answer or Answer("", ())
        self.answer = Answer(answer.text, before.calls + answer.calls, before.notes + answer.notes)


def checkpoint_message(summary: str) -> Message:
    """Give the message that stands for what was summarised: three text blocks, each priced by itself."""
    texts = (PREAMBLE, summary, CLOSING)
    return Message(USER, "".join(texts), parts=Parts(texts))


def _impossible(threshold_ratio: float, retain_ratio: float) -> Iterable[str]:
    if not 0 < threshold_ratio <= 1:
        yield f"threshold_ratio {threshold_ratio:g} must be above 0 and at most 1"
    if not 0 <= retain_ratio <= 1:
        yield f"retain_ratio {retain_ratio:g} must be from 0 to 1"
    if retain_ratio >= threshold_ratio:
        yield f"retain_ratio {retain_ratio:g} must be below threshold_ratio {threshold_ratio:g}"


def _pruner(options: Mapping[str, Any]) -> ToolResultPruner | None:
    if not options["prune"]:
        return None
    return ToolResultPruner(options["prune_threshold"], options["prune_head"], options["prune_tail"])


def _check(options: Mapping[str, Any]) -> Iterable[str]:
    yield from _impossible(options["threshold_ratio"], options["retain_ratio"])
    try:
        _pruner(options)
    except SettingsError as error:
        yield str(error)


def _make(options: Mapping[str, Any], session: Session | None, ports: Ports) -> DshCompactor:
    return DshCompactor(
        ports.summarizer,
        ports.context_window,
        threshold_ratio=options["threshold_ratio"],
        retain_ratio=options["retain_ratio"],
        compaction_retries=options["compaction_retries"],
        pruner=_pruner(options),
        trigger=options["trigger"] or None,
        meter=ports.meter,
        summary_tokens=ports.summary_tokens,
        protect=ports.protect,
    )


COMPACTOR = CompactorSpec(
    "dsh",
    "dsh's ladder: prune long results, measure again, summarise the head, give up aloud",
    _make,
    (
        Option("threshold_ratio", 0.8, "share of the window at which the ladder is climbed", float, "full", 0, 1),
        Option("retain_ratio", 0.16, "share of the window that is kept as it is", float, "", 0, 1),
        Option("compaction_retries", 1, "further summaries while the view is above the threshold", int, "", 0),
        Option("prune", True, "whether long results are pruned before anything is summarised", bool),
        Option("prune_threshold", 8192, "results longer than this many characters are pruned", int, "", 0),
        Option("prune_head", 4096, "characters that a pruned result keeps at its start", int, "", 0),
        Option("prune_tail", 1024, "characters that a pruned result keeps at its end", int, "", 0),
        Option("trigger", "", "take this path at every turn", str, choices=("", "pressure", "context-overflow")),
    ),
    _check,
    models="dsh (DeepSeek Harness) 0.1.0-rc.8 to 0.1.1-rc.2",
    meter="dsh",
    overflow_retries=1,
    needs_window=True,
    uses_summarizer=True,
)
