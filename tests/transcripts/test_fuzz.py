"""Whatever values stand in the fields of a transcript, loading ends in sessions or in one line of refusal."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given, settings, strategies as st

from compactctl.errors import InputError
from compactctl.model import ROLES
from compactctl.transcripts import inspect_facts, load, write_neutral

WORDS = st.sampled_from(
    """user assistant system tool message text tool_use tool_result image thinking reasoning function_call
    function_call_output custom_tool_call compaction session append replace summary compact_boundary <synthetic> s1
    microcompact_boundary token_count task_started queued_command attachment input_text document x""".split()  # noqa: SIM905 - a list of 40 quoted words is no easier to read
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 2**63) | st.floats(allow_nan=False, allow_infinity=False) | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.deferred(lambda: KEYS), inner, max_size=4),
    max_leaves=12,
)
KEYS = st.sampled_from(
    """type role content message id uuid tool_calls tool_call_id tool_use_id name input arguments function text usage
    input_tokens output_tokens prompt output cache_read is_error timestamp model parts origin sessionId agentId
    isSidechain isMeta subtype compactMetadata microcompactMetadata preTokens trigger preservedMessages uuids
    preservedSegment headUuid tailUuid parentUuid
    compactedToolIds payload replacement_history info last_token_usage total_token_usage summary call_id data surfaceOp
    op start end seq seq0 texts source header system contextWindow turn chunk reason failure code toolCallId event kind
    replacement cleared messages history traj response choices function_call tool_call_ids metadata ts extra time
    attachment base_instructions requestor compactctl session_id""".split()  # noqa: SIM905 - a list of 40 quoted words is no easier to read
)
# One good row of each format decides which loader reads the bad ones.
FIRST: dict[str, dict[str, Any]] = {
    "claude-code": {"type": "user", "uuid": "u", "sessionId": "s", "message": {"role": "user", "content": "go"}},
    "codex": {"type": "response_item", "payload": {"type": "message", "role": "user", "content": "go"}},
    "dsh": {"type": "user/message", "data": {"content": "go"}, "surfaceOp": "append"},
    "messages": {"role": "user", "content": "go"},
}
KINDS: dict[str, list[str]] = {
    "claude-code": ["user", "assistant", "system", "attachment"],
    "codex": ["session_meta", "turn_context", "response_item", "event_msg", "compacted"],
    "dsh": ["session", "user/message", "assistant/message", "tool/result", "request/header", "compaction/start"],
    "messages": ["message", "function_call", "function_call_output", "reasoning"],
}
HOLDER = {"claude-code": "message", "codex": "payload", "dsh": "data", "messages": "message"}


@st.composite
def rows(draw: st.DrawFn, name: str) -> dict[str, Any]:
    """A row of the format whose fields may hold anything."""
    row: dict[str, Any] = draw(st.dictionaries(KEYS, VALUES, max_size=6))
    if draw(st.booleans()):
        row["type"] = draw(st.sampled_from(KINDS[name]))
        row[HOLDER[name]] = draw(st.dictionaries(KEYS, VALUES, max_size=6))
    if draw(st.booleans()):
        row["role"] = draw(WORDS)
    if draw(st.booleans()):
        row["isSidechain"] = True
    return row


@pytest.mark.parametrize("name", FIRST)
@settings(max_examples=60)
@given(data=st.data())
def test_any_fields(tmp_path_factory: pytest.TempPathFactory, name: str, data: st.DataObject) -> None:
    """Whatever was in the fields: loading and writing in the neutral format work, and every line of the file stands in
    the account of one session, no line in those of two."""
    path = tmp_path_factory.mktemp("fuzz") / "x"
    drawn = data.draw(st.lists(rows(name), max_size=6))
    path.write_bytes(b"\n".join(orjson.dumps(row) for row in [FIRST[name], *drawn]))

    try:
        sessions = list(load(path, side_threads=True))
    except InputError:
        return

    for session in sessions:
        facts = inspect_facts(session)
        kinds = ("used", "recovered", "ignored", "skipped", "blank")
        assert facts["lines"] == sum(facts[f"lines_{kind}"] for kind in kinds)
        assert all(message.role in ROLES for message in session.messages)
        assert all(0 <= item.at <= len(session.messages) for item in session.compactions)
        path.write_bytes(b"".join(write_neutral(session)))
        (back,) = load(path)
        assert back.messages == session.messages
    assert sum(session.lines.total for session in sessions) == 1 + len(drawn)


def test_integers_beyond_64_bits(tmp_path: Path) -> None:
    """A number that no counter can be does not stop the line that holds it."""
    path = tmp_path / "x"
    row = b'{"role":"assistant","content":"\\ud83c","ts":%s,"tool_calls":[{"id":"1","arguments":{"a":%s}}]}'
    path.write_bytes(row % (b"9" * 400, b"9" * 40))

    (session,) = load(path)

    assert session.messages[0].tool_calls[0].arguments == '{"a":%s}' % ("9" * 40)
