"""The bound of a replay, and what summaries cost: figures that everything else is held against."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from compactctl.compactors.dsh import DshCompactor
from compactctl.measures import Prices
from compactctl.model import ASSISTANT, SYSTEM, USER, CompactionRecord, Message, Session, SummaryCall, Usage
from compactctl.ports import CompactorSpec, HistoryMode, SummaryReply, SummaryRequest
from compactctl.registry import plugin
from compactctl.replay import replay
from compactctl.runs import Outcome, Setup, Window, Workbench, run
from compactctl.summarizers.opaque import OpaqueSummarizer
from compactctl.transcripts import load
from tests.figures import known

SAMPLES = Path(__file__).parents[1] / "sample_sessions"
RECORDED = ("claude-code-automatic-compaction.jsonl", "codex-compacted-at-its-window.jsonl")
LONG = "long-migration-permanent-emergency.jsonl"


def outcome(session: Session, window: int, name: str = "none", **changes: Any) -> Outcome:
    """Replay a session with all measures."""
    spec = plugin("compactctl.compactors", CompactorSpec, name, "compactor")
    setup = Setup(spec, {option.name: option.default for option in spec.options}, **changes)
    bench = Workbench(session, Window(window, "flag"), prices=lambda model: Prices(3.0, 15.0, 0.3, 3.75))
    return run(bench, setup, summarizer=OpaqueSummarizer(), measures=("all",))


@pytest.mark.parametrize("recorded", ["ignore", "follow"])
@pytest.mark.parametrize("meter", ["bytes4", "calibrated"])
@pytest.mark.parametrize("reserve", [0, 3000])
@pytest.mark.parametrize("name", RECORDED)
def test_no_compactor_is_its_own_bound(name: str, reserve: int, meter: str, recorded: str) -> None:
    """Tokens, peaks, cost and the turns that a provider would refuse are the same, also behind recorded compactions."""
    found = outcome(next(load(SAMPLES / name)), 60_000, recorded=recorded, meter=meter, reserve=reserve)
    tally, bound = found.tally, found.bound

    assert (bound.turns, bound.tokens_sent, bound.peak) == (tally.turns, tally.tokens_sent, tally.peak)
    assert bound.real_peak == tally.real_peak
    assert bound.failed_turns == tally.failed_turns > 0
    assert bound.failed_turns == found.measures["m1.overshoot_turns"].value
    assert found.reduction == 0
    assert found.measures["m2.share_of_uncompacted"].value == 1
    assert found.measures["m3.cost_share_of_uncompacted"].value == 1


@pytest.mark.parametrize("name", [*RECORDED, LONG])
@pytest.mark.parametrize("recorded", ["ignore", "follow"])
def test_spilling_is_held_against_the_session_as_it_was(name: str, recorded: str) -> None:
    """With results spilled, every figure without compaction is that of the same replay without spilling."""
    session = next(load(SAMPLES / name))
    plain = outcome(session, 60_000, recorded=recorded)
    spilled = outcome(session, 60_000, recorded=recorded, spill=2000)

    assert spilled.bound == plain.bound
    assert spilled.measures["m3.uncompacted_cost_usd"] == plain.measures["m3.uncompacted_cost_usd"]
    sent = known(spilled.measures, "m2.tokens_sent") / known(plain.measures, "m2.tokens_sent")
    assert spilled.measures["m2.share_of_uncompacted"].value == pytest.approx(sent)
    assert sent < 1


class Told:
    """A summarizer that says what it was charged, or does not."""

    name = "told"

    def __init__(self, usage: Usage | None) -> None:
        self.usage = usage

    def summarize(self, request: SummaryRequest) -> SummaryReply:
        """Give 400 bytes."""
        return SummaryReply("abc def " * 50, usage=self.usage)


def charged_session(overhead: int, rate: int) -> Session:
    """Give ten turns of 4,000 bytes, recorded as an overhead and a token for each ``rate`` bytes."""
    messages = [Message(SYSTEM, "s" * 400), Message(USER, "t" * 400)]
    size = 800
    for _ in range(10):
        messages.append(Message(ASSISTANT, "a" * 2000, usage=Usage(overhead + size // rate, 2000 // rate)))
        messages.append(Message(USER, "u" * 2000))
        size += 4000
    return Session("s", (*messages, Message(ASSISTANT, "done", usage=Usage(overhead + size // rate, 4))))


def summaries_of(session: Session, meter: str, usage: Usage | None = None) -> tuple[Outcome, list[CompactionRecord]]:
    """Replay through one Full compaction that the user asks for at the last turn."""
    spec = plugin("compactctl.compactors", CompactorSpec, "claude-code", "compactor")
    options: dict[str, Any] = {option.name: option.default for option in spec.options} | {"auto": False}
    setup = Setup(spec, options, meter=meter, compact_at=frozenset({10}))
    bench = Workbench(session, Window(200_000, "flag"), prices=lambda model: Prices(1.0, 10.0, 0.1, 1.25))
    found = run(bench, setup, summarizer=Told(usage), measures=("m3", "m4"))
    return found, [record for record in found.tally.compactions if record.summaries]


@pytest.mark.parametrize("meter", ["bytes4", "calibrated", "usage"])
def test_a_summary_costs_its_own_text_under_every_meter(meter: str) -> None:
    """Its tokens are real ones, whatever the compactor decides by, and without what stands before every request.

    40,400 bytes are read (all but the system message) at 2 bytes a token, and 400 written: 20,200 and 200 tokens.
    """
    found, records = summaries_of(charged_session(overhead=30_000, rate=2), meter)
    assert len(records) == 1
    read, written = (found.measures[f"m4.summary_{way}_tokens"].value or 0 for way in ("input", "output"))
    assert read == pytest.approx(20_200, rel=0.02)
    assert written == pytest.approx(200, rel=0.1)
    assert found.measures["m4.largest_input"].value == pytest.approx((read + 2000) / 200_000, rel=0.01)
    cost = (read * 1.0 + written * 10.0) / 1_000_000
    whole = found.measures["m3.cost_usd"].value or 0
    assert known(found.measures, "m4.cost_share") * whole == pytest.approx(cost, rel=0.01)
    sent = found.measures["m2.tokens_sent"].value if "m2.tokens_sent" in found.measures else None
    assert sent is None  # not asked for, and yet the share of what was sent is known
    assert found.measures["m4.input_share"].value is not None


def test_what_a_provider_charged_is_taken_as_it_is() -> None:
    """Charged tokens are real ones already, whatever a byte weighs in the compactor's own meter."""
    found, records = summaries_of(charged_session(overhead=0, rate=2), "bytes4", Usage(19_000, 321))
    assert records[0].summaries == (SummaryCall(19_000, 321, charged=True),)
    assert found.measures["m4.summary_input_tokens"].value == 19_000
    assert found.measures["m4.summary_output_tokens"].value == 321


class Attempts:
    """A summarizer whose first answer is nearly as long as what it read, and the second short."""

    name = "attempts"

    def __init__(self) -> None:
        self.asked: list[int] = []

    def summarize(self, request: SummaryRequest) -> SummaryReply:
        """Answer at length, then briefly."""
        self.asked.append(len(request.messages))
        return SummaryReply("x" * 11_000 if len(self.asked) % 2 else "brief")


def long_talk(turns: int, size: int) -> Sequence[Message]:
    """Give user and assistant in turns."""
    messages = [Message(SYSTEM, "s"), Message(USER, "go")]
    for _ in range(turns):
        messages += [Message(ASSISTANT, "a" * size), Message(USER, "u" * size)]
    return [*messages, Message(ASSISTANT, "done")]


def test_each_attempt_of_one_step_is_a_call_of_its_own() -> None:
    """Two summaries in one step are two calls, the largest is that of one of them, and no message counts as dropped."""
    attempts = Attempts()
    compactor = DshCompactor(attempts, 4000, threshold_ratio=0.5, pruner=None)
    turns = replay(long_talk(3, 12_000), compactor, HistoryMode.WRITE_BACK)
    record = next(turn.record for turn in turns if len(turn.record.summaries) > 1)

    assert len(record.summaries) == 2
    assert record.summary_input_tokens == sum(call.input_tokens for call in record.summaries)
    first, second = attempts.asked[:2]
    assert record.summarized == second  # as dsh counts
    assert record.dropped == 0
    assert record.msgs_after == record.msgs_before - (first + second - 1) + 1  # the first checkpoint was none of them


def test_a_record_keeps_its_calls_through_json() -> None:
    """What was charged and what was counted is the same when a stored record is read; older rows have one call."""
    told = replay(long_talk(8, 800), DshCompactor(Attempts(), 4000, pruner=None), HistoryMode.WRITE_BACK)
    record = next(turn.record for turn in told if turn.record.summaries)

    assert CompactionRecord.from_json(record.to_json()) == record
    row = record.to_json()
    calls = row.pop("summary_calls")
    assert row["summary_input_tokens"] == sum(call["input_tokens"] for call in calls)
    assert CompactionRecord.from_json(row).summary_input_tokens == record.summary_input_tokens
