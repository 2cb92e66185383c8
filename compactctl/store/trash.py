"""Deletions that survive a crash: written down first, then done, then crossed out.

What a deletion is going to remove is published as one small file in ``.trash``. Before that nothing has happened; from
then on the session (or the runs) counts as gone for every reader, and whoever next opens it for writing or runs gc
finishes the work. All of this happens under the session's lock.
"""

from __future__ import annotations

import stat
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any

from compactctl.context.naming import RESULTS, SUFFIX, safe_name
from compactctl.errors import LockedError, StoreError, UnsafeStoreError
from compactctl.store.fs import TMP, Dir, store_error
from compactctl.store.layout import JSONL, LENGTH, LOGS, MEMORIES, RECORDS, TRASH, TURNS, Layout
from compactctl.store.lines import BadLineError, raw_lines, seal, unseal
from compactctl.store.log import TORN, forget_length, locked_file, note_length


@dataclass(frozen=True, slots=True)
class Deletion:
    """What is to go of one stored name: everything, or some runs and the result files that only they name."""

    name: str
    drop: tuple[str, ...] | None = None
    files: tuple[str, ...] = ()

    def to_line(self) -> bytes:
        """Give the deletion as it is written down."""
        return seal({"name": self.name, "drop": self.drop, "files": self.files})


@dataclass(slots=True)
class Freed:
    """What a deletion removed (files, bytes), the paths of foreign things that it left, and sessions that stayed.

    A session stays where it was written after the deletion was planned and is no longer as old as was asked for.
    """

    files: int = 0
    bytes: int = 0
    kept: list[str] = field(default_factory=list)
    stayed: list[str] = field(default_factory=list)

    def add(self, other: Freed) -> None:
        """Take up what another deletion did."""
        self.files += other.files
        self.bytes += other.bytes
        self.kept.extend(other.kept)
        self.stayed.extend(other.stayed)


def note_name(name: str) -> str:
    """Give the name of the file in ``.trash`` for a stored name."""
    return safe_name(name) + ".json"


def write_down(layout: Layout, deletion: Deletion) -> None:
    """Publish a deletion durably; from here on it happens, whatever comes between.

    Raises LockedError where another one has begun, which would be done in place of this one.
    """
    with layout.make_room(TRASH) as trash, trash.alone():
        if not trash.publish(note_name(deletion.name), [deletion.to_line()]):
            raise LockedError(f"another removal of {deletion.name!r} has begun: run gc again")
        trash.sync()


def written_down(layout: Layout) -> dict[str, Deletion]:
    """Give the deletions that have begun, by stored name."""
    with layout.room(TRASH) as trash:
        if trash is None:
            return {}
        notes = (_read_note(trash, name) for name in trash.names() if not name.startswith(TMP))
        return {note.name: note for note in notes if note is not None}


def _read_note(trash: Dir, name: str) -> Deletion | None:
    data = trash.read(name)
    if data is None:
        return None
    try:
        row = unseal(data.removesuffix(b"\n"))
        drop = row["drop"]
        note = Deletion(
            str(row["name"]), None if drop is None else tuple(map(str, drop)), tuple(map(str, row["files"]))
        )
    except (BadLineError, KeyError, TypeError):
        note = None
    if note is None or note_name(note.name) != name or not _single(note.name):
        raise UnsafeStoreError(f"{trash.label(name)!r} is damaged: remove it by hand")
    return note


def finish_deletion(layout: Layout, name: str) -> Freed:
    """Do what has been written down for a stored name, if anything; the caller holds the lock. Raises StoreError."""
    freed = Freed()
    with layout.room(TRASH) as trash:
        if trash is None:
            return freed
        note = _read_note(trash, note_name(name))
        with trash.alone():
            trash.unlink(TMP + note_name(name))  # of a gc that died while it wrote its note
        if note is None:
            return freed
        if note.drop is None:
            _remove_session(layout, name, freed)
        else:
            _remove_runs(layout, note, freed)
        trash.unlink(note_name(name))
        trash.sync()
    return freed


def session_files(home: Dir, name: str) -> Iterator[str]:
    """Give the files of a room of logs that belong to a stored name: log, noted length, torn tails, temporaries."""
    log = name + JSONL
    for found in home.names():
        bare = found.removeprefix(TMP)
        if bare in (log, log + LENGTH) or bare.startswith(log + TORN):
            yield found


def is_result(home: Dir, name: str) -> bool:
    """Say whether an entry of a session's results is a file of ours or harness9's: regular, ``*.txt`` or temporary."""
    found = home.look(name)
    return found is not None and stat.S_ISREG(found.st_mode) and (name.endswith(SUFFIX) or name.startswith(TMP))


def _remove_session(layout: Layout, name: str, freed: Freed) -> None:
    # What refers goes before what it refers to, so that no moment has a record without its file.
    for room in LOGS:
        with layout.room(room) as home:
            if home is None:
                continue
            held = locked_file(home, name + JSONL, 0) if room == RECORDS else None
            try:
                for found in session_files(home, name):
                    _remove(home, found, freed)
                home.sync()
            finally:
                if held is not None:
                    home.fs.close(held)
    with layout.room(RESULTS) as results:
        if results is None:
            return
        home = results.child(name)
        if home is not None:
            with home:
                for found in home.names():
                    if is_result(home, found):
                        _remove(home, found, freed)
                    else:
                        freed.kept.append(home.label(found))
                home.sync()
            results.rmdir(name)
            results.sync()


def _remove_runs(layout: Layout, note: Deletion, freed: Freed) -> None:
    drop = frozenset(note.drop or ())
    # Turns first: without its start and end a run does not count, whatever is left of it.
    for room in (TURNS, RECORDS, MEMORIES):
        with layout.room(room) as home:
            if home is not None:
                if room == TURNS:
                    forget_length(home, note.name + JSONL)
                _rewrite(home, note.name + JSONL, drop, freed)
                if room == TURNS:
                    note_length(home, note.name + JSONL)
    with layout.room(RESULTS) as results:
        home = results.child(note.name) if results is not None else None
        if home is not None:
            with home:
                for found in note.files:
                    if _single(found) and is_result(home, found):
                        _remove(home, found, freed)
                home.sync()


def _rewrite(home: Dir, name: str, drop: frozenset[str], freed: Freed) -> None:
    fd = locked_file(home, name, 0)
    if fd is None:
        return
    try:
        before = home.fs.fstat(fd).st_size
        home.publish(name, _lines_without(home, fd, drop), replace=True)
        home.sync()
        after = home.look(name)
        freed.bytes += before - (after.st_size if after is not None else 0)
    except OSError as exc:
        raise store_error(home.label(name), exc) from exc
    finally:
        home.fs.close(fd)


def _lines_without(home: Dir, fd: int, drop: frozenset[str]) -> Iterator[bytes]:
    """Give the lines of all other runs, and damaged ones as they are: gc never destroys what it cannot read."""
    size = home.fs.fstat(fd).st_size
    for line in raw_lines(home.fs, fd, size):
        if line.text is None:
            raise StoreError(
                f"{home.path}: line {line.number} is too long to rewrite; remove the whole session instead"
            )
        if _run_of(line.text) not in drop:
            yield line.text + (b"\n" if line.ended else b"")


def _run_of(text: bytes) -> Any:
    try:
        return unseal(text).get("run")
    except BadLineError:
        return None


def _remove(home: Dir, name: str, freed: Freed) -> None:
    found = home.look(name)
    if found is None:
        return
    home.unlink(name)
    freed.files += 1
    freed.bytes += found.st_size


def _single(name: str) -> bool:
    return name not in ("", ".", "..") and "/" not in name and "\0" not in name


def sweep_temporaries(layout: Layout, name: str) -> int:
    """Remove and count the temporaries that a crashed writer left for a stored name; the caller holds its lock."""
    freed = Freed()
    for room in LOGS:
        with layout.room(room) as home:
            if home is not None:
                for found in session_files(home, name):
                    if found.startswith(TMP):
                        _remove(home, found, freed)
    with layout.room(RESULTS) as results:
        home = results.child(name) if results is not None else None
        if home is not None:
            with home:
                for found in home.names():
                    if found.startswith(TMP) and is_result(home, found):
                        _remove(home, found, freed)
    return freed.files


def result_name(file_path: str, name: str) -> str | None:
    """Give the file in a session's results that a record names, None where the path is no such file's.

    harness9's paths begin with the directory that it keeps its results in; nothing but the last two parts is used.
    """
    parts = PurePosixPath(file_path).parts
    if len(parts) < 3 or parts[-3] != RESULTS or parts[-2] != name or "\0" in file_path or ".." in parts:
        return None
    return parts[-1]
