"""Checking a store against what it promises, without writing anything.

The same function judges the states that the tests make by crashing writers at every operation: after any crash there
may be problems of level ``info``, none of level ``error``.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterable
from dataclasses import dataclass, field

from compactctl.context.naming import RESULTS, SUFFIX
from compactctl.errors import LockedError, StoreError
from compactctl.store._check_lines import (
    Reference,
    SeenSession,
    check_memories,
    check_records,
    check_runs,
    check_turns,
)
from compactctl.store.blobs import blob_content
from compactctl.store.fs import DIR_MODE, FILE_MODE, TMP, Dir, chunks, store_error
from compactctl.store.layout import CASSETTES, JSONL, LENGTH, LOCKS, LOGS, MEMORIES, RECORDS, TRASH, TURNS
from compactctl.store.lines import Line, LogCounts
from compactctl.store.locks import SessionLock
from compactctl.store.log import noted_length
from compactctl.store.problems import Level, Problem
from compactctl.store.reader import Store
from compactctl.store.trash import Deletion, result_name, session_files, written_down

_CHECKS = ((TURNS, check_turns), (RECORDS, check_records), (MEMORIES, check_memories))


@dataclass(slots=True)
class Verified:
    """What verify looked at and found; ``busy`` sessions are being written and were not looked at.

    ``damaged`` are the stored names of the sessions with an error, ``recorded`` those of them with records of harness9,
    which no replay writes again. ``by_hand`` says that an error names something which no command takes away.
    """

    sessions: int = 0
    runs: int = 0
    records: int = 0
    lines: int = 0
    files: int = 0
    bytes: int = 0
    problems: list[Problem] = field(default_factory=list)
    busy: list[str] = field(default_factory=list)
    damaged: list[str] = field(default_factory=list)
    recorded: list[str] = field(default_factory=list)
    by_hand: bool = False

    def count(self, level: Level) -> int:
        """How many problems of a level there are."""
        return sum(problem.level is level for problem in self.problems)

    def say(self, level: Level, path: str, text: str, line: Line | None = None) -> None:
        """Note a problem."""
        where = (line.number, line.offset) if line is not None else (None, None)
        self.problems.append(Problem(level, path, text, *where))

    def say_by_hand(self, path: str, text: str) -> None:
        """Note damage that a person has to take away; the text says so."""
        self.by_hand = True
        self.say(Level.ERROR, path, text)


@dataclass(frozen=True, slots=True)
class FileFacts:
    """What a result file holds: bytes, lines as the placeholder counts them, hash."""

    bytes: int
    lines: int
    sha256: str


def verify(store: Store, sessions: Iterable[str] | None = None, wait: float | None = None) -> Verified:
    """Check the named sessions, or all and what belongs to none; raises NothingMatchedError for an unknown one."""
    found = Verified()
    try:
        notes = written_down(store.layout)
    except StoreError as exc:
        notes = {}
        found.say_by_hand(store.layout.room_path(TRASH), str(exc))
    if sessions is None:
        names: Iterable[str] = sorted(store.layout.names() | notes.keys())
        _check_rooms(store, found)
    else:
        names = dict.fromkeys(name for session in sessions for name in store.resolve(session))
    for name in names:
        before, seen = len(found.problems), None
        try:
            seen = _check_in_peace(store, name, notes.get(name), found, wait)
        except LockedError:
            found.busy.append(name)
        except StoreError as exc:
            found.say_by_hand(name, str(exc))
        if any(problem.level is Level.ERROR for problem in found.problems[before:]):
            found.damaged.append(name)
            if seen is not None and ("" in seen.runs or (store.layout.records_dir is not None and not seen.runs)):
                found.recorded.append(name)
    found.problems.sort(key=lambda problem: list(Level).index(problem.level), reverse=True)
    return found


def _check_in_peace(store: Store, name: str, note: Deletion | None, found: Verified, wait: float | None) -> SeenSession:
    """Check a session under a shared lock; where it has never been locked, make sure that this stayed so."""
    while True:
        before = len(found.problems)
        with store.layout.room(LOCKS) as locks:
            lock = SessionLock.share(locks, name, name, wait) if locks is not None else None
            try:
                seen = _check_session(store, name, note, found)
            finally:
                if lock is not None:
                    lock.release()
        with store.layout.room(LOCKS) as locks:
            undisturbed = lock is not None or locks is None or locks.look(name) is None
        if undisturbed:
            found.sessions += 1
            found.runs += len(seen.runs)
            found.records += sum(run.records for run in seen.runs.values())
            return seen
        del found.problems[before:]


def _check_session(store: Store, name: str, note: Deletion | None, found: Verified) -> SeenSession:
    seen = SeenSession(name, frozenset(note.drop or ()) if note is not None else frozenset())
    if note is not None:
        found.say(Level.INFO, store.layout.room_path(TRASH), f"the removal of {name!r} is not finished: run gc again")
        if note.drop is None:
            return seen
    for room, check in _CHECKS:
        path = f"{store.layout.room_path(room)}/{name}{JSONL}"
        counts = LogCounts()

        def say(level: Level, text: str, line: Line | None, path: str = path) -> None:
            found.say(level, path, text, line)

        rows = ((line, row) for line, row in store.rows(room, name, counts) if row.get("run") not in seen.dropped)
        check(seen, rows, say)
        found.lines += counts.lines
        found.problems.extend(Problem(Level.ERROR, path, b.reason, b.number, b.offset) for b in counts.bad)
        if counts.torn_bytes:
            text = (
                f"the last line is torn ({counts.torn_bytes} bytes): it is set aside when the session is next written"
            )
            found.say(Level.INFO, path, text)
        _check_log_files(store, room, name, counts, found)

    def say_run(level: Level, text: str, line: Line | None) -> None:
        found.say(level, f"{store.layout.room_path(TURNS)}/{name}{JSONL}", text, line)

    for run in check_runs(seen, say_run, shared_records=store.layout.records_dir is not None):
        say_run(Level.INFO, f"run {run} has no end and does not count", None)
    _check_results(store, seen, found)
    return seen


def _check_log_files(store: Store, room: str, name: str, counts: LogCounts, found: Verified) -> None:
    with store.layout.room(room) as home:
        if home is None:
            return
        if room == TURNS:
            _check_length(home, name + JSONL, counts, found)
        for entry in session_files(home, name):
            _check_entry(home, entry, found)


def _check_length(home: Dir, log: str, counts: LogCounts, found: Verified) -> None:
    """Check that the turns are as long as they were when a run had last ended."""
    entry = home.look(log)
    size = entry.st_size if entry is not None else 0
    try:
        missing = noted_length(home, log) - size
    except StoreError as exc:
        found.say(Level.ERROR, home.label(log + LENGTH), str(exc))
        return
    if missing > 0:
        found.say(Level.ERROR, home.label(log), f"ends {missing} bytes too early: turns or whole runs are missing")
    elif not counts.lines and entry is not None:
        found.say(Level.INFO, home.label(log), "holds no run")


def _check_entry(home: Dir, name: str, found: Verified) -> None:
    """Check type, owner and mode of a file of the store."""
    entry = home.look(name)
    if entry is None:
        return
    path = home.label(name)
    if not stat.S_ISREG(entry.st_mode):
        found.say_by_hand(path, "is not a regular file: move it away")
    elif entry.st_uid != os.geteuid():
        found.say_by_hand(path, "belongs to another user: move it away")
    elif stat.S_IMODE(entry.st_mode) & ~FILE_MODE:
        found.say(Level.WARNING, path, f"is open to others (mode {stat.S_IMODE(entry.st_mode):04o})")
    if name.startswith(TMP):
        found.say(Level.INFO, path, "is left over from an interrupted write")


def _check_mode(home: Dir, found: Verified) -> None:
    """Check the mode of a directory of the store."""
    mode = stat.S_IMODE(home.fs.fstat(home.fd).st_mode)
    if mode & ~DIR_MODE:
        found.say(Level.WARNING, home.path, f"is open to others (mode {mode:04o})")


def _check_results(store: Store, seen: SeenSession, found: Verified) -> None:
    with store.layout.room(RESULTS) as results:
        home = results.child(seen.name) if results is not None else None
        if home is None:
            for reference in seen.references:
                _check_reference(reference, {}, store, seen, found)
            return
        with home:
            _check_mode(home, found)
            names = home.names()
            ours = [name for name in names if name.endswith(SUFFIX) and not name.startswith(TMP)]
            facts = {name: _facts(home, name, found) for name in ours}
            named = {_check_reference(reference, facts, store, seen, found) for reference in seen.references}
            for name in names:
                if name in named:
                    _check_links(home, name, found)
                elif name.startswith(TMP):
                    _check_entry(home, name, found)
                elif name.endswith(SUFFIX):
                    found.say(Level.INFO, home.label(name), "is named by no record")
                else:
                    found.say(Level.WARNING, home.label(name), "is none of the store's files")


def _facts(home: Dir, name: str, found: Verified) -> FileFacts | None:
    try:
        fd = home.open_file(name)
        if fd is None:
            return None
        size, lines, digest = 0, 1, hashlib.sha256()
        try:
            for data in chunks(home.fs, fd):
                size += len(data)
                lines += data.count(b"\n")
                digest.update(data)
        except OSError as exc:
            raise store_error(home.label(name), exc) from exc
        finally:
            home.fs.close(fd)
    except StoreError as exc:
        found.say_by_hand(home.label(name), str(exc))
        return None
    _check_entry(home, name, found)
    found.files += 1
    found.bytes += size
    return FileFacts(size, lines, digest.hexdigest())


def _check_links(home: Dir, name: str, found: Verified) -> None:
    entry = home.look(name)
    # A crash between the two names of a fresh file leaves both; the temporary one goes with the next write.
    if entry is not None and entry.st_nlink != 1 and home.look(TMP + name) is None:
        found.say(Level.WARNING, home.label(name), "has a second name somewhere")


def _check_reference(
    reference: Reference, facts: dict[str, FileFacts | None], store: Store, seen: SeenSession, found: Verified
) -> str | None:
    """Check one result that a record names; gives its file name where there is one."""
    name = result_name(reference.file_path, seen.name)
    if name is None or (reference.own and reference.file_path != f"{RESULTS}/{seen.name}/{name}"):
        _say_of(reference, store, seen, found, f"names {reference.file_path!r}, which is none of its session's results")
        return None
    there = facts.get(name)
    if there is None:
        _say_of(reference, store, seen, found, f"names {reference.file_path!r}, which is not there")
        return name
    if reference.own and not reference.sha256:
        # The entry of a placeholder that was offloaded again: its file is that of the result itself.
        return name
    told = (reference.bytes, reference.lines, reference.sha256 or there.sha256)
    if told != (there.bytes, there.lines, there.sha256):
        text = f"names {reference.file_path!r} with {reference.bytes} bytes, but the file holds something else"
        _say_of(reference, store, seen, found, text)
    return name


def _say_of(reference: Reference, store: Store, seen: SeenSession, found: Verified, text: str) -> None:
    found.say(Level.ERROR, f"{store.layout.room_path(RECORDS)}/{seen.name}{JSONL}", text, reference.line)


def _check_rooms(store: Store, found: Verified) -> None:
    """Check what belongs to no session: the modes of the rooms, foreign files, cassettes."""
    for room in (*LOGS, RESULTS, CASSETTES, LOCKS, TRASH):
        try:
            with store.layout.room(room) as home:
                if home is not None:
                    _check_mode(home, found)
                    _check_room(room, home, found)
        except StoreError as exc:
            found.say_by_hand(store.layout.room_path(room), str(exc))


def _check_room(room: str, home: Dir, found: Verified) -> None:
    for name in home.names():
        if room == CASSETTES:
            _check_entry(home, name, found)
            data = home.read(name)
            if not name.startswith(TMP) and data is not None and blob_content(data) is None:
                found.say_by_hand(home.label(name), "is damaged: its content is not what its hash says; remove it")
        elif room in LOGS and JSONL not in name:
            found.say(Level.WARNING, home.label(name), "is none of the store's files")
        elif room in (LOCKS, TRASH):
            _check_entry(home, name, found)
