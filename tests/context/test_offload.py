"""What stays of a result in the view."""

from __future__ import annotations

from hypothesis import given, strategies as st

from compactctl.compactors._offloading import Offloading
from compactctl.context.base import Base
from compactctl.context.offload import MemoryOffloader, first_lines
from compactctl.context.view import View
from compactctl.meters.bytes4 import Bytes4
from compactctl.model import Message, ToolCall

TEXTS = st.lists(st.sampled_from(["\n", "a", "上", "b" * 700])).map("".join)


@given(TEXTS, st.integers(0, 12))
def test_the_first_lines_are_those_of_a_plain_split(text: str, count: int) -> None:
    """A preview is the first lines of the result however long they are, and nothing for no lines."""
    assert first_lines(text, count) == "\n".join(text.split("\n")[:count])


def test_a_stand_in_never_gets_the_name_of_the_result_it_stands_for() -> None:
    """The plain name is kept for the recorded result, in the first replay of a session and in each later one."""
    recorded = [
        Message("user", "x"),
        Message("assistant", "", (ToolCall("a", "bash"),)),
        Message("tool", "r" * 100, tool_call_id="a"),
        Message("assistant", "done"),
    ]
    base = Base(recorded, Bytes4())
    seen = []
    for _ in range(2):
        offloader = MemoryOffloader("s", threshold=0)
        rule = Offloading(offloader, 0)
        view = View.before(base, 1)
        [plain] = rule.apply(view, 0, 3).entries
        [other] = rule.apply(view.replaced(2, 3, []).repaired(), 0, 3).entries
        seen.append((plain.file_path, other.file_path, sorted(len(text) for text in offloader.files.values())))

    assert seen[0] == seen[1]
    assert seen[0][0] == "tool_results/s/a.txt"
    assert seen[0][1].startswith("tool_results/s/a~")
    assert seen[0][2] == [48, 100]


def test_the_first_recorded_result_of_an_id_has_the_plain_name() -> None:
    """Of two results under one id the first has the plain name, though the compactor meets only the second."""
    call = Message("assistant", "", (ToolCall("a", "bash"),))
    first, second = (Message("tool", letter * 100, tool_call_id="a") for letter in "rs")
    base = Base([Message("user", "x"), call, first, call, second, Message("assistant", "done")], Bytes4())
    offloader = MemoryOffloader("s", threshold=0)

    [entry] = Offloading(offloader, 0).apply(View.before(base, 2), 4, 5).entries
    assert entry.file_path.startswith("tool_results/s/a~")
