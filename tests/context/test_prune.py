"""Pruning keeps the head and the tail of a long result, in Unicode code points (dsh.md 2.7)."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings, strategies as st

from compactctl.context.base import Kind
from compactctl.context.prune import MARKER, ToolResultPruner
from compactctl.context.view import View
from compactctl.errors import SettingsError
from compactctl.meters.dsh import Dsh
from compactctl.model import ASSISTANT, TOOL, USER, Message, Parts, ToolCall


def result(text: str, *texts: str) -> Message:
    """Give a tool result, of several text blocks where more are given."""
    return Message(TOOL, text, tool_call_id="c", is_error=True, parts=Parts(texts) if texts else None)


def test_a_result_is_cut_in_the_middle() -> None:
    """At the threshold nothing happens; one character above it 100 + 42 + 50 are left."""
    pruner = ToolResultPruner(200, 100, 50)
    text = "h" * 100 + "m" * 51 + "t" * 50

    assert pruner.pruned(result(text[:200])) is None
    assert pruner.pruned(result(text)) == result("h" * 100 + MARKER + "t" * 50)


def test_the_defaults_are_dshs() -> None:
    """8,192 characters are left alone, 8,193 become 4,096 + 42 + 1,024 = 5,162 (dsh's own mark has 39)."""
    pruned = ToolResultPruner().pruned(result("🚀" * 8193))

    assert ToolResultPruner().pruned(result("🚀" * 8192)) is None
    assert pruned is not None
    assert len(pruned.content) == 5162


def test_blocks_are_cut_as_one_text() -> None:
    """The mark stands once, in the first block that loses something; a block that is left with nothing goes."""
    pruner = ToolResultPruner(60, 5, 3)
    message = result("\n".join(["head", "m" * 30, "n" * 30, "tail"]), "head", "m" * 30, "n" * 30, "tail")

    pruned = pruner.pruned(message)

    # 68 characters: the first 5 are "head" and one m, the last 3 are "ail".
    assert pruned is not None
    assert pruned.parts == Parts(("head", "m" + MARKER, "ail"))
    assert pruned.content == "head\nm" + MARKER + "\nail"


def test_everything_else_of_a_result_stays() -> None:
    """Whose result it is and that it failed is not lost."""
    pruned = ToolResultPruner(100, 20, 30).pruned(result("x" * 101))

    assert pruned is not None
    assert (pruned.tool_call_id, pruned.is_error, pruned.role) == ("c", True, TOOL)


@pytest.mark.parametrize(("threshold", "head", "tail"), [(100, 40, 19), (8191, 8192, 0), (-1, 0, 0), (100, -1, 0)])
def test_budgets_that_cannot_fit_are_refused(threshold: int, head: int, tail: int) -> None:
    """Head, mark (42) and tail must not be more than the threshold: 40 + 42 + 19 = 101."""
    with pytest.raises(SettingsError):
        ToolResultPruner(threshold, head, tail)


@settings(max_examples=50)
@given(st.lists(st.text(max_size=90), max_size=5), st.integers(0, 59), st.integers(0, 59))
@example(["h" * 80, "t" * 80], 59, 59)
@example(["h" * 80, "t" * 81], 59, 59)
def test_one_pass_is_enough(texts: list[str], head: int, tail: int) -> None:
    """A long result is cut once, however its text is divided into blocks; one that is short enough is left alone."""
    pruner = ToolResultPruner(160, head, tail)
    whole = "".join(texts)
    pruned = pruner.pruned(result("\n".join(texts), *texts))

    if len(whole) <= 160:
        assert pruned is None
    else:
        assert pruned is not None
        assert pruned.parts is not None
        assert "".join(pruned.parts.texts) == whole[:head] + MARKER + whole[len(whole) - tail :]
        assert pruner.pruned(pruned) is None


def test_only_results_are_pruned_and_protected_tools_are_not() -> None:
    """What the user and the assistant said stays, and so does what a protected tool gave."""
    long = "x" * 9000
    messages = [
        Message(USER, long),
        Message(ASSISTANT, long, (ToolCall("c", "fetch", long), ToolCall("d", "grep"))),
        Message(TOOL, long, tool_call_id="c"),
        Message(TOOL, long, tool_call_id="d"),
    ]
    view = View.of(messages, Dsh())

    pruned = ToolResultPruner().apply(view, {"fetch"})

    assert [len(m.content) for m in pruned] == [9000, 9000, 9000, 5162]
    assert [item.kind for item in pruned.items()] == [Kind.RECORDED] * 3 + [Kind.PRUNED]
    assert ToolResultPruner().apply(pruned, {"fetch"}) is pruned
