"""Where the calls and results of a session are, asked by index: what a cut at any place would tear apart."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

from compactctl.measures._spec import Trace
from compactctl.model import ASSISTANT, TOOL, Message


class Pairs:
    """For each result the message that called it, for each call the message that answers it.

    ``caller[i]`` is the index of the last message before i that makes the call which message i answers, -1 where there
    is none or i is no result. ``far`` are the results that do not stand in the run of results behind their call.
    """

    def __init__(self, messages: Sequence[Message]) -> None:
        self.messages = messages
        self.caller = [-1] * len(messages)
        self.far: list[int] = []
        self._answers: dict[tuple[int, str], int] = {}
        self._results: dict[str, list[int]] = {}
        self._by_text: dict[str, dict[str, int]] = {}
        latest: dict[str, int] = {}
        run = -1
        for i, message in enumerate(messages):
            if message.tool_call_id:
                call = latest.get(message.tool_call_id, -1)
                self.caller[i] = call
                self._results.setdefault(message.tool_call_id, []).append(i)
                if call >= 0:
                    self._answers.setdefault((call, message.tool_call_id), i)
                    if call != run:
                        self.far.append(i)
                continue
            run = -1
            if message.role == ASSISTANT and message.tool_calls:
                run = i
                for made in message.tool_calls:
                    latest[made.id] = i

    def answer(self, call: int, call_id: str) -> int | None:
        """Give the index of the first result of a call that a message makes, None where it has none."""
        return self._answers.get((call, call_id))

    def result(self, call_id: str, text: str | None, before: int) -> int | None:
        """Give the index of the result under an id that holds a text, of those before an index; None without any.

        Harnesses that number their calls anew at each turn have many results under one id. Where no one of them holds
        the text, or it is not known, the last one is given.
        """
        found = self._results.get(call_id, [])
        at = bisect_left(found, before)
        if at > 1 and text is not None:
            holder = self._holders(call_id, found).get(text, before)
            if holder < before:
                return holder
        return found[at - 1] if at else None

    def _holders(self, call_id: str, found: Sequence[int]) -> dict[str, int]:
        """Give the first result under an id by the text that it holds; made once for an id."""
        if call_id not in self._by_text:
            self._by_text[call_id] = {self.messages[i].content: i for i in reversed(found)}
        return self._by_text[call_id]

    def cut_off(self, start: int, stop: int) -> list[int]:
        """List the results in a range whose call stands before the range."""
        messages, caller = self.messages, self.caller
        found: list[int] = []
        at = start
        while at < stop and messages[at].role == TOOL:
            if 0 <= caller[at] < start:
                found.append(at)
            at += 1
        return found + self.late_between(at, stop, start)

    def late_between(self, start: int, stop: int, cut: int) -> list[int]:
        """List the results in a range that stand far from a call which is before ``cut``."""
        far = self.far
        return [i for i in far[bisect_left(far, start) : bisect_left(far, stop)] if self.caller[i] < cut]

    def left_open(self, start: int, stop: int) -> list[tuple[int, str]]:
        """List the calls in a range, as (message, id), that are answered but not within the range."""
        at = stop - 1
        while at >= start and self.messages[at].role == TOOL:
            at -= 1
        found: list[tuple[int, str]] = []
        if at >= start and self.messages[at].tool_calls:
            found = self._open(at, stop)
        for i in self.far[bisect_left(self.far, stop) :]:
            call = self.caller[i]
            if start <= call < stop and call != at:
                found += [pair for pair in self._open(call, stop) if pair not in found]
        return found

    def _open(self, call: int, stop: int) -> list[tuple[int, str]]:
        answers = ((made.id, self.answer(call, made.id)) for made in self.messages[call].tool_calls)
        return [(call, made) for made, at in answers if at is not None and at >= stop]


def pairs_of(trace: Trace) -> Pairs:
    """Give the pairs of a session; found once for all its replays."""
    messages = trace.base.messages
    key = f"pairs {trace.base.offset} {len(messages)}"
    known = trace.shared.get(key)
    if not isinstance(known, Pairs):
        known = trace.shared[key] = Pairs(messages)
    return known
