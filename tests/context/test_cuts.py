"""Where a view may be cut without tearing a call from its result."""

from __future__ import annotations

from hypothesis import given, settings, strategies as st

from compactctl.context.cuts import balanced_cut, balanced_cut_after, balanced_ranges, crossings
from compactctl.context.view import View
from compactctl.contract import orphans, unanswered
from compactctl.meters.bytes4 import Bytes4
from compactctl.model import ASSISTANT, SYSTEM, TOOL, USER, Message, ToolCall
from tests.context.strategies import MESSAGES


def call(*ids: str) -> Message:
    """Give an assistant message that makes calls."""
    return Message(ASSISTANT, "", tuple(ToolCall(ident, "bash") for ident in ids))


def result(ident: str) -> Message:
    """Give the result of a call."""
    return Message(TOOL, "ok", tool_call_id=ident)


def view(*messages: Message) -> View:
    """Give a view of messages."""
    return View.of(messages, Bytes4())


# positions:        0                  1                2           3          4          5           6
TIDY = view(Message(SYSTEM, "s"), Message(USER, "u"), call("a", "b"), result("a"), result("b"), call("c"), result("c"))


def test_a_cut_moves_before_the_call() -> None:
    """Between a call and its results no cut is balanced; the latest one before is in front of the call."""
    assert [balanced_cut(TIDY, 1, at) for at in range(1, 8)] == [1, 2, 2, 2, 5, 5, 7]


def test_a_cut_moves_behind_the_results() -> None:
    """Towards the newest, the next balanced cut is behind all results of the call, if anything is left there."""
    assert [balanced_cut_after(TIDY, at) for at in range(1, 7)] == [1, 2, 5, 5, 5, None]


def test_late_results_hold_a_cut_open() -> None:
    """A result that comes behind another call keeps every cut between its call and it unbalanced."""
    late = view(Message(SYSTEM, "s"), call("a"), call("b"), result("b"), result("a"), Message(USER, "u"))

    # a: 1 to 4, b: 2 to 3; a cut at 2 and 4 tears one, at 3 both, at 5 none.
    assert crossings(late.messages()) == [0, 0, 1, 2, 1, 0, 0]
    assert not late.is_closed
    assert [balanced_cut(late, 1, at) for at in range(1, 6)] == [1, 1, 1, 1, 5]


def test_a_call_without_result_holds_nothing_open() -> None:
    """An open call, and a result of no call, are in nobody's way."""
    assert crossings([call("open"), result("orphan"), Message(USER, "u")]) == [0, 0, 0, 0]


def test_ranges_keep_calls_with_their_results() -> None:
    """Messages fall into ranges that no call leaves."""
    assert balanced_ranges(TIDY, 1) == [range(1, 2), range(2, 5), range(5, 7)]


@settings(max_examples=200)
@given(MESSAGES, st.data())
def test_what_is_kept_behind_a_balanced_cut_is_whole(messages: list[Message], data: st.DataObject) -> None:
    """Behind a balanced cut there is no orphan, and no call without result, that was not one before."""
    whole = view(*messages)
    cut = balanced_cut(whole, 1, data.draw(st.integers(1, len(messages))))
    kept = messages[cut:]

    assert set(orphans(kept)) <= set(orphans(messages))
    assert set(unanswered(kept)) <= set(unanswered(messages))


@settings(max_examples=100)
@given(MESSAGES, st.data())
def test_the_quick_way_and_the_slow_way_agree(messages: list[Message], data: st.DataObject) -> None:
    """Where every run of results stands behind its calls, looking at roles finds the same cuts as counting does."""
    whole = view(*messages)
    at = data.draw(st.integers(1, len(messages)))
    crossed = crossings(messages)
    expected = next((i for i in range(at, 1, -1) if not crossed[i]), 1)

    assert balanced_cut(whole, 1, at) == expected
