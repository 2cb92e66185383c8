"""What a session recorded of its own prompts: which calls have usage, and which history each of them saw."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass

from compactctl.context.counting import Standing
from compactctl.model import ASSISTANT, Session, Usage

# A prompt that falls by more than this share while the history only grew was cut by the harness without a record of it.
# Smaller falls are thinking that is no longer sent, and reminders that come and go.
FALL = 0.05


@dataclass(frozen=True, slots=True)
class Call:
    """A model call with recorded usage: its turn and the index of its message in the session."""

    turn: int
    index: int
    usage: Usage


@dataclass(frozen=True, slots=True)
class Segment:
    """Calls that saw one growing history under one model; ``start`` is the index of its first message.

    ``reason`` says why it began: ``start``, ``compaction`` (recorded), ``fall`` (of the prompt) or ``model``.
    ``context`` numbers the histories: a change of model alone begins a segment, but no new history.
    """

    start: int
    reason: str
    context: int
    calls: tuple[Call, ...]


def recorded_calls(session: Session) -> Iterator[Call]:
    """Give the calls whose prompt was recorded, in order."""
    if not [message for message in session.messages if message.usage is not None]:
        return
    turn = 0
    for index, message in enumerate(session.messages):
        if message.role == ASSISTANT:
            if message.usage is not None and message.usage.prompt > 0:
                yield Call(turn, index, message.usage)
            turn += 1


def segments(session: Session) -> list[Segment]:
    """Cut a session where the history that its prompts hold was cut, or the model that counts them changed."""
    resets = sorted(compaction.at for compaction in session.compactions)
    found: list[Segment] = []
    waiting: list[Call] = []
    start, reason, context, reached = 0, "start", 0, 0
    for call in recorded_calls(session):
        passed = bisect_left(resets, call.index + 1)
        why = ""
        if passed > reached:
            why = "compaction"
        elif waiting and call.usage.prompt < waiting[-1].usage.prompt * (1 - FALL):
            why = "fall"
        elif waiting and session.messages[call.index].model != session.messages[waiting[-1].index].model:
            why = "model"
        if why:
            if waiting:
                found.append(Segment(start, reason, context, tuple(waiting)))
            waiting = []
            context += why != "model"
            start, reason = (resets[passed - 1] if why == "compaction" else call.index), why
            reached = passed
        waiting.append(call)
    if waiting:
        found.append(Segment(start, reason, context, tuple(waiting)))
    return found


def first_break(session: Session) -> int:
    """Give the turn from which on recorded usage is not that of the whole history; the number of turns for none.

    That is where a compaction of any kind was recorded, or the prompt fell without one.
    """
    calls = [segment.calls[0].turn for segment in segments(session) if segment.context > 0]
    recorded = [compaction.before_model_call for compaction in session.compactions]
    return min(*calls, *recorded, session.model_calls, session.model_calls)


def first_full(session: Session) -> int:
    """Give the turn before which a full compaction was first recorded; the number of turns for none."""
    return min((c.before_model_call for c in session.compactions if c.kind == "full"), default=session.model_calls)


class Timeline:
    """The recorded prompts of a session by turn, for views that are still the history in which they were recorded.

    The whole history was sent up to the first compaction of any kind, recorded or seen as a fall of the prompt; from
    there on recorded usage says nothing about it. A view that is what the harness really sent has all of its usage, and
    one that grew on from there has that of before the first full compaction.
    """

    def __init__(self, session: Session) -> None:
        self._usage: dict[int, Call] = {}
        self._context: dict[int, int] = {}
        for segment in segments(session):
            for call in segment.calls:
                self._usage[call.turn] = call
                self._context[call.turn] = segment.context
        self._resets = sorted(compaction.at for compaction in session.compactions)
        self._until = first_full(session)
        self.calls = [i for i, message in enumerate(session.messages) if message.role == ASSISTANT]
        self._messages = len(session.messages)
        self._last: list[int | None] = []
        latest: int | None = None
        for turn in range(len(self.calls) + 1):
            self._last.append(latest)
            if turn in self._usage:
                latest = turn

    def own(self, turn: int, standing: int) -> Call | None:
        """Give the call of a turn itself where its prompt is the history of that turn; None where it is not."""
        call = self._usage.get(turn)
        return call if call is not None and self._is_real(turn, standing) else None

    def last(self, turn: int, standing: int) -> Call | None:
        """Give the last recorded call before a turn where the history of the turn only grew since; None otherwise."""
        if standing == Standing.LIVED:
            turn = min(turn, self._until)
        before = self._last[turn] if turn < len(self._last) else None
        if before is None or (standing != Standing.LIVED and self._resets_before(turn) != self._resets_before(before)):
            return None
        return self._usage[before] if self._is_real(before, standing) else None

    def index(self, turn: int) -> int:
        """Give the index of the message of a turn; behind the last turn, the number of messages."""
        return self.calls[turn] if turn < len(self.calls) else self._messages

    def _resets_before(self, turn: int) -> int:
        return bisect_left(self._resets, self.index(turn) + 1)

    def _is_real(self, turn: int, standing: int) -> bool:
        if standing == Standing.LIVED:
            return turn < self._until
        return standing == Standing.SENT or (bool(standing) and self._context[turn] == 0)
