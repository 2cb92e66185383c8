"""Collecting sessions: first a plan, which ``--dry-run`` prints, then the same plan done.

The seed's cascade (section 5.3): what the store holds of a session goes together, records before the results that they
name, whole or not at all whatever happens meanwhile (trash.py), and never while somebody writes or reads it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from compactctl.context.naming import RESULTS
from compactctl.errors import LockedError, NothingMatchedError, UsageError
from compactctl.store.fs import Dir
from compactctl.store.layout import IGNORE, JSONL, LOCKS, LOGS, RECORDS, TRASH, Layout
from compactctl.store.lines import LogCounts
from compactctl.store.locks import SessionLock
from compactctl.store.log import locked_file
from compactctl.store.reader import Store
from compactctl.store.trash import (
    Deletion,
    Freed,
    finish_deletion,
    is_result,
    result_name,
    session_files,
    write_down,
    written_down,
)


@dataclass(frozen=True, slots=True)
class PlannedFile:
    """A file that would go, or (``lines`` set) lose that many lines; ``bytes`` is what it would free."""

    path: str
    bytes: int
    lines: int | None = None


@dataclass(frozen=True, slots=True)
class PlannedSession:
    """What gc would do to one session: remove it, or (``runs``) some of its runs; ``foreign`` paths would stay.

    ``unfinished`` says that an earlier gc has begun this. With ``limit`` it happens only if the session was last
    written before that time.
    """

    session: str
    deletion: Deletion
    files: tuple[PlannedFile, ...]
    foreign: tuple[str, ...] = ()
    unfinished: bool = False
    limit: float | None = None

    @property
    def bytes(self) -> int:
        """What it would free."""
        return sum(file.bytes for file in self.files)

    @property
    def runs(self) -> tuple[str, ...] | None:
        """The runs that would go; None for the whole session."""
        return self.deletion.drop

    def to_json(self) -> dict[str, Any]:
        """Give the session as ``gc --json`` lists it."""
        return {
            "session_id": self.session,
            "runs": None if self.runs is None else list(self.runs),
            "unfinished": self.unfinished,
            "bytes": self.bytes,
            "files": [{"path": f.path, "bytes": f.bytes, "lines": f.lines} for f in self.files],
            "left": list(self.foreign),
        }


@dataclass(frozen=True, slots=True)
class Selection:
    """What a user wants gone.

    Named sessions or all; ``older_than`` keeps to those last written more than so many seconds before ``now``;
    ``keep_runs`` removes all but the newest complete runs of each instead of the session.
    """

    sessions: tuple[str, ...] = ()
    all: bool = False
    older_than: float | None = None
    keep_runs: int | None = None
    now: float = 0.0


def plan_gc(store: Store, selection: Selection) -> tuple[PlannedSession, ...]:
    """Say what gc would do, without writing anything.

    What an earlier gc began and did not finish comes first; where more of that session is wanted, with it. Raises
    NothingMatchedError where any named session is unknown, UnsafeStoreError where a link stands in the way, UsageError
    where nothing was selected.
    """
    if not (selection.sessions or selection.all or selection.older_than is not None or selection.keep_runs is not None):
        raise UsageError("name the sessions to remove, or give --all, --older-than or --keep-runs")
    if selection.sessions and selection.all:
        raise UsageError("name sessions or give --all, not both")
    notes = written_down(store.layout)
    names = _named(store, selection.sessions, notes) if selection.sessions else store.stored_names()
    wanted = [name for name in names if name not in notes or notes[name].drop is not None]
    limit = None if selection.older_than is None else selection.now - selection.older_than
    if limit is not None:
        wanted = [name for name in wanted if last_written(store.layout, name) < limit]
    deletions = [_deletion(store, name, selection.keep_runs, notes.get(name)) for name in wanted]
    more = [deletion for deletion in deletions if deletion is not None]
    begun = notes.keys() - {deletion.name for deletion in more}
    return (
        *(_planned(store, note, unfinished=True) for name, note in notes.items() if name in begun),
        *(replace(_planned(store, deletion), limit=limit) for deletion in more),
    )


def _named(store: Store, sessions: Iterable[str], begun: Iterable[str]) -> list[str]:
    names: dict[str, None] = {}
    unknown = []
    for session in sessions:
        found = store.layout.resolve(session) or [name for name in begun if name == session]
        names.update(dict.fromkeys(found))
        if not found:
            unknown.append(session)
    if unknown:
        listed = ", ".join(repr(session) for session in unknown)
        raise NothingMatchedError(f"{str(store.layout.state_dir)!r} holds no session {listed}; nothing was removed")
    return list(names)


def _deletion(store: Store, name: str, keep_runs: int | None, begun: Deletion | None) -> Deletion | None:
    """Give what is to go of a session, runs whose removal has begun included; None for nothing beyond those."""
    if keep_runs is None:
        return Deletion(name)
    runs = [run for run in store.runs(name) if run.id]
    kept = {run.id for run in [run for run in runs if run.complete][-keep_runs:]} if keep_runs else set()
    more = [run.id for run in runs if run.id not in kept]
    dropped = (*(begun.drop or () if begun is not None else ()), *more)
    return Deletion(name, dropped, _only_named_by(store, name, frozenset(dropped))) if more else None


def _only_named_by(store: Store, name: str, runs: frozenset[str]) -> tuple[str, ...]:
    """Give the result files that records of these runs name and no other does."""
    counts = LogCounts()
    gone: set[str] = set()
    needed: set[str] = set()
    for _, row in store.rows(RECORDS, name, counts):
        (gone if row.get("run") in runs else needed).update(_results_of(row, name))
    # A line that cannot be read may name any of them.
    return () if counts.bad else tuple(sorted(gone - needed))


def _results_of(row: dict[str, Any], name: str) -> Iterator[str]:
    offloaded = row.get("offloaded")
    for entry in offloaded if isinstance(offloaded, list) else ():
        path = entry.get("file_path") if isinstance(entry, dict) else None
        found = result_name(path, name) if isinstance(path, str) else None
        if found is not None:
            yield found


def _planned(store: Store, deletion: Deletion, *, unfinished: bool = False) -> PlannedSession:
    layout, name = store.layout, deletion.name
    session = name if unfinished else store.session_id(name)
    if deletion.drop is not None:
        files = (*_shortened(store, deletion), *_results(layout, name, set(deletion.files)))
        return PlannedSession(session, deletion, files, (), unfinished)
    logs: list[PlannedFile] = []
    for room in LOGS:
        with layout.room(room) as home:
            if home is not None:
                logs.extend(_file(home, found) for found in session_files(home, name))
    return PlannedSession(session, deletion, (*logs, *_results(layout, name, None)), _foreign(layout, name), unfinished)


def _file(home: Dir, name: str) -> PlannedFile:
    found = home.look(name)
    return PlannedFile(home.label(name), found.st_size if found is not None else 0)


def _results(layout: Layout, name: str, wanted: set[str] | None) -> Iterator[PlannedFile]:
    with layout.room(RESULTS) as results:
        home = results.child(name) if results is not None else None
        if home is not None:
            with home:
                for found in home.names():
                    if is_result(home, found) and (wanted is None or found in wanted):
                        yield _file(home, found)


def _foreign(layout: Layout, name: str) -> tuple[str, ...]:
    with layout.room(RESULTS) as results:
        home = results.child(name) if results is not None else None
        if home is None:
            return ()
        with home:
            return tuple(home.label(found) for found in home.names() if not is_result(home, found))


def _shortened(store: Store, deletion: Deletion) -> Iterator[PlannedFile]:
    drop = frozenset(deletion.drop or ())
    for room in LOGS:
        sizes = [
            len(line.text or b"") + 1
            for line, row in store.rows(room, deletion.name, LogCounts())
            if row.get("run") in drop
        ]
        if sizes:
            yield PlannedFile(f"{store.layout.room_path(room)}/{deletion.name}{JSONL}", sum(sizes), len(sizes))


def last_written(layout: Layout, name: str) -> float:
    """Give when anything of a stored name was last written, in seconds since the epoch; 0 for nothing."""
    latest = 0.0
    for room in LOGS:
        with layout.room(room) as home:
            found = home.look(name + JSONL) if home is not None else None
            latest = max(latest, found.st_mtime if found is not None else 0.0)
    with layout.room(RESULTS) as results:
        found = results.look(name) if results is not None else None
        return max(latest, found.st_mtime if found is not None else 0.0)


def apply_gc(store: Store, plan: Sequence[PlannedSession], wait: float | None = None) -> Freed:
    """Do what was planned and say what was freed.

    Where any of the sessions is in use it raises LockedError before anything is removed. Each session goes whole or not
    at all; one that was to go for its age and was written since the plan stays. Raises StoreError where something could
    not be removed; the next gc goes on from there.
    """
    total = Freed()
    layout = store.layout
    for planned in plan:
        _ask(layout, planned, wait)
    for planned in plan:
        total.add(_apply(store, planned, wait))
    _leave_no_trace(layout)
    return total


def _ask(layout: Layout, planned: PlannedSession, wait: float | None) -> None:
    with layout.room(LOCKS) as locks:
        lock = SessionLock.share(locks, planned.deletion.name, planned.session, wait) if locks is not None else None
        if lock is not None:
            lock.release()


def _apply(store: Store, planned: PlannedSession, wait: float | None) -> Freed:
    layout, deletion = store.layout, planned.deletion
    with layout.make_room(LOCKS) as locks:
        lock = SessionLock.take(locks, deletion.name, planned.session, wait)
        gone = False
        try:
            # A question to the user lies between plan and lock: minutes, in which the session may be replayed.
            if planned.limit is not None and last_written(layout, deletion.name) >= planned.limit:
                return Freed(stayed=[planned.session])
            freed = Freed()
            if not planned.unfinished:
                _nobody_writes(layout, deletion.name)
                if deletion.drop is not None:
                    _still(store, deletion)
                freed.add(finish_deletion(layout, deletion.name))
                write_down(layout, deletion)
            freed.add(finish_deletion(layout, deletion.name))
            gone = deletion.drop is None
            return freed
        finally:
            lock.release(remove=gone)


def _nobody_writes(layout: Layout, name: str) -> None:
    # Another state directory that keeps its records in the same place has a session lock of its own.
    with layout.room(RECORDS) as home:
        fd = locked_file(home, name + JSONL, 0) if home is not None else None
        if home is not None and fd is not None:
            home.fs.close(fd)


def _still(store: Store, deletion: Deletion) -> None:
    # Between plan and lock another replay may have ended whose records name the same files.
    if _only_named_by(store, deletion.name, frozenset(deletion.drop or ())) != deletion.files:
        raise LockedError(f"session {deletion.name!r} was written meanwhile: run gc again")


def _leave_no_trace(layout: Layout) -> None:
    """Take the store's own rooms out of a directory that another program made."""
    root = Dir.root(layout.fs, layout.state_dir)
    if root is None:
        return
    with root:
        if root.look(IGNORE) is None:
            for room in (LOCKS, TRASH):
                root.rmdir(room)
