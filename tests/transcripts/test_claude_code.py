"""Claude Code sessions: what one model call is, what belongs to the main thread, and what compactions leave."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from compactctl.errors import EmptyTranscriptError
from compactctl.model import Origin, Parts, Session, ToolCall, Usage
from compactctl.transcripts import SideThreadError, load


def user(uuid: str, content: Any, **more: Any) -> dict[str, Any]:
    """Make a row of the user."""
    return {"type": "user", "uuid": uuid, "sessionId": "s", "message": {"role": "user", "content": content}, **more}


def reply(uuid: str, ident: str, block: Any, output: int = 1, **more: Any) -> dict[str, Any]:
    """Make a row of a reply: one block of the message with that id."""
    usage = {
        "input_tokens": 3,
        "cache_read_input_tokens": 40,
        "cache_creation_input_tokens": 7,
        "output_tokens": output,
    }
    message = {"role": "assistant", "id": ident, "model": "opus", "content": [block], "usage": usage}
    return {"type": "assistant", "uuid": uuid, "sessionId": "s", "version": "2.1.0", "message": message, **more}


def call(ident: str, **arguments: Any) -> dict[str, Any]:
    """Make the block of a call."""
    return {"type": "tool_use", "id": ident, "name": "Bash", "input": arguments}


def result(ident: str, content: Any, **more: Any) -> dict[str, Any]:
    """Make the block of a result."""
    return {"type": "tool_result", "tool_use_id": ident, "content": content, **more}


def read(path: Path, rows: list[Any], **options: Any) -> list[Session]:
    """Write rows as a file and load it."""
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return list(load(path, **options))


def text(said: str) -> dict[str, Any]:
    """Make a block of text."""
    return {"type": "text", "text": said}


def test_one_message_for_one_model_call(tmp_path: Path) -> None:
    """Rows of one message id are one reply at the place of the first, whatever stands between them; the prompt of its
    usage is the whole prompt (3 + 40 + 7), taken from the row with the largest output."""
    rows = [
        user("u1", "go"),
        reply("a1", "m1", {"type": "thinking", "thinking": "hmm"}),
        reply("a2", "m1", text("I look"), 9),
        reply("a3", "m1", call("t1", command="ls"), 5),
        user("u2", [result("t1", "files")]),
        reply("a4", "m1", call("t2", command="pwd"), 5),
        user("u3", [result("t2", "here")]),
        reply("a5", "m2", text("done")),
    ]

    (session,) = read(tmp_path / "x", rows)

    assert [m.role for m in session.messages] == ["user", "assistant", "tool", "tool", "assistant"]
    first = session.messages[1]
    assert first.tool_calls == (ToolCall("t1", "Bash", '{"command":"ls"}'), ToolCall("t2", "Bash", '{"command":"pwd"}'))
    assert first.usage == Usage(50, 9, 40, 7)
    assert first.content == "I look"
    assert first.parts == Parts(thinking_chars=3)
    assert (session.id, session.model, session.harness_version) == ("s", "opus", "2.1.0")
    assert session.lines.used == 8


def test_repeated_rows_are_dropped(tmp_path: Path) -> None:
    """A second /compact can append old rows again: a uuid counts once."""
    rows = [user("u1", "go"), reply("a1", "m1", call("t1")), user("u1", "go"), reply("a1", "m1", call("t1"))]

    (session,) = read(tmp_path / "x", rows)

    assert len(session.messages) == 2
    assert len(session.messages[1].tool_calls) == 1
    assert session.lines.ignored == {"repeated uuid": 2}


def test_a_row_of_results_and_text(tmp_path: Path) -> None:
    """Each result is a message of its own, in the recorded order, and the text follows; images are counted."""
    image = {"type": "image", "source": {"type": "base64", "data": "A" * 400}}
    rows = [
        user("u1", "go"),
        reply("a1", "m1", call("t1")),
        user("u2", [result("t2", [text("a"), text("b"), image]), text("more"), result("t1", "late", is_error=True)]),
    ]

    (session,) = read(tmp_path / "x", rows)

    late = session.messages[2:]
    assert [(m.role, m.tool_call_id, m.content, m.is_error) for m in late] == [
        ("tool", "t2", "a\nb", False),
        ("tool", "t1", "late", True),
        ("user", "", "more", False),
    ]
    assert late[0].parts == Parts(("a", "b"), images=1, image_bytes=300)


def test_results_before_calls_and_repeated_results_are_kept(tmp_path: Path) -> None:
    """The loader repairs nothing: what was recorded is what the compactor must cope with."""
    rows = [
        user("u1", [result("t1", "early")]),
        reply("a1", "m1", call("t1")),
        user("u2", [result("t1", "one")]),
        user("u3", [result("t1", "two")]),
    ]

    (session,) = read(tmp_path / "x", rows)

    assert [m.content for m in session.messages if m.role == "tool"] == ["early", "one", "two"]


def test_who_wrote_a_user_message(tmp_path: Path) -> None:
    """Texts of the harness and recorded summaries are not taken for the human's."""
    rows = [
        user("u1", "go"),
        user("u2", "caveat", isMeta=True),
        user("u3", "<local-command-stdout>x</local-command-stdout>"),
        user("u4", "summary", isCompactSummary=True),
        user("u5", "ping", origin={"kind": "task-notification"}),
        {"type": "attachment", "uuid": "u6", "attachment": {"type": "queued_command", "prompt": "and this"}},
    ]

    (session,) = read(tmp_path / "x", rows)

    assert [m.origin for m in session.messages] == [
        Origin.HUMAN,
        Origin.HARNESS,
        Origin.HARNESS,
        Origin.RECORDED_SUMMARY,
        Origin.HARNESS,
        Origin.HUMAN,
    ]


def test_side_threads(tmp_path: Path) -> None:
    """The main thread alone is the session; with side threads wanted each is a session of its own below it."""
    side = {"isSidechain": True}
    rows = [
        user("u1", "go"),
        user("b1", "sub task", agentId="ag", **side),
        reply("b2", "m9", text("sub done"), agentId="ag", **side),
        user("c1", "nameless", parentUuid=None, **side),
        reply("c2", "m8", text("nameless done"), parentUuid="c1", **side),
        user("d1", "summarise", agentId="acompact-1", **side),
        reply("a1", "m1", text("done")),
    ]

    (main,) = read(tmp_path / "x", rows)
    both = read(tmp_path / "x", rows, side_threads=True)

    assert [m.content for m in main.messages] == ["go", "done"]
    assert main.lines.ignored == {"compaction agent": 1, "side thread": 4}
    assert [(s.id, s.parent_id) for s in both] == [("s", ""), ("s-ag", "s"), ("s-c1", "s")]
    assert [[m.content for m in s.messages] for s in both[1:]] == [
        ["sub task", "sub done"],
        ["nameless", "nameless done"],
    ]


def test_files_without_a_main_thread(tmp_path: Path) -> None:
    """A file of a subagent only, and one of notes only, are told apart."""
    with pytest.raises(SideThreadError, match="--subagents"):
        read(tmp_path / "x", [user("u1", "go", isSidechain=True)])
    with pytest.raises(EmptyTranscriptError):
        read(tmp_path / "x", [{"type": "summary", "summary": "s", "leafUuid": "l"}])


def test_synthetic_replies_are_no_calls(tmp_path: Path) -> None:
    """Rows that report an error of the API are no model calls; other kinds are counted by name."""
    fake = reply("a1", "m1", text("API error"))
    fake["message"]["model"] = "<synthetic>"
    rows = [user("u1", "go"), fake, {"type": "progress"}, {"type": "system", "subtype": "turn_duration"}, {}]

    (session,) = read(tmp_path / "x", rows)

    assert session.model_calls == 0
    assert session.lines.ignored == {"no type": 1, "progress": 1, "synthetic": 1, "system/turn_duration": 1}


def boundary(uuid: str, **meta: Any) -> dict[str, Any]:
    """Make the row that marks a compaction."""
    return {"type": "system", "subtype": "compact_boundary", "uuid": uuid, "compactMetadata": meta}


def test_recorded_compactions(tmp_path: Path) -> None:
    """A compaction stands where it happened: two calls before it, three messages; its summary follows as a message."""
    micro = {"trigger": "auto", "preTokens": 60, "tokensSaved": 20, "compactedToolIds": ["t1"]}
    rows = [
        user("u1", "go"),
        reply("a1", "m1", text("one")),
        reply("a2", "m2", text("two")),
        {"type": "system", "subtype": "microcompact_boundary", "uuid": "b0", "microcompactMetadata": micro},
        boundary("b1", trigger="auto", preTokens=155, postTokens=50),
        user("u2", "summary", isCompactSummary=True),
        reply("a3", "m3", text("three")),
    ]

    (session,) = read(tmp_path / "x", rows)

    small, full = session.compactions
    assert (small.kind, small.tokens_before, small.tokens_after, small.cleared) == ("micro", 60, 40, ("t1",))
    assert (full.kind, full.trigger, full.at, full.before_model_call) == ("full", "auto", 3, 2)
    assert (full.tokens_before, full.tokens_after, full.replacement) == (155, 50, None)
    assert session.messages[full.at].origin is Origin.RECORDED_SUMMARY


def test_messages_that_a_compaction_preserved(tmp_path: Path) -> None:
    """Where the harness kept messages, the history goes on with the summary, then those, then what follows."""
    rows = [
        user("u1", "go"),
        reply("a1", "m1", text("one")),
        user("u2", "keep me"),
        boundary("b1", trigger="manual", preservedMessages={"anchorUuid": "s1", "uuids": ["u2", "gone"]}),
        user("s1", "summary", isCompactSummary=True),
        reply("a2", "m2", text("two")),
    ]

    (session,) = read(tmp_path / "x", rows)

    (full,) = session.compactions
    assert full.replacement == (session.messages[3], session.messages[2])
    assert [m.content for m in (*full.replacement, *session.messages[full.at :])] == ["summary", "keep me", "two"]


def test_the_session_id_is_that_of_the_conversation(tmp_path: Path) -> None:
    """Notes of other sessions do not name this one; without any id the file does."""
    other = {"type": "mode", "sessionId": "another"}

    (named,) = read(tmp_path / "x", [other, other, user("u1", "go")])
    row = user("u1", "go")
    del row["sessionId"]
    (unnamed,) = read(tmp_path / "run.jsonl", [row])

    assert named.id == "s"
    assert unnamed.id == f"run-{unnamed.input_sha256[:8]}"


def test_rows_of_strange_shapes(tmp_path: Path) -> None:
    """Rows whose fields have other types than expected are used as far as they go, never fatal."""
    rows = [
        user("u1", "go"),
        {"type": "user", "message": None},
        {"type": "assistant", "message": "text"},
        {"type": 7, "uuid": ["x"], "message": {"role": 1}},
        {"type": "assistant", "uuid": {}, "message": {"role": "assistant", "content": {"type": "text", "text": None}}},
        {"type": "user", "message": {"role": "user", "content": [None, 3, [], {"type": {}}, {"type": "tool_result"}]}},
        {"type": "system", "subtype": "compact_boundary", "compactMetadata": [1]},
        {"type": "system", "subtype": "microcompact_boundary", "microcompactMetadata": {"compactedToolIds": 4}},
        {"type": "assistant", "message": {"role": "assistant", "id": "m", "usage": {"input_tokens": -1}}},
        {"type": "assistant", "message": {"role": "assistant", "id": "m", "usage": {"input_tokens": 1e300}}},
    ]

    (session,) = read(tmp_path / "x", rows)

    assert session.model_calls == 2
    assert all(message.usage is None for message in session.messages)
