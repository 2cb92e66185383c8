"""The few things that verify may put right: torn last lines, stale temporaries, modes that are too wide.

It never edits a record, never removes a result, and does nothing to a session that is in use.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from compactctl.context.naming import RESULTS
from compactctl.store.fs import DIR_MODE, FILE_MODE, TMP, Dir, store_error
from compactctl.store.layout import CASSETTES, JSONL, LOCKS, LOGS, TRASH, Layout
from compactctl.store.locks import SessionLock
from compactctl.store.log import AppendLog, torn_tail
from compactctl.store.reader import Store

THIS = "."  # stands for the directory itself among the names in it


class Action(StrEnum):
    """What a repair does."""

    SET_TAIL_ASIDE = "set the torn last line aside"
    REMOVE_TEMPORARY = "remove the stale temporary"
    TIGHTEN = "close to others"


@dataclass(frozen=True, slots=True)
class Place:
    """A directory of the store: a room, or one session's directory in it (``session`` set)."""

    room: str
    session: str = ""


@dataclass(frozen=True, slots=True)
class RepairStep:
    """One repair: what is done to the file (or ``.``, the directory itself) at a place; ``path`` is for the reader."""

    action: Action
    path: str
    place: Place
    name: str

    def to_json(self) -> dict[str, Any]:
        """Give the step as ``verify --json`` lists it."""
        return {"action": str(self.action), "path": self.path}


def plan_repair(store: Store, sessions: Sequence[str] | None = None) -> tuple[RepairStep, ...]:
    """Say what a repair of the named sessions (or of everything) would do, without writing anything."""
    names = None if sessions is None else {name for session in sessions for name in store.resolve(session)}
    steps: list[RepairStep] = []
    for room in (*LOGS, RESULTS, CASSETTES, LOCKS, TRASH):
        with store.layout.room(room) as home:
            if home is None:
                continue
            steps.extend(_steps(home, Place(room), names))
            if room == RESULTS:
                for name in home.names():
                    found = home.look(name)
                    if found is not None and stat.S_ISDIR(found.st_mode) and (names is None or name in names):
                        child = home.child(name)
                        if child is not None:
                            with child:
                                steps.extend(_steps(child, Place(room, name), names))
    return tuple(steps)


def _steps(home: Dir, place: Place, names: set[str] | None) -> Iterator[RepairStep]:
    if (names is None or place.session) and _too_wide(home.fs.fstat(home.fd), DIR_MODE):
        yield RepairStep(Action.TIGHTEN, home.path, place, THIS)
    for name in home.names():
        found = home.look(name)
        if found is None or not stat.S_ISREG(found.st_mode) or (names is not None and _owner(place, name) not in names):
            continue
        if name.startswith(TMP):
            yield RepairStep(Action.REMOVE_TEMPORARY, home.label(name), place, name)
            continue
        if _too_wide(found, FILE_MODE):
            yield RepairStep(Action.TIGHTEN, home.label(name), place, name)
        if place.room in LOGS and name.endswith(JSONL) and _is_torn(home, name):
            yield RepairStep(Action.SET_TAIL_ASIDE, home.label(name), place, name)


def _owner(place: Place, name: str) -> str:
    """Give the stored name of the session that a file belongs to; empty for none."""
    if place.session or place.room in (CASSETTES, TRASH, RESULTS):
        return place.session
    return name.removeprefix(TMP) if place.room == LOCKS else name.removeprefix(TMP).partition(JSONL)[0]


def _too_wide(found: os.stat_result, mode: int) -> bool:
    return found.st_uid == os.geteuid() and stat.S_IMODE(found.st_mode) & ~mode != 0


def _is_torn(home: Dir, name: str) -> bool:
    fd = home.open_file(name)
    if fd is None:
        return False
    try:
        return bool(torn_tail(home, fd)[1])
    except OSError as exc:
        raise store_error(home.label(name), exc) from exc
    finally:
        home.fs.close(fd)


def apply_repair(store: Store, steps: Sequence[RepairStep], wait: float | None = None) -> int:
    """Do what was planned and say how much of it was still to do; raises LockedError, StoreError."""
    done = 0
    for step in steps:
        with _place(store.layout, step.place) as home, _guard(store.layout, step, home, wait):
            done += home is not None and _apply(home, step)
    return done


@contextmanager
def _place(layout: Layout, place: Place) -> Iterator[Dir | None]:
    with layout.room(place.room) as home:
        if home is None or not place.session:
            yield home
            return
        child = home.child(place.session)
        try:
            yield child
        finally:
            if child is not None:
                child.close()


@contextmanager
def _guard(layout: Layout, step: RepairStep, home: Dir | None, wait: float | None) -> Iterator[None]:
    """Keep out whoever may be writing the file."""
    owner = _owner(step.place, step.name) if step.name != THIS else step.place.session
    if home is None or step.action is Action.TIGHTEN:
        yield
    elif owner:
        with layout.make_room(LOCKS) as locks:
            lock = SessionLock.take(locks, owner, owner, wait)
            try:
                yield
            finally:
                lock.release()
    else:
        with home.alone():
            yield


def _apply(home: Dir, step: RepairStep) -> bool:
    found = home.look(step.name)
    if found is None:
        return False
    if step.action is Action.SET_TAIL_ASIDE:
        AppendLog.open(home, step.name).close()
    elif step.action is Action.REMOVE_TEMPORARY:
        home.unlink(step.name)
    else:
        _tighten(home, step.name)
    return True


def _tighten(home: Dir, name: str) -> None:
    fd = home.fd if name == THIS else home.open_file(name)
    if fd is None:
        return
    try:
        home.fs.chmod(fd, DIR_MODE if name == THIS else FILE_MODE)
    except OSError as exc:
        raise store_error(home.label(name), exc) from exc
    finally:
        if name != THIS:
            home.fs.close(fd)
