"""Codex rollouts: which items are one model call, whose usage is whose, and what its compactions leave."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from compactctl.errors import EmptyTranscriptError
from compactctl.model import Origin, Session, ToolCall, Usage
from compactctl.transcripts import SideThreadError, load

META = {"type": "session_meta", "payload": {"id": "s", "cli_version": "0.9", "base_instructions": {"text": "be good"}}}


def item(**payload: Any) -> dict[str, Any]:
    """Wrap an item."""
    return {"type": "response_item", "timestamp": "2026-01-01T00:00:00Z", "payload": payload}


def said(role: str, text: str) -> dict[str, Any]:
    """Make the item of a message."""
    kind = "output_text" if role == "assistant" else "input_text"
    return item(type="message", role=role, content=[{"type": kind, "text": text}])


def call(ident: str) -> dict[str, Any]:
    """Make the item of a call."""
    return item(type="function_call", name="shell", arguments='{"c":1}', call_id=ident)


def output(ident: str, text: Any) -> dict[str, Any]:
    """Make the item of a result."""
    return item(type="function_call_output", call_id=ident, output=text)


def tokens(total: int, last: int) -> dict[str, Any]:
    """Make the event of a usage: of all calls, and of the last."""
    info = {
        "total_token_usage": {"input_tokens": total, "output_tokens": 1},
        "last_token_usage": {"input_tokens": last, "cached_input_tokens": 2, "output_tokens": 1},
        "model_context_window": 1000,
    }
    return {"type": "event_msg", "payload": {"type": "token_count", "info": info}}


def context(model: str) -> dict[str, Any]:
    """Make the row that begins a model call in some versions."""
    return {"type": "turn_context", "payload": {"model": model}}


def read(path: Path, rows: list[Any], **options: Any) -> Session:
    """Write rows as a file and load its session."""
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    (session,) = load(path, **options)
    return session


def test_one_message_for_one_model_call(tmp_path: Path) -> None:
    """What the model gives between two answers is one message: reasoning, text and parallel calls."""
    rows = [
        META,
        said("developer", "rules"),
        said("user", "<environment_context>x"),
        said("user", "go"),
        {"type": "event_msg", "payload": {"type": "user_message", "message": "go"}},
        context("gpt"),
        item(type="reasoning", summary=[{"type": "summary_text", "text": "hm"}], encrypted_content="abc"),
        said("assistant", "I look"),
        call("t1"),
        item(type="custom_tool_call", name="patch", input="text", call_id="t2"),
        output("t2", [{"type": "input_text", "text": "patched"}]),
        output("t1", "out"),
        said("assistant", "done"),
    ]

    session = read(tmp_path / "x", rows)

    assert [m.role for m in session.messages] == [
        *("system", "system", "user", "user"),
        *("assistant", "tool", "tool", "assistant"),
    ]
    first = session.messages[4]
    assert first.tool_calls == (ToolCall("t1", "shell", '{"c":1}'), ToolCall("t2", "patch", "text"))
    assert first.parts is not None
    assert first.parts.thinking_chars == 5
    assert first.model == session.model == "gpt"
    assert [m.origin for m in session.messages[2:4]] == [Origin.HARNESS, Origin.HUMAN]
    assert session.messages[0].content == "be good"
    assert session.lines.ignored == {"event_msg/user_message": 1, "session_meta": 1, "turn_context": 1}


def test_usage_behind_the_reply(tmp_path: Path) -> None:
    """New versions write the usage when the reply is over, at times only behind the result of its call."""
    rows = [META, said("user", "go"), call("t1"), tokens(5, 5), output("t1", "x"), call("t2"), output("t2", "y")]
    rows += [tokens(14, 9), tokens(14, 9), said("assistant", "done"), tokens(30, 16)]

    session = read(tmp_path / "x", rows)

    assert [m.usage for m in session.messages if m.role == "assistant"] == [
        Usage(5, 1, 2),
        Usage(9, 1, 2),
        Usage(16, 1, 2),
    ]
    assert session.context_window == 1000
    assert session.lines.ignored["event_msg/token_count"] == 1


def test_usage_before_the_reply(tmp_path: Path) -> None:
    """Version 0.40 writes the usage between the call's context and its items."""
    rows = [META, said("user", "go"), context("gpt"), tokens(5, 5), call("t1"), output("t1", "x")]
    rows += [context("gpt"), tokens(14, 9), said("assistant", "done")]

    session = read(tmp_path / "x", rows)

    assert [m.usage for m in session.messages if m.role == "assistant"] == [Usage(5, 1, 2), Usage(9, 1, 2)]


def test_the_usage_of_a_call_that_is_no_reply(tmp_path: Path) -> None:
    """The call that wrote a summary, or was stopped before it said anything, is none of the replies: its usage goes to
    none of them, whatever is written first, and shifts no later one."""
    stopped: dict[str, Any] = {"type": "event_msg", "payload": {"type": "turn_aborted"}}
    compacted = {"type": "compacted", "payload": {"message": "in short"}}
    begin = [META, said("user", "go"), said("assistant", "one"), tokens(5, 5)]
    behind = [*begin, tokens(95_005, 95_000), compacted, said("assistant", "two"), stopped, said("user", "again")]
    behind += [call("t1"), output("t1", "x"), tokens(95_014, 9), said("assistant", "done"), tokens(95_030, 16)]
    first = [*begin, context("gpt"), tokens(95_005, 95_000), compacted, said("assistant", "two"), stopped]
    first += [context("gpt"), tokens(95_014, 9), stopped, said("user", "again"), context("gpt"), said("assistant", "x")]

    loaded = [read(tmp_path / "x", rows) for rows in (behind, first)]

    assert [[m.usage and m.usage.prompt for m in s.messages if m.role == "assistant"] for s in loaded] == [
        [5, None, 9, 16],
        [5, None, None],
    ]
    assert loaded[0].lines.ignored["event_msg/token_count"] == 1  # counted as a line that carries nothing


def test_a_reply_whose_turn_was_stopped_keeps_its_usage(tmp_path: Path) -> None:
    """Version 0.40 writes the end of a stopped turn between the usage of its last call and the items of it."""
    stopped = {"type": "event_msg", "payload": {"type": "turn_aborted"}}
    rows = [META, said("user", "go"), context("gpt"), tokens(5, 5), stopped, call("t1"), output("t1", "x")]

    session = read(tmp_path / "x", [*rows, context("gpt"), tokens(14, 9), said("assistant", "done")])

    assert [m.usage for m in session.messages if m.role == "assistant"] == [Usage(5, 1, 2), Usage(9, 1, 2)]


def test_a_usage_without_info(tmp_path: Path) -> None:
    """A refresh of rate limits carries no usage."""
    empty = {"type": "event_msg", "payload": {"type": "token_count", "info": None}}

    session = read(tmp_path / "x", [META, said("user", "go"), said("assistant", "done"), empty])

    assert session.messages[-1].usage is None


def test_compactions_with_their_history(tmp_path: Path) -> None:
    """A replacement history names the messages that the session has; what is new in it is its own."""
    history = [said("user", "go")["payload"], {"type": "compaction", "encrypted_content": "x" * 10}]
    rows = [
        META,
        said("user", "go"),
        said("assistant", "one"),
        {"type": "compacted", "payload": {"message": "", "replacement_history": history}},
        said("user", "more"),
        said("assistant", "two"),
        {"type": "compacted", "payload": {"message": "in short"}},
    ]

    session = read(tmp_path / "x", rows)

    first, second = session.compactions
    assert (first.kind, first.at, first.before_model_call) == ("full", 3, 1)
    assert first.replacement is not None
    assert first.replacement[0] is session.messages[0]  # the system prompt stays
    assert first.replacement[1] is session.messages[1]
    hidden = first.replacement[2]
    assert (hidden.content, hidden.origin) == ("", Origin.RECORDED_SUMMARY)
    assert hidden.parts is not None
    assert hidden.parts.thinking_chars == 10
    assert (second.at, second.before_model_call) == (5, 2)
    assert second.replacement is not None
    assert [m.content for m in second.replacement] == ["be good", "in short"]


def test_bare_items_of_old_versions(tmp_path: Path) -> None:
    """Files from before the wrapper are read too."""
    rows = [
        {"id": "old", "timestamp": "2025-01-01T00:00:00Z", "instructions": None},
        {"record_type": "state"},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "go"}]},
        {"type": "function_call", "name": "shell", "arguments": "{}", "call_id": "t1"},
        {"type": "function_call_output", "call_id": "t1", "output": '{"output":"x"}'},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "done"}]},
    ]

    session = read(tmp_path / "x", rows)

    assert (session.format, session.id) == ("codex", "old")
    assert [m.role for m in session.messages] == ["user", "assistant", "tool", "assistant"]
    assert session.lines.ignored == {"record_type/state": 1, "session_meta": 1}


def test_a_fork_names_its_parent(tmp_path: Path) -> None:
    """A fork repeats its parent's lines: it says so, since they would be counted twice beside it."""
    meta = {"type": "session_meta", "payload": {"id": "child", "forked_from_id": "s"}}

    session = read(tmp_path / "x", [meta, META, said("user", "go"), said("assistant", "done")])

    assert (session.id, session.parent_id) == ("child", "s")
    assert any("copy of session s" in warning for warning in session.warnings)


def test_rollouts_of_subagents(tmp_path: Path) -> None:
    """The rollout of a subagent is a side thread."""
    meta = {"type": "session_meta", "payload": {"id": "child", "source": {"subagent": {"other": "x"}}}}
    rows = [meta, said("user", "go"), said("assistant", "done")]

    with pytest.raises(SideThreadError, match="--subagents"):
        read(tmp_path / "x", rows)

    assert read(tmp_path / "x", rows, side_threads=True).id == "child"


def test_no_message(tmp_path: Path) -> None:
    """A rollout of nothing but events is refused."""
    with pytest.raises(EmptyTranscriptError, match="Codex"):
        read(tmp_path / "x", [META, tokens(1, 1)])


def test_items_of_strange_shapes(tmp_path: Path) -> None:
    """Unknown items are counted by name, and fields of other types than expected are never fatal."""
    rows = [
        META,
        said("user", "go"),
        item(type="ghost"),
        item(type=["x"]),
        item(type="message", role="critic"),
        item(type="function_call"),
        item(type="function_call_output", output={"type": "input_text", "text": "t"}),
        item(type="reasoning", summary="s", content={"a": 1}),
        {"type": "compacted", "payload": {"replacement_history": [1, None, {"type": "x"}]}},
        {"type": "event_msg", "payload": {"type": "token_count", "info": {"last_token_usage": "x"}}},
        {"type": "turn_context", "payload": {"model": 5}},
        {"type": "later_kind", "payload": {}},
        {"payload": 1},
    ]

    session = read(tmp_path / "x", rows)

    assert session.lines.ignored["response_item/ghost"] == 1
    assert session.lines.ignored["response_item/message/critic"] == 1
    assert session.lines.ignored["later_kind"] == 1
