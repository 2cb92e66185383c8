"""Sessions for the tests of tuning: generated ones, and some with a threshold that is known to be best."""

from __future__ import annotations

from hypothesis import strategies as st

from compactctl.model import ASSISTANT, TOOL, USER, Message, Session, ToolCall, Usage
from compactctl.tuning.dice import Dice


@st.composite
def sessions(draw: st.DrawFn) -> Session:
    """Give a session of up to 60 turns with results of all sizes.

    In half of the sessions some results are missing or have the id of another, and in some usage was recorded: what
    can be skipped differs between those and sessions that are whole.
    """
    is_torn, is_charged = draw(st.booleans()), draw(st.integers(0, 3)) == 0
    messages = [Message(USER, "fix " + "x" * draw(st.integers(0, 300)))]
    number = 0
    for _ in range(draw(st.integers(1, 60))):
        kind = draw(st.sampled_from(["call", "call", "call", "calls", "say", "ask"]))
        if kind == "ask":
            messages.append(Message(USER, "and " + "y" * draw(st.integers(0, 400))))
            continue
        wanted = {"call": 1, "calls": draw(st.integers(2, 4)), "say": 0}[kind]
        calls = []
        for _ in range(wanted):
            number += 1
            # Some harnesses begin to count anew: then two results have one id.
            name = draw(st.sampled_from([number, number, number, 1])) if is_torn else number
            calls.append(ToolCall(f"c{name}", "read", '{"path": "a.py"}'))
        usage = Usage(900 + 40 * len(messages), 50) if is_charged and draw(st.booleans()) else None
        messages.append(Message(ASSISTANT, "z" * draw(st.integers(0, 200)), tuple(calls), usage=usage))
        for call in calls:
            if is_torn and draw(st.integers(0, 9)) == 0:
                continue
            size = draw(st.sampled_from([3, 30, 300, 401, 900, 1500, 6000]))
            spilled = "[output saved to x] " if draw(st.integers(0, 9)) == 0 else ""
            messages.append(Message(TOOL, spilled + "r\n" * (size // 2), tool_call_id=call.id, name=call.name))
    messages.append(Message(ASSISTANT, "done"))
    return Session("generated", tuple(messages))


def long_session(seed: int) -> Session:
    """Give a whole session of 200 turns with results of many sizes, out of a seed."""
    dice = Dice(seed)
    messages = [Message(USER, "fix it")]
    for turn in range(200):
        calls = tuple(ToolCall(f"c{turn}-{i}", "read", "{}") for i in range(1 + (dice.below(8) == 0) * dice.below(4)))
        messages.append(Message(ASSISTANT, "z" * dice.below(60), calls))
        for call in calls:
            # Mostly short ones, so that views stay near a threshold for many turns.
            size = dice.below(200) if dice.below(3) else 400 + dice.below(2000)
            messages.append(Message(TOOL, "r\n" * (size // 2), tool_call_id=call.id, name=call.name))
        if dice.below(15) == 0:
            messages.append(Message(USER, "and " + "y" * dice.below(300)))
    messages.append(Message(ASSISTANT, "done"))
    return Session("long", tuple(messages))
