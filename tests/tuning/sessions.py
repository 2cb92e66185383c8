"""Sessions for the tests of tuning: generated ones, and some with a threshold that is known to be best."""

from __future__ import annotations

from hypothesis import strategies as st

from compactctl.model import ASSISTANT, TOOL, USER, Message, Session, ToolCall, Usage


@st.composite
def sessions(draw: st.DrawFn) -> Session:
    """Give a session of up to 40 turns: results of all sizes, some missing, repeated, or with the id of another."""
    messages = [Message(USER, "fix " + "x" * draw(st.integers(0, 300)))]
    number = 0
    for _ in range(draw(st.integers(1, 40))):
        kind = draw(st.sampled_from(["call", "call", "call", "calls", "say", "ask"]))
        if kind == "ask":
            messages.append(Message(USER, "and " + "y" * draw(st.integers(0, 400))))
            continue
        wanted = {"call": 1, "calls": draw(st.integers(2, 4)), "say": 0}[kind]
        calls = []
        for _ in range(wanted):
            number += 1
            # Some harnesses begin to count anew: then two results have one id.
            calls.append(ToolCall(f"c{draw(st.sampled_from([number, number, number, 1]))}", "read", '{"path": "a.py"}'))
        usage = draw(st.sampled_from([None, None, Usage(900 + 40 * len(messages), 50)]))
        messages.append(Message(ASSISTANT, "z" * draw(st.integers(0, 200)), tuple(calls), usage=usage))
        for call in calls:
            if draw(st.integers(0, 9)) == 0:
                continue
            size = draw(st.sampled_from([3, 30, 300, 401, 900, 1500, 6000]))
            spilled = "[output saved to x] " if draw(st.integers(0, 9)) == 0 else ""
            messages.append(Message(TOOL, spilled + "r\n" * (size // 2), tool_call_id=call.id, name=call.name))
    messages.append(Message(ASSISTANT, "done"))
    return Session("generated", tuple(messages))
