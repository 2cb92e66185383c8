"""The engine of the tiered compactors: Warn, Soft, Full and Emergency (seed section 2, harness9.md 1.3-1.7).

``progressive``, ``harness9`` and ``progressive-safe`` differ in a few choices only, the fields of ``TierPolicy``.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import partial
from typing import Any

from compactctl.compactors._ask import Answer, ask, failure_note
from compactctl.compactors._fallback import BudgetFallback, Fallback, ListFallback
from compactctl.compactors._list_face import ListFace, stand_ins_made
from compactctl.compactors._offloading import Offloaded, Offloading
from compactctl.compactors._tier_policy import TierPolicy
from compactctl.context.anchors import (
    compaction_text,
    is_missing,
    merge_anchors,
    parse_anchors_and_summary,
    previous_text,
)
from compactctl.context.base import Kind
from compactctl.context.budget import DEFAULT_MIN_TAIL
from compactctl.context.counting import Meter, MeterContext
from compactctl.context.cuts import balanced_cut
from compactctl.context.passing import Pass
from compactctl.context.provenance import with_origins
from compactctl.context.view import View
from compactctl.context.weights import weight_where
from compactctl.errors import SummarizerError
from compactctl.meters.bytes4 import Bytes4
from compactctl.model import (
    USER,
    Anchor,
    CompactionRecord,
    Message,
    Note,
    OffloadEntry,
    Session,
    SummaryCall,
    Tier,
    Trigger,
    summary_failure,
)
from compactctl.ports import (
    Clock,
    Compactor,
    ForceCompactor,
    HistoryMode,
    MemoryExtractor,
    Offloader,
    Ports,
    Quiet,
    RecordStore,
    Step,
    Summarizer,
    TodoInjector,
)

EMERGENCY_ERROR = "emergency fallback: forced truncation"


def from_ports(session: Session | None, ports: Ports) -> dict[str, Any]:
    """Give the arguments that every tiered compactor takes from its surroundings, by name."""
    return {
        "summarizer": ports.summarizer,
        "context_window": ports.context_window,
        "offloader": ports.offloader,
        "session_id": session.id if session else "",
        "memory_extractor": ports.memory_extractor,
        "todo_injector": ports.todo_injector,
        "meter": ports.meter,
        "clock": ports.clock,
        "summary_tokens": ports.summary_tokens,
        "protect": ports.protect,
    }


class TieredCompactor(ListFace):
    """Chooses a tier by occupancy and does what the tier asks for."""

    name = "tiered"
    history = HistoryMode.VIEW

    def __init__(
        self,
        summarizer: Summarizer | None,
        context_window: int,
        policy: TierPolicy,
        *,
        meter: Meter | None = None,
        offloader: Offloader | None = None,
        session_id: str = "",
        memory_extractor: MemoryExtractor | None = None,
        todo_injector: TodoInjector | None = None,
        record_store: RecordStore | None = None,
        fallback: Fallback | Compactor | ForceCompactor | None = None,
        clock: Clock | None = None,
        summary_tokens: int = 2000,
        protect: Collection[str] = (),
    ) -> None:
        self.summarizer = summarizer
        self.context_window = context_window
        self.policy = policy
        self.meter: Meter = meter or Bytes4()
        self.offloading = Offloading(offloader, policy.offload, policy.preview_bytes, frozenset(protect))
        self.session_id = session_id
        self.memory_extractor = memory_extractor
        self.todo_injector = todo_injector
        self.record_store = record_store
        self.fallback = self._fallback(fallback)
        self.clock = clock
        self.summary_tokens = summary_tokens
        self.records_not_stored = 0
        self.last_anchors: tuple[Anchor, ...] | None = None
        self.last_summary = ""
        self._files: dict[str, OffloadEntry] = {}
        self._weights: dict[float, int] = {}

    def step(self, view: View, trigger: Trigger) -> Step:
        """Choose the tier of a view and apply it."""
        started = self.clock.now() if self.clock else None
        if trigger is Trigger.MANUAL and self.policy.manual_is_forced:
            tier = Tier.EMERGENCY
        else:
            tier = self.tier_of(view)
        act = _Act(view, tier, trigger)
        self._act(act)
        record = act.record(self.name, self.session_id)
        if self.clock is not None and started is not None:
            record = act.record(self.name, self.session_id, self.clock.now() - started)
        self._store(record)
        return Step(act.after, record, self._may_write_back(record, act.after), partial(self._quiet, act))

    def tier_of(self, view: View) -> Tier:
        """Give the tier of a view by its share of the window; thresholds are inclusive (seed section 2.2)."""
        if self.context_window <= 0:
            return Tier.NONE
        ratio = view.tokens / self.context_window
        policy = self.policy
        if ratio >= policy.emergency:
            return Tier.EMERGENCY
        if ratio >= policy.full:
            return Tier.FULL
        if ratio >= policy.soft:
            return Tier.SOFT
        return Tier.WARN if ratio >= policy.warn else Tier.NONE

    # -- the tiers -----------------------------------------------------------------------------------------------

    def _act(self, act: _Act) -> None:
        """Do what the tier of an act asks for."""
        if act.tier is Tier.NONE:
            return
        if self.policy.remeasure_after_offload and act.tier >= Tier.SOFT and not act.is_forced:
            self._offload_first(act)
        if act.tier is Tier.EMERGENCY:
            self._emergency(act)
        elif (head := self._head_of(act)) > 0:
            if act.tier is Tier.WARN:
                self._offload(act, head)
                act.after = act.smaller.repaired()
                act.preserved_tail = self.min_tail
            else:
                self._summarise(act, head)

    def _offload_first(self, act: _Act) -> None:
        """Offload the head and look at the tier again: what is solved by that needs no summary and no truncation."""
        head = act.before.length - 1 - self.min_tail
        if head <= 0 or not act.before.has_system:
            return
        self._offload(act, head)
        lower = max(self.tier_of(act.smaller), Tier.WARN)
        if lower < act.tier:
            act.note(Note.OFFLOAD_SUFFICED if lower is Tier.WARN else Note.OFFLOAD_LOWERED_TIER)
            act.tier = lower

    def _emergency(self, act: _Act) -> None:
        view = act.smaller
        if self.policy.emergency_keeps_anchors and self.last_anchors and view.has_system:
            view = self._with_anchors(view, self.last_anchors)
            act.made = 0 if view is act.smaller else 1
        act.after = self.fallback.force(view)
        act.error = EMERGENCY_ERROR
        act.preserved_tail = act.after.length - 1

    def _with_anchors(self, view: View, anchors: tuple[Anchor, ...]) -> View:
        """Put the anchors known so far behind the system message, unless a compaction message still holds them."""
        if any(item.kind is Kind.SUMMARY for item in view.items(1, view.own_length)):
            return view
        text = compaction_text(anchors, self.last_summary, self._references([]))
        return view.replaced(1, 1, [view.made(Message(USER, text), Kind.SUMMARY)])

    def _head_of(self, act: _Act) -> int:
        """Give how many messages stand between the system message and the tail; 0, noted, where nothing may be done."""
        if not act.before.has_system:
            act.note(Note.NO_SYSTEM_MESSAGE)
            return 0
        head = act.before.length - 1 - self.min_tail
        if head <= 0:
            act.note(Note.HEAD_EMPTY)
        return max(head, 0)

    def _summarise(self, act: _Act, head: int) -> None:
        view = act.before
        span = self._span(act, head)
        if span is None:
            act.after = act.smaller.repaired()
            act.preserved_tail = act.after.length - 1
            return
        self._extract(view.span(1, 1 + span), act)
        if not self.policy.remeasure_after_offload:
            self._offload(act, span)
        act.tokens_after_offload = act.shrunk.tokens
        answer = self._summary(act, span)
        if answer is None:
            self._fall_back(act)
            return
        act.charge(answer)
        anchors, prose = parse_anchors_and_summary(answer.text)
        if all(map(is_missing, anchors)):
            act.note(Note.ANCHORS_MISSING if answer.text.strip() else Note.SUMMARY_EMPTY)
        merged = with_origins(merge_anchors(self.last_anchors, anchors), answer.anchors)
        tasks = self.todo_injector.active_tasks() if self.todo_injector else ""
        text = compaction_text(merged, prose, self._references(act.offloaded), tasks)
        item = view.made(Message(USER, text), Kind.SUMMARY)
        # What was offloaded within the span goes with it: only what lies behind it needs its placeholders.
        source = act.smaller if self.policy.remeasure_after_offload else view
        after = source.replaced(1, 1 + span, [item]).repaired()
        if self.policy.refuse_poor_replies and (not answer.text.strip() or after.weight >= act.shrunk.weight):
            act.error = f"summary refused in Tier{act.tier.label}: it is empty or makes nothing smaller"
            self._fall_back(act)
            return
        self.last_anchors = act.anchors = merged
        self.last_summary = act.summary_text = prose
        act.after = after
        act.summarized = span
        act.made = 1
        act.preserved_tail = view.length - 1 - span

    def _fall_back(self, act: _Act) -> None:
        """Let the fallback work: on the view as it was (the seed), or on the offloaded one where that was a rung."""
        if self.policy.remeasure_after_offload:
            act.after = self.fallback.shrink(act.smaller)
        else:
            act.after = self.fallback.shrink(act.before)
            act.offloaded = []
        act.preserved_tail = act.after.length - 1

    def _span(self, act: _Act, head: int) -> int | None:
        """Give how many messages are summarised; None, noted, where no cut would leave the tool calls whole."""
        view = act.smaller
        span = head // 2 if act.tier is Tier.SOFT else head
        if self.policy.target > 0:
            span = self._span_down_to(self.policy.target, view, span, head)
        if not self.policy.balanced_cuts:
            return span
        balanced = balanced_cut(view, 1, 1 + span) - 1
        if balanced <= 0:
            act.note(Note.NO_BALANCED_CUT)
            return None
        return balanced

    def _span_down_to(self, target: float, view: View, least: int, most: int) -> int:
        """Give the shortest span without which, and with a summary in its place, the view is at its target."""
        context = MeterContext(view.turn, False)
        room = self.context_window * target - self.summary_tokens
        low, high = least, most
        while low < high:
            middle = (low + high) // 2
            if self.meter.tokens(view.weight - view.weight_between(1, 1 + middle), context) <= room:
                high = middle
            else:
                low = middle + 1
        return low

    @property
    def min_tail(self) -> int:
        """How many of the newest messages are always kept; 0 or less means 6, as the reference has it."""
        return self.policy.min_tail if self.policy.min_tail > 0 else DEFAULT_MIN_TAIL

    def _offload(self, act: _Act, span: int) -> None:
        """Put placeholders in place of the large results of a span."""
        act.shrunk = self.offloading.apply(act.before, 1, 1 + span)
        act.offloaded = act.shrunk.entries
        if act.shrunk.failed:
            act.note(Note.OFFLOAD_FAILED)
        if self.policy.file_index:
            self._files.update((entry.file_path, entry) for entry in act.offloaded)

    def _references(self, offloaded: Sequence[OffloadEntry]) -> Sequence[OffloadEntry]:
        """Give the files that a compaction message lists: those of this act, or all of them."""
        return list(self._files.values()) if self.policy.file_index else offloaded

    def _extract(self, messages: Sequence[Message], act: _Act) -> None:
        if self.memory_extractor is None:
            return
        try:
            self.memory_extractor.extract(messages)
        except Exception:
            # Whatever a user's extractor raises, the seed goes on without it (section 6.1); the record says so.
            act.note(Note.EXTRACTOR_FAILED)

    def _summary(self, act: _Act, span: int) -> Answer | None:
        """Have a span summarised; None where that failed, with the error and its reason noted."""
        anchors = self.last_anchors or ()
        if self.policy.remeasure_after_offload:
            weight = act.smaller.weight_between(1, 1 + span)
        else:
            # All that was offloaded lies within the span.
            weight = act.before.weight_between(1, 1 + span) + act.shrunk.grown
        try:
            return ask(
                self.summarizer,
                act.shrunk.span(1, 1 + span),
                self.meter,
                weight=weight,
                budget=self.summary_tokens,
                previous=partial(previous_text, anchors, self.last_summary) if self.last_summary else None,
                anchors=anchors,
            )
        except SummarizerError as error:
            act.error = summary_failure(str(error) or None, act.tier)
            act.note(failure_note(error))
            return None

    # -- around it -----------------------------------------------------------------------------------------------

    def _fallback(self, given: Fallback | Compactor | ForceCompactor | None) -> Fallback:
        if given is None:
            policy = self.policy
            return BudgetFallback(
                int(self.context_window * policy.target) if policy.target > 0 else self.context_window * 80 // 100,
                keeps_task=policy.emergency_keeps_task,
                keeps_summaries=policy.emergency_keeps_anchors,
                balanced=policy.balanced_cuts,
            )
        return ListFallback(given) if isinstance(given, Compactor | ForceCompactor) else given

    def _store(self, record: CompactionRecord) -> None:
        if self.record_store is None or record.tier is Tier.NONE:
            return
        try:
            self.record_store.append(record)
        except Exception:
            # Whatever a user's store raises, the seed goes on (section 6.1); the count keeps it from being silent.
            self.records_not_stored += 1

    def _may_write_back(self, record: CompactionRecord, after: View) -> bool:
        if record.error and not (record.tier is Tier.EMERGENCY and self.policy.write_back_emergency):
            return False
        return after.length > 0 and (record.msgs_after < record.msgs_before or bool(record.offloaded))

    def _quiet(self, act: _Act) -> Quiet | None:
        """Say how long the view can grow before a step would change it; None where that is not known."""
        view, window = act.after, self.context_window
        if window <= 0:
            return Quiet()
        if not self.meter.steady:
            return None
        if view.weight < self._weight_at(self.policy.warn):
            changed = act.tier is Tier.NONE or view is not act.before
            return Quiet(weight=self._weight_at(self.policy.warn), passing=self._pass(view)) if changed else None
        soft = self._weight_at(self.policy.soft)
        if act.tier is not Tier.WARN or act.notes or view.weight >= soft or not view.has_system:
            return None
        if not view.base.pairs.closed:
            # A call that never gets its result makes a repair at some turn to come.
            return None
        head_end = view.length - self.min_tail
        if head_end < view.own_length or not self.offloading.is_settled(view, 1, head_end):
            return None
        # The next result that the offload rule could pick up is asleep until enough messages stand behind it.
        coming = view.base.next_large(self.policy.offload, view.lo + head_end - view.own_length)
        messages = None if coming is None else coming - view.lo + view.own_length + self.min_tail + 1
        return Quiet(soft, messages, Tier.WARN, self._pass(view))

    def _pass(self, view: View) -> Pass | None:
        """Promise to do no more than offload what leaves the tail, until Soft; None where that cannot be promised."""
        # A list of all files would have to hear of each one that is offloaded.
        if self.policy.file_index or not view.is_closed or not view.has_system:
            return None
        passing = self.offloading.passing(view.base, self.min_tail)
        if passing is None or not self.offloading.is_settled(view, 1, view.own_length):
            return None
        return Pass(passing, self._weight_at(self.policy.warn), self._weight_at(self.policy.soft))

    def _weight_at(self, threshold: float) -> int:
        """Give the smallest weight whose tokens reach a share of the window."""
        if threshold not in self._weights:
            self._weights[threshold] = weight_where(
                self.meter, lambda tokens: tokens / self.context_window >= threshold
            )
        return self._weights[threshold]


class _Act:
    """What one step has done so far."""

    def __init__(self, view: View, tier: Tier, trigger: Trigger) -> None:
        # What there was, what is left when only offloading is done, and what is left in the end.
        self.before = self.after = view
        self.shrunk = Offloaded(view)
        self.tier = tier
        self.trigger = trigger
        self.anchors: tuple[Anchor, ...] = ()
        self.offloaded: list[OffloadEntry] = []
        self.summarized = 0
        self.made = 0
        self.preserved_tail = 0
        self.summary_text = ""
        self.error = ""
        self.notes: list[str] = []
        self.summaries: tuple[SummaryCall, ...] = ()
        self.tokens_after_offload: int | None = None

    @property
    def smaller(self) -> View:
        """What is left when only offloading is done."""
        return self.shrunk.view

    @property
    def is_forced(self) -> bool:
        """Whether the user asked for it."""
        return self.trigger is Trigger.MANUAL

    def charge(self, answer: Answer) -> None:
        """Note what a summary cost, and what its summarizer says of it."""
        self.summaries += answer.calls
        for word in answer.notes:
            self.note(word)

    def note(self, word: str) -> None:
        """Note a word once."""
        if word not in self.notes:
            self.notes.append(word)

    def record(self, compactor: str, session_id: str, duration: int | None = None) -> CompactionRecord:
        """Give the record of what was done."""
        before, after = self.before, self.after
        tokens_before = before.tokens
        tokens_after = tokens_before if after is before else after.tokens
        if after is not before and after.weight >= before.weight:
            self.note(Note.NOT_SMALLER)
        gone = before.length - after.length - self.summarized + self.made + stand_ins_made(before, after)
        return CompactionRecord(
            self.tier,
            tokens_before,
            tokens_after,
            before.length,
            after.length,
            self.anchors,
            tuple(self.offloaded),
            self.summarized,
            self.preserved_tail,
            self.summary_text,
            tokens_after / tokens_before if tokens_before else 0.0,
            self.error,
            before.turn,
            compactor,
            self.trigger,
            meter=before.base.meter.name,
            summaries=self.summaries,
            tokens_after_offload=self.tokens_after_offload,
            dropped=max(gone, 0),
            notes=tuple(self.notes),
            session_id=session_id,
            duration=duration,
        )
