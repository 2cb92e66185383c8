"""The compactors that need no model: truncation, windows, budgets, masks and clearing, each by hand."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from compactctl.compactors._clearing import CLEARED
from compactctl.compactors.clear_tool_uses import COMPACTOR as CLEAR, ClearToolUsesCompactor
from compactctl.compactors.mask import MaskCompactor
from compactctl.compactors.none import NoCompactor
from compactctl.compactors.sliding_window import SlidingWindowCompactor
from compactctl.compactors.token_budget import COMPACTOR as BUDGET, TokenBudgetCompactor
from compactctl.compactors.truncate import COMPACTOR as TRUNCATE, TruncateCompactor
from compactctl.context.pairing import STAND_IN_TEXT
from compactctl.contract import session_strategy
from compactctl.meters.bytes4 import Bytes4
from compactctl.model import ASSISTANT, SYSTEM, TOOL, USER, Message, Tier, ToolCall
from compactctl.ports import Ports
from compactctl.replay import replay
from tests.compactors.scenes import step, task, text

SYSTEM_MESSAGE = Message(SYSTEM, "s" * 40)  # 10 tokens
STEPS = [m for i in range(5) for m in step(f"c{i}", 400)]  # 100 tokens each
SESSION = [SYSTEM_MESSAGE, task(400), *STEPS]  # 610 tokens


# -- none and truncate -----------------------------------------------------------------------------------------------


def test_none_sends_everything() -> None:
    """The ceiling changes nothing and never has to be asked again."""
    compactor = NoCompactor()

    assert compactor.compact(SESSION) == SESSION


def test_truncate_keeps_the_newest_that_fit() -> None:
    """Of 610 tokens 350 fit: the system message (10) and three steps (300)."""
    view, record = TruncateCompactor(350).compact_with_record(SESSION)

    assert view == [SYSTEM_MESSAGE, *STEPS[-6:]]
    assert (record.tier, record.dropped, record.tokens_after) == (Tier.EMERGENCY, 5, 310)


def test_truncate_cuts_in_front_of_a_call() -> None:
    """Where the result of a fourth step would fit without its call, the step is not torn: 405 - 10 - 300 < 100."""
    assert TruncateCompactor(405).compact(SESSION) == [SYSTEM_MESSAGE, *STEPS[-6:]]


def test_truncate_keeps_the_newest_step_even_where_it_does_not_fit() -> None:
    """A request of the system message alone is none, so the last call stays with its result and the record says so."""
    view, record = TruncateCompactor(50).compact_with_record(SESSION)

    assert view == [SYSTEM_MESSAGE, *STEPS[-2:]]
    assert record.notes == ("tail_too_large",)


def test_truncate_fills_a_share_of_the_window() -> None:
    """80 % of a window of 500 are 400 tokens."""
    compactor = TRUNCATE.make({"share": 0.8}, None, Ports(meter=Bytes4(), context_window=500))

    assert len(compactor.compact(SESSION)) == 7  # type: ignore[attr-defined]  # a plain compactor


def test_truncate_is_the_same_in_both_histories() -> None:
    """What was dropped would be dropped again: each turn sends the same, written back or not."""
    views = [
        [list(turn.view) for turn in replay(SESSION, TruncateCompactor(350), history)]
        for history in ("view", "write-back")
    ]

    assert views[0] == views[1]


# -- harness9's two windows ------------------------------------------------------------------------------------------


def test_the_window_counts_messages() -> None:
    """Six messages and a window of four: the system message and the last three (H9-33)."""
    messages = [SYSTEM_MESSAGE, *[Message(role, f"{role}{i}") for i in (1, 2) for role in (USER, ASSISTANT)],
                Message(USER, "u3")]  # fmt: skip

    assert SlidingWindowCompactor(4).compact(messages) == [SYSTEM_MESSAGE, *messages[3:]]


def test_the_window_does_not_begin_with_a_result() -> None:
    """A window of four that would begin with a result is widened to its call (H9-34)."""
    assert SlidingWindowCompactor(4).compact(SESSION) == [SYSTEM_MESSAGE, *STEPS[-4:]]


@pytest.mark.parametrize(("asked", "meant"), [(0, 100), (-1, 100), (1, 2), (7, 7)])
def test_a_window_has_room_for_one_message(asked: int, meant: int) -> None:
    """0 means 100, and the smallest window is the system message and one more (H9-35, 36)."""
    assert SlidingWindowCompactor(asked).max_messages == meant


def test_without_a_system_message_the_window_does_nothing() -> None:
    """As in harness9, a list without a system message comes back as it is (H9-38)."""
    assert SlidingWindowCompactor(3).compact(SESSION[1:]) == SESSION[1:]


def test_the_window_mends_what_it_tears() -> None:
    """A call without its result gets a stand-in (H9-39)."""
    messages = [SYSTEM_MESSAGE, task(), Message(ASSISTANT, "", (ToolCall("c", "bash"),)), task(), task()]

    assert [m.content for m in SlidingWindowCompactor(4).compact(messages)][2] == STAND_IN_TEXT


def test_the_budget_drops_the_middle() -> None:
    """The oldest that fit and the tail stay; what was said last before the tail goes first (X6)."""
    view, record = TokenBudgetCompactor(411, 4).compact_with_record(SESSION)

    # 10 + 200 for the tail of two steps, so 201 are left: the task and one step; the next call has 2.
    assert view == [SYSTEM_MESSAGE, *SESSION[1:4], *STEPS[-4:]]
    assert record.tokens_after == 410


def test_the_budget_always_keeps_its_tail() -> None:
    """Even a budget of one token keeps the system message and the tail (H9-43)."""
    assert TokenBudgetCompactor(1, 4).compact(SESSION) == [SYSTEM_MESSAGE, *STEPS[-4:]]


def test_the_budget_is_a_share_of_the_window_unless_set() -> None:
    """As the fallback of the tiers: 80 % of the window, and 160,000 where no window is known."""
    options = {option.name: option.default for option in BUDGET.options}

    def budget(window: int, **more: Any) -> Any:
        return BUDGET.make(options | more, None, Ports(meter=Bytes4(), context_window=window))

    assert (budget(1000).max_tokens, budget(0).max_tokens, budget(1000, max_tokens=7).max_tokens) == (800, 160_000, 7)


def test_a_forced_budget_keeps_the_last_message() -> None:
    """/compact leaves the system message and the last one, which an orphan is not (X7)."""
    assert TokenBudgetCompactor(10_000).compact_force(SESSION) == [SYSTEM_MESSAGE]
    assert TokenBudgetCompactor(10_000).compact_force([*SESSION, task()]) == [SYSTEM_MESSAGE, task()]


# -- masks and clearing ----------------------------------------------------------------------------------------------


def test_the_mask_keeps_the_newest_results() -> None:
    """Of five results the newest two keep their content, whatever the size; calls stay as they are."""
    view, record = MaskCompactor(2).compact_with_record(SESSION)

    assert [m.content == CLEARED for m in view if m.role == TOOL] == [True, True, True, False, False]
    assert [m.tool_call_id for m in view] == [m.tool_call_id for m in SESSION]
    # Three results of 400 - 2 x 2 - 4 - 2 = 390 bytes and their ids give way to 25 bytes each: 1,095 bytes less.
    assert record.tokens_after == (2440 - 3 * (390 - len(CLEARED))) // 4
    assert record.tier is Tier.WARN


def test_the_mask_spares_what_it_would_not_shorten() -> None:
    """A result no longer than the mark stays as it is."""
    short = [SYSTEM_MESSAGE, *[m for i in range(4) for m in step(f"c{i}", 30)]]

    assert MaskCompactor(0).compact(short) == short


def test_a_protected_tool_is_not_masked() -> None:
    """Results that are the deliverable keep their content, and those of other tools do not."""
    messages = [SYSTEM_MESSAGE, *step("a", 400, "fetch"), *step("b", 400, "bash")]

    view = MaskCompactor(0, protect={"fetch"}).compact(messages)

    assert [m.content == CLEARED for m in view if m.role == TOOL] == [False, True]


def test_clearing_waits_for_its_trigger() -> None:
    """610 tokens are above a trigger of 609 and not above one of 610."""
    assert ClearToolUsesCompactor(610).compact(SESSION) == SESSION
    assert ClearToolUsesCompactor(609).compact(SESSION) != SESSION


def test_clearing_keeps_three() -> None:
    """The API's defaults: 100,000 tokens, and the newest three results kept."""
    assert {option.name: option.default for option in CLEAR.options} == {
        "trigger": 100_000, "keep": 3, "clear_at_least": 0, "exclude_tools": "",
    }  # fmt: skip
    view = ClearToolUsesCompactor(500).compact(SESSION)

    assert [m.content == CLEARED for m in view if m.role == TOOL] == [True, True, False, False, False]


@pytest.mark.parametrize(("least", "clears"), [(183, True), (184, False)])
def test_clearing_must_be_worth_it(least: int, clears: bool) -> None:
    """Two results of 390 bytes become 25: 730 bytes, so that 610 tokens fall to 1,710 // 4 = 427, by 183."""
    view = ClearToolUsesCompactor(500, clear_at_least=least).compact(SESSION)

    assert (view != SESSION) is clears


def test_excluded_tools_are_not_cleared() -> None:
    """``exclude_tools`` names tools separated by commas."""
    messages = [
        SYSTEM_MESSAGE,
        *[m for i, tool in enumerate(("memory", "bash", "web")) for m in step(f"c{i}", 400, tool)],
    ]
    options = {option.name: option.default for option in CLEAR.options}
    options |= {"trigger": 0, "keep": 0, "exclude_tools": "memory, web"}

    view = CLEAR.make(options, None, Ports(meter=Bytes4())).compact(messages)  # type: ignore[attr-defined]  # a plain compactor

    assert [m.content == CLEARED for m in view if m.role == TOOL] == [False, True, False]


def test_clearing_is_done_afresh_for_each_request() -> None:
    """The client keeps its whole history, so every request above the trigger is edited anew."""
    turns = list(replay([*SESSION, Message(ASSISTANT, "done")], ClearToolUsesCompactor(300)))

    # Before call 4 there are 10 + 100 + 300 tokens (three results, all kept), then 510 and 610.
    assert [turn.record.tier for turn in turns] == [Tier.NONE] * 4 + [Tier.WARN] * 2
    assert [turn.record.tokens_before for turn in turns[-2:]] == [510, 610]


def test_clearing_keeps_words() -> None:
    """Text of the user and the assistant is never touched."""
    messages = [SYSTEM_MESSAGE, text(USER, 5000), text(ASSISTANT, 5000), *STEPS]
    view = ClearToolUsesCompactor(0, keep=0).compact(messages)

    assert view[:3] == messages[:3]


@settings(max_examples=60)
@given(session_strategy(), st.sampled_from(["view", "write-back"]), st.integers(0, 3))
def test_what_was_cleared_before_is_not_looked_at_again(messages: list[Message], history: str, keep: int) -> None:
    """Clearing only what is new at each turn gives what clearing the whole history afresh gives."""
    for turn in replay(messages, MaskCompactor(keep), history):
        afresh = MaskCompactor(keep).compact(messages[: turn.view.hi])

        assert list(turn.view) == afresh
