"""harness9's session database: SQLite, opened for reading only (harness9.md 1.14)."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import orjson

from compactctl.errors import EmptyTranscriptError, UnreadableError
from compactctl.model import ASSISTANT, TOOL, USER, LineCounts, Message, Origin, Session, SkippedLine, ToolCall
from compactctl.transcripts._blocks import ROLE_OF, as_text, calls_of, time_of
from compactctl.transcripts._damaged import deeper_than
from compactctl.transcripts._source import Limits
from compactctl.transcripts._spec import FormatSpec, Head, Input, Layout, collector_paused

_Key = tuple[str, object]  # a condition on session_id, and the value it is about
_TEXTS = ("session_id", "role", "content", "tool_calls", "tool_call_id")
_NEEDED = frozenset(_TEXTS)
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
        base.text_factory = _decoded_text
        base.execute("PRAGMA query_only = ON")
        base.execute("PRAGMA trusted_schema = OFF")
        base.execute("BEGIN")
        base.execute("SELECT count(*) FROM sqlite_master").fetchone()
    except sqlite3.Error as error:
        raise UnreadableError(
            f"{path}: not readable as a SQLite database ({error}); copy it with its -wal file"
        ) from None
    return base


class _Mended(str):
    """Text out of bytes that are no UTF-8."""

    __slots__ = ()


def _decoded_text(cell: bytes) -> str:
    try:
        return cell.decode()
    except UnicodeDecodeError:
        return _Mended(cell.decode("utf-8", "replace"))


def _keeps_a_log(path: str) -> bool:
    with Path(path).open("rb") as file:
        return file.read(20)[18:] == b"\x02\x02"


def tables_of(path: str) -> dict[str, tuple[str, ...]]:
    """Give the tables of a database with their columns; views are not followed. Raises UnreadableError.

    A table whose columns cannot be told (of an extension that is not at hand) has none.
    """
    tables: dict[str, tuple[str, ...]] = {}
    with closing(open_database(path)) as base:
        try:
            listed = base.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name").fetchall()
        except sqlite3.Error as error:
            raise _damaged(path, error) from None
        for name in (as_text(name) for (name,) in listed if not isinstance(name, bytes)):
            try:
                tables[name] = tuple(row[0] for row in base.execute("SELECT name FROM pragma_table_info(?)", (name,)))
            except sqlite3.Error:
                tables[name] = ()
    return tables


def _damaged(label: str, error: sqlite3.Error) -> UnreadableError:
    return UnreadableError(f"{label}: the database is damaged ({error}); restore it or copy it anew")


def _parse(source: Input) -> Iterator[Session]:
    digest = source.sha256()
    found = False
    try:
        with closing(open_database(source.file)) as base:
            _needs_row_numbers(base, source.label)
            for ident, keys in _ids(base):
                with collector_paused():
                    session = _session(base, ident, keys, source.path, digest)
                found = True
                yield session
    except sqlite3.Error as error:
        raise _damaged(source.label, error) from None
    if not found:
        raise EmptyTranscriptError(f"{source.label}: a harness9 database without any message; name another file")


def _needs_row_numbers(base: sqlite3.Connection, label: str) -> None:
    """Refuse a table whose rows have no number: nothing says in which order they were written."""
    try:
        base.execute("SELECT rowid FROM messages LIMIT 0")
    except sqlite3.OperationalError:
        raise UnreadableError(
            f"{label}: its table messages is WITHOUT ROWID, so the order of the messages is not known; "
            "copy its rows in their order into a table as harness9 makes it"
        ) from None


def _ids(base: sqlite3.Connection) -> list[tuple[str, list[_Key]]]:
    """Give the ids of the sessions in the order of their first rows, each with the cells that stand for it.

    An id that is kept as a BLOB, or a number, is the session of that text. Bytes that are no UTF-8 stand for
    themselves: their replacement would find no row, and may be that of others.
    """
    rows = base.execute(
        "SELECT session_id, typeof(session_id), CAST(session_id AS BLOB), min(rowid) FROM messages"
        " GROUP BY session_id ORDER BY min(rowid)"
    )
    ids: dict[tuple[str, bytes], list[_Key]] = {}
    for cell, kind, raw, _ in rows.fetchall():
        key = ("session_id = CAST(? AS TEXT)", raw) if kind == "text" else ("session_id IS ?", cell)
        text = _decoded_text(cell) if isinstance(cell, bytes) else as_text(cell)
        ids.setdefault((str(text), raw if isinstance(text, _Mended) else b""), []).append(key)
    return [(ident, keys) for (ident, _), keys in ids.items()]


def _session(base: sqlite3.Connection, ident: str, keys: list[_Key], path: str, digest: str) -> Session:
    columns = {row[0] for row in base.execute("SELECT name FROM pragma_table_info('messages')")}
    created = "created_at" if "created_at" in columns else "NULL"
    rows = base.execute(
        f"SELECT rowid, session_id, role, content, tool_calls, tool_call_id, {created} FROM messages"
        f" WHERE {' OR '.join(condition for condition, _ in keys)} ORDER BY rowid",
        [value for _, value in keys],
    )
    messages: list[Message] = []
    ignored: dict[str, int] = {}
    skipped: list[SkippedLine] = []
    damaged: dict[str, int] = {}  # cells by column
    total = recovered = 0
    for number, *cells, time in rows:
        total += 1
        broken = [name for name, cell in zip(_TEXTS, cells, strict=True) if _is_broken(cell)]
        _, role, content, calls, call_id = map(_text, cells)
        known = ROLE_OF.get(role)
        if known is None:
            if cells[1] is not None and "role" not in broken:
                ignored[f"role {role}"] = ignored.get(f"role {role}", 0) + 1
            else:
                skipped.append(SkippedLine(number, 0, "no_role"))
            continue
        known = TOOL if call_id and known != ASSISTANT else known
        made = _decoded(calls) if known == ASSISTANT and calls else ()
        if made is None:
            broken.append("tool_calls")
        for name in dict.fromkeys(broken):
            damaged[name] = damaged.get(name, 0) + 1
        recovered += bool(broken)
        messages.append(
            Message(
                known,
                content,
                made or (),
                tool_call_id=call_id if known == TOOL else "",
                timestamp=time_of(time),
                origin=_origin(known, content),
            )
        )
    cells_told = ", ".join(f"{name} of {count}" for name, count in damaged.items())
    return Session(
        id=ident or "session",
        messages=tuple(messages),
        format=FORMAT.name,
        path=path,
        harness="harness9",
        lines=LineCounts(
            total=total,
            used=len(messages) - recovered,
            recovered=recovered,
            ignored=dict(sorted(ignored.items())),
            skipped=tuple(skipped),
        ),
        input_sha256=digest,
        warnings=(f"rows with damaged cells were used as far as they can be read: {cells_told}",) if damaged else (),
    )


def _text(cell: object) -> str:
    """Give a cell as the text that stands for it, whatever its type."""
    return str(_decoded_text(cell) if isinstance(cell, bytes) else as_text(cell))


def _is_broken(cell: object) -> bool:
    """Whether a cell is neither text nor NULL, or text that holds bytes that are none."""
    return isinstance(cell, _Mended) or not (cell is None or isinstance(cell, str))


def _origin(role: str, text: str) -> Origin | None:
    if role != USER:
        return None
    return Origin.RECORDED_SUMMARY if text.startswith(_SUMMARIES) else Origin.HUMAN


def _decoded(calls: str) -> tuple[ToolCall, ...] | None:
    """Give the calls of a cell, None where it holds no list of calls."""
    try:
        value = orjson.loads(calls)
    except ValueError:
        return None
    if value is None:
        return ()
    if not isinstance(value, list) or deeper_than(value, Limits().depth):
        return None
    made = calls_of(value)
    return made if len(made) == len(value) else None


FORMAT = FormatSpec("harness9-db", "harness9's sessions.db (SQLite, opened for reading only)", _sniff, _parse)
