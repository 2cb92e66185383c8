"""Codex by hand: what it keeps, in which order, and how much of it."""

from __future__ import annotations

from typing import Any

import pytest

from compactctl.compactors.codex import COMPACTOR, NO_SUMMARY, SUMMARY_HEADING, CodexCompactor
from compactctl.context.counting import MeterContext
from compactctl.meters.bytes4 import Bytes4
from compactctl.model import ASSISTANT, SYSTEM, USER, Message, Origin, Tier
from compactctl.replay import replay
from tests.compactors.scenes import Says, step, text

SYSTEM_MESSAGE = Message(SYSTEM, "s" * 40)
ENVIRONMENT = Message(USER, "e" * 40, origin=Origin.HARNESS)
FIRST = [SYSTEM_MESSAGE, ENVIRONMENT]


def said(word: str, size: int = 400) -> Message:
    """Give a message of the user that begins with a word."""
    return Message(USER, word + "." * (size - len(word)), origin=Origin.HUMAN)


SESSION = [*FIRST, said("one"), *step("a", 400), said("two"), *step("b", 400), Message(USER, "nudge " * 9,
           origin=Origin.HARNESS), said("three"), *step("c", 400)]  # fmt: skip


def compacted(window: int = 500, summarizer: Any = None, **options: Any) -> Any:
    """Compact the session, which has 80 + 3 x 400 + 3 x 400 + 54 = 2,534 bytes = 633 tokens."""
    return CodexCompactor(summarizer or Says("sum"), window, **options).compact_with_record(SESSION)


def summary(text: str) -> Message:
    """Give the message that holds a summary."""
    return Message(USER, SUMMARY_HEADING + text, origin=Origin.RECORDED_SUMMARY)


def test_only_the_users_words_and_a_summary_stay() -> None:
    """The first context, the user's messages in their order, the summary last; what the harness said goes."""
    view, record = compacted(640)

    assert view == [*FIRST, said("one"), said("two"), said("three"), summary("sum")]
    assert (record.tier, record.summarized, record.preserved_tail, record.dropped) == (Tier.FULL, 7, 3, 0)


@pytest.mark.parametrize(("window", "acts"), [(703, True), (705, False)])
def test_it_compacts_at_nine_tenths_of_the_window(window: int, acts: bool) -> None:
    """90 % of 703 are 632, of 705 are 634; the session has 633."""
    assert compacted(window)[1].tier is (Tier.FULL if acts else Tier.NONE)


@pytest.mark.parametrize(("limit", "acts"), [(633, True), (634, False), (0, False)])
def test_a_limit_can_only_lower(limit: int, acts: bool) -> None:
    """A limit below 90 % of the window is taken, one above it is not."""
    assert compacted(10_000, limit=limit)[1].tier is (Tier.FULL if acts else Tier.NONE)
    assert CodexCompactor(None, 1000, limit=5000).threshold == 900


def test_the_newest_words_come_first() -> None:
    """Of 150 tokens the newest message takes 100; the one before it keeps head and tail in the 50 that are left."""
    view = compacted(user_tokens=150)[0]

    assert view[3:] == [said("three"), summary("sum")]
    assert view[2].content.startswith("two...")
    assert "[... about 50 tokens left out ...]" in view[2].content
    assert len(view[2].content) == 200
    assert [m.content[:5] for m in compacted(user_tokens=100)[0][2:-1]] == ["three"]


def test_earlier_summaries_are_not_the_users_words() -> None:
    """A second compaction summarises the first summary and does not keep it."""
    compactor = CodexCompactor(Says("first", "second"), 500)
    more = [said("four"), *step("d", 400), Message(ASSISTANT, "end")]
    turns = list(replay([*SESSION, Message(ASSISTANT, "more"), *more], compactor))

    assert [m.content for m in turns[-1].view if "[Summary" in m.content] == [SUMMARY_HEADING + "second"]


def test_a_summary_that_another_harness_wrote_is_not_the_users_words() -> None:
    """Where a transcript does not say who wrote a message, a summary is known by how it begins."""
    old = Message(USER, "[Context Compaction]\n## Anchors\nold " + "." * 400)
    view = CodexCompactor(Says("new"), 500).compact([*FIRST, said("one"), *step("a", 900), old, *step("b", 900)])

    assert [m.content[:3] for m in view if m.content.startswith(("one", "[Context"))] == ["one"]


def test_an_empty_summary_says_so() -> None:
    """Where the model gave nothing, the message says that there is none, and so does the record."""
    view, record = compacted(640, Says(" "))

    assert view[-1] == summary(NO_SUMMARY)
    assert record.notes == ("summary_empty",)


def test_a_failed_summary_changes_nothing() -> None:
    """The error is told and the turn goes on with what there is."""
    view, record = compacted(summarizer=Says(None))

    assert view == SESSION
    assert record.error == "LLM summary failed: no answer"


def test_the_oldest_is_left_out_of_a_request_that_does_not_fit() -> None:
    """A span of 613 tokens for a window of 500: the first 200 are not summarised at all."""
    summarizer = Says("sum")
    record = compacted(500, summarizer)[1]

    assert record.notes == ("oldest_left_out",)
    assert list(summarizer.requests[0].messages) == SESSION[5:]
    # Of the seven that were read two stay as they are; the two of step a went without anybody reading them.
    assert (record.msgs_before, record.summarized, record.dropped, record.msgs_after) == (12, 5, 2, 6)


def test_of_a_long_session_few_messages_are_weighed_for_the_request() -> None:
    """What fits the window is found by halving, whatever a compaction left before."""
    counted = 0

    class Counting(Bytes4):
        def tokens(self, weight: int, context: MeterContext) -> int:
            nonlocal counted
            counted += 1
            return super().tokens(weight, context)

    messages = [*FIRST, *[text(ASSISTANT, 40) for _ in range(2000)]]
    summarizer = Says("sum")
    CodexCompactor(summarizer, 500, meter=Counting()).compact(messages)

    assert list(summarizer.requests[0].messages) == messages[-50:]
    assert counted < 30


@pytest.mark.parametrize("room", range(1, 30))
def test_a_message_never_outgrows_its_budget(room: int) -> None:
    """What is left of a message that does not fit is within the budget, also where the mark itself would not fit."""
    view = compacted(user_tokens=room)[0]

    assert len(view[2].content) <= 4 * room
    assert view[2].content.startswith("t")


def test_a_short_session_starts_over() -> None:
    """The other bet: at a given size everything but the first context and the user's last words goes."""
    summarizer = Says("sum")
    view, record = compacted(10_000, summarizer, reset=600)

    assert view == [*FIRST, said("three")]
    assert (record.tier, record.notes, summarizer.requests) == (Tier.EMERGENCY, ("reset",), [])
    assert compacted(10_000, reset=634)[1].tier is Tier.NONE


def test_what_cannot_be_is_refused() -> None:
    """A share of zero would compact at every turn."""
    options = {option.name: option.default for option in COMPACTOR.options}

    assert list(COMPACTOR.check(options)) == []
    assert "above 0" in next(iter(COMPACTOR.check(options | {"share": 0.0})))


def test_a_session_of_the_harness_alone_is_left_alone() -> None:
    """Where nothing was said yet, there is nothing to summarise."""
    messages = [SYSTEM_MESSAGE, text(USER, 40)]
    compactor = CodexCompactor(Says("sum"), 0)

    assert compactor.compact(messages) == messages
    assert CodexCompactor(Says("sum"), 10).compact(FIRST) == FIRST
