"""harness9's database: read as it is at this moment, never written to."""

from __future__ import annotations

import hashlib
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from compactctl.errors import EmptyTranscriptError, UnknownFormatError, UnreadableError
from compactctl.model import Message, Origin, ToolCall
from compactctl.transcripts import load

SCHEMA = """
CREATE TABLE sessions (id TEXT PRIMARY KEY, created_at INTEGER, updated_at INTEGER);
CREATE TABLE messages (id INTEGER PRIMARY KEY AUTOINCREMENT, session_id TEXT, role TEXT, content TEXT, tool_calls TEXT,
                       tool_call_id TEXT, created_at INTEGER);
"""
ROWS = [
    ("a", "user", "go", None, ""),
    ("b", "user", "[Context Compaction]\n## Anchors", None, None),
    ("a", "assistant", "", '[{"id":"t1","name":"ls","arguments":{"a":1}}]', ""),
    ("a", "user", "out", None, "t1"),
    ("a", "critic", "no", None, ""),
    ("b", "assistant", b"bytes\xff", "not JSON", ""),
]


def make(path: Path, rows: list[tuple[object, ...]] = ROWS) -> None:
    """Make a database as harness9 does."""
    with closing(sqlite3.connect(path)) as base, base:
        base.executescript(SCHEMA)
        base.executemany(
            "INSERT INTO messages (session_id, role, content, tool_calls, tool_call_id, created_at)"
            " VALUES (?, ?, ?, ?, ?, 1700000000)",
            rows,
        )


def test_sessions_of_a_database(tmp_path: Path) -> None:
    """Each session in the order of its first row; a row with an id is a result whatever its role."""
    path = tmp_path / "any.name"
    make(path)

    first, second = load(path)

    time = "2023-11-14T22:13:20.000Z"
    assert (first.id, second.id, first.harness) == ("a", "b", "harness9")
    assert first.messages == (
        Message("user", "go", timestamp=time, origin=Origin.HUMAN),
        Message("assistant", "", (ToolCall("t1", "ls", '{"a":1}'),), timestamp=time),
        Message("tool", "out", tool_call_id="t1", timestamp=time),
    )
    assert first.lines.ignored == {"role critic": 1}
    assert first.lines.total == 4
    assert second.messages[0].origin is Origin.RECORDED_SUMMARY
    assert second.messages[1].content == "bytes\ufffd"
    assert first.input_sha256 == hashlib.sha256(path.read_bytes()).hexdigest()


def test_a_database_in_use_is_read_and_left_alone(tmp_path: Path) -> None:
    """While harness9 writes, its committed rows are read from the log beside the file, and the file keeps its bytes."""
    path = tmp_path / "sessions.db"
    make(path)
    with closing(sqlite3.connect(path)) as writer:
        writer.execute("PRAGMA journal_mode = WAL")
        writer.execute("INSERT INTO messages (session_id, role, content) VALUES ('a', 'user', 'more')")
        writer.commit()
        writer.execute("INSERT INTO messages (session_id, role, content) VALUES ('a', 'user', 'not yet')")
        before = path.read_bytes()

        first, _ = load(path)

        assert first.messages[-1].content == "more"
        assert path.read_bytes() == before


def test_nothing_is_written_beside_a_database_at_rest(tmp_path: Path) -> None:
    """Reading leaves the directory as it was, whatever the database's way of keeping its log."""
    path = tmp_path / "sessions.db"
    make(path)
    with closing(sqlite3.connect(path)) as writer:
        writer.execute("PRAGMA journal_mode = WAL")
        writer.execute("DELETE FROM messages WHERE session_id = 'b'")
        writer.commit()

    assert len(list(load(path))) == 1
    assert [entry.name for entry in tmp_path.iterdir()] == ["sessions.db"]


@pytest.mark.parametrize(
    ("schema", "name"),
    [
        ("CREATE TABLE session (id); CREATE TABLE message (id); CREATE TABLE part (id);", "opencode"),
        ("CREATE TABLE sessions (id); CREATE TABLE messages (role, content_json);", "goose"),
        ("CREATE TABLE other (id);", "another program"),
        ("CREATE TABLE sessions (id); CREATE VIEW messages AS SELECT 1 AS session_id;", "another program"),
    ],
)
def test_other_databases(tmp_path: Path, schema: str, name: str) -> None:
    """Databases of other programs are refused by name; a view in the place of a table is not followed."""
    path = tmp_path / "x.db"
    with closing(sqlite3.connect(path)) as base:
        base.executescript(schema)

    with pytest.raises(UnknownFormatError, match=name):
        next(load(path))


def test_empty_and_broken_databases(tmp_path: Path) -> None:
    """A database without messages, a torn one, and one from a stream each have their reason."""
    make(tmp_path / "empty.db", [])
    make(tmp_path / "whole.db")
    whole = (tmp_path / "whole.db").read_bytes()
    (tmp_path / "torn.db").write_bytes(whole[:100] + b"\xff" * 4000)

    with pytest.raises(EmptyTranscriptError, match=r"empty\.db"):
        next(load(tmp_path / "empty.db"))
    with pytest.raises(UnreadableError, match=r"torn\.db"):
        next(load(tmp_path / "torn.db"))
    with (tmp_path / "whole.db").open("rb") as stream, pytest.raises(UnreadableError, match="stream"):
        next(load(stream))


def test_a_path_with_signs_of_urls(tmp_path: Path) -> None:
    """A file name cannot change how the database is opened."""
    path = tmp_path / "a?mode=rwc#x%41.db"
    make(path)

    assert len(list(load(path))) == 2
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name]


def test_a_damaged_cell_costs_its_row_at_most(tmp_path: Path) -> None:
    """Bytes, numbers, NULL and broken UTF-8 where text belongs leave all other rows as they are, and are told."""
    path = tmp_path / "x.db"
    damaged: list[tuple[object, ...]] = [
        (b"a", b"user", "as bytes", None, None),  # read as what the bytes say
        ("a", None, "nobody", None, None),  # without a role nobody said it
        ("a", b"\xff", "nobody", None, None),
        ("a", "user", 7, 8, 9),
        ("a", "assistant", None, b"\xff", None),
        ("a", "assistant", "x", "[" * 100_000, b"\xfe"),
        ("a", "assistant", "a replaced \ufffd is text", "null", None),
        (b"\xff\x01", "user", "whose?", None, None),
        (b"\xff\x02", "user", "whose else?", None, None),
        (None, "user", "no id", None, None),
    ]
    make(path, [*ROWS, *damaged])
    with closing(sqlite3.connect(path)) as base, base:
        base.execute(
            "INSERT INTO messages (session_id, role, content) VALUES ('a', 'user', CAST(x'61ff' AS TEXT)),"
            " (CAST(x'ff' AS TEXT), 'user', 'whose, as text?')"
        )

    sessions = list(load(path))

    first, second = sessions[:2]
    assert [m.content for m in first.messages[3:]] == [
        *("as bytes", "7", "", "x", "a replaced \ufffd is text", "a\ufffd"),
    ]
    assert first.messages[4].tool_call_id == "9"
    assert first.lines.skipped_by_reason() == {"no_role": 2}
    assert [skip.line for skip in first.lines.skipped] == [8, 9]  # rows behind the six of ROWS
    # 4 + 8 rows: a critic, two without a role, four mended (bytes, two lists of calls, UTF-8); SQLite makes 7 a text
    assert (first.lines.total, first.lines.recovered, first.lines.used) == (12, 4, 5)
    assert "tool_calls of 2" in first.warnings[0]
    assert second.messages[0].origin is Origin.RECORDED_SUMMARY
    assert [(s.id, len(s.messages)) for s in sessions[2:]] == [
        *(("\ufffd\x01", 1), ("\ufffd\x02", 1), ("session", 1), ("\ufffd", 1)),
    ]


def test_rows_without_an_order_are_refused(tmp_path: Path) -> None:
    """Where rows have no number, no order is guessed; the refusal says so and does not call it damage."""
    path = tmp_path / "x.db"
    with closing(sqlite3.connect(path)) as base:
        base.executescript(SCHEMA.replace("AUTOINCREMENT", "").replace("created_at INTEGER);\n", "x) WITHOUT ROWID;"))

    with pytest.raises(UnreadableError, match="WITHOUT ROWID"):
        next(load(path))
