"""A fault at every single file operation: what is left holds no damage, and doing it again ends well."""

from __future__ import annotations

import errno
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from compactctl.store import open_store
from compactctl.store.fs import Fs
from compactctl.store.gc import Selection
from tests.store.faults import DEADLY, Fault, FaultyFs
from tests.store.points import (
    TORTURE,
    chosen,
    collect,
    crash_a_removal,
    crash_a_replay,
    crash_a_trim,
    fresh,
    operations,
    reference,
    suffer,
)
from tests.store.scenes import SCENES, Scene, damage, picture, play

Record = Callable[[str, object], None]

ALL_FAULTS = tuple(Fault)
BY_SCENE = pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.name)


@BY_SCENE
@pytest.mark.parametrize("fault", ALL_FAULTS, ids=str)
def test_a_fault_at_any_operation_of_a_replay(disk: Path, scene: Scene, fault: Fault, record_property: Record) -> None:
    """Whatever happens at whichever operation of a replay, no damage is left and a second replay gives the same."""
    expected = reference(disk / "reference", scene)
    with fresh(disk / "count") as root:
        count = operations(lambda fs: play(root, scene, fs))

    points = chosen(count, fault, 3, DEADLY)
    for at in points:
        crash_a_replay(disk / "point", scene, expected, FaultyFs(at, fault))

    record_property("store: faults injected into replays", len(points))


@BY_SCENE
def test_a_disk_that_fills_up(disk: Path, scene: Scene, record_property: Record) -> None:
    """From whichever write on the disk is full, nothing is damaged, and with room again all is well."""
    expected = reference(disk / "reference", scene)
    with fresh(disk / "count") as root:
        count = operations(lambda fs: play(root, scene, fs))

    points = chosen(count, Fault.ENOSPC, 4)
    for at in points:
        crash_a_replay(disk / "point", scene, expected, FaultyFs(at, Fault.ENOSPC, lasting=True))

    record_property("store: disks filled up", len(points))


@pytest.fixture
def two_sessions(disk: Path) -> Path:
    """A store with three runs of one session and one of another."""
    root = disk / "template"
    root.mkdir()
    for scene in (SCENES[0], SCENES[0], SCENES[1], SCENES[0]):
        play(root, scene)
    return root


@pytest.mark.parametrize("fault", ALL_FAULTS, ids=str)
def test_a_fault_at_any_operation_of_gc(disk: Path, two_sessions: Path, fault: Fault, record_property: Record) -> None:
    """Whatever happens while gc removes a session, it is whole or gone, and no other session is touched."""
    scene = SCENES[1]
    with fresh(disk / "count", two_sessions) as root:
        count = operations(lambda fs: collect(root, Selection((scene.session,)), fs))

    points = chosen(count, fault, 5)
    for at in points:
        crash_a_removal(disk / "point", two_sessions, scene, FaultyFs(at, fault))

    record_property("store: faults injected into gc", len(points))


@pytest.mark.parametrize("fault", ALL_FAULTS, ids=str)
def test_a_fault_at_any_operation_of_gc_of_runs(
    disk: Path, two_sessions: Path, fault: Fault, record_property: Record
) -> None:
    """Whatever happens while gc removes old runs, the runs that stay are as they were."""
    scene = SCENES[0]
    expected = picture(open_store(two_sessions / "state"), scene.session)
    assert expected is not None
    with fresh(disk / "count", two_sessions) as root:
        count = operations(lambda fs: collect(root, Selection((scene.session,), keep_runs=1), fs))

    points = chosen(count, fault, 5)
    for at in points:
        crash_a_trim(disk / "point", two_sessions, scene, expected, FaultyFs(at, fault))

    record_property("store: faults injected into gc", len(points))


def test_a_fault_at_any_operation_of_a_recovery(disk: Path, record_property: Record) -> None:
    """A second crash, while the next replay cleans up after a first one, is as harmless as the first."""
    scene = SCENES[0]
    expected = reference(disk / "reference", scene)
    with fresh(disk / "count") as root:
        fs = FaultyFs()
        play(root, scene, fs)
    writes = [at for at, name in enumerate(fs.seen, 1) if name in ("write", "link", "fsync")]

    injected = 0
    for first in writes[:: 3 if TORTURE else 12]:
        with fresh(disk / "crashed") as root:
            torn_fs = FaultyFs(first, Fault.TORN)
            suffer(torn_fs, partial(play, root, scene, torn_fs))
            with fresh(disk / "count", root) as copy:
                count = operations(partial(play, copy, scene))
            for fault in (Fault.KILL, Fault.TORN, Fault.EIO, Fault.ENOSPC):
                for at in range(1 + first % 7, count + 1, 2 if TORTURE else 9):
                    crash_a_replay(disk / "point", scene, expected, FaultyFs(at, fault), root)
                    injected += 1

    record_property("store: faults injected into recoveries", injected)


def test_a_file_system_without_second_names(disk: Path) -> None:
    """Where files cannot have two names the store works all the same."""

    class NoLinks(Fs):
        def link(self, source: str, target: str, dir_fd: int) -> None:
            raise PermissionError(errno.EPERM, "no hard links here")

    scene = SCENES[1]
    expected = reference(disk / "reference", scene)

    assert play(disk, scene, NoLinks()).total == 0

    store = open_store(disk / "state")
    assert picture(store, scene.session) == expected
    assert damage(store) == []
