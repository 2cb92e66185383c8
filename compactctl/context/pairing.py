"""Tool calls and their results: which belong together, and how a cut is mended (harness9.md 1.6)."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from compactctl.model import ASSISTANT, TOOL, Message

STAND_IN_TEXT = "[tool result unavailable: context was compacted]"

Thing = TypeVar("Thing")


def stand_in(call_id: str) -> Message:
    """Give the message that stands for the missing result of a call."""
    return Message(TOOL, STAND_IN_TEXT, tool_call_id=call_id)


def walk_pairs(
    things: Iterable[Thing], message_of: Callable[[Thing], Message], make: Callable[[str], Thing]
) -> list[Thing]:
    """Drop results without a call and put a stand-in after each assistant message for each call without a result.

    Sets over the whole list, so a result before its call or a repeated id counts as paired.
    """
    listed = list(things)
    called: set[str] = set()
    answered: set[str] = set()
    for thing in listed:
        message = message_of(thing)
        if message.tool_call_id:
            answered.add(message.tool_call_id)
        elif message.role == ASSISTANT:
            called.update(call.id for call in message.tool_calls)
    kept: list[Thing] = []
    for thing in listed:
        message = message_of(thing)
        if message.tool_call_id and message.tool_call_id not in called:
            continue
        kept.append(thing)
        if message.role == ASSISTANT:
            kept.extend(make(call.id) for call in message.tool_calls if call.id not in answered)
    return kept


def repair_orphaned_tool_pairs(messages: Iterable[Message]) -> list[Message]:
    """Give the messages without orphaned results and with stand-ins for missing ones.

    >>> [m.content for m in repair_orphaned_tool_pairs([Message("tool", "lost", tool_call_id="c1")])]
    []
    """
    return walk_pairs(messages, lambda message: message, stand_in)


def open_pairs(messages: Sequence[Message]) -> int:
    """Count calls without a result and results without a call, over the whole list; an empty id is none.

    >>> open_pairs([Message("tool", "lost", tool_call_id="c1")])
    1
    """
    called = {call.id for message in messages if message.role == ASSISTANT for call in message.tool_calls if call.id}
    answered = {message.tool_call_id for message in messages if message.tool_call_id}
    return len(called ^ answered)


class PairIndex:
    """Where the calls and results of each tool-call id are in a list of messages.

    ``closed`` says that every run of results stands directly behind the assistant message that made its calls, answers
    each call of it and nothing else. Then a cut can only do harm where it is, and nothing else need be looked at.
    """

    def __init__(self, messages: Sequence[Message]) -> None:
        self._calls = calls = _Places()
        self._results = results = _Places()
        closed = True
        batch: list[str] = []  # the calls of the last assistant message
        answered: list[str] = []  # the results behind it
        for i, message in enumerate(messages):
            call_id, role = message.tool_call_id, message.role
            if call_id:
                answered.append(call_id)
                if call_id in results:
                    results.again(call_id, i)
                else:
                    results[call_id] = i
                closed = closed and role == TOOL
                continue
            if batch or answered:
                closed = closed and (batch == answered or set(batch) == set(answered))
                batch, answered = [], []
            closed = closed and role != TOOL
            if message.tool_calls and role == ASSISTANT:
                for call in message.tool_calls:
                    made = call.id
                    batch.append(made)
                    if made in calls:
                        calls.again(made, i)
                    else:
                        calls[made] = i
        self.closed = closed and set(batch) == set(answered)

    def lone_results(self) -> frozenset[int]:
        """Give the indices of the results whose id no other one has, in upper or lower case."""
        folded = Counter([call_id.casefold() for call_id in self._results])
        if len(folded) == len(self._results) and not self._results.repeated:
            return frozenset(self._results.values())
        repeated = self._results.repeated
        return frozenset(
            [i for call_id, i in self._results.items() if call_id not in repeated and folded[call_id.casefold()] == 1]
        )

    def callers(self, call_id: str) -> Sequence[int]:
        """Give the indices of the assistant messages that make the call."""
        return self._calls.of(call_id)

    def called_between(self, call_id: str, start: int, stop: int) -> bool:
        """Whether an assistant message in this range of indices makes the call."""
        return _any_between(self._calls.of(call_id), start, stop)

    def caller_before(self, call_id: str, index: int) -> int | None:
        """Give the index of the nearest message before ``index`` that makes the call; None where there is none."""
        positions = self._calls.of(call_id)
        at = bisect_left(positions, index)
        return positions[at - 1] if at else None

    def answered_between(self, call_id: str, start: int, stop: int) -> bool:
        """Whether a result of the call is in this range of indices."""
        return _any_between(self._results.of(call_id), start, stop)


class _Places(dict[str, int]):
    """The first place of each id; most ids stand in one only, so that a list is made for the others alone."""

    def __init__(self) -> None:
        super().__init__()
        self.repeated: dict[str, list[int]] = {}

    def again(self, ident: str, place: int) -> None:
        """Note another place of an id."""
        self.repeated.setdefault(ident, [self[ident]]).append(place)

    def of(self, ident: str) -> Sequence[int]:
        """Give the places of an id in rising order."""
        if ident in self.repeated:
            return self.repeated[ident]
        place = self.get(ident)
        return () if place is None else (place,)


def _any_between(positions: Sequence[int], start: int, stop: int) -> bool:
    at = bisect_left(positions, start)
    return at < len(positions) and positions[at] < stop
