"""Codex CLI: the user's own words and a summary, nothing else (compactors.md)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from compactctl.compactors._ask import Answer, ask, failure_note
from compactctl.compactors._list_face import ListFace, record_of, unchanged
from compactctl.context.authors import is_human
from compactctl.context.base import Item, Kind
from compactctl.context.counting import Meter, MeterContext
from compactctl.context.view import View
from compactctl.context.weights import weight_reaching
from compactctl.errors import SummarizerError
from compactctl.meters.bytes4 import Bytes4
from compactctl.model import (
    SYSTEM,
    USER,
    CompactionRecord,
    Message,
    Note,
    Origin,
    Session,
    Tier,
    Trigger,
    byte_length,
    changed,
    summary_failure,
)
from compactctl.ports import CompactorSpec, HistoryMode, Option, Ports, Quiet, Step, Summarizer, SummaryFormat

BYTES_PER_TOKEN = 4
NO_SUMMARY = "(no summary available)"
SUMMARY_HEADING = "[Summary of the work so far, handed over when the context was compacted]\n"


class CodexCompactor(ListFace):
    """Summarises at ``share`` of the window and goes on with the first context, the user's messages and the summary.

    The user's messages are kept newest first within ``user_tokens`` (bytes / 4); the one that does not fit whole keeps
    its head and tail. Where the span is larger than the window, its oldest messages are left out of the request until
    it fits. ``limit`` is a number of tokens that can only lower the trigger. ``reset`` is Codex's other bet, short
    sessions: at that number of tokens everything but the first context and the last words of the user goes, without a
    summary.

    Local compaction only; the remote one is opaque. The share, the budget and the order are from Codex's source as
    described second-hand.
    """

    name = "codex"
    history = HistoryMode.WRITE_BACK

    def __init__(
        self,
        summarizer: Summarizer | None,
        context_window: int,
        *,
        share: float = 0.9,
        limit: int = 0,
        user_tokens: int = 20_000,
        reset: int = 0,
        meter: Meter | None = None,
        summary_tokens: int = 2000,
    ) -> None:
        automatic = int(context_window * share)
        self.threshold = min(automatic, limit) if limit > 0 else automatic
        self.summarizer = summarizer
        self.context_window = context_window
        self.user_tokens = user_tokens
        self.reset = reset
        self.meter: Meter = meter or Bytes4()
        self.summary_tokens = summary_tokens

    def step(self, view: View, trigger: Trigger) -> Step:
        """Compact where the view has reached the limit, or where the user says so."""
        tokens = view.tokens
        if self.reset > 0 and tokens >= self.reset:
            return self._start_over(view, trigger)
        if trigger is Trigger.PRESSURE and (self.context_window <= 0 or tokens < self.threshold):
            step = unchanged(view, compactor=self.name)
            return Step(view, step.record, quiet=self._promise())
        start = _first_context(view)
        if len(view) <= start:
            return unchanged(view, compactor=self.name, trigger=trigger)
        asked = self._fitting(view, start)
        notes: list[str] = [Note.OLDEST_LEFT_OUT] if asked > start else []
        try:
            answer = ask(
                self.summarizer,
                view.messages(asked),
                self.meter,
                weight=view.weight_between(asked, len(view)),
                format=SummaryFormat.PROSE,
                budget=self.summary_tokens,
            )
        except SummarizerError as error:
            record = record_of(
                view,
                view,
                tier=Tier.FULL,
                compactor=self.name,
                trigger=trigger,
                preserved_tail=len(view),
                error=summary_failure(str(error)),
                notes=(failure_note(error),),
            )
            return Step(view, record)
        if not answer.text.strip():
            notes.append(Note.SUMMARY_EMPTY)
        users = self._users(view, start)
        # Those that stay as they are were read by the summarizer too, but nothing stands in their place.
        read = sum(map(_is_users, view.items(asked)))
        summarized = len(view) - asked - min(read, len(users))
        text = SUMMARY_HEADING + (answer.text if answer.text.strip() else NO_SUMMARY)
        summary = view.made(Message(USER, text, origin=Origin.RECORDED_SUMMARY), Kind.SUMMARY)
        after = view.replaced(start, len(view), [*users, summary])
        return Step(after, self._record(view, after, trigger, Tier.FULL, len(users), notes, summarized, answer), True)

    def _start_over(self, view: View, trigger: Trigger) -> Step:
        start = _first_context(view)
        last = next((i for i in range(len(view) - 1, start - 1, -1) if _is_users(view.item(i))), None)
        after = view.replaced(start, len(view), [] if last is None else [view.item(last)])
        if len(after) == len(view):
            return unchanged(view, compactor=self.name, trigger=trigger)
        kept = 0 if last is None else 1
        return Step(after, self._record(view, after, trigger, Tier.EMERGENCY, kept, [Note.RESET]), True)

    def _fitting(self, view: View, start: int) -> int:
        """Give the position from which on the span fits the window: what is older is not summarised at all."""
        if self.context_window <= 0:
            return start
        context = MeterContext(view.turn, False)
        low, high = start, len(view) - 1
        while low < high:
            middle = (low + high) // 2
            if self.meter.tokens(view.weight_between(middle, len(view)), context) <= self.context_window:
                high = middle
            else:
                low = middle + 1
        return low

    def _users(self, view: View, start: int) -> list[Item]:
        """Give the user's messages that fit the budget, oldest first."""
        room = self.user_tokens * BYTES_PER_TOKEN
        kept: list[Item] = []
        for position in range(len(view) - 1, start - 1, -1):
            item = view.item(position)
            if not _is_users(item):
                continue
            size = byte_length(item.message.content)
            if size > room:
                if room >= BYTES_PER_TOKEN:
                    message = changed(item.message, content=_middle_cut(item.message.content, room), parts=None)
                    kept.append(view.made(message, Kind.PRUNED, item.index))
                break
            kept.append(item)
            room -= size
        return kept[::-1]

    def _record(
        self,
        before: View,
        after: View,
        trigger: Trigger,
        tier: Tier,
        kept: int,
        notes: list[str],
        summarized: int = 0,
        answer: Answer | None = None,
    ) -> CompactionRecord:
        return record_of(
            before,
            after,
            tier=tier,
            compactor=self.name,
            trigger=trigger,
            preserved_tail=kept,
            summarized=summarized,
            notes=tuple(notes),
            answer=answer,
            summary_text=answer.text if answer else "",
        )

    def _promise(self) -> Quiet | None:
        if not self.meter.steady:
            return None
        marks = [mark for mark in (self.reset, self.threshold if self.context_window > 0 else 0) if mark > 0]
        return Quiet(weight=weight_reaching(self.meter, min(marks))) if marks else Quiet()


def _is_users(item: Item) -> bool:
    """Whether a message is what the user wrote: not a result, not the harness's, not an earlier summary."""
    return item.kind is not Kind.SUMMARY and is_human(item.message)


def _first_context(view: View) -> int:
    """Give how many messages at the front are the harness's own: instructions and environment."""
    position = 0
    while position < len(view):
        item = view.item(position)
        if item.message.role != SYSTEM and (item.message.role != USER or item.message.origin is not Origin.HARNESS):
            break
        position += 1
    return position


def _middle_cut(text: str, room: int) -> str:
    """Keep the head and the tail of a text within ``room`` bytes, and say what is missing where there is room to."""
    data = text.encode("utf-8", "surrogatepass")
    gone = (len(data) - room + BYTES_PER_TOKEN - 1) // BYTES_PER_TOKEN
    mark = f"[... about {gone} tokens left out ...]"
    if room < len(mark):
        return data[:room].decode("utf-8", "ignore")
    half = (room - len(mark)) // 2
    tail = data[len(data) - half :].decode("utf-8", "ignore") if half else ""
    return data[:half].decode("utf-8", "ignore") + mark + tail


def _check(options: Mapping[str, Any]) -> Iterable[str]:
    if not options["share"]:
        yield "share 0 would compact at every turn; it must be above 0"


def _make(options: Mapping[str, Any], session: Session | None, ports: Ports) -> CodexCompactor:
    return CodexCompactor(
        ports.summarizer,
        ports.context_window,
        share=options["share"],
        limit=options["limit"],
        user_tokens=options["user_tokens"],
        reset=options["reset"],
        meter=ports.meter,
        summary_tokens=ports.summary_tokens,
    )


COMPACTOR = CompactorSpec(
    "codex",
    "Codex CLI: the user's messages within a budget and a summary, nothing else",
    _make,
    (
        Option("share", 0.9, "share of the window at which it compacts", float, "full", 0, 1),
        Option("limit", 0, "tokens at which it compacts; can only lower the trigger, 0 for none", int, "", 0),
        Option("user_tokens", 20_000, "most tokens of the user's messages that are kept", int, "tail", 0),
        Option("reset", 0, "tokens at which the session starts over without a summary, 0 for never", int, "", 0),
    ),
    _check,
    models="Codex CLI's local compaction, second-hand (November 2026)",
    meter="usage",
    needs_window=True,
    uses_summarizer=True,
)
