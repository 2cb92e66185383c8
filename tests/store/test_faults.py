"""A fault at every single file operation: what is left holds no damage, and doing it again ends well."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from compactctl.store import open_store
from compactctl.store.gc import Selection
from tests.store.faults import Fault, FaultyFs
from tests.store.points import (
    collect,
    crash_a_removal,
    crash_a_replay,
    crash_a_trim,
    fresh,
    operations,
    reference,
)
from tests.store.scenes import SCENES, Scene, picture, play

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

    for at in range(1, count + 1):
        crash_a_replay(disk / "point", scene, expected, FaultyFs(at, fault))

    record_property("store: faults injected into replays", count)


@BY_SCENE
def test_a_disk_that_fills_up(disk: Path, scene: Scene, record_property: Record) -> None:
    """From whichever write on the disk is full, nothing is damaged, and with room again all is well."""
    expected = reference(disk / "reference", scene)
    with fresh(disk / "count") as root:
        count = operations(lambda fs: play(root, scene, fs))

    for at in range(1, count + 1):
        crash_a_replay(disk / "point", scene, expected, FaultyFs(at, Fault.ENOSPC, lasting=True))

    record_property("store: disks filled up", count)


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

    for at in range(1, count + 1):
        crash_a_removal(disk / "point", two_sessions, scene, FaultyFs(at, fault))

    record_property("store: faults injected into gc", count)


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

    for at in range(1, count + 1):
        crash_a_trim(disk / "point", two_sessions, scene, expected, FaultyFs(at, fault))

    record_property("store: faults injected into gc", count)
