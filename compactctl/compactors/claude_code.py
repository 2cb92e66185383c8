"""Claude Code: a summary near the end of the window, recently read files put back behind it (compactors.md)."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from itertools import accumulate
from typing import Any

from compactctl.compactors._ask import Answer, ask, failure_note
from compactctl.compactors._clearing import Clearing
from compactctl.compactors._list_face import ListFace, record_of, unchanged
from compactctl.compactors._reread import Reread, read_again
from compactctl.context.base import Base, Kind
from compactctl.context.counting import Meter, MeterContext, Standing
from compactctl.context.lived import as_cleared
from compactctl.context.view import View
from compactctl.context.weights import weight_reaching
from compactctl.errors import SummarizerError
from compactctl.meters._recorded import first_break, first_full
from compactctl.meters.bytes4 import Bytes4
from compactctl.model import (
    USER,
    CompactionRecord,
    Message,
    Note,
    Origin,
    RecordedCompaction,
    Session,
    Tier,
    Trigger,
    byte_length,
    changed,
    summary_failure,
)
from compactctl.ports import CompactorSpec, HistoryMode, Option, Ports, Quiet, Step, Summarizer, SummaryFormat

OUTPUT_RESERVE = 20_000
EARLY_OUTPUT_RESERVE = 32_000
LAST_EARLY_VERSION = (2, 1, 20)
FIRST_VERSION_WITH_REFILL_BREAKER = (2, 1, 89)
BUFFER = 13_000
MANUAL_BUFFER = 3_000
MAX_FAILURES = 3
MAX_REFILLS, REFILL_TURNS = 3, 3
CLEARABLE_TOOLS = frozenset({"Read", "Bash", "Grep", "Glob", "WebFetch", "WebSearch", "Edit", "Write"})
SUMMARY_HEADING = "[Summary of the conversation so far, written when the context was compacted]\n"


def output_reserve(version: str) -> int:
    """Give the tokens that a version keeps free for the reply; a version that is not known counts as the newest.

    Measured on recorded sessions: 32,000 up to 2.1.20 and 20,000 from 2.1.25. What is between is taken for new.

    >>> output_reserve("2.1.17"), output_reserve("2.1.39"), output_reserve("")
    (32000, 20000, 20000)
    """
    numbers = version_numbers(version)
    return EARLY_OUTPUT_RESERVE if numbers and numbers <= LAST_EARLY_VERSION else OUTPUT_RESERVE


def version_numbers(version: str) -> tuple[int, ...]:
    """Give a version as numbers, empty where it is none."""
    found = re.match(r"(\d+)\.(\d+)\.(\d+)", version)
    return tuple(map(int, found.groups())) if found else ()


class ClaudeCodeCompactor(ListFace):
    """Summarises everything once the prompt reaches the window minus the output reserve and a buffer of 13,000 tokens.

    What follows are the summary and the files that were read last, up to 5 of at most 5,000 tokens each. Three failed
    summaries in a row stop it, and so do three refills in a row within three turns each (from 2.1.89 on). With ``auto``
    off only the user compacts, and the mark 3,000 tokens below the window minus reserve is where nothing else goes on.

    Second-hand, from descriptions and not from a source: the buffers, the files, the breakers and the tools whose
    results are cleared. Measured on recorded sessions: the turn of the first compaction, by version. ``clear`` clears
    old results first; none of the recorded automatic compactions had that, hence it is off.

    A session of Claude Code's own recorded what it cleared by itself. Up to its first full compaction that is done here
    as well, so that what is decided by, its recorded usage, is that of the view.
    """

    name = "claude-code"
    history = HistoryMode.WRITE_BACK

    def __init__(
        self,
        summarizer: Summarizer | None,
        context_window: int,
        *,
        version: str = "",
        session: Session | None = None,
        auto: bool = True,
        reserve: int = 0,
        pct_override: float = 0.0,
        clear: bool = False,
        keep_results: int = 5,
        reread: Reread | None = None,
        meter: Meter | None = None,
        summary_tokens: int = 2000,
        protect: Collection[str] = (),
    ) -> None:
        effective = context_window - (reserve or output_reserve(version))
        automatic = effective - BUFFER
        self.threshold = min(automatic, int(effective * pct_override)) if pct_override > 0 else automatic
        self.manual_mark = effective - MANUAL_BUFFER
        self.summarizer = summarizer
        self.context_window = context_window
        self.auto = auto
        self._clearing = Clearing(keep_results, spared=protect, only=CLEARABLE_TOOLS) if clear else None
        self.reread = Reread() if reread is None else reread
        self.meter: Meter = meter or Bytes4()
        self.summary_tokens = summary_tokens
        numbers = version_numbers(version)
        self.breaks_refills = not numbers or numbers >= FIRST_VERSION_WITH_REFILL_BREAKER
        self.stopped: Note | None = None
        self._recorded_until = _recorded_until(session)
        self._lived_through = _lived_through(session, self._recorded_until)
        self._waiting: list[RecordedCompaction] = []
        self._own: _OwnCount | None = None
        self._failures = 0
        self._refills = 0
        self._last_turn: int | None = None

    def step(self, view: View, trigger: Trigger) -> Step:
        """Compact where the prompt has reached the threshold, or where the user says so."""
        lived = self._lived(view)
        step = self._decided(lived, trigger)
        if lived is view:
            return step
        if step.view is lived and lived.generation > view.generation and step.record.tier is Tier.NONE:
            notes = (*step.record.notes, Note.AS_RECORDED)
            record = self._record(view, lived, Tier.WARN, trigger, error=step.record.error, notes=notes)
            return Step(lived, record, True)
        return Step(step.view, step.record, True, step.quiet)

    def _lived(self, view: View) -> View:
        """Give the view as Claude Code itself had it: what it cleared is cleared, up to its first full compaction."""
        if self._lived_through is None or self.meter.name != "usage" or not view.pristine or view.base.altered:
            return view
        if view.turn == 0 and view.pristine == Standing.SENT:
            # The replay itself follows what was recorded.
            self._lived_through = None
            return view
        if view.turn >= self._recorded_until:
            return view.standing(Standing.LIVED) if view.pristine == Standing.SENT else view
        if view.pristine != Standing.SENT:
            self._waiting = list(self._lived_through)
            view = view.standing(Standing.SENT)
        while self._waiting and self._waiting[0].at + view.base.offset <= view.hi:
            view = as_cleared(view, self._waiting.pop(0))
        return view

    def _decided(self, view: View, trigger: Trigger) -> Step:
        if trigger is not Trigger.PRESSURE:
            self.stopped, self._failures, self._refills = None, 0, 0
            return self._compact(view, trigger)
        if self.context_window <= 0:
            step = unchanged(view, compactor=self.name)
            return Step(view, step.record, quiet=Quiet())
        occupied = self.occupied(view)
        if not self.auto and occupied >= self.manual_mark:
            error = f"the context is full ({occupied} tokens, mark {self.manual_mark}): the user must compact"
            return Step(view, self._record(view, view, Tier.NONE, trigger, error=error, notes=(Note.MANUAL_MARK,)))
        if not self.auto or occupied < self.threshold:
            step = unchanged(view, compactor=self.name)
            return Step(view, step.record, quiet=self._promise())
        if self.stopped is not None:
            return Step(view, self._record(view, view, Tier.NONE, trigger, notes=(self.stopped,)))
        if self._clearing is not None:
            smaller = self._clearing.apply(view)
            if smaller is not view and self.occupied(smaller) < self.threshold:
                return Step(smaller, self._record(view, smaller, Tier.WARN, trigger), True)
        if self._is_refill(view):
            self.stopped = Note.REFILL_BREAKER
            error = f"compaction stopped: {MAX_REFILLS} refills in a row within {REFILL_TURNS} turns"
            return Step(view, self._record(view, view, Tier.NONE, trigger, error=error, notes=(self.stopped,)))
        return self._compact(view, trigger)

    def occupied(self, view: View) -> int:
        """Give the tokens by which Claude Code decides: its last recorded usage and bytes / 4 of what came after.

        Recorded usage counts up to the first full compaction, which its own microcompactions are part of; of another
        harness's session up to the first of any kind. From there on the last usage of this history is what is added to,
        and in a view that is not what was recorded it is the meter's own figure.
        """
        following = self._lived_through is None and view.pristine == Standing.SENT
        if self.meter.name != "usage" or not view.pristine or following:
            return view.tokens
        base = view.base
        if self._own is None or self._own.base is not base:
            self._own = _OwnCount(base, self._recorded_until)
        tokens = self._own.tokens(view.turn, view.hi)
        return view.tokens if tokens is None else tokens

    def _compact(self, view: View, trigger: Trigger) -> Step:
        start = 1 if view.has_system else 0
        if len(view) <= start:
            return unchanged(view, compactor=self.name, trigger=trigger)
        try:
            answer = ask(
                self.summarizer,
                view.messages(start),
                self.meter,
                weight=view.weight_between(start, len(view)),
                format=SummaryFormat.PROSE,
                budget=self.summary_tokens,
            )
            if not answer.text.strip():
                raise SummarizerError("the answer is empty", "empty")
        except SummarizerError as error:
            return self._failed(view, trigger, error)
        self._failures = 0
        self._last_turn = view.turn
        message = Message(USER, SUMMARY_HEADING + answer.text, origin=Origin.RECORDED_SUMMARY)
        items = [view.made(message, Kind.SUMMARY), *read_again(view, start, self.reread)]
        after = view.replaced(start, len(view), items)
        record = self._record(view, after, Tier.FULL, trigger, summarized=len(view) - start, answer=answer)
        return Step(after, record, True)

    def _failed(self, view: View, trigger: Trigger, cause: SummarizerError) -> Step:
        self._failures += 1
        notes: tuple[str, ...] = (failure_note(cause),)
        if self._failures >= MAX_FAILURES:
            self.stopped = Note.FAILURE_BREAKER
            notes = (*notes, self.stopped)
        record = self._record(view, view, Tier.FULL, trigger, error=summary_failure(str(cause)), notes=notes)
        return Step(view, record)

    def _is_refill(self, view: View) -> bool:
        """Count the compactions that come within three turns of the last one; three in a row are too many."""
        if self._last_turn is None or view.turn - self._last_turn > REFILL_TURNS:
            self._refills = 0
            return False
        self._refills += 1
        return self.breaks_refills and self._refills >= MAX_REFILLS

    def _record(
        self,
        before: View,
        after: View,
        tier: Tier,
        trigger: Trigger,
        *,
        summarized: int = 0,
        answer: Answer | None = None,
        error: str = "",
        notes: tuple[str, ...] = (),
    ) -> CompactionRecord:
        record = record_of(
            before,
            after,
            tier=tier,
            compactor=self.name,
            trigger=trigger,
            preserved_tail=0 if summarized else len(after),
            summarized=summarized,
            error=error,
            notes=notes,
            answer=answer,
            summary_text=answer.text if answer else "",
        )
        tokens = self.occupied(before)
        if tokens == record.tokens_before or not tokens:
            return record
        # What it decided by is what it counts; of what clearing frees only the fit knows.
        left = record.tokens_after if after.pristine == Standing.CHANGED else max(tokens - _freed(before, after), 0)
        return changed(record, tokens_before=tokens, tokens_after=left, compression_ratio=left / tokens)

    def _promise(self) -> Quiet | None:
        if not self.meter.steady:
            return None
        return Quiet(weight=weight_reaching(self.meter, max(self.threshold if self.auto else self.manual_mark, 1)))


class _OwnCount:
    """What a session's own usage says before each turn, up to the turn from which on it is that of another history."""

    def __init__(self, base: Base, until: int) -> None:
        self.base = base
        self._bytes = list(accumulate(map(_said, base.messages), initial=0))
        self._known: list[tuple[int, int] | None] = [None]
        for turn, index in enumerate(base.calls):
            usage = base.messages[index].usage
            fresh = usage is not None and usage.prompt > 0 and turn < until
            # The reply counts as it was recorded: some versions wrote it down too early, and counted so themselves.
            known = (usage.prompt + usage.output, index + 1) if usage is not None and fresh else self._known[-1]
            self._known.append(known)

    def tokens(self, turn: int, stop: int) -> int | None:
        """Give the last usage before a turn and bytes / 4 of the messages from there to ``stop``; None without any."""
        known = self._known[min(turn, len(self._known) - 1)]
        return None if known is None else known[0] + (self._bytes[stop] - self._bytes[known[1]]) // 4


def _said(message: Message) -> int:
    """Give the bytes of what a message says: its text and the calls that it makes, not the ids that tie them."""
    return byte_length(message.content) + sum(
        byte_length(call.name) + byte_length(call.arguments) for call in message.tool_calls
    )


def _freed(before: View, after: View) -> int:
    tokens = before.base.meter.tokens
    was, is_now = (tokens(view.weight, MeterContext(view.turn, Standing.CHANGED)) for view in (before, after))
    return was - is_now


def _recorded_until(session: Session | None) -> int:
    """Give the turn up to which recorded usage is that of the history that this compactor sees.

    Claude Code's own microcompactions are part of that, another harness's are not.
    """
    if session is None:
        return 0
    return first_full(session) if session.harness == "claude-code" else first_break(session)


def _lived_through(session: Session | None, until: int) -> tuple[RecordedCompaction, ...] | None:
    """Give what Claude Code did itself before its first full compaction; None where it only let the history grow."""
    if session is None or session.harness != "claude-code" or first_break(session) >= until:
        return None
    return tuple(c for c in session.compactions if c.kind == "micro" and c.before_model_call < until)


def _check(options: Mapping[str, Any]) -> Iterable[str]:
    if options["version"] and not version_numbers(options["version"]):
        yield f"version {options['version']!r} is no version; write it like 2.1.39"


def _make(options: Mapping[str, Any], session: Session | None, ports: Ports) -> ClaudeCodeCompactor:
    recorded = session.harness_version if session and "claude-code" in (session.harness, session.format) else ""
    return ClaudeCodeCompactor(
        ports.summarizer,
        ports.context_window,
        version=options["version"] or recorded,
        session=session,
        auto=options["auto"],
        reserve=options["output_reserve"],
        pct_override=options["pct_override"],
        clear=options["clear"],
        keep_results=options["keep_results"],
        reread=Reread(options["reread_files"], options["reread_tokens"], options["reread_total"]),
        meter=ports.meter,
        summary_tokens=ports.summary_tokens,
        protect=ports.protect,
    )


COMPACTOR = CompactorSpec(
    "claude-code",
    "Claude Code: one summary near the end of the window, files that were read last put back",
    _make,
    (
        Option("version", "", "version that is followed; empty for the recorded one, else the newest", str),
        Option("auto", True, "whether it compacts by itself", bool),
        Option("output_reserve", 0, "tokens kept for the reply, 0 for what the version keeps", int, "", 0),
        Option("pct_override", 0.0, "share of the window less reserve; can only lower the threshold", float, "", 0, 1),
        Option("clear", False, "clear old tool results first, summarise only where that is not enough", bool),
        Option("keep_results", 5, "newest tool results that are not cleared", int, "tail", 0),
        Option("reread_files", 5, "files that are put back behind the summary", int, "", 0),
        Option("reread_tokens", 5_000, "most tokens of one such file", int, "", 0),
        Option("reread_total", 50_000, "most tokens of all of them", int, "", 0),
    ),
    _check,
    models="Claude Code 2.0 to 2.1; limits by version as measured, the rest second-hand (November 2026)",
    meter="usage",
    needs_window=True,
    uses_summarizer=True,
)
