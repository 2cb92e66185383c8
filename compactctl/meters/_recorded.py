"""What a session recorded of its own prompts: which calls have usage, and which history each of them saw."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

from compactctl.model import ASSISTANT, Origin, Session, Usage

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


class Timeline:
    """The recorded prompts of a session by turn, for views that are still the history in which they were recorded.

    After a recorded compaction the weight of a view tells whether it is what the harness really sent (``--recorded
    follow``) or the whole history as if there had been none. That one was never sent, so recorded usage says nothing
    about it. ``weights`` are those of the session's messages under the meter that asks.
    """

    def __init__(self, session: Session, weights: Sequence[int]) -> None:
        self._usage: dict[int, Call] = {}
        self._context: dict[int, int] = {}
        for segment in segments(session):
            for call in segment.calls:
                self._usage[call.turn] = call
                self._context[call.turn] = segment.context
        self._resets = sorted(compaction.at for compaction in session.compactions)
        self.calls = [i for i, message in enumerate(session.messages) if message.role == ASSISTANT]
        self.prefix = list(accumulate(weights, initial=0))
        kept = (
            0 if message.origin is Origin.RECORDED_SUMMARY else weight
            for message, weight in zip(session.messages, weights, strict=True)
        )
        self._whole = list(accumulate(kept, initial=0))
        self._last: list[int | None] = []
        latest: int | None = None
        for turn in range(len(self.calls) + 1):
            self._last.append(latest)
            if turn in self._usage:
                latest = turn

    def own(self, turn: int, weight: int) -> Call | None:
        """Give the call of a turn itself where its prompt is the history of that turn; None where it is not."""
        call = self._usage.get(turn)
        return call if call is not None and self._is_real(turn, self._context[turn], weight) else None

    def last(self, turn: int, weight: int) -> Call | None:
        """Give the last recorded call before a turn where the history of the turn only grew since; None otherwise."""
        before = self._last[turn] if turn < len(self._last) else None
        if before is None or self._resets_before(turn) != self._resets_before(before):
            return None
        call = self._usage[before]
        return call if self._is_real(turn, self._context[before], weight) else None

    def index(self, turn: int) -> int:
        """Give the index of the message of a turn; behind the last turn, the number of messages."""
        return self.calls[turn] if turn < len(self.calls) else len(self.prefix) - 1

    def _resets_before(self, turn: int) -> int:
        return bisect_left(self._resets, self.index(turn) + 1)

    def _is_real(self, turn: int, context: int, weight: int) -> bool:
        return context == 0 or (self._resets_before(turn) > 0 and weight < self._whole[self.index(turn)])
