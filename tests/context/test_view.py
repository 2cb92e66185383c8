"""A view is a list that is cheap to cut: whatever is done to it, it holds what the same list would."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from compactctl.context.base import Base, Kind
from compactctl.context.pairing import repair_orphaned_tool_pairs
from compactctl.context.view import View
from compactctl.meters.bytes4 import Bytes4
from compactctl.model import ASSISTANT, SYSTEM, TOOL, USER, Message, ToolCall, byte_length
from tests.context.strategies import ANY, MESSAGES, WILD

METER = Bytes4()
OPERATIONS = st.sampled_from(["replace", "replace", "cut", "swap", "select", "rebuild", "advance", "repair"])


def holds(view: View, messages: list[Message]) -> None:
    """See that a view and a list are the same in every way of reading."""
    assert list(view) == messages
    assert len(view) == len(messages)
    assert view.weight == sum(map(METER.weigh, messages))
    assert [item.message for item in view.items()] == messages
    assert [view.item(i).weight for i in range(len(view))] == [METER.weigh(m) for m in messages]
    assert view.has_system is (bool(messages) and messages[0].role == SYSTEM)


def span(data: st.DataObject, length: int) -> tuple[int, int]:
    """Draw a range of positions."""
    start = data.draw(st.integers(0, length))
    return start, data.draw(st.integers(start, length))


def change(
    data: st.DataObject, view: View, plain: list[Message], recorded: list[Message]
) -> tuple[View, list[Message]]:
    """Do one thing to a view and to a list."""
    match data.draw(OPERATIONS):
        case "replace":
            start, stop = span(data, len(plain))
            fresh = data.draw(st.lists(ANY, max_size=2))
            return (
                view.replaced(start, stop, [view.made(m, Kind.SUMMARY) for m in fresh]),
                plain[:start] + fresh + plain[stop:],
            )
        case "cut":
            start, stop = span(data, len(plain))
            return view.replaced(start, stop, ()), plain[:start] + plain[stop:]
        case "swap" if plain:
            at = data.draw(st.integers(0, len(plain) - 1))
            old = plain[at]
            new = Message(old.role, "swapped", old.tool_calls, old.tool_call_id)
            return view.swapped([(at, view.made(new, Kind.CLEARED))]), [*plain[:at], new, *plain[at + 1 :]]
        case "select":
            kept = sorted(data.draw(st.sets(st.integers(0, max(len(plain) - 1, 0)), max_size=6))) if plain else []
            return view.selected(kept), [plain[i] for i in kept]
        case "rebuild":
            fresh = data.draw(st.lists(ANY, max_size=3))
            return view.rebuilt([*plain[:3], *fresh]), [*plain[:3], *fresh]
        case "advance":
            turn = data.draw(st.integers(view.turn, view.turn + 3))
            calls = [i for i, m in enumerate(recorded) if m.role == ASSISTANT]
            grown = recorded[view.hi : calls[turn] if turn < len(calls) else len(recorded)]
            return view.advanced(turn), plain + grown
        case _:
            return view.repaired(), repair_orphaned_tool_pairs(plain)


@settings(max_examples=150)
@given(MESSAGES, st.data())
def test_a_view_is_what_the_same_list_is(recorded: list[Message], data: st.DataObject) -> None:
    """Chains of cuts, replacements, swaps, growth and repairs give what they give on a plain list."""
    base = Base(recorded, METER)
    turn = data.draw(st.integers(0, len(base.calls)))
    view = View.before(base, turn)
    plain = recorded[: view.hi]
    holds(view, plain)
    for _ in range(data.draw(st.integers(1, 5))):
        older, before = view, list(view)
        view, plain = change(data, view, plain, recorded)
        holds(view, plain)
        assert list(older) == before, "a view that others were derived from is another one now"


@settings(max_examples=200)
@given(MESSAGES, st.data())
def test_a_repair_after_any_cuts_is_the_repair_of_the_list(recorded: list[Message], data: st.DataObject) -> None:
    """``repaired()`` looks only at the cut where it may, and gives what the whole list's repair gives."""
    base = Base(recorded, METER)
    view = View.before(base, data.draw(st.integers(0, len(base.calls))))
    for _ in range(data.draw(st.integers(1, 3))):
        start, stop = span(data, len(view))
        made = [view.made(Message(USER, "summary"), Kind.SUMMARY)] * data.draw(st.integers(0, 1))
        view = view.replaced(start, stop, made)
        if data.draw(st.booleans()):
            view = view.repaired()
        view = view.advanced(data.draw(st.integers(view.turn, view.turn + 2)))

    assert list(view.repaired()) == repair_orphaned_tool_pairs(list(view))
    assert list(view.repaired().repaired()) == list(view.repaired())


@settings(max_examples=100)
@given(WILD, st.integers(-1, 60), st.data())
def test_large_results_are_those_of_the_list(recorded: list[Message], threshold: int, data: st.DataObject) -> None:
    """The positions of large results are found in every part of a view."""
    view = View.of(recorded, METER)
    cut = data.draw(st.integers(1, len(recorded)))
    view = view.replaced(cut, cut, [view.made(Message(TOOL, "y" * 60, tool_call_id="a"), Kind.OFFLOADED)])
    start, stop = span(data, len(view))

    found = view.large_results(threshold, start, stop)

    assert found == [i for i in range(start, stop) if view[i].tool_call_id and byte_length(view[i].content) > threshold]


@given(MESSAGES, st.data())
def test_weights_of_ranges_add_up(recorded: list[Message], data: st.DataObject) -> None:
    """The weight of a range is the sum of what is in it, before and after a cut."""
    view = View.of(recorded, METER)
    at = data.draw(st.integers(0, len(recorded)))
    view = view.replaced(at, at, [view.made(Message(USER, "new"), Kind.SUMMARY)])
    start, stop = span(data, len(view))

    assert view.weight_between(start, stop) == sum(METER.weigh(m) for m in view.messages(start, stop))


@pytest.mark.parametrize("at", [3, -4, slice(0, 2), slice(None, None, 2), slice(-2, None)])
def test_a_view_is_indexed_like_a_list(at: Any) -> None:
    """Positions, negative positions and slices mean what they mean on a list."""
    messages = [Message(USER, str(i)) for i in range(4)]

    assert View.of(messages, METER)[at] == messages[at]


def test_a_position_beyond_a_view_is_refused() -> None:
    """A position that is not there raises IndexError and says how long the view is."""
    with pytest.raises(IndexError, match="2 messages"):
        View.of([Message(USER, "a"), Message(USER, "b")], METER)[2]


def test_a_generation_grows_with_every_change_and_with_nothing_else() -> None:
    """Growth by recorded messages is no progress; a cut is. The overflow path rests on that (dsh.md 2.6)."""
    view = View.before(Base([Message(USER, "a"), Message(ASSISTANT, "b"), Message(ASSISTANT, "c")], METER), 0)

    assert view.advanced(1).generation == view.generation == 0
    assert view.advanced(1).replaced(0, 1, ()).generation == 1
    assert not view.advanced(1).replaced(0, 1, ()).pristine


def test_a_view_knows_what_it_grew_from() -> None:
    """A view that recorded messages joined is told from one that was cut, and from one of another session."""
    messages = [Message(USER, "a"), Message(ASSISTANT, "b"), Message(ASSISTANT, "c")]
    view = View.before(Base(messages, METER), 0)
    cut = view.replaced(0, 1, ())

    assert view.advanced(1).is_grown_from(view)
    assert cut.advanced(1).is_grown_from(cut)
    assert not cut.is_grown_from(view)
    assert not view.is_grown_from(view.advanced(1))
    assert not View.before(Base(messages, METER), 1).is_grown_from(view)


def test_a_result_knows_its_tool_by_its_call() -> None:
    """A result that does not name its tool has the name of the nearest call before it, also after it was replaced."""
    messages = [
        Message(ASSISTANT, "", (ToolCall("c", "grep"),)),
        Message(TOOL, "1", tool_call_id="c"),
        Message(ASSISTANT, "", (ToolCall("c", "bash"),)),
        Message(TOOL, "2", tool_call_id="c"),
        Message(TOOL, "3", tool_call_id="gone"),
        Message(TOOL, "4", tool_call_id="c", name="own"),
    ]
    view = View.of(messages, METER)
    view = view.swapped([(3, view.made(Message(TOOL, "-", tool_call_id="c"), Kind.CLEARED, 3))])

    assert [view.tool_name(i) for i in range(6)] == ["", "grep", "", "bash", "", "own"]


def test_no_view_of_altered_messages_is_pristine() -> None:
    """Where results were spilled, no recorded usage belongs to any view."""
    messages = [Message(USER, "a"), Message(ASSISTANT, "b")]

    assert View.before(Base(messages, METER), 0).pristine
    assert not View.before(Base(messages, METER, altered=True), 0).pristine


def test_a_message_between_a_call_and_its_result_keeps_no_orphan_when_the_call_goes() -> None:
    """[task, call, summary, result] without its first two messages is [summary]: the result lost its call."""
    recorded = [
        Message(USER, "task"),
        Message(ASSISTANT, "", (ToolCall("c", "bash", "{}"),)),
        Message(TOOL, "ok", tool_call_id="c"),
        Message(ASSISTANT, ""),
    ]
    view = View.before(Base(recorded, METER), 1)
    apart = view.replaced(2, 2, [view.made(Message(USER, "summary"), Kind.SUMMARY)]).repaired()
    assert [message.content for message in apart] == ["task", "", "summary", "ok"]

    assert [message.content for message in apart.replaced(0, 2, ()).repaired()] == ["summary"]


def test_repairing_a_view_leaves_it_as_it_is() -> None:
    """A view without the call of its result is repaired alike each time, and so is what is derived from it later."""
    recorded = [
        Message(USER, "task"),
        Message(ASSISTANT, "", (ToolCall("c", "bash", "{}"),)),
        Message(TOOL, "ok", tool_call_id="c"),
        Message(ASSISTANT, "done"),
    ]
    torn = View.before(Base(recorded, METER), 1).replaced(0, 2, [])

    assert [list(torn.repaired()), list(torn.repaired())] == [[], []]
    assert list(torn) == recorded[2:3]
    assert [message.content for message in torn.advanced(2).repaired()] == ["done"]
