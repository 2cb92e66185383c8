"""Replay semantics: turns, history modes, recorded compactions, the user's /compact, and what a provider rejects."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

from compactctl import (
    MemoryOffloader,
    Message,
    Origin,
    ProgressiveCompactor,
    RecordedCompaction,
    Session,
    Step,
    SummaryReply,
    SummaryRequest,
    Tier,
    ToolCall,
    Trigger,
    Turn,
    Usage,
    View,
    load,
    replay,
)
from compactctl.compactors._list_face import record_of
from compactctl.compactors.none import NoCompactor
from compactctl.compactors.token_budget import TokenBudgetCompactor
from compactctl.meters.bytes4 import Bytes4
from compactctl.ports import CompactorSpec, HistoryMode, RecordedMode
from compactctl.registry import plugin, plugins
from compactctl.replay import Limits
from compactctl.runs import Outcome, Setup, Window, Workbench, run
from compactctl.summarizers.stub import SUMMARIZER as STUB
from tests.context.strategies import ANY, MESSAGES

REAL = Path(__file__).parents[2] / "shared" / "sessions"
SAMPLES = Path(__file__).parents[1] / "sample_sessions"
SPECS = plugins("compactctl.compactors", CompactorSpec)


class Says:
    """A summarizer that always answers the same, and counts."""

    def __init__(self, text: str = "### User Intent\nfix\n## Summary\nshort") -> None:
        self.text, self.calls = text, 0

    def summarize(self, request: SummaryRequest) -> SummaryReply:
        """Answer."""
        self.calls += 1
        return SummaryReply(self.text)


def conversation(turns: int, size: int = 400, system: bool = True) -> list[Message]:
    """A system message, a task, and turns of one call and one result of ``size`` bytes each."""
    messages = [Message("system", "s" * 40)] if system else []
    messages.append(Message("user", "u" * 40))
    for i in range(turns):
        call = ToolCall(f"c{i:03d}", "bash", "{}")
        messages.append(Message("assistant", "a" * 40, (call,), timestamp=f"2026-01-01T00:00:{i:02d}Z"))
        messages.append(Message("tool", "r" * size, tool_call_id=call.id, name="bash"))
    return messages


def tiers(turns: Sequence[Turn]) -> list[int]:
    """The tier of each turn."""
    return [int(turn.record.tier) for turn in turns]


def test_there_is_one_turn_for_each_model_call() -> None:
    """Turn k comes before the model call of which k were made before, with all that was recorded until then."""
    messages = conversation(3)
    turns = list(replay(messages, NoCompactor()))

    assert [turn.turn for turn in turns] == [0, 1, 2]
    assert [len(turn.view) for turn in turns] == [2, 4, 6]
    assert list(turns[2].view) == messages[:6]


def test_view_mode_compacts_the_whole_history_each_turn() -> None:
    """The history only grows, so a full one stays in Emergency for good (weaknesses.md W1)."""
    # 80 bytes before turn 0; each turn adds 40 + 4 + 4 + 2 + 400 + 4 = 454: 80 + 454 k bytes before turn k.
    # In a window of 1,000 tokens: turn 6 has 2,804 bytes = 701 tokens (Soft), turn 7 3,258 = 814 (Full),
    # turn 8 3,712 = 928 (Full), turn 9 4,166 = 1,041 (Emergency), and so on.
    turns = list(replay(conversation(12), ProgressiveCompactor(Says(), 1000), "view"))

    assert tiers(turns) == [0, 0, 0, 0, 0, 0, 2, 3, 3, 4, 4, 4]
    assert [turn.record.tokens_before for turn in turns[6:10]] == [701, 814, 928, 1041]


def test_write_back_grows_the_next_turns_out_of_the_compacted_view() -> None:
    """A compaction is paid once: its view is the history of the next turns."""
    summarizer = Says()
    turns = list(replay(conversation(12), ProgressiveCompactor(summarizer, 1000), "write-back"))

    assert tiers(turns).count(4) == 0
    assert summarizer.calls == sum(1 for tier in tiers(turns) if tier in (2, 3))
    assert turns[7].record.tokens_before < 814


def test_input_messages_are_never_changed() -> None:
    """A replay leaves what it was given as it was."""
    messages = conversation(12, size=5000)
    before = list(messages)
    list(replay(messages, ProgressiveCompactor(Says(), 6000, offloader=MemoryOffloader("s")), "write-back"))

    assert messages == before


def test_a_session_without_system_message_gets_a_stub_and_a_list_does_not() -> None:
    """The seeds' compactors do nothing without a system message; most transcripts hold none."""
    # Before the last turn: 40 + 7 x 454 = 3,218 bytes = 804 tokens, 89 % of 900.
    messages = conversation(8, system=False)
    of_list = list(replay(messages, ProgressiveCompactor(Says(), 900), "view"))
    of_session = list(replay(Session("s", tuple(messages)), ProgressiveCompactor(Says(), 900), "view"))

    assert of_list[-1].record.tier is of_session[-1].record.tier is Tier.FULL
    assert of_list[-1].record.notes == ("no_system_message",)
    assert len(of_list[-1].view) == 15
    assert of_session[-1].view[0] == Message("system", "")
    assert len(of_session[-1].view) < 15
    assert of_session[0].record.tokens_before == of_list[0].record.tokens_before


def test_overhead_weighs_in_the_stub() -> None:
    """``--overhead`` counts in decision tokens from the first turn on."""
    session = Session("s", tuple(conversation(2, system=False)))
    turns = list(replay(session, NoCompactor(), overhead=500))

    assert turns[0].record.tokens_before == 500 + 40 // 4


@pytest.mark.parametrize("system", [True, False])
def test_overhead_counts_with_and_without_a_recorded_system_message(system: bool) -> None:
    """What is declared is in every view, in decision tokens and, where no usage measured it, in real ones."""
    session = Session("s", tuple(conversation(4, system=system)))
    spec = plugin("compactctl.compactors", CompactorSpec, "none", "compactor")

    def outcome(overhead: int) -> Outcome:
        setup = Setup(spec, {option.name: option.default for option in spec.options}, overhead=overhead)
        return run(Workbench(session, Window(700, "flag")), setup, summarizer=None, measures=["m2"])

    without, declared = outcome(0), outcome(500)
    assert declared.tally.peak.tokens == without.tally.peak.tokens + 500
    assert declared.tally.real_peak.tokens == without.tally.real_peak.tokens + 500
    # Before the last turn at least 40 + 3 x 454 = 1,402 bytes = 350 tokens: too many for the window with 500 more.
    assert (without.tally.failed_turns, declared.tally.failed_turns > 0) == (0, True)
    assert declared.real_source.endswith(", 500 declared overhead")


def recorded(kind: str = "full", replacement: tuple[Message, ...] | None = None) -> Session:
    """Four turns, then the harness compacted, then two more."""
    before = conversation(4)
    summary = Message("user", "the harness's summary", origin=Origin.RECORDED_SUMMARY)
    after = conversation(2)[2:]
    compaction = RecordedCompaction(kind, "auto", len(before), 4, replacement=replacement, cleared=("c000", "c001"))
    return Session("s", (*before, summary, *after), compactions=(compaction,))


def test_recorded_compactions_are_ignored_unless_followed() -> None:
    """What-if: the whole history, without the summaries that the harness wrote."""
    turns = list(replay(recorded(), NoCompactor()))

    assert len(turns[4].view) == 10
    assert all(m.origin is not Origin.RECORDED_SUMMARY for m in turns[-1].view)


def test_a_followed_compaction_resets_the_history_where_it_happened() -> None:
    """From there on the model saw the system message, the harness's summary, and what came after."""
    turns = list(replay(recorded(), NoCompactor(), recorded="follow"))

    assert [len(turn.view) for turn in turns] == [2, 4, 6, 8, 2, 4]
    assert turns[4].view[1].content == "the harness's summary"


def test_a_recorded_replacement_is_the_history() -> None:
    """Where the transcript tells what the harness went on with, that is what the view holds."""
    kept = (Message("user", "kept"),)
    turns = list(replay(recorded(replacement=kept), NoCompactor(), recorded="follow"))

    assert [m.content for m in turns[4].view][1:3] == ["kept", "the harness's summary"]


@settings(max_examples=150)
@given(MESSAGES, st.lists(ANY, max_size=3), st.data())
def test_a_followed_compaction_leaves_nothing_torn(
    messages: list[Message], replacement: list[Message], data: st.DataObject
) -> None:
    """Whatever a recorded compaction put in place, and wherever it fell, a replay gives what a list of it would."""
    at = data.draw(st.integers(0, len(messages)))
    compaction = RecordedCompaction("full", "auto", at, 0, replacement=tuple(replacement))
    session = Session("s", tuple(messages), compactions=(compaction,))
    budget = TokenBudgetCompactor(30, 2)
    histories = replay(session, NoCompactor(), recorded="follow")
    turns = replay(session, budget, "view", recorded="follow")

    for history, turn in zip(histories, turns, strict=True):
        assert list(turn.view) == budget.compact(list(history.view))


def test_a_followed_micro_compaction_clears_its_results() -> None:
    """The results that the harness cleared are gone, the messages stay."""
    turns = list(replay(recorded("micro"), NoCompactor(), recorded="follow"))
    cleared = [m.tool_call_id for m in turns[4].view if m.content == "[cleared]"]

    assert cleared == ["c000", "c001"]
    assert len(turns[4].view) == 11


def test_the_users_compact_comes_at_its_turn() -> None:
    """``--compact-at`` is /compact: forced in the seed, whatever the thresholds say."""
    turns = list(replay(conversation(6), ProgressiveCompactor(Says(), 100_000), "view", compact_at=[3]))

    assert tiers(turns) == [0, 0, 0, 4, 0, 0]
    assert turns[3].record.trigger is Trigger.MANUAL


class Overflows:
    """A compactor that only acts when a provider rejected the view; ``works`` says whether it can."""

    name = "overflows"
    meter = Bytes4()

    def __init__(self, works: bool = True) -> None:
        self.works = works
        self.triggers: list[Trigger] = []

    def step(self, view: View, trigger: Trigger) -> Step:
        """Drop all but the newest message when asked to."""
        self.triggers.append(trigger)
        after = view
        if trigger is Trigger.CONTEXT_OVERFLOW and self.works:
            after = view.replaced(0, len(view) - 1, ()).repaired()
        tier = Tier.NONE if after is view else Tier.EMERGENCY
        return Step(after, record_of(view, after, tier=tier, compactor=self.name, trigger=trigger), True)


def limits(retries: int) -> Limits:
    """A provider that takes 300 real tokens of bytes / 4."""
    return Limits(300, Bytes4(), overflow_retries=retries)


def test_a_rejected_view_gets_its_retry() -> None:
    """An overflow retries with the reactive trigger; the turn does not fail where that helped."""
    # Before turn 3: 80 + 3 * 454 = 1,442 bytes = 360 tokens > 300.
    turns = list(replay(conversation(4), Overflows(), "view", limits=limits(1)))

    assert [len(turn.records) for turn in turns] == [1, 1, 1, 2]
    assert turns[3].record.trigger is Trigger.CONTEXT_OVERFLOW
    assert not turns[3].failed


def test_a_retry_without_progress_fails_the_turn_and_the_replay_goes_on() -> None:
    """Progress is a new surface, not a smaller estimate; without one the provider's rejection stands."""
    turns = list(replay(conversation(5), Overflows(works=False), "view", limits=limits(3)))

    assert [turn.failed for turn in turns] == [False, False, False, True, True]
    assert [len(turn.records) for turn in turns] == [1, 1, 1, 2, 2]


def test_a_compactor_without_overflow_path_fails_at_once() -> None:
    """No retry, no second step: the turn would have been rejected."""
    turns = list(replay(conversation(5), NoCompactor(), limits=limits(0)))

    assert [turn.failed for turn in turns] == [False, False, False, True, True]
    assert all(len(turn.records) == 1 for turn in turns)


def test_the_same_replay_gives_the_same_records() -> None:
    """Same input and settings, same records, times from the transcript, durations None without a clock."""
    first = list(replay(conversation(12), ProgressiveCompactor(Says(), 1000), "write-back"))
    second = list(replay(conversation(12), ProgressiveCompactor(Says(), 1000), "write-back"))

    assert [t.records for t in first] == [t.records for t in second]
    acted = next(t for t in first if t.record.tier)
    assert acted.record.duration is None
    assert acted.record.timestamp == f"2026-01-01T00:00:{acted.turn:02d}Z"


class Ticks:
    """A clock that moves one microsecond a look."""

    def __init__(self) -> None:
        self.time = 0

    def now(self) -> int:
        """Give the time in nanoseconds."""
        self.time += 1000
        return self.time


def test_durations_come_from_the_clock_that_is_handed_in() -> None:
    """Durations are nanoseconds of the caller's clock."""
    turns = list(replay(conversation(12), ProgressiveCompactor(Says(), 1000), "view", Ticks()))

    assert all(turn.record.duration == 1000 for turn in turns if turn.record.tier)


def test_usage_is_part_of_a_message_and_changes_no_decision() -> None:
    """bytes4 decides on bytes alone, whatever a provider charged."""
    messages = conversation(12)
    charged = [
        Message(m.role, m.content, m.tool_calls, m.tool_call_id, m.name, usage=Usage(99_999, 5)) if m.tool_calls else m
        for m in messages
    ]

    plain = tiers(list(replay(messages, ProgressiveCompactor(Says(), 1000), "view")))
    assert tiers(list(replay(charged, ProgressiveCompactor(Says(), 1000), "view"))) == plain


def test_an_empty_session_has_no_turn() -> None:
    """Nothing recorded, nothing replayed; a message without a model call is no turn either."""
    assert list(replay([], NoCompactor())) == []
    assert list(replay([Message("user", "hi")], NoCompactor())) == []


@pytest.mark.parametrize("history", ["both", "write_back"])
def test_an_unknown_history_mode_is_refused(history: str) -> None:
    """The two modes have one spelling each."""
    with pytest.raises(ValueError, match=history):
        list(replay(conversation(1), NoCompactor(), history))


def test_an_unknown_way_with_recorded_compactions_is_refused() -> None:
    """A slip of the pen is an error, not a replay of something else."""
    with pytest.raises(ValueError, match="folow"):
        list(replay(recorded(), NoCompactor(), recorded="folow"))


@pytest.mark.skipif(not REAL.is_dir(), reason="the recorded sessions are not beside this checkout")
@pytest.mark.parametrize("name", ["cc-fdd24234", "cc-3a782158"])
def test_what_was_followed_is_what_was_sent(name: str) -> None:
    """With no compactor and the recorded compactions followed, real tokens are the recorded prompts, turn by turn."""
    session = next(iter(load(REAL / "claude-code-real" / f"{name}.jsonl.gz")))
    spec = plugin("compactctl.compactors", CompactorSpec, "none", "compactor")
    setup = Setup(spec, {option.name: option.default for option in spec.options}, recorded=RecordedMode.FOLLOW)
    outcome = run(Workbench(session, Window(200_000, "flag")), setup, summarizer=None, measures=["m2"])

    assert all(point.simulated == point.recorded for point in outcome.occupancy)


@contextmanager
def nothing_collected() -> Iterator[None]:
    """Keep the collector from running meanwhile, and fail where something was left for it."""
    gc.collect()
    gc.freeze()
    gc.disable()
    try:
        yield
        assert gc.collect() == 0
    finally:
        gc.enable()
        gc.unfreeze()


def test_a_cycle_is_noticed() -> None:
    """The guard of the next test sees a thing that holds itself."""

    def hold_itself() -> None:
        loop: list[object] = []
        loop.append(loop)

    with pytest.raises(AssertionError), nothing_collected():
        hold_itself()


@pytest.mark.parametrize("name", SPECS)
def test_a_replay_leaves_nothing_for_a_collector(name: str) -> None:
    """The commands run without one: ten thousand replays of a session take no more memory than two."""
    spec = SPECS[name]
    summarizer = STUB.make({option.name: option.default for option in STUB.options}, None)
    options = {option.name: option.default for option in spec.options}
    benches = [
        Workbench(session, Window(window, "flag"))
        for path in sorted(SAMPLES.glob("*.jsonl"))
        for session in load(path)
        for window in (20_000, 40_000)
    ]

    def replay_all() -> None:
        for bench in benches:
            for history in HistoryMode:
                run(bench, Setup(spec, options, history=history), summarizer=summarizer)
                run(bench, Setup(spec, options, history=history), summarizer=summarizer, measures=(), skip=True)

    replay_all()
    with nothing_collected():
        replay_all()
