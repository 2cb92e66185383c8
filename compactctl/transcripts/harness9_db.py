"""harness9's session database: SQLite, opened for reading only (harness9.md 1.14)."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import orjson

from compactctl.errors import EmptyTranscriptError, UnreadableError
from compactctl.model import ASSISTANT, TOOL, USER, LineCounts, Message, Origin, Session
from compactctl.transcripts._blocks import ROLE_OF, as_text, calls_of, time_of
from compactctl.transcripts._damaged import deeper_than
from compactctl.transcripts._source import Limits
from compactctl.transcripts._spec import FormatSpec, Head, Input, Layout, collector_paused

_NEEDED = frozenset(("session_id", "role", "content", "tool_calls", "tool_call_id"))
# How harness9's own compactions begin, which it writes back as user messages.
_SUMMARIES = ("[Context Compaction]", "[Conversation Summary]")


def _sniff(head: Head) -> int:
    if head.layout is not Layout.SQLITE or "sessions" not in head.tables:
        return 0
    return 100 if set(head.tables.get("messages", ())) >= _NEEDED else 0


def open_database(path: str) -> sqlite3.Connection:
    """Open a database so that nothing is written beside it; one that is in use is read as it is at this moment.

    Raises UnreadableError.
    """
    uri = Path(path).absolute().as_uri()
    # A database with a write-ahead log makes its readers write index files beside it. Where there is no log, all is in
    # the file, and it is opened as one that cannot change.
    alone = _keeps_a_log(path) and not Path(f"{path}-wal").exists()
    try:
        base = sqlite3.connect(f"{uri}?{'immutable=1' if alone else 'mode=ro'}", uri=True, isolation_level=None)
        base.execute("PRAGMA query_only = ON")
        base.execute("PRAGMA trusted_schema = OFF")
        base.execute("BEGIN")
        base.execute("SELECT count(*) FROM sqlite_master").fetchone()
    except sqlite3.Error as error:
        raise UnreadableError(
            f"{path}: not readable as a SQLite database ({error}); copy it with its -wal file"
        ) from None
    return base


def _keeps_a_log(path: str) -> bool:
    with Path(path).open("rb") as file:
        return file.read(20)[18:] == b"\x02\x02"


def tables_of(path: str) -> dict[str, tuple[str, ...]]:
    """Give the tables of a database with their columns; views are not followed."""
    with closing(open_database(path)) as base:
        names = [name for (name,) in base.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")]
        return {
            name: tuple(row[0] for row in base.execute("SELECT name FROM pragma_table_info(?)", (name,)))
            for name in names
        }


def _parse(source: Input) -> Iterator[Session]:
    digest = source.sha256()
    found = False
    try:
        with closing(open_database(source.file)) as base:
            ids = base.execute(
                "SELECT session_id, min(rowid) FROM messages GROUP BY session_id ORDER BY min(rowid)"
            ).fetchall()
            for ident, _ in ids:
                with collector_paused():
                    session = _session(base, ident, source.path, digest)
                found = True
                yield session
    except sqlite3.Error as error:
        raise UnreadableError(
            f"{source.label}: the database is damaged ({error}); restore it or copy it anew"
        ) from None
    if not found:
        raise EmptyTranscriptError(f"{source.label}: a harness9 database without any message; name another file")


def _session(base: sqlite3.Connection, ident: object, path: str, digest: str) -> Session:
    columns = {row[0] for row in base.execute("SELECT name FROM pragma_table_info('messages')")}
    created = "created_at" if "created_at" in columns else "NULL"
    rows = base.execute(
        f"SELECT role, content, tool_calls, tool_call_id, {created} FROM messages WHERE session_id IS ? ORDER BY rowid",
        (ident,),
    )
    messages: list[Message] = []
    ignored: dict[str, int] = {}
    for role, content, calls, call_id, time in rows:
        known = ROLE_OF.get(as_text(role))
        if known is None:
            kind = f"role {as_text(role)}"
            ignored[kind] = ignored.get(kind, 0) + 1
            continue
        text = content.decode("utf-8", "replace") if isinstance(content, bytes) else as_text(content)
        answers = as_text(call_id)
        known = TOOL if answers and known != ASSISTANT else known
        messages.append(
            Message(
                known,
                text,
                calls_of(_decoded(calls)) if known == ASSISTANT else (),
                tool_call_id=answers if known == TOOL else "",
                timestamp=time_of(time),
                origin=_origin(known, text),
            )
        )
    count = len(messages) + sum(ignored.values())
    return Session(
        id=as_text(ident) or "session",
        messages=tuple(messages),
        format=FORMAT.name,
        path=path,
        harness="harness9",
        lines=LineCounts(total=count, used=len(messages), ignored=dict(sorted(ignored.items()))),
        input_sha256=digest,
    )


def _origin(role: str, text: str) -> Origin | None:
    if role != USER:
        return None
    return Origin.RECORDED_SUMMARY if text.startswith(_SUMMARIES) else Origin.HUMAN


def _decoded(calls: object) -> object:
    if not isinstance(calls, (str, bytes)) or not calls:
        return None
    try:
        value = orjson.loads(calls)
    except ValueError:
        return None
    return None if deeper_than(value, Limits().depth) else value


FORMAT = FormatSpec("harness9-db", "harness9's sessions.db (SQLite, opened for reading only)", _sniff, _parse)
