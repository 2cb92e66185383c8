"""M5, protocol validity: would a provider take the view? Only what the compactor introduced counts.

A fault that the history before the turn has as well is the session's own and left out. Pairs are looked for where the
view was cut; what lies between two cuts is as it was recorded.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice

from compactctl.context.view import Item, Kind, View
from compactctl.measures._own import Change, Piece, cut_pieces, own_changes
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
    "first_not_user": "the first message behind the system message is not the user's",
    "empty_content": "a message without content",
    "ill_formed": "text that is not well-formed Unicode",
    "system_only": "nothing but the system message",
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
        found = (_unread(span) for span in trace.spans)
        known = trace.cache["m5 unread"] = [unread for unread in found if unread is not None]
    return known


class _Runs:
    """The own items of the view at hand as runs of consecutive recorded messages, with made items between them.

    A placeholder that stands for a recorded message is part of its run: it has the same role and ids.
    """

    def __init__(self) -> None:
        self._runs: list[Piece] = []

    def apply(self, change: Change) -> None:
        """Go on to the next view."""
        runs = self._runs
        cut_pieces(runs, change.keep)
        position, start, stop = runs.pop()[:3] if runs and runs[-1].item is None else (0, 0, 0)
        for piece in change.added:
            if piece.start >= 0 and piece.start == stop and stop > start:
                stop = piece.stop
                continue
            if stop > start:
                runs.append(Piece(position, start, stop, None))
            position, start, stop = piece[:3]
            if start < 0:
                runs.append(piece)
                stop = start
        if stop > start:
            runs.append(Piece(position, start, stop, None))

    def pieces(self, view: View) -> list[Piece]:
        """Give the runs and made items in order, the recorded rest of the view last."""
        rest = Piece(view.own_length, view.lo, view.hi, None)
        runs = self._runs
        if runs and runs[-1].item is None and runs[-1].stop == view.lo:
            return [*runs[:-1], Piece(runs[-1].position, runs[-1].start, view.hi, None)]
        return [*runs, rest] if view.hi > view.lo else runs

    def holds(self, index: int) -> bool:
        """Whether a recorded message is in the own part."""
        return any(run.start <= index < run.stop for run in self._runs)


def _faults(trace: Trace) -> Iterator[Fault]:
    pairs = pairs_of(trace)
    users = [i for i, message in enumerate(trace.base.messages) if message.role == USER and not message.tool_call_id]
    runs = _Runs()
    found: dict[str, int] = {}
    lo = 0
    for span, change in zip(trace.spans, own_changes(trace), strict=True):
        view = span.view
        if change is not None:
            runs.apply(change)
        if view.pristine:
            found, lo = {}, 0
            continue
        if change is not None or view.lo != lo:
            found, lo = _Check(view, pairs, users).run(runs.pieces(view)), view.lo
        else:
            found = _still(found, view)
        for kind, count in found.items():
            yield Fault(kind, count, span.turn, span.turns)
        yield from _late_orphans(span, pairs, runs)


def _still(found: dict[str, int], view: View) -> dict[str, int]:
    """Give the faults that a view still has after it has only grown: growth brings users and more than a system."""
    grown = dict(found)
    if len(view) > 1:
        grown.pop("system_only", None)
    if "no_user" in grown and any(m.role == USER for m in view.base.messages[view.lo : view.hi]):
        grown.pop("no_user")
    return grown


def _late_orphans(span: Span, pairs: Pairs, runs: _Runs) -> Iterator[Fault]:
    """Find results that joined while the view stayed quiet, long after their call was cut away."""
    view, base = span.view, span.view.base
    stop = base.calls[span.until - 1]
    far = pairs.far
    for i in far[bisect_left(far, view.hi) : bisect_left(far, stop)]:
        call = pairs.caller[i]
        if 0 <= call < view.lo and not runs.holds(call):
            turn = bisect_left(base.calls, i, lo=span.turn)
            yield Fault("orphan_result", 1, turn, span.until - turn)


class _Check:
    """Looks for the faults of one view."""

    def __init__(self, view: View, pairs: Pairs, users: list[int]) -> None:
        self.view = view
        self.pairs = pairs
        self.users = users
        self.found: dict[str, int] = {}
        self.open: dict[str, int] = {}  # calls that wait for their result: id -> caller, -1 for a made one
        self.last_caller: frozenset[str] = frozenset()
        self.adjacent = False
        self.has_user = False

    def run(self, pieces: Iterable[Piece]) -> dict[str, int]:
        """Look at the pieces of the view in order; give how often each kind of fault was found."""
        for piece in pieces:
            if piece.item is not None:
                self._made(piece.item)
            else:
                self._recorded(piece.start, piece.stop)
        if self.open:
            self._count("unanswered_call", len(self.open))
        first = 1 if self.view.has_system else 0
        if len(self.view) <= first:
            if self.view.hi > first:
                self._count("system_only")
        elif self.view.message(first).role != USER and _first_is_user(self.view):
            self._count("first_not_user")
        if not self.has_user and self.users and self.users[0] < self.view.hi:
            self._count("no_user")
        return self.found

    def _count(self, kind: str, times: int = 1) -> None:
        self.found[kind] = self.found.get(kind, 0) + times

    def _recorded(self, start: int, stop: int) -> None:
        pairs, messages = self.pairs, self.view.base.messages
        for i in pairs.cut_off(start, stop):
            call_id = messages[i].tool_call_id
            if call_id not in self.open:
                self._count("orphan_result")
                continue
            del self.open[call_id]
            # A result that was recorded far from its call is the session's own fault.
            if not self.adjacent and i not in pairs.far:
                self._count("misplaced_result")
        hi = self.view.hi
        left = [(call, made) for call, made in pairs.left_open(start, stop) if (pairs.answer(call, made) or 0) < hi]
        for call, made in left:
            self.open[made] = call
        at = stop - 1
        while at > start and messages[at].role == TOOL:
            at -= 1
        if messages[at].role != TOOL:
            self.last_caller = frozenset(call.id for call in messages[at].tool_calls)
            self.adjacent = bool(messages[at].tool_calls)
        at = bisect_left(self.users, start)
        self.has_user = self.has_user or (at < len(self.users) and self.users[at] < stop)

    def _made(self, item: Item) -> None:
        message, view = item.message, self.view
        if message.tool_call_id:
            known = self.open.pop(message.tool_call_id, None) is not None or message.tool_call_id in self.last_caller
            if not known:
                self._count("orphan_result")
            result = self.pairs.result(message.tool_call_id, view.hi)
            if result is not None and result >= view.lo and item.kind is Kind.STAND_IN:
                self._count("duplicate_id")
        else:
            self.last_caller = frozenset(call.id for call in message.tool_calls)
            self.adjacent = bool(message.tool_calls)
            if message.role == ASSISTANT:
                self.open.update(dict.fromkeys(self.last_caller, -1))
            self.has_user = self.has_user or message.role == USER
        if not message.content and not message.tool_calls and message.role != SYSTEM:
            self._count("empty_content")
        if ill_formed(message.content):
            self._count("ill_formed")


def _first_is_user(view: View) -> bool:
    """Whether the history itself begins with a user."""
    first = next((m for m in islice(view.base.messages, view.hi) if m.role != SYSTEM), None)
    return first is not None and first.role == USER


def _unread(span: Span) -> Unread | None:
    view, base = span.view, span.view.base
    if view.pristine:
        return None
    turn = span.turn
    start = base.calls[turn - 1] + 1 if turn else 0
    stop = base.calls[turn] if turn < len(base.calls) else len(base.messages)
    if view.lo <= start:
        return None
    fresh = {i for i in range(start, min(stop, view.lo)) if base.messages[i].tool_call_id}
    if not fresh:
        return None
    cut = 0
    own = view.own_buffer
    for position in range(view.own_length - 1, -1, -1):
        item = own[position]
        if 0 <= item.index < start:
            break
        if item.index in fresh:
            fresh.discard(item.index)
            cut += item.kind is not Kind.RECORDED
    return Unread(turn, len(fresh), cut) if fresh or cut else None


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
