"""The engine of the tiered compactors: Warn, Soft, Full and Emergency (seed section 2, harness9.md 1.3-1.7).

``progressive`` and ``harness9`` differ in a few choices only, which are the fields of ``TierPolicy``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from compactctl.compactors._list_face import ListFace
from compactctl.context.anchors import (
    compaction_text,
    is_missing,
    merge_anchors,
    parse_anchors_and_summary,
    previous_text,
)
from compactctl.context.budget import DEFAULT_MIN_TAIL, last_message_only, task_and_newest, truncated
from compactctl.context.offload import DEFAULT_THRESHOLD, OffloaderBase
from compactctl.context.view import Item, Kind, Meter, MeterContext, View
from compactctl.errors import OffloadError, StoreError, SummarizerError
from compactctl.meters.bytes4 import Bytes4
from compactctl.model import USER, Anchor, CompactionRecord, Message, OffloadEntry, Tier, Trigger, byte_length
from compactctl.ports import (
    Clock,
    Compactor,
    ForceCompactor,
    HistoryMode,
    MemoryExtractor,
    Offloader,
    Quiet,
    RecordStore,
    Step,
    Summarizer,
    SummaryReply,
    SummaryRequest,
    TodoInjector,
)

EMERGENCY_ERROR = "emergency fallback: forced truncation"


@dataclass(frozen=True, slots=True)
class TierPolicy:
    """The numbers and choices of a tiered compactor. Thresholds are shares of the window, ``offload`` is in bytes."""

    warn: float = 0.60
    soft: float = 0.70
    full: float = 0.80
    emergency: float = 0.95
    offload: int = DEFAULT_THRESHOLD
    min_tail: int = DEFAULT_MIN_TAIL
    # Whether an Emergency's view may become the history, and whether it keeps the first task message.
    write_back_emergency: bool = False
    emergency_keeps_task: bool = False
    # Whether the user's /compact goes straight to Emergency (the seed) or only looks at the tier (harness9 today).
    manual_is_forced: bool = True


class Fallback(Protocol):
    """What takes over when there is no summary: ``shrink`` gently, ``force`` to the minimum."""

    def shrink(self, view: View) -> View:
        """Bring the view under its budget where that is possible."""

    def force(self, view: View) -> View:
        """Cut the view down whatever its size."""


@dataclass(frozen=True, slots=True)
class BudgetFallback:
    """The seed's TokenBudgetCompactor: 80 % of the window, the tail kept, the middle dropped."""

    max_tokens: int
    min_tail: int = DEFAULT_MIN_TAIL
    keeps_task: bool = False

    def shrink(self, view: View) -> View:
        """Drop the middle until the view fits."""
        return truncated(view, self.max_tokens, self.min_tail)

    def force(self, view: View) -> View:
        """Keep the system message and the last one, or the task and the newest that fit."""
        return task_and_newest(view, self.max_tokens) if self.keeps_task else last_message_only(view)


@dataclass(frozen=True, slots=True)
class ListFallback:
    """A user's fallback that works on lists of messages."""

    inner: Compactor | ForceCompactor

    def shrink(self, view: View) -> View:
        """Hand it the messages; an object that can only force is forced."""
        run = self.inner.compact if isinstance(self.inner, Compactor) else self.inner.compact_force
        return self._apply(view, run)

    def force(self, view: View) -> View:
        """Force it where it can be forced, otherwise compact (seed section 6.2)."""
        run = self.inner.compact_force if isinstance(self.inner, ForceCompactor) else self.inner.compact
        return self._apply(view, run)

    @staticmethod
    def _apply(view: View, run: Callable[[Sequence[Message]], list[Message]]) -> View:
        return view.rebuilt(run(list(view)))


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
    ) -> None:
        self.summarizer = summarizer
        self.context_window = context_window
        self.policy = policy
        self.meter: Meter = meter or Bytes4()
        self.offloader = offloader
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
        self._weights: dict[float, int] = {}

    def step(self, view: View, trigger: Trigger) -> Step:
        """Choose the tier of a view and apply it."""
        started = self.clock.now() if self.clock else None
        if trigger is Trigger.MANUAL and self.policy.manual_is_forced:
            tier = Tier.EMERGENCY
        else:
            tier = self.tier_of(view)
        act = _Act(view, tier, trigger)
        if tier is Tier.EMERGENCY:
            self._emergency(act)
        elif tier is not Tier.NONE:
            self._offload_and_summarise(act)
        record = act.record(self.name, self.session_id)
        if self.clock is not None and started is not None:
            record = act.record(self.name, self.session_id, self.clock.now() - started)
        self._store(record)
        return Step(act.after, record, self._may_write_back(record, act.after), self._quiet(act))

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

    def _emergency(self, act: _Act) -> None:
        act.after = self.fallback.force(act.before)
        act.error = EMERGENCY_ERROR
        act.preserved_tail = len(act.after) - 1

    def _offload_and_summarise(self, act: _Act) -> None:
        view = act.before
        rest = len(view) - 1
        if not view.has_system:
            act.notes.append("no_system_message")
            return
        if rest <= self.min_tail:
            act.notes.append("head_empty")
            return
        head = rest - self.min_tail
        if act.tier is Tier.WARN:
            act.after = self._offloaded(act, view, 1, 1 + head).repaired()
            act.preserved_tail = self.min_tail
            return
        span = head // 2 if act.tier is Tier.SOFT else head
        self._extract(act, view.messages(1, 1 + span))
        smaller = self._offloaded(act, view, 1, 1 + span)
        act.tokens_after_offload = smaller.tokens
        reply = self._summary(act, smaller, 1, 1 + span)
        if reply is None:
            act.after = self.fallback.shrink(view)
            act.error = f"LLM summary failed in Tier{act.tier.label}"
            act.preserved_tail = len(act.after) - 1
            act.offloaded = []
            return
        anchors, prose = parse_anchors_and_summary(reply.text)
        if all(is_missing(anchor) for anchor in anchors):
            act.notes.append("anchors_missing" if reply.text.strip() else "summary_empty")
        self.last_anchors = act.anchors = merge_anchors(self.last_anchors, anchors)
        self.last_summary = act.summary_text = prose
        tasks = self.todo_injector.active_tasks() if self.todo_injector else ""
        text = compaction_text(act.anchors, prose, act.offloaded, tasks)
        item = view.made(Message(USER, text), Kind.SUMMARY)
        act.after = smaller.replaced(1, 1 + span, [item]).repaired()
        act.summarized = span
        act.preserved_tail = rest - span
        if act.after.weight >= view.weight:
            act.notes.append("not_smaller")

    @property
    def min_tail(self) -> int:
        """How many of the newest messages are always kept; 0 or less means 6, as the reference has it."""
        return self.policy.min_tail if self.policy.min_tail > 0 else DEFAULT_MIN_TAIL

    def _offloaded(self, act: _Act, view: View, start: int, stop: int) -> View:
        """Put placeholders in place of the large results of a range."""
        if self.offloader is None:
            return view
        changes: list[tuple[int, Item]] = []
        for position in view.large_results(self.policy.offload, start, stop):
            item = view.item(position)
            try:
                done = self._placeholder(view, item)
            except OffloadError:
                act.note("offload_failed")
                continue
            if done is not None:
                act.offloaded.append(done[0])
                changes.append((position, done[1]))
        return view.swapped(changes)

    def _placeholder(self, view: View, item: Item) -> tuple[OffloadEntry, Item] | None:
        offloader = self.offloader
        assert offloader is not None
        shared = isinstance(offloader, OffloaderBase) and item.index >= 0 and item.kind is Kind.RECORDED
        key = (item.index, offloader.shape) if isinstance(offloader, OffloaderBase) and shared else None
        if key is not None and isinstance(offloader, OffloaderBase):
            known = view.base.placeholders.get(key)
            if isinstance(known, _Placeholder) and byte_length(item.message.content) > offloader.threshold:
                offloader.keep(known.entry, item.message.content, known.item.message.content)
                return known.entry, known.item
        done = offloader.offload(item.message, item.message.content)
        if done is None:
            return None
        entry, text = done
        m = item.message
        message = Message(m.role, text, m.tool_calls, m.tool_call_id, m.name, m.is_error, m.timestamp)
        made = view.made(message, Kind.OFFLOADED, item.index)
        if key is not None:
            view.base.placeholders[key] = _Placeholder(entry, made)
        return entry, made

    def _extract(self, act: _Act, messages: Sequence[Message]) -> None:
        if self.memory_extractor is None:
            return
        try:
            self.memory_extractor.extract(messages)
        except Exception:
            # Whatever a user's extractor raises, the seed goes on without it (section 6.1); the record says so.
            act.note("extractor_failed")

    def _summary(self, act: _Act, view: View, start: int, stop: int) -> SummaryReply | None:
        if self.summarizer is None:
            return None
        anchors = self.last_anchors or ()
        request = SummaryRequest(
            view.messages(start, stop),
            previous=partial(previous_text, anchors, self.last_summary) if self.last_summary else None,
            anchors=anchors,
            budget=self.summary_tokens,
        )
        try:
            reply = self.summarizer.summarize(request)
        except SummarizerError as error:
            act.cause = str(error)
            return None
        meter, context = self.meter, MeterContext(view.turn, False)
        if reply.usage is not None:
            act.summary_input_tokens, act.summary_output_tokens = reply.usage.prompt, reply.usage.output
        else:
            act.summary_input_tokens = meter.tokens(view.weight_between(start, stop), context)
            act.summary_output_tokens = meter.tokens(meter.weigh(Message(USER, reply.text)), context)
        return reply

    # -- around it -----------------------------------------------------------------------------------------------

    def _fallback(self, given: Fallback | Compactor | ForceCompactor | None) -> Fallback:
        if given is None:
            budget = self.context_window * 80 // 100
            return BudgetFallback(budget, keeps_task=self.policy.emergency_keeps_task)
        return ListFallback(given) if isinstance(given, Compactor | ForceCompactor) else given

    def _store(self, record: CompactionRecord) -> None:
        if self.record_store is None or record.tier is Tier.NONE:
            return
        try:
            self.record_store.append(record)
        except StoreError:
            # The seed goes on (section 6.1); the count keeps it from being silent.
            self.records_not_stored += 1

    def _may_write_back(self, record: CompactionRecord, after: View) -> bool:
        if record.error and not (record.tier is Tier.EMERGENCY and self.policy.write_back_emergency):
            return False
        return len(after) > 0 and (record.msgs_after < record.msgs_before or bool(record.offloaded))

    def _quiet(self, act: _Act) -> Quiet | None:
        """Say how long the view can grow before a step would change it; None where that is not known."""
        view = act.after
        if not self.meter.steady or self.context_window <= 0:
            return Quiet() if self.context_window <= 0 else None
        if act.tier is Tier.NONE or (act.after is not act.before and self.tier_of(view) is Tier.NONE):
            return Quiet(weight=self._weight_at(self.policy.warn))
        if act.tier is not Tier.WARN or self.tier_of(view) is not Tier.WARN or act.notes or not view.has_system:
            return None
        head_end = len(view) - self.min_tail
        if head_end < view.own_length or view.large_results(self.policy.offload, 1, head_end):
            return None
        # The next result that the offload rule could pick up is asleep until enough messages stand behind it.
        coming = view.base.next_large(self.policy.offload, view.lo + head_end - view.own_length)
        messages = None if coming is None else coming - view.lo + view.own_length + self.min_tail + 1
        return Quiet(weight=self._weight_at(self.policy.soft), messages=messages, tier=Tier.WARN)

    def _weight_at(self, threshold: float) -> int:
        """Give the smallest weight whose tokens reach a share of the window."""
        if threshold not in self._weights:
            context = MeterContext(0, False)
            low, high = 0, 1
            while self.meter.tokens(high, context) / self.context_window < threshold:
                high *= 2
            while low < high:
                middle = (low + high) // 2
                if self.meter.tokens(middle, context) / self.context_window >= threshold:
                    high = middle
                else:
                    low = middle + 1
            self._weights[threshold] = low
        return self._weights[threshold]


class _Placeholder:
    """An offloaded result as all replays of a session share it."""

    __slots__ = ("entry", "item")

    def __init__(self, entry: OffloadEntry, item: Item) -> None:
        self.entry = entry
        self.item = item


class _Act:
    """What one step has done so far."""

    def __init__(self, view: View, tier: Tier, trigger: Trigger) -> None:
        self.before = self.after = view
        self.tier = tier
        self.trigger = trigger
        self.anchors: tuple[Anchor, ...] = ()
        self.offloaded: list[OffloadEntry] = []
        self.summarized = 0
        self.preserved_tail = 0
        self.summary_text = ""
        self.error = ""
        self.cause = ""
        self.notes: list[str] = []
        self.summary_input_tokens: int | None = None
        self.summary_output_tokens: int | None = None
        self.tokens_after_offload: int | None = None

    def note(self, word: str) -> None:
        """Note a word once."""
        if word not in self.notes:
            self.notes.append(word)

    def record(self, compactor: str, session_id: str, duration: int | None = None) -> CompactionRecord:
        """Give the record of what was done."""
        before, after = self.before, self.after
        tokens_before = before.tokens
        tokens_after = tokens_before if after is before else after.tokens
        gone = len(before) - len(after) - self.summarized + (1 if self.summary_input_tokens is not None else 0)
        return CompactionRecord(
            self.tier,
            tokens_before,
            tokens_after,
            len(before),
            len(after),
            self.anchors,
            tuple(self.offloaded),
            self.summarized,
            self.preserved_tail,
            self.summary_text,
            tokens_after / tokens_before if tokens_before else 0.0,
            f"{self.error}: {self.cause}" if self.cause else self.error,
            before.turn,
            compactor,
            self.trigger,
            meter=before.base.meter.name,
            summary_input_tokens=self.summary_input_tokens,
            summary_output_tokens=self.summary_output_tokens,
            tokens_after_offload=self.tokens_after_offload,
            dropped=max(gone, 0),
            notes=tuple(self.notes),
            session_id=session_id,
            duration=duration,
        )
