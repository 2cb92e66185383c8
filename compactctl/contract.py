"""What every compactor keeps, as checks that its author can run: ``check_compactor(make)``.

Every guard has a name. A compactor that follows a system which breaks one may be let through by that name, so that the
exception is written down where it is made::

    from compactctl.contract import check_compactor

    def test_contract():
        check_compactor(lambda: MyCompactor(context_window=1500))

A finished session ends tidily, so each session is fed as every prefix that a replay would send: the history before
each of its model calls, and the whole.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from compactctl.context.base import Base
from compactctl.context.counting import Meter
from compactctl.context.view import View
from compactctl.meters.bytes4 import Bytes4
from compactctl.model import ASSISTANT, SYSTEM, TOOL, USER, CompactionRecord, Message, Note, Tier, ToolCall, Trigger
from compactctl.ports import HistoryMode, Step
from compactctl.replay import Plan, as_step_compactor, walk

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

Messages = Sequence[Message]
Make = Callable[[], Any]


class Guard(StrEnum):
    """The names of the guards."""

    INPUT_UNTOUCHED = "input-untouched"
    DETERMINISTIC = "deterministic"
    SYSTEM_FIRST = "system-first"
    NOT_SYSTEM_ALONE = "not-system-alone"
    NO_ORPHAN = "no-orphan"
    ALL_ANSWERED = "all-answered"
    SAYS_WHEN_LARGER = "says-when-larger"
    RECORD_ADDS_UP = "record-adds-up"
    QUIET_KEPT = "quiet-kept"


class Broken(AssertionError):
    """A compactor broke a guard; ``guard`` is which."""

    def __init__(self, guard: Guard, what: str) -> None:
        super().__init__(f"{guard}: {what}")
        self.guard = guard


def check_compactor(
    make: Make, sessions: Iterable[Messages] | None = None, *, allow: Collection[Guard] = (), examples: int = 50
) -> None:
    """Hold a compactor against every guard; raises Broken, which names the first one that it breaks.

    ``make`` gives a fresh compactor, with the step face or with the list face alone; a small window makes it work. The
    sessions are those given, else the written cases of this module and as many generated ones as ``examples`` says
    (with hypothesis, where it is installed; the same ones at every run).
    """
    for messages in written_cases() if sessions is None else sessions:
        check_session(make, messages, allow)
    if sessions is None and examples > 0:
        _check_generated(make, allow, examples)


def check_session(make: Make, messages: Messages, allow: Collection[Guard] = ()) -> bool:
    """Feed a compactor every prefix of one session; gives whether it ever acted, raises Broken."""
    acted = False
    first, second = make(), make()
    meter: Meter = getattr(first, "meter", None) or Bytes4()
    for prefix in prefixes(messages):
        for trigger in (Trigger.PRESSURE, Trigger.MANUAL):
            before = View.of(prefix, meter)
            step = _step(first, prefix, before, trigger)
            again = _step(second, prefix, View.of(prefix, meter), trigger)
            for broken in _faults(before, step, again):
                if broken.guard not in allow:
                    raise broken
            acted = acted or step.view is not before
    if Guard.QUIET_KEPT not in allow:
        for mode in HistoryMode:
            _check_quiet(make, messages, meter, mode)
    return acted


def prefixes(messages: Messages) -> Iterator[list[Message]]:
    """Give the history before each model call, and all messages."""
    for at, message in enumerate(messages):
        if message.role == ASSISTANT:
            yield list(messages[:at])
    yield list(messages)


def orphans(messages: Messages) -> list[str]:
    """List the ids of tool results that no assistant message calls."""
    called = {call.id for m in messages if m.role == ASSISTANT for call in m.tool_calls}
    return [m.tool_call_id for m in messages if m.tool_call_id and m.tool_call_id not in called]


def unanswered(messages: Messages) -> list[str]:
    """List the ids of calls that no tool result answers; a result answers the nearest call with its id before it."""
    calls: list[str] = []
    latest: dict[str, int] = {}
    answered: set[int] = set()
    for message in messages:
        if message.tool_call_id in latest:
            answered.add(latest[message.tool_call_id])
        elif message.role == ASSISTANT:
            for call in message.tool_calls:
                latest[call.id] = len(calls)
                calls.append(call.id)
    return [call for at, call in enumerate(calls) if at not in answered]


# -- the guards ------------------------------------------------------------------------------------------------------


def _step(compactor: Any, messages: list[Message], view: View, trigger: Trigger) -> Step:
    """Let a compactor do one step and see that it leaves alone what it was given."""
    given = list(messages)
    if not hasattr(compactor, "step"):
        # The list face is handed the very list, so that an order to it cannot go unseen.
        run = compactor.compact_with_record if hasattr(compactor, "compact_with_record") else compactor.compact
        run(messages)
        if len(messages) != len(given) or any(a is not b for a, b in zip(messages, given, strict=True)):
            raise Broken(Guard.INPUT_UNTOUCHED, "the list that was handed in is another one now")
    step = as_step_compactor(compactor).step(view, trigger)
    if list(view) != given:
        raise Broken(Guard.INPUT_UNTOUCHED, "the view that was handed in holds other messages now")
    return step


def _faults(before: View, step: Step, again: Step) -> Iterator[Broken]:
    old, new = list(before), list(step.view)
    if list(again.view) != new or again.record != step.record:
        yield Broken(Guard.DETERMINISTIC, f"two fresh compactors give {_shape(new)} and {_shape(list(again.view))}")
    if old and old[0].role == SYSTEM and (not new or new[0] != old[0]):
        yield Broken(Guard.SYSTEM_FIRST, f"the view is {_shape(new)}")
    if any(m.role != SYSTEM for m in old) and all(m.role == SYSTEM for m in new):
        yield Broken(Guard.NOT_SYSTEM_ALONE, f"{len(old)} messages became {_shape(new)}")
    lost = set(orphans(new)) - set(orphans(old))
    if lost:
        yield Broken(Guard.NO_ORPHAN, f"results without their call: {sorted(lost)} in {_shape(new)}")
    hanging = set(unanswered(new)) - set(unanswered(old))
    if hanging:
        yield Broken(Guard.ALL_ANSWERED, f"calls without their result: {sorted(hanging)} in {_shape(new)}")
    if step.view.weight > before.weight and Note.NOT_SMALLER not in step.record.notes:
        yield Broken(Guard.SAYS_WHEN_LARGER, f"weight {before.weight} became {step.view.weight} without a note")
    for sentence in record_faults(before, step.view, step.record):
        yield Broken(Guard.RECORD_ADDS_UP, sentence)


def record_faults(before: View, after: View, record: CompactionRecord) -> Iterator[str]:
    """Say what in a record does not fit the views that it tells of."""
    for name, said, counted in (
        ("tokens_before", record.tokens_before, before.tokens),
        ("tokens_after", record.tokens_after, before.tokens if after is before else after.tokens),
        ("msgs_before", record.msgs_before, len(before)),
        ("msgs_after", record.msgs_after, len(after)),
    ):
        if said != counted:
            yield f"{name} is {said}, counted {counted}"
    if record.tier is Tier.NONE and after is not before:
        yield "the tier is None, but the view is another one"
    if record.tokens_before and abs(record.compression_ratio - record.tokens_after / record.tokens_before) > 1e-9:
        yield f"compression_ratio is {record.compression_ratio}"
    if record.preserved_tail > max(len(before), len(after)):
        yield f"preserved_tail is {record.preserved_tail}, of {len(before)} messages before and {len(after)} after"
    made = sum(1 for item in after.own if item.index < 0) - sum(1 for item in before.own if item.index < 0)
    if record.summarized + record.dropped > len(before) - len(after) + max(made, 0):
        yield (
            f"{record.summarized} summarised and {record.dropped} dropped, "
            f"but {len(before)} messages became {len(after)} with {made} made"
        )


def _check_quiet(make: Make, messages: Messages, meter: Meter, mode: HistoryMode) -> None:
    """Hold a replay that skips where the compactor promised to stay quiet against one that asks at every turn."""
    base = Base(messages, meter)
    asked = list(walk(base, as_step_compactor(make()), Plan(mode)))
    skipped = list(walk(base, as_step_compactor(make()), Plan(mode, skip=True)))
    for span in skipped:
        for turn in range(span.turn, span.until):
            if list(span.view_at(turn)) != list(asked[turn].view):
                raise Broken(Guard.QUIET_KEPT, f"promised to be quiet at turn {turn} in {mode} history, but acts")


def _shape(messages: Messages) -> str:
    return " ".join(f"{m.role}({m.tool_call_id})" if m.tool_call_id else m.role for m in messages)


# -- the sessions ----------------------------------------------------------------------------------------------------


def written_cases() -> Iterator[list[Message]]:
    """Give the sessions that broke compactors before: parallel calls, orphans, no system message, one giant result."""
    system, task = Message(SYSTEM, "be brief"), Message(USER, "fix the build " * 20)

    def call(*ids: str, text: str = "") -> Message:
        return Message(ASSISTANT, text, tuple(ToolCall(ident, "bash", '{"command": "ls"}') for ident in ids))

    def result(ident: str, size: int = 400) -> Message:
        return Message(TOOL, f"{ident} line\n" * (size // 8), tool_call_id=ident, name="bash")

    def steps(count: int, size: int = 400) -> list[Message]:
        return [m for i in range(count) for m in (call(f"c{i}"), result(f"c{i}", size))]

    batch = [f"p{i}" for i in range(8)]
    yield [system, task, *steps(12, 900), Message(ASSISTANT, "done")]
    yield [task, *steps(12, 900), Message(ASSISTANT, "done")]
    yield [system, task, *steps(3), call(*batch), *(result(i, 800) for i in batch), Message(ASSISTANT, "done")]
    yield [system, result("gone"), task, call("a", "b"), result("a", 3000), Message(ASSISTANT, "b is missing"), task]
    yield [system, task, call("x"), result("x", 2000), call("x"), result("x", 40), *steps(4), call("open")]
    yield [system, task, call("late"), Message(USER, "wait"), call("n"), result("n"), result("late", 4000), *steps(6)]
    yield [system, task, call("big"), result("big", 40_000), Message(ASSISTANT, "read"), *steps(2)]
    yield [system]
    yield []


def session_strategy(max_steps: int = 14) -> SearchStrategy[list[Message]]:
    """Give hypothesis sessions: parallel calls, missing, late and orphaned results, repeated ids, no system message."""
    from hypothesis import strategies as st

    words = ("fix ", "上下文", "a\nb\n", "x" * 90)
    texts = st.sampled_from(["", *(word * count for word in words for count in (1, 8, 60))])
    ids = st.sampled_from([f"c{i}" for i in range(12)])

    def step(draw: Any) -> list[Message]:
        kind = draw(st.sampled_from(["calls"] * 6 + ["user", "say", "orphan", "open"]))
        if kind == "user":
            return [Message(USER, draw(texts))]
        if kind == "say":
            return [Message(ASSISTANT, draw(texts))]
        if kind == "orphan":
            return [Message(TOOL, draw(texts), tool_call_id=draw(ids), name="bash")]
        names = draw(st.lists(ids, min_size=1, max_size=8, unique=True))
        calls = tuple(ToolCall(name, "bash", "{}") for name in names)
        answered = draw(st.lists(st.sampled_from(names), unique=True)) if kind == "open" else names
        results = [Message(TOOL, draw(texts), tool_call_id=name, name="bash") for name in answered]
        return [Message(ASSISTANT, draw(texts), calls), *results]

    @st.composite
    def sessions(draw: Any) -> list[Message]:
        messages = [Message(SYSTEM, "be brief")] if draw(st.booleans()) or draw(st.booleans()) else []
        messages.append(Message(USER, draw(texts)))
        for _ in range(draw(st.integers(0, max_steps))):
            messages += step(draw)
        return messages

    return sessions()


def _check_generated(make: Make, allow: Collection[Guard], examples: int) -> None:
    try:
        from hypothesis import HealthCheck, Phase, given, settings
    except ImportError:
        return

    @settings(
        max_examples=examples,
        deadline=None,
        derandomize=True,
        database=None,
        phases=(Phase.generate, Phase.shrink),
        suppress_health_check=list(HealthCheck),
    )
    @given(session_strategy())
    def holds(messages: list[Message]) -> None:
        check_session(make, messages, allow)

    holds()
