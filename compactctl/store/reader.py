"""Reading what a store holds: sessions, runs, records and turn lines; nothing here writes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from compactctl.context.naming import is_hashed, safe_name
from compactctl.errors import NothingMatchedError
from compactctl.model import CompactionRecord
from compactctl.store.fs import Fs, store_error
from compactctl.store.layout import JSONL, MEMORIES, RECORDS, TURNS, Layout
from compactctl.store.lines import BadLine, BadLineError, Line, LogCounts, is_sealed, raw_lines, read_rows, unseal
from compactctl.store.trash import written_down
from compactctl.store.writer import DONE, END, START, TURN, RunWriter

# What a row that is no record may raise in CompactionRecord.from_json.
NOT_A_RECORD = (ValueError, KeyError, TypeError, AttributeError, OverflowError)


@dataclass(frozen=True, slots=True)
class Run:
    """One replay of a session as the store holds it.

    ``start`` and ``end`` are its first and last line, None where they are missing. The records of harness9, which has
    no runs, form one run with an empty id.
    """

    id: str
    session_id: str
    start: Mapping[str, Any] | None = None
    end: Mapping[str, Any] | None = None

    @property
    def complete(self) -> bool:
        """Whether the run reached its end and lost nothing on the way; no other is ever counted."""
        return not self.id or (self.start is not None and self.end is not None and self.end.get("status") == DONE)


@dataclass(slots=True)
class Records:
    """The records of a run, read one by one; ``counts`` is complete once they have been."""

    store: Store
    name: str
    run: str
    counts: LogCounts = field(default_factory=LogCounts)

    def __iter__(self) -> Iterator[CompactionRecord]:
        """Read from the start, counting anew."""
        self.counts = counts = LogCounts()
        for line, row in self.store.rows(RECORDS, self.name, counts):
            if (row.get("run") or "") != self.run:
                continue
            try:
                record = CompactionRecord.from_json(row)
            except NOT_A_RECORD:
                counts.used -= 1
                counts.bad.append(BadLine(line.number, line.offset, "not a record"))
                continue
            yield record


class Store:
    """A state directory; made by ``open_store``. All methods raise StoreError where the directory is unsafe."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout

    def must_exist(self) -> None:
        """Raise NothingMatchedError where there is no store, or nothing in it of any session."""
        if not self.layout.names() and not written_down(self.layout):
            raise NothingMatchedError(
                f"{str(self.layout.state_dir)!r} holds no session: replay one, or name --state-dir"
            )

    def sessions(self) -> list[str]:
        """Give the ids of all sessions that the store holds anything of, sorted; those being deleted are gone."""
        return sorted(self.session_id(name) for name in self.stored_names())

    def stored_names(self) -> list[str]:
        """Give the names under which sessions are stored, sorted; those being deleted are gone."""
        gone = {note.name for note in written_down(self.layout).values() if note.drop is None}
        return sorted(self.layout.names() - gone)

    def session_id(self, name: str) -> str:
        """Give the session's id for a stored name; the name itself where the store does not know better."""
        if is_hashed(name):
            for room in (TURNS, RECORDS):
                for _, row in self.rows(room, name, LogCounts()):
                    found = row.get("session_id")
                    if isinstance(found, str) and safe_name(found) == name:
                        return found
        return name

    def resolve(self, session: str) -> list[str]:
        """Give the stored names for a session's id or a stored name; raises NothingMatchedError for an unknown one."""
        gone = written_down(self.layout)
        found = [n for n in self.layout.resolve(session) if n not in gone or gone[n].drop is not None]
        if not found:
            raise NothingMatchedError(f"{str(self.layout.state_dir)!r} holds no session {session!r}")
        return found

    def runs(self, session: str) -> list[Run]:
        """Give the runs of a session, oldest first; records of harness9 come before all others.

        Raises NothingMatchedError for an unknown session.
        """
        found: dict[str, Run] = {}
        for name in self.resolve(session):
            note = written_down(self.layout).get(name)
            dropped = frozenset(note.drop or ()) if note is not None else frozenset()
            ends: dict[str, Mapping[str, Any]] = {}
            starts: dict[str, Mapping[str, Any] | None] = {}
            if self._holds_records_without_run(name):
                starts[""] = None
            for _, row in self.rows(TURNS, name, LogCounts()):
                run = str(row.get("run"))
                if row.get("event") == START:
                    starts[run] = row
                elif row.get("event") == END:
                    ends[run] = row
            for run, start in starts.items():
                if run not in dropped:
                    found[run] = Run(run, self.session_id(name), start, ends.get(run))
        return list(found.values())

    def _holds_records_without_run(self, name: str) -> bool:
        """Look for a record of harness9; compactctl's own lines are told by their form and not parsed."""
        with self.layout.room(RECORDS) as home:
            fd = home.open_file(name + JSONL) if home is not None else None
            if home is None or fd is None:
                return False
            try:
                for line in raw_lines(home.fs, fd, home.fs.fstat(fd).st_size):
                    if line.ended and line.text and line.text.strip() and not is_sealed(line.text):
                        with suppress(BadLineError):
                            unseal(line.text)
                            return True
            except OSError as exc:
                raise store_error(home.label(name + JSONL), exc) from exc
            finally:
                home.fs.close(fd)
        return False

    def records(self, session: str, run: Run | str) -> Records:
        """Give the records of a run, to be read one by one."""
        return Records(self, self._holding(session, RECORDS), run if isinstance(run, str) else run.id)

    def turns(self, session: str, run: Run | str, counts: LogCounts | None = None) -> Iterator[dict[str, Any]]:
        """Give the turn lines of a run one by one, without its start and end."""
        wanted = run if isinstance(run, str) else run.id
        for _, row in self.rows(TURNS, self._holding(session, TURNS), counts if counts is not None else LogCounts()):
            if row.get("event") == TURN and row.get("run") == wanted:
                yield row

    def memories(self, session: str) -> Iterator[dict[str, Any]]:
        """Give the facts that were taken out of a session, of all its runs; none where nothing was ever kept of it."""
        return (row for _, row in self.rows(MEMORIES, safe_name(session), LogCounts()))

    def _holding(self, session: str, room: str) -> str:
        names = self.resolve(session)
        with self.layout.room(room) as home:
            return next((n for n in names if home is not None and home.look(n + JSONL) is not None), names[0])

    def rows(
        self, room: str, name: str, counts: LogCounts, *, unread: bytes | None = None
    ) -> Iterator[tuple[Line, dict[str, Any]]]:
        """Give the usable lines of one file with their places; nothing where the file does not exist.

        Lines that begin with ``unread`` are checked and counted as all others, but neither decoded nor given.
        """
        with self.layout.room(room) as home:
            fd = home.open_file(name + JSONL) if home is not None else None
            if home is None or fd is None:
                return
            try:
                yield from read_rows(home.fs, fd, counts, harness9=room == RECORDS, unread=unread)
            except OSError as exc:
                raise store_error(home.label(name + JSONL), exc) from exc
            finally:
                home.fs.close(fd)

    def writer(
        self, session_id: str, start: Mapping[str, Any], wait: float | None = None
    ) -> AbstractContextManager[RunWriter]:
        """Begin a run of a session; ``start`` goes into its first line.

        Its ``input_sha256`` and ``settings`` make the run's id. Raises LockedError where another process writes the
        session and does not stop within ``wait`` seconds, StoreError where the store cannot be written.
        """
        return RunWriter(self.layout, session_id, start, wait)


def open_store(path: Path | str, records_dir: Path | str | None = None, fs: Fs | None = None) -> Store:
    """Give the store in a state directory, which is made when something is first written.

    ``records_dir`` is where the records lie if not in ``compaction_records`` of the same directory.
    """
    return Store(Layout(fs or Fs(), Path(path), None if records_dir is None else Path(records_dir)))
