"""Spilling moves large results to files when they are written, in the form of the harness that is followed."""

from __future__ import annotations

import pytest

from compactctl.compactors._offloading import Offloading
from compactctl.compactors.progressive import ProgressiveCompactor
from compactctl.context.base import Base
from compactctl.context.offload import MemoryOffloader, NullOffloader, OffloaderBase
from compactctl.context.spill import SpillForm, SpillRule, rule_for, spilled
from compactctl.context.view import View
from compactctl.errors import OffloadError
from compactctl.meters.bytes4 import Bytes4
from compactctl.model import ASSISTANT, SYSTEM, TOOL, USER, Message, OffloadEntry, ToolCall


def session(tool: str, text: str) -> list[Message]:
    """Give a session with one call and its result, which does not name its tool."""
    return [
        Message(USER, "go"),
        Message(ASSISTANT, "", (ToolCall("c1", tool),)),
        Message(TOOL, text, tool_call_id="c1"),
    ]


def test_the_first_lines_stay() -> None:
    """harness9's hook: a header that marks the result as saved, the first 20 lines, and the path of the file."""
    text = "\n".join(f"line {i}" for i in range(2000))
    offloader = MemoryOffloader("s")

    done = spilled(session("bash", text), rule_for("progressive", 10_000), offloader)
    left = done.messages[2].content.split("\n")

    assert left[0].startswith("[output saved to tool_results/s/c1.txt, 2000 lines / 18889 bytes.")
    assert left[1:21] == [f"line {i}" for i in range(20)]
    assert len(left) == 22
    assert offloader.files == {"tool_results/s/c1.txt": text}
    assert [entry.file_path for entry in done.entries] == ["tool_results/s/c1.txt"]


@pytest.mark.parametrize(("size", "spills"), [(10_000, False), (10_001, True)])
def test_the_threshold_must_be_exceeded(size: int, spills: bool) -> None:
    """A result of exactly the threshold stays."""
    done = spilled(session("bash", "x\n" * 5000 + "x" * (size - 10_000)), SpillRule(10_000), MemoryOffloader("s"))

    assert bool(done.entries) is spills


@pytest.mark.parametrize(
    ("compactor", "tool", "spills"),
    [
        ("progressive", "read_file", False),
        ("harness9", "edit_file", False),
        ("claude-code", "Read", False),
        ("progressive", "read", True),
        ("dsh", "read", False),
        ("dsh", "read_file", True),
        ("mask", "report", False),
    ],
)
def test_each_harness_exempts_its_own_tools(compactor: str, tool: str, spills: bool) -> None:
    """The tools that read a file back would spill what was just read; protected tools are the user's exception."""
    rule = rule_for(compactor, 1000, protect={"report"})

    assert bool(spilled(session(tool, "y\n" * 1000), rule, MemoryOffloader("s")).entries) is spills


def test_both_ends_stay_within_the_cap() -> None:
    """dsh's spill: half of the room for each end, with the notice inside the cap, cut between characters."""
    text = "é" * 600 + "z" * 600  # 1,800 bytes
    done = spilled(session("bash", text), SpillRule(400, frozenset(), SpillForm.HEAD_AND_TAIL), MemoryOffloader("s"))
    left = done.messages[2].content

    # The notice has 84 bytes, so 316 are for the ends: 158 for each, and no half é.
    assert left.startswith("é" * 79 + "z" * 158 + "\n\n(1484 bytes")
    assert "tool_results/s/c1.txt" in left
    assert len(left.encode()) == 400


def test_a_notice_without_room_leaves_the_result() -> None:
    """Where the notice alone is larger than the cap, the text stays where it is."""
    rule = SpillRule(50, frozenset(), SpillForm.HEAD_AND_TAIL)

    done = spilled(session("bash", "x" * 60), rule, MemoryOffloader("s"))

    assert done.messages == tuple(session("bash", "x" * 60))


class Full(MemoryOffloader):
    """An offloader whose disk is full."""

    def put(self, entry: OffloadEntry, text: str) -> None:
        """Fail."""
        raise OffloadError("no space left")


def test_a_result_that_cannot_be_stored_stays() -> None:
    """Nothing is lost where the file cannot be written; it is counted."""
    done = spilled(session("bash", "y\n" * 9000), SpillRule(), Full("s"))

    assert (done.failed, done.entries) == (1, ())
    assert done.messages == tuple(session("bash", "y\n" * 9000))


def test_what_was_spilled_is_not_offloaded_again() -> None:
    """A compactor behind the stage leaves a spilled result alone, and names further files after the same rule."""
    offloader = MemoryOffloader("s", threshold=100)
    text = "y" * 90 + "\n"
    messages = [Message(SYSTEM, "s"), *session("bash", text * 200), *[Message(USER, "u")] * 6]
    done = spilled(messages, SpillRule(1000), offloader)
    compactor = ProgressiveCompactor(None, 1, warn_threshold=0, soft_threshold=9e9, full_threshold=9e9,
                                     emergency_threshold=9e9, offload_threshold=100, offloader=offloader)  # fmt: skip

    view, record = compactor.compact_with_record(done.messages)

    assert record.offloaded == ()
    assert view == list(done.messages)


def test_two_results_under_one_id_have_two_files() -> None:
    """A repeated id does not overwrite what was spilled under it before."""
    offloader = MemoryOffloader("s")
    messages = [*session("bash", "a\n" * 900), *session("bash", "b\n" * 900)]

    done = spilled(messages, SpillRule(1000), offloader)

    assert sorted(text[0] for text in offloader.files.values()) == ["a", "b"]
    assert len({entry.file_path for entry in done.entries}) == 2


@pytest.mark.parametrize("offloader", [MemoryOffloader("s", 10), NullOffloader("s", 10)])
def test_an_entry_names_the_tool_of_its_call(offloader: OffloaderBase) -> None:
    """A result that does not name its tool (Claude Code's never do) is offloaded under the name that its call has."""
    call = Message("assistant", "", (ToolCall("c1", "Bash"),))
    messages = [Message("user", "go"), call, Message("tool", "r" * 400, tool_call_id="c1")]
    view = View.before(Base(messages, Bytes4()))

    assert [e.tool_name for e in Offloading(offloader, 10).apply(view, 0, 3).entries] == ["Bash"]
