"""dsh's ladder by hand: prune, measure again, compact, and give up aloud (dsh.md)."""

from __future__ import annotations

import pytest

from compactctl.compactors.dsh import COMPACTOR, DshCompactor, checkpoint_message
from compactctl.context.base import Base
from compactctl.context.counting import MeterContext
from compactctl.context.prune import ToolResultPruner
from compactctl.context.view import View
from compactctl.errors import SettingsError
from compactctl.meters import make_meter
from compactctl.meters.dsh import Dsh
from compactctl.model import ASSISTANT, SYSTEM, TOOL, USER, Message, Session, Tier, ToolCall, Trigger, Usage
from compactctl.ports import SummaryFormat
from compactctl.registry import names
from compactctl.replay import Limits, replay
from compactctl.tables import rank_bytes
from tests.compactors.scenes import Says

METER = Dsh()


def user(tokens: int) -> Message:
    """Give a user message of so many tokens: 4 for the message, 4 for the block, the rest text."""
    return Message(USER, "u" * 4 * (tokens - 8))


def pair(ident: str, tokens: int) -> list[Message]:
    """Give a call of 4 + 4 + 1 (name) + 1 (arguments) = 10 tokens, and its result: 4 + 4 + 4 + text."""
    return [
        Message(ASSISTANT, "", (ToolCall(ident, "bash", "{}"),)),
        Message(TOOL, "r" * 4 * (tokens - 12), tool_call_id=ident),
    ]


def view(*messages: Message) -> View:
    """Give a view before a later turn: an answer was given before."""
    return View.before(
        Base([*messages, Message(ASSISTANT, "x")], METER), max(sum(m.role == ASSISTANT for m in messages), 1)
    )


# 8 + 100 + 10 + 100 + 10 + 100 + 10 + 100 = 438 tokens; the checkpoint's frame has 59.
SESSION = [Message(SYSTEM, "s" * 16), user(100), *pair("a", 100), *pair("b", 100), *pair("c", 100)]
FRAME = METER.weigh(checkpoint_message("four"))


def test_nothing_happens_below_the_threshold() -> None:
    """438 tokens of 1,000 are below floor(1,000 x 0.8) = 800."""
    step = DshCompactor(Says("four"), 1000).step(view(*SESSION), Trigger.PRESSURE)

    assert view(*SESSION).tokens == 438
    assert step.record.tier is Tier.NONE
    assert not step.write_back


def test_the_head_becomes_a_checkpoint() -> None:
    """The newest 80 tokens are kept, and that cut moves in front of the call whose result they are."""
    summarizer = Says("four")
    step = DshCompactor(summarizer, 500, pruner=None).step(view(*SESSION), Trigger.PRESSURE)

    # 438 >= 400; retained: floor(500 x 0.16) = 80, the newest result has 100; the cut moves to its call at 6.
    assert [m.role for m in step.view] == [SYSTEM, USER, ASSISTANT, TOOL]
    assert step.view[1].content.endswith("<compacted-summary>four</compacted-summary>")
    # 438 - (100 + 110 + 110) + the checkpoint
    assert step.record.tokens_after == 438 - 320 + FRAME
    assert (step.record.summarized, step.record.preserved_tail, step.record.dropped) == (5, 2, 0)
    assert (step.record.tier, step.record.summary_text, step.record.error) == (Tier.FULL, "four", "")
    assert [request.format for request in summarizer.requests] == [SummaryFormat.DSH]
    assert summarizer.requests[0].messages == SESSION[1:6]
    assert step.write_back


def charged(calls: int) -> Session:
    """Give a session of 2,000 bytes a turn whose prompts were 5,000 tokens and bytes / 3."""
    messages = [Message(SYSTEM, "s" * 16)]
    for i in range(calls):
        said = Message(USER, f"{i} words ".ljust(2000, "."))
        messages += [said, Message(ASSISTANT, "", usage=Usage(5000 + 2000 * (i + 1) // 3, 5))]
    return Session("s", tuple(messages))


@pytest.mark.parametrize("meter_name", names("compactctl.meters"))
def test_what_is_retained_is_in_tokens_of_any_meter(meter_name: str) -> None:
    """The tail that stays has the tokens to be retained, and not one message more than that, whatever counts them."""
    session = charged(40)
    meter = make_meter(meter_name, session, rank_bytes)
    before = View.of(session.messages, meter)
    compactor = DshCompactor(Says("four"), before.tokens, meter=meter, compaction_retries=0)
    after = compactor.step(before, Trigger.PRESSURE).view
    weights = [meter.weigh(message) for message in after[2:]]
    tail, less, nothing = (meter.tokens(sum(some), MeterContext(0, False)) for some in (weights, weights[1:], []))

    assert len(weights) < len(session.messages) - 2
    assert tail - nothing >= compactor.retain > less - nothing


def test_what_a_summary_wrote_holds_no_overhead() -> None:
    """The tokens of a summary that nobody charged are those of its text: system prompt and tools are in prompts."""
    session = charged(40)
    meter = make_meter("calibrated", session)
    step = DshCompactor(Says("four"), 20_000, meter=meter).step(View.of(session.messages, meter), Trigger.MANUAL)

    # 4 bytes / 3
    assert step.record.summary_output_tokens == 1
    assert step.record.summary_input_tokens is not None
    assert step.record.summary_input_tokens > 4900


def test_a_refused_checkpoint_is_told_in_tokens() -> None:
    """The sentence about a checkpoint that is too large names tokens, not the bytes that a meter adds up."""
    meter = make_meter("bytes4", None)
    summary = "s" * 4000
    step = DshCompactor(Says(summary), 500, pruner=None, meter=meter).step(View.of(SESSION, meter), Trigger.MANUAL)

    # What would be replaced: 92 x 4 bytes, twice 2 + 4 + 1 + 88 x 4 + 1.
    assert f"it has {meter.weigh(checkpoint_message(summary)) // 4} tokens, " in step.record.error
    assert step.record.error.endswith("what it would replace 272")


def test_pruning_alone_needs_no_summary() -> None:
    """Where long results bring the view below the threshold once they are pruned, no model is called."""
    summarizer = Says(None)
    # Each result has 88 x 4 = 352 characters; pruned to 50 + 42 + 50 = 142 they have 36 + 12 = 48 tokens.
    pruner = ToolResultPruner(200, 50, 50)
    step = DshCompactor(summarizer, 500, pruner=pruner).step(view(*SESSION), Trigger.PRESSURE)

    assert step.record.tokens_after == 438 - 3 * (100 - 48) == 282
    assert (step.record.tier, step.record.summarized, summarizer.requests) == (Tier.WARN, 0, [])
    assert step.write_back


def test_the_summary_sees_what_pruning_left() -> None:
    """Where pruning is not enough, the pruned results are what is summarised."""
    summarizer = Says("four")
    DshCompactor(summarizer, 350, pruner=ToolResultPruner(200, 50, 50)).step(view(*SESSION), Trigger.PRESSURE)

    # 282 after pruning is not below floor(350 x 0.8) = 280.
    assert [len(m.content) for m in summarizer.requests[0].messages if m.role == TOOL] == [142, 142]


def test_a_protected_tool_is_not_pruned() -> None:
    """A result that is the deliverable is not the first thing to shred: the summary comes instead."""
    summarizer = Says("four")
    compactor = DshCompactor(summarizer, 500, pruner=ToolResultPruner(200, 50, 50), protect={"bash"})
    step = compactor.step(view(*SESSION), Trigger.PRESSURE)

    assert step.view[-1] == SESSION[-1]
    assert step.record.tier is Tier.FULL


def test_a_checkpoint_that_does_not_shrink_is_refused() -> None:
    """A summary as large as what it would replace leaves the view as it was and says so."""
    # What would be replaced has 320 tokens; the frame has FRAME - 1 without the text of one token.
    summarizer = Says("s" * 4 * (320 - FRAME + 1))
    step = DshCompactor(summarizer, 500, pruner=None).step(view(*SESSION), Trigger.PRESSURE)

    assert "320 tokens, what it would replace 320" in step.record.error
    assert list(step.view) == SESSION
    assert not step.write_back
    assert step.record.summary_output_tokens is not None


def test_one_token_less_is_accepted() -> None:
    """The checkpoint must be smaller, by however little."""
    step = DshCompactor(Says("s" * 4 * (320 - FRAME)), 500, pruner=None, compaction_retries=0).step(
        view(*SESSION), Trigger.PRESSURE
    )

    assert step.record.summarized == 5


def test_it_tries_again_and_then_goes_on() -> None:
    """Still above the threshold, it compacts once more, then tells the error and the turn goes on with what it has."""
    summarizer = Says("s" * 4 * 200)
    # 438 - 320 + 200 + the frame - 1 = 376 and more, which is not below floor(350 x 0.8) = 280.
    step = DshCompactor(summarizer, 350, pruner=None).step(view(*SESSION), Trigger.PRESSURE)

    assert len(summarizer.requests) == 2
    assert "it would replace" in step.record.error
    assert step.record.summarized == 5
    assert step.write_back


def test_a_failed_summary_keeps_what_pruning_won() -> None:
    """The view is pruned, the error is told, and the pruned view is written back."""
    step = DshCompactor(Says(None), 350, pruner=ToolResultPruner(200, 50, 50)).step(view(*SESSION), Trigger.PRESSURE)

    assert step.record.error == "LLM summary failed: no answer"
    assert step.record.tokens_after == 282
    assert step.write_back


@pytest.mark.parametrize("answer", ["", None])
def test_an_answer_without_text_is_a_failure(answer: str | None) -> None:
    """An empty answer is no summary."""
    step = DshCompactor(Says(answer), 500, pruner=None).step(view(*SESSION), Trigger.PRESSURE)

    assert step.record.error.startswith("LLM summary failed")
    assert step.record.summarized == 0


def test_one_pair_is_not_compactable() -> None:
    """Where the only call with its result fills the window, there is nothing to summarise."""
    step = DshCompactor(Says("four"), 120, pruner=None).step(
        view(Message(SYSTEM, "s" * 16), *pair("a", 100)), Trigger.PRESSURE
    )

    assert step.record.notes == ("head_empty",)
    assert step.record.tier is Tier.NONE


def test_before_the_first_request_nothing_is_done() -> None:
    """No model was routed yet, so its window is not known (DSH-6)."""
    base = Base([user(1000), Message(ASSISTANT, "x")], METER)

    assert DshCompactor(Says("four"), 500).step(View.before(base, 0), Trigger.PRESSURE).record.tier is Tier.NONE


def test_an_overflow_compacts_whatever_the_size() -> None:
    """Below the threshold and with nothing retained, all but the newest call and result is summarised."""
    step = DshCompactor(Says("four"), 100_000).step(view(*SESSION), Trigger.CONTEXT_OVERFLOW)

    assert [m.role for m in step.view] == [SYSTEM, USER, ASSISTANT, TOOL]
    assert step.record.trigger is Trigger.CONTEXT_OVERFLOW


def test_a_manual_compaction_does_not_prune() -> None:
    """The user's /compact summarises; long results behind it stay long."""
    compactor = DshCompactor(Says("four"), 100_000, pruner=ToolResultPruner(200, 50, 50))
    step = compactor.step(view(*SESSION), Trigger.MANUAL)

    assert step.view[-1] == SESSION[-1]
    assert step.record.summarized == 5


def test_a_rejected_view_is_compacted_and_tried_again() -> None:
    """Where the provider would reject the view, the overflow path gets its retry and the turn does not fail."""
    limits = Limits(window=400, real=METER, overflow_retries=COMPACTOR.overflow_retries)
    messages = [*SESSION, Message(ASSISTANT, "done")]

    turn = list(replay(messages, DshCompactor(Says("four"), 100_000), limits=limits))[-1]

    assert [record.trigger for record in turn.records] == [Trigger.PRESSURE, Trigger.CONTEXT_OVERFLOW]
    assert not turn.failed


def test_without_progress_the_turn_fails() -> None:
    """A retry that changed nothing is no retry: with nothing to summarise the provider's error reaches the user."""
    limits = Limits(window=50, real=METER, overflow_retries=1)
    messages = [Message(SYSTEM, "s"), *pair("a", 100), Message(ASSISTANT, "done")]

    turn = list(replay(messages, DshCompactor(Says("four"), 100_000), limits=limits))[-1]

    assert turn.failed
    assert len(turn.records) == 2


@pytest.mark.parametrize(("threshold", "retain"), [(0.0, 0.0), (1.1, 0.1), (0.5, 0.5), (0.5, 0.6), (0.5, -0.1)])
def test_ratios_that_contradict_each_other_are_refused(threshold: float, retain: float) -> None:
    """What is retained must be less than what triggers; both are shares of the window."""
    with pytest.raises(SettingsError, match="ratio"):
        DshCompactor(None, 1000, threshold_ratio=threshold, retain_ratio=retain)


def test_a_pruner_that_cannot_fit_is_refused_before_the_replay() -> None:
    """The options are checked together, so that a sweep does not fail in the middle."""
    options = {option.name: option.default for option in COMPACTOR.options} | {"prune_threshold": 5000}

    assert [sentence for sentence in COMPACTOR.check(options) if "threshold of 5000" in sentence]
