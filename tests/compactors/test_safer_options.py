"""Each safer option of the tiers by itself, beside what the seed's design does without it (DESIGN.md, Compactors)."""

from __future__ import annotations

from typing import Any

import pytest

from compactctl.compactors.progressive import COMPACTOR, ProgressiveCompactor
from compactctl.compactors.progressive_safe import COMPACTOR as SAFE
from compactctl.context.offload import MemoryOffloader
from compactctl.context.view import View
from compactctl.meters.bytes4 import Bytes4
from compactctl.model import ASSISTANT, SYSTEM, TOOL, USER, CompactionRecord, Message, Session, Tier, ToolCall
from compactctl.ports import Ports
from compactctl.replay import replay
from tests.compactors.scenes import ANCHORS, Says, step, task, text

SYSTEM_MESSAGE = Message(SYSTEM, "s" * 40)  # 10 tokens


def compacted(
    messages: list[Message], window: int, summarizer: Any = None, **options: Any
) -> tuple[list[Message], CompactionRecord]:
    """Compact messages once; results longer than 4,000 bytes are offloaded unless told otherwise."""
    compactor = ProgressiveCompactor(
        summarizer or Says(ANCHORS), window, offloader=MemoryOffloader("s", threshold=0), session_id="s", **options
    )
    return compactor.compact_with_record(messages)


# -- balanced cuts ---------------------------------------------------------------------------------------------------

BATCH = [f"p{i}" for i in range(8)]
# 40 + 400 + 8 calls of 8 bytes + 8 results of 400 bytes: 3,704 bytes = 926 tokens, 92.6 % of 1,000.
PARALLEL = [
    SYSTEM_MESSAGE,
    task(400),
    Message(ASSISTANT, "", tuple(ToolCall(ident, "bash", "{}") for ident in BATCH)),
    *(Message(TOOL, "r" * 398, tool_call_id=ident) for ident in BATCH),
]


def test_the_seed_drops_results_that_nobody_has_read() -> None:
    """Without the option, a batch of eight calls and a tail of six leaves the system message and a summary (X2)."""
    view, record = compacted(PARALLEL, 1000)

    assert record.tier is Tier.FULL
    assert [m.role for m in view] == [SYSTEM, USER]
    assert record.dropped == 6


def test_balanced_cuts_keep_a_batch_whole() -> None:
    """With it the cut moves in front of the call, and all eight results stay."""
    view, record = compacted(PARALLEL, 1000, balanced_cuts=True)

    assert [m.role for m in view] == [SYSTEM, USER, ASSISTANT, *[TOOL] * 8]
    assert (record.summarized, record.dropped, record.preserved_tail) == (1, 0, 9)


def test_without_a_balanced_cut_nothing_is_summarised() -> None:
    """Where the first message is the call, no model is asked and the record says why."""
    summarizer = Says(ANCHORS)
    view, record = compacted([SYSTEM_MESSAGE, *PARALLEL[2:]], 900, summarizer, balanced_cuts=True)

    assert record.notes == ("no_balanced_cut",)
    assert view == [SYSTEM_MESSAGE, *PARALLEL[2:]]
    assert summarizer.requests == []


# -- measuring again after offloading --------------------------------------------------------------------------------

# 40 + 400 + 5 x 5,000 + 6 x 40 = 25,680 bytes = 6,420 tokens.
BIG = [SYSTEM_MESSAGE, task(400), *[m for i in range(5) for m in step(f"c{i}", 5000)], *[text(USER, 40)] * 6]


def test_the_seed_summarises_what_offloading_solved() -> None:
    """At 80 % the head is summarised although its placeholders alone would leave it far below 60 %."""
    summarizer = Says(ANCHORS)
    record = compacted(BIG, 8000, summarizer)[1]

    assert (record.tier, len(summarizer.requests), len(record.offloaded)) == (Tier.FULL, 1, 5)


def test_offloading_alone_may_be_enough() -> None:
    """With the option the same view is a Warn: five results offloaded, no model asked."""
    summarizer = Says(ANCHORS)
    view, record = compacted(BIG, 8000, summarizer, remeasure_after_offload=True, preview_bytes=100)

    assert (record.tier, record.summarized, summarizer.requests) == (Tier.WARN, 0, [])
    assert record.notes == ("offload_sufficed",)
    assert len(view) == len(BIG)
    assert record.tokens_after < 8000 * 0.6


def test_an_emergency_is_looked_at_again_too() -> None:
    """One big batch that jumps from None to Emergency is solved by offloading it (W4)."""
    record = compacted(BIG, 6500, remeasure_after_offload=True, preview_bytes=100)[1]

    assert compacted(BIG, 6500)[1].tier is Tier.EMERGENCY
    assert (record.tier, record.error, len(record.offloaded)) == (Tier.WARN, "", 5)


def test_what_offloading_does_not_solve_is_summarised() -> None:
    """Where the view is still at Soft after it, the summary is made of the offloaded view."""
    words = [text(USER, 8000), *BIG[2:]]
    # 40 + 8,000 + 25,000 + 240 = 33,280 bytes; without the results some 8,900 bytes = 2,200 tokens of 3,000.
    record = compacted([SYSTEM_MESSAGE, *words], 3000, remeasure_after_offload=True, preview_bytes=100)[1]

    assert record.notes == ("offload_lowered_tier",)
    assert record.tier is Tier.SOFT
    assert record.summarized == 5
    assert record.tokens_after_offload is not None
    assert record.tokens_after_offload < 3000


def test_a_failed_summary_keeps_what_offloading_won() -> None:
    """With the option offloading is a rung of its own: a summary that fails does not undo it."""
    words = [SYSTEM_MESSAGE, text(USER, 8000), *BIG[2:]]

    seed = compacted(words, 9000, Says(None))[1]
    safer = compacted(words, 3000, Says(None), remeasure_after_offload=True, preview_bytes=100)[1]

    assert (seed.offloaded, len(safer.offloaded)) == ((), 5)
    assert seed.error == safer.error.replace("Soft", "Full") == "LLM summary failed in TierFull: no answer"


# -- previews --------------------------------------------------------------------------------------------------------

ONE_LINE = [SYSTEM_MESSAGE, *step("c1", 9000), *[text(USER, 40)] * 6]


def test_the_seeds_preview_may_be_larger_than_the_result() -> None:
    """A result of one line is previewed whole, so that its placeholder is larger than itself (X1)."""
    view, record = compacted(ONE_LINE, 3500)

    assert record.tier is Tier.WARN
    assert len(view[2].content) > 9000
    assert record.notes == ("not_smaller",)


def test_a_preview_has_a_bound() -> None:
    """With a bound of 100 bytes the placeholder is that and its frame."""
    view, record = compacted(ONE_LINE, 3500, preview_bytes=100)

    assert len(view[2].content) < 300
    assert "r" * 100 in view[2].content
    assert "r" * 101 not in view[2].content
    assert record.notes == ()


def test_a_placeholder_that_is_not_smaller_is_not_made() -> None:
    """With a bound, results that are shorter than their placeholder stay."""
    messages = [SYSTEM_MESSAGE, *step("c1", 120), *[text(USER, 40)] * 6]
    record = compacted(messages, 160, offload_threshold=50, preview_bytes=100)[1]

    assert record.tier is Tier.WARN
    assert record.offloaded == ()


# -- a target below the trigger --------------------------------------------------------------------------------------

# 40 + 20 x 400 = 8,040 bytes = 2,010 tokens, 73 % of 2,750.
TALK = [SYSTEM_MESSAGE, *[text(USER, 400) for _ in range(20)]]


def test_the_seed_halves_the_head() -> None:
    """Soft summarises 7 of the 14 messages in front of the tail."""
    assert compacted(TALK, 2750)[1].summarized == 7


def test_a_target_summarises_as_much_as_it_takes() -> None:
    """With a target of 50 % and 100 tokens for the summary the span grows until the rest is at 1,275 tokens."""
    record = compacted(TALK, 2750, target=0.5, summary_tokens=100)[1]

    # 2,010 - 100 a message <= 2,750 x 0.5 - 100 = 1,275: 8 messages.
    assert record.summarized == 8
    assert record.tokens_after <= 1375


def test_a_target_is_where_truncation_ends_too() -> None:
    """Without a summary the fallback cuts down to the target instead of to 80 %."""
    seed = compacted(TALK, 2300, Says(None))[1]
    safer = compacted(TALK, 2300, Says(None), target=0.5)[1]

    assert 2300 * 0.75 < seed.tokens_after <= 2300 * 0.8
    assert 2300 * 0.4 < safer.tokens_after <= 2300 * 0.5


def test_a_target_must_be_below_its_trigger() -> None:
    """A target at the Soft threshold or above it is refused, with the rest of the settings."""
    options = {option.name: option.default for option in COMPACTOR.options}

    assert list(COMPACTOR.check(options | {"target": 0.69})) == []
    assert "target 0.7 must be below" in next(iter(COMPACTOR.check(options | {"target": 0.7})))


# -- Emergency -------------------------------------------------------------------------------------------------------


def test_the_seeds_emergency_forgets_the_task() -> None:
    """Without the options an Emergency in an agent loop is the system message alone."""
    messages = [SYSTEM_MESSAGE, task(400), *[m for i in range(8) for m in step(f"c{i}", 400)]]

    assert compacted(messages, 900)[0] == [SYSTEM_MESSAGE]


def test_an_emergency_may_keep_the_task() -> None:
    """With the option the first task and the newest messages that fit 80 % of the window stay."""
    messages = [SYSTEM_MESSAGE, task(400), *[m for i in range(8) for m in step(f"c{i}", 400)]]
    view, record = compacted(messages, 900, emergency_keeps_task=True, balanced_cuts=True)

    # 110 tokens and 100 a step; 80 % of 900 are 720: six steps.
    assert view == [SYSTEM_MESSAGE, messages[1], *messages[-12:]]
    assert record.tokens_after == 710


@pytest.mark.parametrize("keeps_task", [True, False])
def test_an_emergency_may_keep_the_anchors(keeps_task: bool) -> None:
    """What a summary said before is put behind the system message, with the option and without the task."""
    compactor = ProgressiveCompactor(Says(ANCHORS), 2200, emergency_keeps_anchors=True, emergency_keeps_task=keeps_task)
    compactor.compact(TALK)  # 2,010 of 2,200 tokens: Full
    view, record = compactor.compact_with_record([*TALK, text(USER, 800)])

    assert record.tier is Tier.EMERGENCY
    assert "fix the build" in view[1].content
    assert view[2] == TALK[1] if keeps_task else len(view) == 3


def test_a_compaction_message_is_kept_once() -> None:
    """Where the history still holds the compaction message, an Emergency keeps that one and adds none."""
    compactor = ProgressiveCompactor(Says(ANCHORS), 1000, emergency_keeps_anchors=True, emergency_keeps_task=True)
    messages = [*TALK[:10], Message(ASSISTANT, "a"), text(USER, 2600), Message(ASSISTANT, "b")]

    turns = list(replay(messages, compactor, history="write-back"))

    # 910 tokens: Full. Then some 440 with the summary, and 650 more: Emergency.
    assert [turn.record.tier for turn in turns] == [Tier.FULL, Tier.EMERGENCY]
    assert [("fix the build" in m.content) for m in turns[1].view].count(True) == 1


# -- the index of files ----------------------------------------------------------------------------------------------


def test_the_seed_lists_only_the_files_of_one_compaction() -> None:
    """In write-back history the second compaction message knows nothing of what the first one listed."""
    assert _listed(file_index=False) == [["c0", "c1"], []]


def test_the_index_lists_all_files() -> None:
    """With the option every compaction message lists everything that was offloaded so far."""
    assert _listed(file_index=True) == [["c0", "c1"], ["c0", "c1"]]


def _listed(**options: Any) -> list[list[str]]:
    """Give the files that each compaction message lists."""
    results = [*step("c0", 5000), *step("c1", 5000)]
    messages = [SYSTEM_MESSAGE, *results, *[text(USER, 200)] * 6, Message(ASSISTANT, "a"), *[text(USER, 1100)] * 7]
    compactor = ProgressiveCompactor(Says(ANCHORS), 3400, offloader=MemoryOffloader("s", 0), session_id="s", **options)
    view, first = compactor.compact_with_record([*messages[:11]])
    again, second = compactor.compact_with_record([*view, *messages[11:], *[text(USER, 1100)] * 3])
    assert (first.tier, second.tier) == (Tier.FULL, Tier.FULL)
    return [[i for i in ("c0", "c1") if f"- tool_results/s/{i}.txt (" in m.content] for m in (view[1], again[1])]


# -- poor replies ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("reply", ["", " \n", "## Summary\n" + "long " * 4000])
def test_the_seed_takes_any_reply(reply: str) -> None:
    """An empty reply, and one that is larger than what it replaces, are a success; only the notes tell."""
    record = compacted(TALK, 2300, Says(reply))[1]

    assert record.error == ""
    assert record.notes in (("summary_empty",), ("anchors_missing", "not_smaller"))


@pytest.mark.parametrize("reply", ["", " \n", "## Summary\n" + "long " * 4000])
def test_poor_replies_may_be_refused(reply: str) -> None:
    """With the option they count as failures: the fallback works, the anchors stay, the cost is in the record."""
    view, record = compacted(TALK, 2300, Says(reply), refuse_poor_replies=True)

    assert record.error == "summary refused in TierFull: it is empty or makes nothing smaller"
    assert record.tokens_after <= 2300 * 0.8
    assert record.anchors == ()
    assert record.summary_output_tokens is not None
    assert all(m in TALK for m in view)


# -- all together ----------------------------------------------------------------------------------------------------


def test_every_safer_option_is_off_in_the_seed_and_on_in_the_preset() -> None:
    """The seed's behaviour stays reproducible; the preset differs from it in these options and nothing else."""
    seed = {option.name: option.default for option in COMPACTOR.options}
    safe = {option.name: option.default for option in SAFE.options}
    changed = {name for name in seed if seed[name] != safe[name]}

    assert changed == {
        "balanced_cuts", "remeasure_after_offload", "preview_bytes", "target", "emergency_keeps_task",
        "emergency_keeps_anchors", "file_index", "refuse_poor_replies",
    }  # fmt: skip
    assert not any(seed[name] for name in changed)


def test_the_preset_leaves_an_emergency_behind() -> None:
    """A session that the seed keeps in Emergency to its end is one that the preset compacts now and then (W1)."""
    steps = [m for i in range(60) for m in step(f"c{i}", 1200)]
    session = Session("s", (SYSTEM_MESSAGE, task(400), *steps))

    def emergencies(spec: Any, **more: Any) -> int:
        options = {option.name: option.default for option in spec.options} | more
        ports = Ports(Says(ANCHORS), MemoryOffloader("s", 0), Bytes4(), 5000, summary_tokens=200)
        turns = replay(session, spec.make(options, session, ports), spec.history)
        return sum(turn.record.tier is Tier.EMERGENCY for turn in turns)

    # 300 tokens a step: the whole history has 95 % of 5,000 from step 16 on.
    assert emergencies(COMPACTOR) == 44
    assert emergencies(SAFE) == 0


def test_a_protected_tool_is_never_offloaded() -> None:
    """What a protected tool gave stays in the view; results of other tools go."""
    messages = [
        SYSTEM_MESSAGE, *step("c1", 5000, "fetch"), *step("c2", 5000, "bash"), *[text(USER, 40)] * 6,
    ]  # fmt: skip
    record = compacted(messages, 4000, protect={"fetch"})[1]

    assert record.tier is Tier.WARN
    assert [entry.tool_call_id for entry in record.offloaded] == ["c2"]


def test_records_tell_the_views_sizes() -> None:
    """The tokens in a record are those of the views, with every option on."""
    view, record = compacted(BIG, 8000, **dict.fromkeys(("balanced_cuts", "file_index"), True), target=0.4)

    assert record.tokens_after == View.of(view, Bytes4()).tokens
