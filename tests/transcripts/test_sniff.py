"""Formats are found by content, never by suffix; what no loader reads is refused with its name where it is known."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from compactctl.errors import InputError, UnknownFormatError, UnreadableError
from compactctl.transcripts import load

MESSAGES = [{"role": "user", "content": "go"}, {"role": "assistant", "content": "done"}]


@pytest.mark.parametrize(
    "text",
    [
        json.dumps(MESSAGES),
        json.dumps(MESSAGES, indent=2),
        "[\n" + ",\n".join(json.dumps(row) for row in MESSAGES) + "\n]\n",
        "\n".join(json.dumps(row) for row in MESSAGES),
        json.dumps({"messages": MESSAGES}),
        json.dumps({"messages": MESSAGES}, indent=1),
        json.dumps({"meta": {}, "messages": MESSAGES}, indent=0),
        "\ufeff" + json.dumps({"messages": MESSAGES}, indent=4),
        "\n\n" + json.dumps(MESSAGES, indent=4),
        "{torn first line\n" + "\n".join(json.dumps(row) for row in MESSAGES),
        "not JSON\n" + "\n".join(json.dumps(row) for row in MESSAGES),
    ],
)
@pytest.mark.parametrize("name", ["x.jsonl", "x.json", "x.png"])
def test_the_layout_is_found_by_content(tmp_path: Path, text: str, name: str) -> None:
    """Pretty JSON in a .jsonl, lines in a .json, a bad first line: the same two messages."""
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")

    (session,) = load(path)

    assert [m.content for m in session.messages] == ["go", "done"]


def test_a_long_first_line(tmp_path: Path) -> None:
    """The first line may be longer than what is looked at in the first place."""
    path = tmp_path / "x"
    rows = [{"role": "user", "content": "x" * 1_000_000}, *MESSAGES]
    path.write_text("\n".join(json.dumps(row) for row in rows))

    (session,) = load(path)

    assert len(session.messages) == 3


def test_a_torn_array_gives_its_whole_messages(tmp_path: Path) -> None:
    """A document that was cut by a crash is used up to the cut, and the cut is counted."""
    path = tmp_path / "x.json"
    path.write_text(json.dumps(MESSAGES * 20, indent=1)[:-20])

    (session,) = load(path)

    assert len(session.messages) == 39
    assert session.lines.skipped_by_reason() == {"torn_tail": 1}
    assert session.lines.total == 40


FOREIGN: dict[str, Any] = {
    "ATIF": {"schema_version": "ATIF-v1.5", "session_id": "s", "steps": []},
    "Gemini": {"projectHash": "p", "messages": [{"type": "user", "content": "x"}]},
    "OpenHands": [{"id": 0, "source": "user", "action": "message", "args": {}}],
    "OpenTelemetry": {"resourceSpans": []},
    "LangSmith": {"post": [], "patch": []},
    "opencode": {"id": "m", "sessionID": "s", "role": "user"},
    "codex exec": {"type": "thread.started", "thread_id": "t"},
    "pi session": {"type": "session", "version": 3, "id": "s", "timestamp": "2026-01-01T00:00:00Z"},
    "Copilot": {"type": "session.start", "data": {}},
}


@pytest.mark.parametrize("name", FOREIGN)
def test_foreign_formats_are_named(tmp_path: Path, name: str) -> None:
    """A format that is known but not read is refused by name, with the way to convert it."""
    path = tmp_path / "x"
    path.write_text(json.dumps(FOREIGN[name]))

    with pytest.raises(UnknownFormatError, match=f"{name}.*convert it") as caught:
        next(load(path))

    assert str(caught.value).startswith(str(path))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("data", "name"),
    [
        (b"PK\x03\x04....", "zip"),
        (b"PAR1....", "Parquet"),
        ("x".encode("utf-16"), "UTF-16"),
        (b"\x00\x01\x02\xff" * 100, "binary"),
        (b"a,b,c\n1,2,3\n", "no line of its beginning"),
        (b'{"a":1}\n{"b":2}\n', "no loader knows"),
        (b'"text"', "no line of its beginning"),
    ],
)
def test_other_files_are_refused(tmp_path: Path, data: bytes, name: str) -> None:
    """Binary files and other text are refused with what they seem to be."""
    path = tmp_path / "x.jsonl"
    path.write_bytes(data)

    with pytest.raises(UnknownFormatError, match=name):
        next(load(path))


@pytest.mark.parametrize("data", [b"[" * 100_000, b'{"a":' * 100_000, b"[" * 300 + b"]" * 300, b'[{"role":"user"'])
def test_deep_or_broken_documents_are_refused(tmp_path: Path, data: bytes) -> None:
    """Nesting of any depth ends in one line of refusal, never in a traceback."""
    path = tmp_path / "x.json"
    path.write_bytes(data)

    with pytest.raises(InputError, match=r"x\.json"):
        next(load(path))


def test_a_document_that_is_too_large(tmp_path: Path) -> None:
    """One JSON document has to be held whole, so it has a limit of its own."""
    from compactctl.transcripts import Limits

    path = tmp_path / "x.json"
    path.write_text(json.dumps(MESSAGES, indent=1))

    with pytest.raises(UnreadableError, match="more than 50 bytes"):
        next(load(path, limits=Limits(document=50)))
