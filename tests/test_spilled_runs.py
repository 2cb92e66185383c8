"""Spilling in front of a compactor: the history is what it would have been, and the bound what it was."""

from __future__ import annotations

from compactctl.context.offload import MemoryOffloader
from compactctl.model import ASSISTANT, SYSTEM, TOOL, USER, Message, Session, ToolCall
from compactctl.ports import CompactorSpec
from compactctl.registry import plugin
from compactctl.runs import Outcome, Setup, Window, Workbench, run


def session() -> Session:
    """Give four steps whose results have 20,000 bytes each, in lines of ten."""
    messages = [Message(SYSTEM, "s"), Message(USER, "go")]
    for i in range(4):
        messages.append(Message(ASSISTANT, "", (ToolCall(f"c{i}", "bash"),)))
        messages.append(Message(TOOL, "123456789\n" * 2000, tool_call_id=f"c{i}"))
    return Session("s1", (*messages, Message(ASSISTANT, "done")))


def outcome(name: str, spill: int | None, offloader: MemoryOffloader, **more: frozenset[str]) -> Outcome:
    """Replay the session."""
    spec = plugin("compactctl.compactors", CompactorSpec, name, "compactor")
    options = {option.name: option.default for option in spec.options}
    setup = Setup(spec, options, meter="bytes4", spill=spill, **more)  # type: ignore[arg-type]  # keywords as they come
    return run(Workbench(session(), Window(100_000, "flag")), setup, summarizer=None, offloader=offloader)


def test_spilled_results_are_sent_as_previews() -> None:
    """Each result of 5,000 tokens is sent as some 80; the files are there and counted, and the saving is seen."""
    offloader = MemoryOffloader("s1", threshold=0)
    found = outcome("none", 10_000, offloader)

    assert sorted(offloader.files) == [f"tool_results/s1/c{i}.txt" for i in range(4)]
    assert sorted(found.tally.offloaded) == sorted(offloader.files)
    assert found.tally.peak.tokens < 500
    assert found.bound.peak.tokens > 20_000
    assert found.reduction is not None
    assert found.reduction > 0.9


def test_any_compactor_may_stand_behind_it() -> None:
    """The ladder of dsh spills in its own form and has nothing left to prune."""
    offloader = MemoryOffloader("s1", threshold=0)
    found = outcome("dsh", 4000, offloader)

    assert len(offloader.files) == 4
    assert 3 * 1000 < found.tally.peak.tokens < 4 * 1100
    assert found.tally.compactions == []


def test_protected_tools_are_not_spilled() -> None:
    """Results that are the deliverable stay in the history."""
    found = outcome("none", 10_000, MemoryOffloader("s1", threshold=0), protect=frozenset({"bash"}))

    assert found.tally.offloaded == {}
    assert found.tally.peak.tokens == found.bound.peak.tokens


def test_without_it_nothing_is_spilled() -> None:
    """No value, no stage."""
    found = outcome("none", None, MemoryOffloader("s1", threshold=0))

    assert found.tally.peak.tokens == found.bound.peak.tokens
