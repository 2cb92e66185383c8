"""The recorded messages of a session under one meter: what all of its replays share, worked out once.

Weights are kept as prefix sums, and what is asked of the messages again and again (their pairs, the large results, the
placeholders that may stand for them) is made when first asked for.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from enum import IntEnum
from itertools import accumulate, chain, count, repeat
from operator import add, sub
from typing import Any

from msgspec import Struct

from compactctl.context.counting import Meter
from compactctl.context.naming import SUFFIX
from compactctl.context.pairing import PairIndex
from compactctl.model import ASSISTANT, SYSTEM, Message, ToolCall, byte_length


class Kind(IntEnum):
    """What an item of a view is."""

    RECORDED = 0
    OFFLOADED = 1  # a placeholder for a recorded result that is now in a file
    PRUNED = 2  # a recorded message that was shortened in place
    CLEARED = 3  # a recorded message whose content was replaced by a fixed mark
    SUMMARY = 4  # a compaction message or checkpoint
    STAND_IN = 5  # a made-up result for a call that has none
    REPLACED = 6  # text that a harness put in place of others at a recorded compaction


class Item(Struct, frozen=True, gc=False, eq=False):
    """One message of a view with its weight; ``index`` is the recorded message that it is or stands for, or -1.

    ``result_bytes`` is the length of a tool result, -1 for any other message: a threshold of -1 finds every result.
    """

    message: Message
    weight: int
    index: int
    kind: Kind
    result_bytes: int


def with_overhead(weights: Iterable[int], overhead: int) -> Iterable[int]:
    """Give weights of which the first is larger by an overhead; nothing is added to none.

    >>> list(with_overhead([1, 2], 10)), list(with_overhead([], 10))
    ([11, 2], [])
    """
    return map(add, weights, chain([overhead], repeat(0))) if overhead else weights


class Base:
    """The recorded messages of one session under one meter: each is weighed once, however often it is replayed.

    ``prefix[i]`` is the weight of the first i messages. ``calls[k]`` is the index of the assistant message of turn k,
    so the history before turn k is the first ``calls[k]`` messages, of the weight ``call_weights[k]``.
    ``stub_weight`` is the weight of a system message without text that stands first (DESIGN.md, Replay 4), None for
    no such stub. ``overhead`` is a weight that the first message has beside its own, for what transcripts do not hold;
    afterwards it is that of the stub as well. ``altered`` says that the messages are not those that were recorded
    (some were spilled), so that no recorded usage is theirs.
    """

    def __init__(
        self,
        messages: Sequence[Message],
        meter: Meter,
        stub_weight: int | None = None,
        *,
        overhead: int = 0,
        altered: bool = False,
    ) -> None:
        recorded = tuple(messages)
        self.offset = 0 if stub_weight is None else 1
        self.messages: tuple[Message, ...] = recorded if stub_weight is None else (Message(SYSTEM, ""), *recorded)
        self.meter = meter
        self.altered = altered
        self.overhead = overhead if stub_weight is None else stub_weight
        weights = with_overhead(map(meter.weigh, recorded), overhead)
        start = [0] if stub_weight is None else [0, stub_weight]
        self.prefix: list[int] = start[:-1] + list(accumulate(weights, initial=start[-1]))
        self.calls: list[int] = [i for i, message in enumerate(self.messages) if message.role == ASSISTANT]
        self.call_weights: list[int] = [self.prefix[i] for i in self.calls]
        self._items: list[Item] | None = None
        self._pairs: PairIndex | None = None
        self._tool_names: list[str] | None = None
        self._lone_results: frozenset[int] | None = None
        self._owned_names: dict[str, str] | None = None
        self._large: dict[int, list[int]] = {}
        self._large_own: dict[int, tuple[Sequence[Item], int, list[int]]] = {}
        # The ids of calls that made messages make: nearly always none.
        self.made_calls: set[str] = set()
        # Whether a repair ever made a result up: nearly never, and then nobody need look for them.
        self.has_stand_ins = False
        # Placeholders are the same in every replay of the session, so they are kept here under whatever shaped them.
        self.placeholders: dict[object, Any] = {}
        # Where all of one shape were made at once, they are here too, by the result that each stands for.
        self.placeholder_sets: list[Mapping[int, Item]] = []

    @property
    def items(self) -> list[Item]:
        """Every recorded message as an item; made when first asked for."""
        if self._items is None:
            weights = map(sub, self.prefix[1:], self.prefix)
            sizes = [byte_length(m.content) if m.tool_call_id else -1 for m in self.messages]
            self._items = list(map(Item, self.messages, weights, count(), repeat(Kind.RECORDED), sizes))
        return self._items

    @property
    def pairs(self) -> PairIndex:
        """Where the calls and results of each tool-call id are; made when first asked for."""
        if self._pairs is None:
            self._pairs = PairIndex(self.messages)
        return self._pairs

    @property
    def tool_names(self) -> list[str]:
        """The tool that each message is a result of; empty for other messages. Made when first asked for."""
        if self._tool_names is None:
            self._tool_names = [self.tool_name(i) for i in range(len(self.messages))]
        return self._tool_names

    def tool_name(self, index: int) -> str:
        """Give the tool that a message is a result of; empty where it is none or that is not known.

        A result that does not name its tool has the name that the nearest call with its id before it has.
        """
        message = self.messages[index]
        if message.name or not message.tool_call_id:
            return message.name if message.tool_call_id else ""
        call = self.call_of(index)
        return call.name if call is not None else ""

    def call_of(self, index: int) -> ToolCall | None:
        """Give the call that a result answers, the nearest with its id before it; None where there is none."""
        call_id = self.messages[index].tool_call_id
        caller = self.pairs.caller_before(call_id, index)
        calls = self.messages[caller].tool_calls if caller is not None else ()
        return next((call for call in reversed(calls) if call.id == call_id), None)

    @property
    def lone_results(self) -> frozenset[int]:
        """The indices of results whose tool-call id no other result has, in upper or lower case."""
        if self._lone_results is None:
            self._lone_results = self.pairs.lone_results()
        return self._lone_results

    @property
    def owned_names(self) -> dict[str, str]:
        """The first result of each tool-call id by the case-folded name that is kept for it; made when asked for."""
        if self._owned_names is None:
            self._owned_names = {}
            for message in self.messages:
                if message.tool_call_id:
                    self._owned_names.setdefault((message.tool_call_id + SUFFIX).casefold(), message.content)
        return self._owned_names

    def large_results(self, threshold: int) -> list[int]:
        """List the indices of tool results longer than ``threshold`` bytes, in order."""
        if threshold not in self._large:
            self._large[threshold] = [i for i, item in enumerate(self.items) if item.result_bytes > threshold]
        return self._large[threshold]

    def large_between(self, threshold: int, start: int, stop: int) -> list[int]:
        """List the indices of such results within a range."""
        large = self.large_results(threshold)
        return large[bisect_left(large, start) : bisect_left(large, stop)]

    def large_own(self, threshold: int, own: list[Item], length: int, start: int, stop: int) -> list[int]:
        """List the positions of such results among a view's own items; a list that only grew is read on, not again."""
        known, scanned, large = self._large_own.get(threshold, ((), 0, []))
        if known is not own or scanned > length:
            scanned, large = 0, []
        large += [i for i, item in enumerate(own[scanned:length], scanned) if item.result_bytes > threshold]
        self._large_own[threshold] = (own, length, large)
        return large[bisect_left(large, start) : bisect_left(large, stop)]

    def keep_scan(self, old: list[Item], length: int, new: list[Item], fresh: Sequence[Item]) -> None:
        """Take over what is known of an own list for one that is made of parts of it and of fresh items."""
        for threshold, (known, scanned, large) in self._large_own.items():
            clean = known is old and scanned >= length and not large
            if clean and all(item.result_bytes <= threshold for item in fresh):
                self._large_own[threshold] = (new, len(new), [])

    def note_clean(self, threshold: int, own: list[Item], length: int) -> None:
        """Note that none of a view's own items is such a result, for whoever knows that without a look at each."""
        self._large_own[threshold] = (own, length, [])

    def next_large(self, threshold: int, start: int) -> int | None:
        """Give the index of the first such result at or after ``start``; None where there is none."""
        large = self.large_results(threshold)
        at = bisect_left(large, start)
        return large[at] if at < len(large) else None
