"""What a view is made of, held against counting it message by message."""

from __future__ import annotations

from compactctl import Message, ProgressiveCompactor, ToolCall, replay
from compactctl.context.composition import Composition
from compactctl.context.offload import MemoryOffloader


def test_parts_are_those_of_the_messages() -> None:
    """At every turn, with offloads and summaries: the weights by role and tool are those of counting each message."""
    messages = [Message("system", "s" * 50), Message("user", "u" * 50)]
    for i in range(30):
        name = ("read", "sh")[i % 2]
        messages.append(Message("assistant", "a" * 20, (ToolCall(f"c{i}", name),)))
        messages.append(Message("tool", "line\n" * 1000 if i % 3 else "ok", tool_call_id=f"c{i}"))
    offloader = MemoryOffloader("s")
    names = {f"c{i}": ("read", "sh")[i % 2] for i in range(30)}
    for mode in ("view", "write-back"):
        composition = None
        for turn in replay(messages, ProgressiveCompactor(None, 20_000, offloader=offloader), mode):
            composition = composition or Composition(turn.view.base)
            expected: dict[str, int] = {}
            for item in turn.view.items():
                id = item.message.tool_call_id
                part = f"tool:{names[id]}" if id else item.message.role
                expected[part] = expected.get(part, 0) + item.weight

            assert composition.parts(turn.view) == dict(sorted(expected.items())), (mode, turn.turn)
