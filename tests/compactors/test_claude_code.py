"""Claude Code by hand: its thresholds, its count of tokens, what it puts back, and what stops it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from compactctl import load
from compactctl.compactors._clearing import CLEARED
from compactctl.compactors._reread import Reread
from compactctl.compactors.claude_code import COMPACTOR, SUMMARY_HEADING, ClaudeCodeCompactor, output_reserve
from compactctl.context.base import Base
from compactctl.context.view import View
from compactctl.meters.bytes4 import Bytes4
from compactctl.model import (
    ASSISTANT,
    SYSTEM,
    TOOL,
    USER,
    Message,
    Origin,
    RecordedCompaction,
    Session,
    Tier,
    ToolCall,
    Trigger,
    Usage,
)  # fmt: skip
from compactctl.ports import Ports, RecordedMode
from compactctl.replay import replay
from compactctl.runs import Setup, Window, Workbench, run
from compactctl.summarizers.opaque import OpaqueSummarizer
from tests.compactors.scenes import Says, step, task, text

SYSTEM_MESSAGE = Message(SYSTEM, "s" * 40)
REAL = Path(__file__).parents[3] / "shared" / "sessions"


def compactor(window: int = 14_600, **options: Any) -> ClaudeCodeCompactor:
    """Give one that compacts at 14,600 - 100 - 13,000 = 1,500 tokens."""
    chosen = {"reserve": 100, "reread": Reread(0), **options}
    return ClaudeCodeCompactor(chosen.pop("summarizer", Says("sum")), window, **chosen)


# -- the threshold ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("version", "window", "threshold"),
    [
        ("2.0.76", 200_000, 155_000),  # 200,000 - 32,000 - 13,000
        ("2.1.20", 200_000, 155_000),
        ("2.1.25", 200_000, 167_000),  # 200,000 - 20,000 - 13,000
        ("2.1.120", 200_000, 167_000),
        ("", 200_000, 167_000),
        ("", 1_000_000, 967_000),  # 96.7 %
    ],
)
def test_the_threshold_depends_on_version_and_window(version: str, window: int, threshold: int) -> None:
    """The window less the output reserve less 13,000; the reserve was 32,000 once."""
    assert ClaudeCodeCompactor(None, window, version=version).threshold == threshold
    assert output_reserve("2.1.20") == 32_000


@pytest.mark.parametrize(("share", "threshold"), [(0.5, 90_000), (0.99, 167_000)])
def test_the_override_can_only_lower(share: float, threshold: int) -> None:
    """A share of 180,000: half of it is 90,000; 99 % would be more than 167,000 and is not taken."""
    assert ClaudeCodeCompactor(None, 200_000, pct_override=share).threshold == threshold


def test_the_recorded_version_counts_unless_one_is_set() -> None:
    """A session of an old version is judged by its old limit; another harness's version says nothing."""
    options = {option.name: option.default for option in COMPACTOR.options}
    session = Session("s", (), format="claude-code", harness_version="2.1.1")
    ports = Ports(meter=Bytes4(), context_window=200_000)

    def threshold(session: Session, **more: Any) -> Any:
        return COMPACTOR.make(options | more, session, ports).threshold  # type: ignore[attr-defined]  # of this compactor alone

    assert threshold(session) == 155_000
    assert threshold(session, version="2.1.39") == 167_000
    assert threshold(Session("s", (), format="codex", harness_version="0.1.0")) == 167_000


def test_a_version_must_be_one() -> None:
    """What is no version is refused before the replay."""
    options = {option.name: option.default for option in COMPACTOR.options}

    assert list(COMPACTOR.check(options | {"version": "latest"})) == [
        "version 'latest' is no version; write it like 2.1.39"
    ]


# -- a compaction ----------------------------------------------------------------------------------------------------


def test_everything_becomes_a_summary() -> None:
    """At the threshold the whole history gives way to one message; nothing is kept word for word."""
    messages = [SYSTEM_MESSAGE, task(400), *step("c1", 5560)]  # 40 + 400 + 5,560 = 6,000 bytes = 1,500 tokens
    view, record = compactor().compact_with_record(messages)

    assert view == [SYSTEM_MESSAGE, Message(USER, SUMMARY_HEADING + "sum", origin=Origin.RECORDED_SUMMARY)]
    assert (record.tier, record.summarized, record.preserved_tail) == (Tier.FULL, 3, 0)
    assert compactor().compact(messages[:2]) == messages[:2]


def read(ident: str, path: str, content: str, **more: Any) -> list[Message]:
    """Give a call that reads a file, and what it gave."""
    call = ToolCall(ident, "Read", json.dumps({"file_path": path}))
    return [Message(ASSISTANT, "", (call,)), Message(TOOL, content, tool_call_id=ident, **more)]


def test_the_files_read_last_come_back() -> None:
    """The newest reading of each file, newest first, so many files, so many tokens of each and of all."""
    messages = [
        SYSTEM_MESSAGE,
        task(4000),
        *read("1", "a.c", "old a"),
        *read("2", "b.c", "b" * 900),
        *read("3", "gone.c", "no such file", is_error=True),
        *read("4", "a.c", "new a"),
        *read("5", "c.c", "c" * 900),
        *read("6", "d.c", "d" * 300),
    ]
    # 100 tokens are 400 bytes of one file, 250 are 1,000 of all: d 300, c 400, a 5, and b what is left: 295.
    view = compactor(reread=Reread(4, 100, 250)).compact_force(messages)

    assert [m.content.split("\n", 1)[1] for m in view[2:]] == ["d" * 300, "c" * 400, "new a", "b" * 295]
    assert "d.c" in view[2].content
    assert {m.origin for m in view[2:]} == {Origin.HARNESS}
    assert len(compactor(reread=Reread(1)).compact_force(messages)) == 3


def test_repeated_ids_put_back_the_same_files() -> None:
    """Harnesses that number their calls anew at each turn lose no file by it: a result answers the call before it."""
    counts = []
    for names in (("1", "2", "3", "4", "5", "6"), ("call_0",) * 6):
        reads = [m for i, name in enumerate(names) for m in read(name, f"{i}.c", f"text {i}")]
        view = compactor(reread=Reread()).compact_force([SYSTEM_MESSAGE, task(4000), *reads])
        counts.append([m.content for m in view[2:]])

    assert counts[0] == counts[1]
    assert len(counts[0]) == 5


def test_clearing_first_may_be_enough() -> None:
    """With the option old results of the tools that can be run again are cleared, and the summary is not needed."""
    messages = [SYSTEM_MESSAGE, *[m for i in range(8) for m in step(f"c{i}", 800, "Bash" if i else "Task")]]
    summarizer = Says("sum")
    view, record = compactor(summarizer=summarizer, clear=True, keep_results=5).compact_with_record(messages)

    # 6,440 bytes = 1,610 tokens; two of the three old results can go, one is of a tool that cannot be run again.
    assert [m.content == CLEARED for m in view if m.role == TOOL] == [False, True, True] + [False] * 5
    assert (record.tier, summarizer.requests) == (Tier.WARN, [])


def test_clearing_spares_protected_tools() -> None:
    """A protected tool's results are not cleared; the summary comes instead."""
    messages = [SYSTEM_MESSAGE, *[m for i in range(8) for m in step(f"c{i}", 800, "Bash")]]
    record = compactor(clear=True, protect={"Bash"}).compact_with_record(messages)[1]

    assert record.tier is Tier.FULL


# -- what stops it ---------------------------------------------------------------------------------------------------


def growing(turns: int, size: int) -> list[Message]:
    """Give a session in which each turn adds so many bytes."""
    return [SYSTEM_MESSAGE, *[m for i in range(turns) for m in (text(USER, size), Message(ASSISTANT, "a"))]]


def test_three_failures_stop_it() -> None:
    """After three summaries in a row that failed no more are asked for; the history just grows."""
    summarizer = Says(None)
    turns = list(replay(growing(10, 2400), compactor(summarizer=summarizer)))

    # 600 tokens a turn: above 1,500 from turn 2 on.
    assert len(summarizer.requests) == 3
    assert [bool(turn.record.error) for turn in turns] == [False] * 2 + [True] * 3 + [False] * 5
    assert turns[4].record.notes[-1] == turns[5].record.notes[-1] == "failure_breaker"


def test_a_success_forgets_failures() -> None:
    """Two failures, a success, two failures: nothing stops."""
    summarizer = Says(None, None, "sum", None, None, "sum")
    turns = list(replay(growing(30, 2400), compactor(summarizer=summarizer, version="2.1.1")))

    assert not any("breaker" in note for turn in turns for note in turn.record.notes)


@pytest.mark.parametrize(("version", "stops"), [("2.1.88", False), ("2.1.89", True), ("", True)])
def test_rapid_refills_stop_it(version: str, stops: bool) -> None:
    """Where the context is full again within three turns three times in a row, newer versions give up."""
    turns = list(replay(growing(12, 3200), compactor(version=version)))

    # 800 tokens a turn: full at turns 1, 3, 5, and the third refill is at turn 7.
    acted = [turn.turn for turn in turns if turn.record.tier is Tier.FULL]
    stopped = [turn.turn for turn in turns if turn.record.error]
    assert (acted, stopped) == (([1, 3, 5], [7]) if stops else ([1, 3, 5, 7, 9, 11], []))


def test_the_user_starts_it_again() -> None:
    """A /compact works where the automatic one has stopped, and lets it start anew."""
    turns = list(replay(growing(10, 2400), compactor(summarizer=Says(None, None, None, "sum")), compact_at={6}))

    assert [turn.turn for turn in turns if turn.record.summarized] == [6, 9]


def test_with_auto_off_the_context_runs_full() -> None:
    """Only the user compacts; at the mark 3,000 tokens below window less reserve the record says that it is full."""
    turns = list(replay(growing(3, 24_000), compactor(auto=False)))

    # 6,000 tokens a turn; the mark is at 14,500 - 3,000 = 11,500.
    assert [turn.record.notes for turn in turns] == [(), ("manual_mark",), ("manual_mark",)]
    assert "12010 tokens, mark 11500" in turns[1].record.error


# -- how it counts ---------------------------------------------------------------------------------------------------


class UsageLike(Bytes4):
    """A meter with the name of the one that counts by recorded usage."""

    name = "usage"


def test_it_adds_to_the_last_recorded_usage() -> None:
    """1,000 of prompt, 20 of reply and 400 bytes / 4 of result: 1,120; ids are no words."""
    reply = Message(ASSISTANT, "", (ToolCall("long-identifier", "bash", "{}"),), usage=Usage(1000, 20))
    messages = [task(), reply, Message(TOOL, "r" * 400, tool_call_id="long-identifier"), Message(ASSISTANT, "done")]
    view = View.before(Base(messages, UsageLike()), 1)

    assert compactor(meter=UsageLike(), session=Session("s", tuple(messages))).occupied(view) == 1120


def test_its_own_microcompactions_are_in_the_usage() -> None:
    """Usage counts up to the first full compaction; from there on the last usage of this history is added to."""
    usages = [Usage(1000, 0), Usage(500, 0), Usage(900, 0), Usage(100, 0)]
    messages = [m for usage in usages for m in (task(400), Message(ASSISTANT, "", usage=usage))]
    compactions = (RecordedCompaction("micro", "auto", 2, 1), RecordedCompaction("full", "auto", 6, 3))
    session = Session("s", tuple(messages), harness="claude-code", compactions=compactions)
    count = compactor(meter=UsageLike(), session=session)
    base = Base([*messages, Message(ASSISTANT, "")], UsageLike())

    assert [count.occupied(View.before(base, turn)) for turn in (1, 2, 3, 4)] == [1100, 600, 1000, 1000]


def test_what_was_decided_is_told_beside_what_was_recorded() -> None:
    """Where a recorded clearing is done again at a turn with something to say, the record says both."""
    reply = Message(ASSISTANT, "", (ToolCall("c1", "Read", "{}"),), usage=Usage(12_000, 20))
    messages = [task(), reply, Message(TOOL, "r" * 4000, tool_call_id="c1"), Message(ASSISTANT, "done")]
    cleared = RecordedCompaction("micro", "auto", 3, 1, cleared=("c1",))
    session = Session("s", tuple(messages), harness="claude-code", compactions=(cleared,))
    count = compactor(meter=UsageLike(), session=session, auto=False)
    record = count.step(View.before(Base(messages, UsageLike()), 1), Trigger.PRESSURE).record

    assert record.notes == ("manual_mark", "as_recorded")
    assert record.error


def test_another_harness_cleared_what_is_not_cleared_here() -> None:
    """Of its session recorded usage counts up to the first compaction of any kind, then what came after is added."""
    usages = [Usage(1000, 0), Usage(500, 0), Usage(900, 0)]
    messages = [m for usage in usages for m in (task(400), Message(ASSISTANT, "", usage=usage))]
    session = Session("s", tuple(messages), compactions=(RecordedCompaction("micro", "auto", 2, 1),))
    count = compactor(meter=UsageLike(), session=session)
    base = Base([*messages, Message(ASSISTANT, "")], UsageLike())

    assert [count.occupied(View.before(base, turn)) for turn in (1, 2, 3)] == [1100, 1200, 1200]


@pytest.mark.skipif(not REAL.is_dir(), reason="the recorded sessions are not beside this checkout")
def test_the_view_is_what_it_decides_by() -> None:
    """Where Claude Code cleared results itself, the view has them cleared: no request fails that never failed."""
    session = next(iter(load(REAL / "claude-code-real" / "cc-fdd24234.jsonl.gz")))
    bench = Workbench(session, Window(200_000, "table"))
    setup = Setup(COMPACTOR, {option.name: option.default for option in COMPACTOR.options})
    tally = run(bench, setup, summarizer=OpaqueSummarizer()).tally

    assert tally.failed_turns == 0
    assert [(r.turn, r.tier) for r in tally.compactions] == [(44, Tier.WARN), (74, Tier.WARN), (100, Tier.FULL)]
    # The boundaries say 157,692 tokens before the full one.
    assert abs(tally.compactions[2].tokens_before - 157_692) < 500
    assert tally.real_peak.tokens == 154_505

    followed = run(bench, replace(setup, recorded=RecordedMode.FOLLOW), summarizer=OpaqueSummarizer()).tally
    assert (followed.failed_turns, followed.compactions) == (0, [])


def test_a_recorded_compaction_that_is_left_out_leaves_prompts_as_they_were() -> None:
    """Where the harness compacted and this replay did not, the small prompts from there on are another view's.

    The prompt fell to 9,000 without a record, so that views are followed as they were sent. Each turn adds 400 bytes:
    the turn of the compaction has the last prompt, 9,100, and 400 / 4; the summary that it left is in no view.
    """
    prompts = [12_000, 9000, 9100, 2000, 2100]
    messages = [m for prompt in prompts for m in (task(400), Message(ASSISTANT, "", usage=Usage(prompt, 0)))]
    messages.insert(6, Message(USER, "x" * 8000, origin=Origin.RECORDED_SUMMARY))
    compactions = (RecordedCompaction("full", "auto", 6, 3),)
    session = Session("s", tuple(messages), harness="claude-code", compactions=compactions)
    setup = Setup(COMPACTOR, {option.name: option.default for option in COMPACTOR.options})
    outcome = run(Workbench(session, Window(200_000, "table")), setup, summarizer=OpaqueSummarizer(), measures=["m1"])

    assert [point.simulated for point in outcome.occupancy] == [12_000, 9000, 9100, 9200, 9300]
    assert [(span.turn, span.view.tokens) for span in outcome.spans[1:]] == [(3, 9200)]
    assert outcome.tally.compactions == []


def test_another_meter_is_asked_for_everything() -> None:
    """Under --meter the compactor decides by that meter alone."""
    messages = [task(400), Message(ASSISTANT, "", usage=Usage(9000, 0)), task(400), Message(ASSISTANT, "")]

    assert compactor(meter=Bytes4()).occupied(View.before(Base(messages, Bytes4()), 1)) == 200


@pytest.mark.skipif(not REAL.is_dir(), reason="the recorded sessions are not beside this checkout")
def test_it_predicts_what_really_happened() -> None:
    """The first automatic compaction of every real session is predicted to within a turn, most of them exactly."""
    truth = [json.loads(line) for line in (REAL / "claude-code-real.truth.jsonl").read_text().splitlines()]
    missed: dict[str, int] = {}
    for facts in truth:
        session = next(iter(load(REAL / "claude-code-real" / facts["file"])))
        bench = Workbench(session, Window(200_000, "table"))
        setup = Setup(COMPACTOR, {option.name: option.default for option in COMPACTOR.options})
        turns = [r.turn for r in run(bench, setup, summarizer=OpaqueSummarizer()).tally.compactions if r.summarized]
        automatic = [row["before_model_call"] for row in facts["compactions"] if row["trigger"] == "auto"]
        if automatic:
            missed[facts["file"]] = turns[0] - automatic[0]
        else:
            assert turns == [], f"{facts['file']}: nothing was compacted in reality"

    assert len(missed) == 6
    assert all(abs(turns) <= 1 for turns in missed.values()), missed
    assert sum(turns == 0 for turns in missed.values()) >= 4, missed
