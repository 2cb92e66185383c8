"""The neutral format: what is written is what is read, and its quick way reads the same as the slow one."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from compactctl.model import Message, Origin, Parts, RecordedCompaction, Session, ToolCall, Usage, changed
from compactctl.transcripts import inspect_facts, load, write_neutral

TEXT = st.text(max_size=20)
COUNT = st.integers(0, 2**53)
MAYBE = st.none() | COUNT
USAGE = st.builds(Usage, COUNT, COUNT, MAYBE, MAYBE)
CALLS = st.lists(st.builds(ToolCall, TEXT, TEXT, TEXT), max_size=2).map(tuple)
PARTS = st.none() | st.builds(Parts, st.lists(TEXT, max_size=2).map(tuple), COUNT, COUNT, COUNT)


@st.composite
def messages(draw: st.DrawFn) -> Message:
    """Any message that a loader may give: only results have the id of a call."""
    role = draw(st.sampled_from(["system", "user", "assistant", "tool"]))
    return Message(
        role,
        draw(TEXT),
        draw(CALLS),
        draw(TEXT) if role == "tool" else "",
        draw(TEXT),
        draw(st.booleans()),
        draw(st.none() | TEXT),
        draw(TEXT),
        draw(st.none() | USAGE),
        draw(PARTS),
        draw(st.none() | st.sampled_from(list(Origin))),
    )


@st.composite
def sessions(draw: st.DrawFn) -> Session:
    """Any session: each compaction stands behind some messages, and its history holds earlier and new ones."""
    said = tuple(draw(st.lists(messages(), min_size=1, max_size=6)))
    compactions = []
    for at in sorted(draw(st.lists(st.integers(0, len(said)), max_size=3))):
        kept: Any = None
        if draw(st.booleans()):
            kept = tuple(draw(st.lists(messages(), max_size=2))) + said[: draw(st.integers(0, at))]
        calls = sum(1 for message in said[:at] if message.role == "assistant")
        cleared = tuple(draw(st.lists(TEXT, max_size=2)))
        kind = draw(st.sampled_from(["full", "micro"]))
        compactions.append(RecordedCompaction(kind, draw(TEXT), at, calls, draw(MAYBE), draw(MAYBE), kept, cleared))
    return Session(
        id=draw(st.text(min_size=1, max_size=5)),
        messages=said,
        harness=draw(TEXT),
        model=draw(st.text(min_size=1, max_size=5)),
        context_window=draw(MAYBE),
        overhead_tokens=draw(MAYBE),
        compactions=tuple(compactions),
    )


@settings(max_examples=150)
@given(session=sessions())
def test_what_is_written_is_what_is_read(tmp_path_factory: pytest.TempPathFactory, session: Session) -> None:
    """A session survives the way through the neutral format: messages, compactions and what the header says."""
    path = tmp_path_factory.mktemp("neutral") / "x"
    path.write_bytes(b"".join(write_neutral(session)))

    (back,) = load(path)

    assert back.messages == session.messages
    assert back.compactions == session.compactions
    for name in ("id", "model", "harness", "context_window", "overhead_tokens"):
        assert getattr(back, name) == getattr(session, name)


@settings(max_examples=50)
@given(written=st.lists(sessions(), min_size=1, max_size=3))
def test_sessions_may_follow_one_another(tmp_path_factory: pytest.TempPathFactory, written: list[Session]) -> None:
    """Neutral files can be joined: each header begins a session."""
    path = tmp_path_factory.mktemp("neutral") / "x"
    path.write_bytes(b"".join(line for session in written for line in write_neutral(session)))

    back = list(load(path))

    assert [session.messages for session in back] == [session.messages for session in written]
    assert sum(session.lines.total for session in back) == path.read_bytes().count(b"\n")


def test_the_written_lines() -> None:
    """The format is what the documentation says: a header, then one object a line, defaults left out."""
    go, done = Message("user", "go"), Message("assistant", "", (ToolCall("t1", "ls"),), usage=Usage(5, 1))
    event = RecordedCompaction("full", "auto", 1, 0, 9, 4, (go, Message("user", "in short")))
    session = Session("s", (go, done), model="m", context_window=100, compactions=(event,))

    assert [json.loads(line) for line in write_neutral(session)] == [
        {"compactctl": 1, "session_id": "s", "model": "m", "context_window": 100},
        {"role": "user", "content": "go"},
        {
            "event": "recorded_compaction",
            "kind": "full",
            "trigger": "auto",
            "tokens_before": 9,
            "tokens_after": 4,
            "replacement": [0, {"role": "user", "content": "in short"}],
        },
        {
            "role": "assistant",
            "content": "",
            "tool_calls": [{"id": "t1", "name": "ls", "arguments": "{}"}],
            "usage": {"prompt": 5, "output": 1},
        },
    ]


def test_a_callers_lone_surrogate_is_replaced() -> None:
    """A session that was made by a program may hold what UTF-8 cannot; writing it does not fail."""
    (_, line) = write_neutral(Session("s", (Message("user", "a\ud83c"),)))

    assert json.loads(line)["content"] == "a?"


ROWS: list[dict[str, Any]] = [
    {"role": "tool", "content": "x", "tool_call_id": 7},
    {"role": "assistant", "content": "x", "tool_calls": [{"id": 1, "name": "n", "arguments": {}}]},
    {"role": "assistant", "content": "x", "tool_calls": {"id": "1"}},
    {"role": "assistant", "content": "x", "usage": {"prompt": 2**60, "output": 1}},
    {"role": "assistant", "content": "x", "usage": {"prompt": 1.5, "output": 1}},
    {"role": "assistant", "content": "x", "usage": [1]},
    {"role": "assistant", "content": "x", "model": None},
    {"role": "user", "content": "x", "name": {"a": 1}},
    {"role": "user", "content": "x", "is_error": "yes"},
    {"role": "user", "content": "x", "timestamp": 1_700_000_000},
    {"role": "user", "content": "x", "origin": "nobody"},
    {"role": "user", "content": "x", "parts": [1]},
    {"role": "user", "content": "x", "parts": {"texts": [1], "images": -1}},
]


@pytest.mark.parametrize("row", ROWS)
def test_rows_that_are_almost_neutral(tmp_path: Path, row: dict[str, Any]) -> None:
    """Fields of other types than documented are used as far as they go; the message is never lost."""
    path = tmp_path / "x"
    path.write_text("\n".join(json.dumps(each) for each in ({"role": "user", "content": "go"}, row)))

    (session,) = load(path)

    assert [m.content for m in session.messages] == ["go", "x"]
    assert session.messages[1].usage is None


def test_another_version(tmp_path: Path) -> None:
    """A file of a later version is read with a warning."""
    path = tmp_path / "x"
    path.write_text('{"compactctl":2,"session_id":"s"}\n{"role":"user","content":"go"}\n')

    (session,) = load(path)

    assert session.id == "s"
    assert any("version 2" in warning for warning in session.warnings)


def test_messages_are_frozen() -> None:
    """What was recorded cannot be changed by whoever holds it."""
    message = Message("tool", "c", (ToolCall("i", "n", "a"),), "i", usage=Usage(1, 2))

    with pytest.raises(AttributeError):
        message.content = "x"  # type: ignore[misc]  # frozen: it must fail
    assert changed(message, content="x").tool_calls == message.tool_calls
    assert hash(message) == hash(changed(message))


SAMPLES = sorted(path for path in (Path(__file__).parents[2] / "sample_sessions").iterdir() if path.suffix != ".md")
OWN = ("path", "format", "input_sha256", "warnings")  # what is about the file alone; so are the counts of lines


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.name)
def test_a_converted_sample_has_the_facts_of_the_original(path: Path, tmp_path: Path) -> None:
    """Whatever the format, inspect says of the converted session what it says of the original."""
    (session,) = load(path)

    assert facts(again(session, tmp_path)) == facts(session)


def test_the_model_of_a_dsh_session_without_its_requests_survives(tmp_path: Path) -> None:
    """Where the events of requests are missing, the replies tell the model."""
    path = tmp_path / "x"
    source = {"kind": "model", "model": "deep"}
    rows: list[Any] = [
        {"type": "session", "version": 0, "id": "s", "createdAt": 1},
        {"type": "user/message", "surfaceOp": "append", "data": {"content": "go"}},
        {"type": "assistant/message", "surfaceOp": "append", "data": {"message": {"content": "x", "source": source}}},
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    (session,) = load(path)

    assert session.model == "deep"
    assert facts(again(session, tmp_path)) == facts(session)


@settings(max_examples=50)
@given(session=sessions(), model=st.sampled_from(["", "m"]))
def test_converting_keeps_every_fact(tmp_path_factory: pytest.TempPathFactory, session: Session, model: str) -> None:
    """A session without a model of its own gets none from its replies on the way."""
    session = replace(session, model=model)

    assert facts(again(session, tmp_path_factory.mktemp("neutral"))) == facts(session)


def again(session: Session, folder: Path) -> Session:
    """Convert a session and load what was written."""
    path = folder / "converted"
    path.write_bytes(b"".join(write_neutral(session)))
    (back,) = load(path)
    return back


def facts(session: Session) -> dict[str, Any]:
    """The facts that are about the session, its window among them."""
    told = {key: value for key, value in inspect_facts(session).items() if "line" not in key and key not in OWN}
    told = {key: value for key, value in told.items() if key not in ("ignored_by_kind", "skipped_by_reason")}
    return told | {"window": session.context_window}
