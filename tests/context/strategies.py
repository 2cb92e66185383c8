"""Message lists as replays meet them: repeated ids, late and missing results, orphans, any order."""

from __future__ import annotations

from hypothesis import strategies as st

from compactctl.model import ASSISTANT, SYSTEM, TOOL, USER, Message, ToolCall

IDS = st.sampled_from(["a", "b", "c", "d"])
TEXTS = st.sampled_from(["", "x", "line\nline", "上下文", "x" * 50])


def _calls(ids: list[str]) -> tuple[ToolCall, ...]:
    return tuple(ToolCall(ident, "bash", "{}") for ident in ids)


ANY = st.one_of(
    st.builds(Message, st.just(USER), TEXTS),
    st.builds(lambda text, ids: Message(ASSISTANT, text, _calls(ids)), TEXTS, st.lists(IDS, max_size=3)),
    st.builds(lambda text, ident: Message(TOOL, text, tool_call_id=ident), TEXTS, IDS),
    st.builds(lambda text, ident: Message(USER, text, tool_call_id=ident), TEXTS, IDS),
)
"""Any message: results may come before their call, twice or never."""

WILD = st.lists(ANY, max_size=12).map(lambda messages: [Message(SYSTEM, "s"), *messages])
"""Any messages behind a system message."""


@st.composite
def _tidy(draw: st.DrawFn) -> list[Message]:
    messages = [Message(SYSTEM, "s"), Message(USER, "task")]
    for number in range(draw(st.integers(0, 6))):
        ids = [f"{number}{letter}" for letter in "abc"[: draw(st.integers(0, 3))]]
        messages.append(Message(ASSISTANT, draw(TEXTS), _calls(ids)))
        messages += [Message(TOOL, draw(TEXTS), tool_call_id=ident) for ident in draw(st.permutations(ids))]
        if draw(st.booleans()):
            messages.append(Message(USER, draw(TEXTS)))
    return messages


TIDY = _tidy()
"""Messages in which every call is answered at once: what the quick way of the repair is for."""

MESSAGES = st.one_of(WILD, TIDY)
