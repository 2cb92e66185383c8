"""A power cut after any operation: what may be left of unsynced data and names holds no damage."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from compactctl.store import open_store
from compactctl.store.fs import Fs
from compactctl.store.gc import Selection
from compactctl.store.problems import Problem
from tests.store.points import collect, fresh
from tests.store.power import Disk, build
from tests.store.scenes import SCENES, Scene, damage, picture, play

Record = Callable[[str, object], None]


def cut_everywhere(root: Path, work: Callable[[Path, Fs], object], judge: Callable[[Path], None]) -> int:
    """Do something on a modelled disk, judge every state that a power cut could leave, and give their number."""
    judged: set[int] = set()

    def after(disk: Disk) -> None:
        for image in disk.states():
            key = hash(tuple(image.items()))
            if key not in judged:
                judged.add(key)
                there = root.with_name("cut")
                build(image, there)
                judge(there)
                shutil.rmtree(there)

    work(root, Disk(root, after))
    return len(judged)


@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.name)
def test_a_power_cut_during_a_replay(disk: Path, scene: Scene, record_property: Record) -> None:
    """No record ever names a missing or different file, what counts is complete, and a second replay is whole."""
    with fresh(disk / "reference") as root:
        play(root, scene)
        expected = picture(open_store(root / "state"), scene.session)

    def judge(there: Path) -> None:
        store = open_store(there / "state")
        assert damage(store) == []
        if store.layout.resolve(scene.session):
            found = picture(store, scene.session)
            assert found in (None, expected)
        play(there, scene)
        assert picture(store, scene.session) == expected
        assert damage(store) == []

    with fresh(disk / "real") as root:
        states = cut_everywhere(root, lambda there, fs: play(there, scene, fs), judge)

    record_property("store: states after power cuts", states)


def test_what_was_acknowledged_survives(disk: Path) -> None:
    """Once a replay has ended with exit status 0, its records and files survive a power cut at any time."""
    scene = SCENES[1]
    with fresh(disk / "real") as root:
        model = Disk(root, lambda disk: None)
        assert play(root, scene, model).total == 0
        expected = picture(open_store(root / "state"), scene.session)
        for image in model.states():
            build(image, disk / "cut")
            assert picture(open_store(disk / "cut/state"), scene.session) == expected
            shutil.rmtree(disk / "cut")


def test_a_power_cut_during_a_recovery(disk: Path, record_property: Record) -> None:
    """Setting a torn line aside loses neither it nor what was before it."""
    with fresh(disk / "real") as root:
        play(root, SCENES[0])
        expected = picture(open_store(root / "state"), "s-1")
        log = root / "state/turns/s-1.jsonl"
        log.write_bytes(log.read_bytes() + b'{"torn')

        def judge(there: Path) -> None:
            store = open_store(there / "state")
            assert damage(store) == []
            assert picture(store, "s-1") == expected
            assert any(b'{"torn' in file.read_bytes() for file in (there / "state/turns").iterdir())

        states = cut_everywhere(root, lambda there, fs: play(there, SCENES[0], fs), judge)

    record_property("store: states after power cuts", states)


def test_a_power_cut_during_gc(disk: Path, record_property: Record) -> None:
    """A session is whole or gone, and the next gc finishes what was begun."""
    with fresh(disk / "real") as root:
        for scene in SCENES[:2]:
            play(root, scene)
        wanted = {scene.session: picture(open_store(root / "state"), scene.session) for scene in SCENES[:2]}
        gone = SCENES[1].session

        def judge(there: Path) -> None:
            store = open_store(there / "state")
            assert damage(store) == []
            for session in store.sessions():
                assert picture(store, session) == wanted[session]
            assert "s-1" in store.sessions()
            collect(there, Selection((gone,)) if gone in store.sessions() else Selection(older_than=1e12))
            assert store.sessions() == ["s-1"]
            assert damage(store) == []

        states = cut_everywhere(root, lambda there, fs: collect(there, Selection((gone,)), fs), judge)

    record_property("store: states after power cuts", states)


def test_the_model_sees_a_missing_sync(disk: Path) -> None:
    """The judge is not blind: a store that does not sync is caught by the same model."""

    class Hasty(Disk):
        def sync(self, fd: int) -> None:
            """Do nothing."""

    caught: list[Problem] = []

    def after(model: Disk) -> None:
        for image in () if caught else model.states():
            build(image, disk / "cut")
            caught.extend(damage(open_store(disk / "cut/state")))
            shutil.rmtree(disk / "cut")

    with fresh(disk / "real") as root:
        play(root, SCENES[0], Hasty(root, after))

    assert caught
