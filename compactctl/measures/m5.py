"""M5, protocol validity: would a provider take the view? Only what the compactor introduced counts.

A fault that the history before the turn has as well is the session's own and left out. Pairs are looked for where the
view was cut; what lies between two cuts is as it was recorded.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from compactctl.context.base import Base, Item, Kind
from compactctl.context.view import View
from compactctl.measures._own import Stretch, Stretches, own_changes
from compactctl.measures._pairs import Pairs, pairs_of
from compactctl.measures._spec import Direction, Key, Measured, MeasureSpec, Trace
from compactctl.model import ASSISTANT, SYSTEM, TOOL, USER
from compactctl.ports import Span

FAULTY, FAULTS = "m5.faulty_turns", "m5.faults"
UNREAD_LOST, UNREAD_CUT = "m5.unread_results_lost", "m5.unread_results_cut"
KINDS = {
    "orphan_result": "a result without its call",
    "unanswered_call": "a call without its result",
    "misplaced_result": "a result not directly behind its call's message",
    "duplicate_id": "two results under one id",
    "first_not_user": "the first message that is no system message is not the user's",
    "empty_content": "a message without content",
    "ill_formed": "text that is not well-formed Unicode",
    "system_only": "nothing but system messages",
    "no_user": "no message of a user",
}
_SURROGATE = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class Fault:
    """A kind of fault that the views of a span have, how often, and the first turn and the number of turns with it."""

    kind: str
    count: int
    turn: int
    turns: int


@dataclass(frozen=True, slots=True)
class Unread:
    """Results that were gone (``lost``) or shortened (``cut``) before the model saw them once, at a turn."""

    turn: int
    lost: int
    cut: int


def ill_formed(text: str) -> bool:
    """Whether a text holds half a surrogate pair, which no provider accepts.

    >>> ill_formed("🚀"), ill_formed("\\ud83d")
    (False, True)
    """
    return not text.isascii() and _SURROGATE.search(text) is not None


def faults_of(trace: Trace) -> list[Fault]:
    """Give the faults that the compactor introduced, span by span; worked out once."""
    known = trace.cache.get("m5 faults")
    if not isinstance(known, list):
        known = trace.cache["m5 faults"] = list(_faults(trace))
    return known


def unread_results(trace: Trace) -> list[Unread]:
    """Give the turns at which results were dropped or shortened before any model call had seen them."""
    known = trace.cache.get("m5 unread")
    if not isinstance(known, list):
        known = trace.cache["m5 unread"] = [unread for span in trace.spans for unread in _unread(span)]
    return known


def _faults(trace: Trace) -> Iterator[Fault]:
    pairs = pairs_of(trace)
    messages = trace.base.messages
    key = f"m5 users {trace.base.offset} {len(messages)}"
    users = trace.shared.get(key)
    if not isinstance(users, list):
        users = [i for i, message in enumerate(messages) if message.role == USER and not message.tool_call_id]
        trace.shared[key] = users
    first = next((i for i, message in enumerate(messages) if message.role != SYSTEM), len(messages))
    own = Stretches()
    torn: dict[str, int] = {}
    made_user = False
    form: object = None
    hi = 0
    base_calls = trace.base.calls
    for span, (change, leapt) in zip(trace.spans, own_changes(trace), strict=True):
        view = span.view
        if change is not None:
            own.replace(change.tail, len(change.removed), change.come)
        if view.pristine:
            torn, made_user, form, hi = {}, False, None, 0
        else:
            # Placeholders in place of results tear nothing, and neither does a range that goes on.
            before, form = form, _form(_with_rest(own.all, view), view.hi)
            for turn, until in _quiet_parts(span, pairs):
                if form != before or turn > span.turn or pairs.late_between(hi, view.hi, view.lo):
                    now = span.view_at(turn)
                    check = _Check(now, pairs)
                    check.run(_with_rest(own.all, now))
                    torn, made_user = check.found, check.has_user
                for kind, count in torn.items():
                    yield Fault(kind, count, turn, until - turn)
            yield from _shape(span, users, made_user or _any_of(users, own.all), first)
            hi = max(base_calls[span.until - 1], view.hi)
        if leapt is not None:
            own.replace(0, 0, leapt.come)


def _with_rest(own: list[Stretch], view: View) -> list[Stretch]:
    """Give the own stretches of a view and behind them its recorded range, as one with the last where it goes on."""
    if own and own[-1].item is None and own[-1].stop == view.lo:
        return [*own[:-1], Stretch(own[-1].start, view.hi, None)]
    return [*own, Stretch(view.lo, view.hi, None)] if view.hi > view.lo else own


def _form(stretches: list[Stretch], hi: int) -> object:
    """Give what must be the same in two views for the same pairs to be torn, whatever joined the recorded range."""
    start, stop, item = stretches[-1] if stretches else Stretch(-1, -1, None)
    return stretches[:-1], start, item, stop == hi or stop


def _any_of(indices: list[int], own: list[Stretch]) -> bool:
    """Whether one of some recorded messages, in rising order, is in the own part."""
    return any(bisect_left(indices, part.start) < bisect_left(indices, part.stop) for part in own)


def _shape(span: Span, users: list[int], has_user: bool, first: int) -> Iterator[Fault]:
    """Look at what a view begins with and whether it has a user, at its first turn and when it has grown.

    ``first`` is the index of the first recorded message that is no system message.
    """
    view, calls = span.view, span.view.base.calls
    head = 0
    while head < len(view) and view.message(head).role == SYSTEM:
        head += 1
    alone = head == len(view)
    if alone and view.hi > first:
        yield Fault("system_only", 1, span.turn, 1)
    start = span.turn + alone
    begins = _begins(view, head, calls[start]) if start < span.until else USER
    if begins != USER and users[:1] == [first]:
        yield Fault("first_not_user", 1, start, span.until - start)
    if has_user or not users or users[0] >= view.hi:
        return
    at = bisect_left(users, view.lo)
    joins = bisect_left(calls, users[at] + 1) if at < len(users) else len(calls)
    until = min(max(joins, span.turn), span.until)
    if until > span.turn:
        yield Fault("no_user", 1, span.turn, until - span.turn)


def _quiet_parts(span: Span, pairs: Pairs) -> Iterator[tuple[int, int]]:
    """Cut a span where results join whose call was cut away long before: (turn, until) of each part."""
    view, calls = span.view, span.view.base.calls
    start = span.turn
    for i in pairs.late_between(view.hi, calls[span.until - 1], view.lo):
        turn = bisect_left(calls, i + 1, lo=start)
        if turn > start:
            yield start, turn
            start = turn
    yield start, span.until


class _Check:
    """Looks for the torn pairs and the broken texts of one view."""

    def __init__(self, view: View, pairs: Pairs) -> None:
        self.view = view
        self.pairs = pairs
        self.found: dict[str, int] = {}
        self.has_user = False  # among the made items
        self._open: dict[str, int] = {}  # calls that wait for their result: id -> caller, -1 for a made one
        self._answered: set[str] = set()  # calls that a made result has answered
        self._last_caller: frozenset[str] = frozenset()
        self._adjacent = False

    def run(self, stretches: Iterable[Stretch]) -> None:
        """Look at the stretches of the view in order."""
        for start, stop, item in stretches:
            if item is not None:
                self._made(item)
            else:
                self._recorded(start, stop)
        if self._open:
            self._count("unanswered_call", len(self._open))

    def _count(self, kind: str, times: int = 1) -> None:
        self.found[kind] = self.found.get(kind, 0) + times

    def _recorded(self, start: int, stop: int) -> None:
        pairs, messages = self.pairs, self.view.base.messages
        for i in pairs.cut_off(start, stop):
            call_id = messages[i].tool_call_id
            if call_id not in self._open:
                self._count("duplicate_id" if call_id in self._answered else "orphan_result")
                continue
            del self._open[call_id]
            # A result that was recorded far from its call is the session's own fault.
            if not self._adjacent and i not in pairs.far:
                self._count("misplaced_result")
        hi = self.view.hi
        left = [(call, made) for call, made in pairs.left_open(start, stop) if (pairs.answer(call, made) or 0) < hi]
        for call, made in left:
            self._open[made] = call
        at = stop - 1
        while at > start and messages[at].role == TOOL:
            at -= 1
        if messages[at].role != TOOL:
            self._last_caller = frozenset(call.id for call in messages[at].tool_calls)
            self._adjacent = bool(messages[at].tool_calls)

    def _made(self, item: Item) -> None:
        message = item.message
        if message.tool_call_id:
            known = self._open.pop(message.tool_call_id, None) is not None or message.tool_call_id in self._last_caller
            if known:
                self._answered.add(message.tool_call_id)
            else:
                self._count("orphan_result")
        else:
            self._last_caller = frozenset(call.id for call in message.tool_calls)
            self._adjacent = bool(message.tool_calls)
            if message.role == ASSISTANT:
                self._open.update(dict.fromkeys(self._last_caller, -1))
            self.has_user = self.has_user or message.role == USER
        if not message.content and not message.tool_calls and message.role != SYSTEM:
            self._count("empty_content")
        if ill_formed(message.content):
            self._count("ill_formed")


def _begins(view: View, head: int, stop: int) -> str:
    """Give the role of the first message behind system messages, of which the view has ``head``.

    Of a view that has nothing else it is that once the recorded messages before ``stop`` have joined; the user's where
    there is none then.
    """
    if head < len(view):
        return view.message(head).role
    joined = range(view.hi, stop)
    return next((role for i in joined if (role := view.base.messages[i].role) != SYSTEM), USER)


def _unread(span: Span) -> Iterator[Unread]:
    view, base = span.view, span.view.base
    if not view.pristine:
        yield from _unread_at(view, _last_call(base, span.turn))
    if span.leap is not None:
        at = span.leap.passing.at
        for turn, first, done in span.leap.events():
            if at[done - 1] > _last_call(base, turn):
                yield Unread(turn, 0, sum(index > _last_call(base, turn) for index in at[first:done]))


def _last_call(base: Base, turn: int) -> int:
    """Give the index of the message that the call before a turn wrote, -1 where there was none."""
    return base.calls[turn - 1] if turn else -1


def _unread_at(view: View, last_call: int) -> Iterator[Unread]:
    base, start = view.base, last_call + 1
    stop = base.calls[view.turn] if view.turn < len(base.calls) else len(base.messages)
    if view.lo <= start:
        return
    fresh = {i for i in range(start, min(stop, view.lo)) if base.messages[i].tool_call_id}
    if not fresh:
        return
    cut = 0
    own = view.own_buffer
    for position in range(view.own_length - 1, -1, -1):
        item = own[position]
        if 0 <= item.index < start:
            break
        if item.index in fresh:
            fresh.discard(item.index)
            cut += item.kind is not Kind.RECORDED
    if fresh or cut:
        yield Unread(view.turn, len(fresh), cut)


def _compute(trace: Trace) -> Mapping[str, Measured]:
    faults = faults_of(trace)
    turns: set[int] = set()
    for fault in faults:
        turns.update(range(fault.turn, fault.turn + fault.turns))
    unread = unread_results(trace)
    found = {
        FAULTY: Measured(len(turns)),
        FAULTS: Measured(sum(fault.count * fault.turns for fault in faults)),
        UNREAD_LOST: Measured(sum(u.lost for u in unread)),
        UNREAD_CUT: Measured(sum(u.cut for u in unread)),
    }
    for kind in KINDS:
        found[f"m5.{kind}"] = Measured(sum(fault.count * fault.turns for fault in faults if fault.kind == kind))
    return found


MEASURE = MeasureSpec(
    "m5",
    "protocol validity",
    (
        Key(FAULTY, "turns", Direction.LOWER, "turns whose view has a fault that the history has not"),
        Key(FAULTS, "faults", Direction.LOWER, "faults introduced, each at every turn that has it"),
        *(Key(f"m5.{kind}", "faults", Direction.LOWER, f"{text}, introduced") for kind, text in KINDS.items()),
        Key(UNREAD_LOST, "results", Direction.LOWER, "results dropped or summarised before the model saw them"),
        Key(UNREAD_CUT, "results", Direction.LOWER, "results shortened or offloaded before the model saw them"),
    ),
    _compute,
)
