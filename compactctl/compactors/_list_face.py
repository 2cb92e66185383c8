"""The seed's three interfaces over plain lists, derived from the one method that holds the rules."""

from __future__ import annotations

from collections.abc import Sequence

from compactctl.compactors._ask import Answer
from compactctl.context.base import Kind
from compactctl.context.counting import Meter
from compactctl.context.view import View
from compactctl.meters.bytes4 import Bytes4
from compactctl.model import CompactionRecord, Message, Note, Tier, Trigger, changed
from compactctl.ports import Compactor, HistoryMode, RecordedCompactor, Step


class ListFace:
    """Base of compactors: ``compact``, ``compact_force`` and ``compact_with_record`` over lists of messages."""

    name = ""
    meter: Meter
    history = HistoryMode.WRITE_BACK

    def step(self, view: View, trigger: Trigger) -> Step:
        """Give the view to send instead of this one; the one method that a compactor must write."""
        raise NotImplementedError

    def compact(self, messages: Sequence[Message]) -> list[Message]:
        """Compact where needed."""
        return self.compact_with_record(messages)[0]

    def compact_force(self, messages: Sequence[Message]) -> list[Message]:
        """Compact whatever the thresholds say, as the user's manual /compact does."""
        return list(self.step(View.of(messages, self.meter), Trigger.MANUAL).view)

    def compact_with_record(self, messages: Sequence[Message]) -> tuple[list[Message], CompactionRecord]:
        """Compact where needed and say what was done. The messages given are never changed."""
        step = self.step(View.of(messages, self.meter), Trigger.PRESSURE)
        return list(step.view), step.record


def unchanged(view: View, *, compactor: str, trigger: Trigger = Trigger.PRESSURE, tier: Tier = Tier.NONE) -> Step:
    """Give the step that does nothing."""
    return Step(view, record_of(view, view, tier=tier, compactor=compactor, trigger=trigger, preserved_tail=len(view)))


def record_of(
    before: View,
    after: View,
    *,
    tier: Tier,
    compactor: str,
    trigger: Trigger,
    preserved_tail: int = 0,
    summarized: int = 0,
    replaced: int | None = None,
    error: str = "",
    notes: tuple[str, ...] = (),
    answer: Answer | None = None,
    summary_text: str = "",
) -> CompactionRecord:
    """Give the record of a change of view, its counts and tokens filled in.

    ``answer`` is what a summarizer said, also where it was refused; its notes come behind ``notes``. ``dropped``
    are the messages that are gone and were not summarised: ``replaced`` were, where several summaries of one step did
    it, else ``summarized``. A change that freed nothing is noted as ``not_smaller``.
    """
    if answer is not None:
        notes = (*notes, *answer.notes)
    if after is not before and after.weight >= before.weight:
        notes = (*notes, Note.NOT_SMALLER)
    tokens_before = before.tokens
    tokens_after = tokens_before if after is before else after.tokens
    gone = len(before) - len(after) + stand_ins_made(before, after)
    return CompactionRecord(
        tier,
        tokens_before,
        tokens_after,
        len(before),
        len(after),
        compression_ratio=tokens_after / tokens_before if tokens_before else 0.0,
        preserved_tail=preserved_tail,
        summarized=summarized,
        error=error,
        notes=notes,
        turn=before.turn,
        compactor=compactor,
        trigger=trigger,
        meter=before.base.meter.name,
        summary_text=summary_text,
        summaries=answer.calls if answer else (),
        dropped=max(gone - max((summarized if replaced is None else replaced) - 1, 0), 0),
    )


def stand_ins_made(before: View, after: View) -> int:
    """Count the stand-ins that a step made: each hides in the length of the view a message that is gone."""
    if after is before or not after.base.has_stand_ins:
        return 0
    known = {id(item) for item in before.own if item.kind is Kind.STAND_IN}
    return sum(1 for item in after.own if item.kind is Kind.STAND_IN and id(item) not in known)


class ListCompactor(ListFace):
    """Drives a user's object that has the list face alone (``compact`` or ``compact_with_record``).

    What it did is read off its result: a tier is 3 where a message is new, 4 where some are only gone, 1 where some
    were changed in place, 0 where nothing differs.
    """

    def __init__(self, user: Compactor | RecordedCompactor, name: str = "") -> None:
        self.user = user
        self.name = name or type(user).__name__
        self.meter: Meter = Bytes4()
        self.history = HistoryMode(getattr(user, "history", HistoryMode.WRITE_BACK))

    def step(self, view: View, trigger: Trigger) -> Step:
        """Hand the user's object the messages and take what it gives."""
        messages = list(view)
        record: CompactionRecord | None = None
        if trigger is Trigger.MANUAL and hasattr(self.user, "compact_force"):
            result = self.user.compact_force(messages)
        elif isinstance(self.user, RecordedCompactor):
            result, told = self.user.compact_with_record(messages)
            record = changed(told, turn=view.turn, compactor=told.compactor or self.name, trigger=trigger)
        else:
            result = self.user.compact(messages)
        if len(result) == len(messages) and all(a is b for a, b in zip(result, messages, strict=True)):
            if record is None:
                return unchanged(view, compactor=self.name, trigger=trigger)
            return Step(view, record)
        after = view.rebuilt(result)
        if record is None:
            fresh = sum(1 for item in after.own if item.kind is Kind.SUMMARY)
            if len(after) < len(view):
                tier = Tier.FULL if fresh else Tier.EMERGENCY
            else:
                tier = Tier.WARN
            gone = len(view) - (len(after) - fresh)
            record = record_of(
                view,
                after,
                tier=tier,
                compactor=self.name,
                trigger=trigger,
                preserved_tail=len(after) - fresh,
                summarized=gone if tier is Tier.FULL else 0,
            )
        return Step(after, record, write_back=len(after) > 0)
