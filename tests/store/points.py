"""One fault at one operation, and everything that must hold afterwards; the tests choose which points."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from compactctl.errors import CompactctlError, NothingMatchedError, StoreError
from compactctl.store import Failures, Store, open_store
from compactctl.store.fs import Fs
from compactctl.store.gc import Selection, apply_gc, plan_gc
from tests.store.faults import DEADLY, HARMLESS, KILLED, Died, Fault, FaultyFs, in_child
from tests.store.scenes import Picture, Scene, around, damage, picture, plant_decoys, play, temporaries, tree

# `just torture` takes every point; CI takes all points of the deadly faults in replays, and a share of the others.
TORTURE = bool(os.environ.get("COMPACTCTL_TORTURE"))


def chosen(count: int, fault: Fault, stride: int, always: Collection[Fault] = ()) -> range:
    """Give the operations at which a fault is tried here; which ones CI takes differs from fault to fault."""
    if TORTURE or fault in always:
        return range(1, count + 1)
    return range(1 + list(Fault).index(fault) % stride, count + 1, stride)


@contextmanager
def fresh(root: Path, template: Path | None = None) -> Iterator[Path]:
    """Give an empty directory (or a copy of one), and remove it afterwards."""
    if template is None:
        root.mkdir()
    else:
        shutil.copytree(template, root, symlinks=True)
    try:
        yield root
    finally:
        shutil.rmtree(root)


def operations(work: Callable[[Fs], object]) -> int:
    """Count the operations of something that meets no fault."""
    fs = FaultyFs()
    work(fs)
    return fs.count


@dataclass(frozen=True, slots=True)
class Result:
    """How the faulty run ended: what it could not write, or the error that stopped it; neither for a dead process."""

    failures: Failures | None = None
    error: BaseException | None = None

    @property
    def acknowledged(self) -> bool:
        """Whether the command would have ended with exit status 0."""
        return self.failures is not None and self.failures.total == 0


def suffer(fs: FaultyFs, work: Callable[[], Failures | None]) -> Result:
    """Do something that meets a fault; in the torture suite a process really dies of the deadly ones."""
    if fs.fault in DEADLY and TORTURE:
        fs.really = True
        status = in_child(work)
        assert status in (KILLED, 0), status
        return Result()
    try:
        return Result(work())
    except Died:
        return Result()
    except (CompactctlError, KeyboardInterrupt) as error:
        return Result(error=error)


def reference(root: Path, scene: Scene) -> Picture:
    """Give what an undisturbed run of a scene leaves."""
    with fresh(root) as there:
        play(there, scene)
        found = picture(open_store(there / "state"), scene.session)
    assert found is not None
    return found


def crash_a_replay(root: Path, scene: Scene, expected: Picture, fs: FaultyFs, template: Path | None = None) -> None:
    """Let a replay meet a fault; then the store must hold no damage, and a second replay must give what one gives."""
    with fresh(root, template) as there:
        decoys = plant_decoys(there)
        result = suffer(fs, lambda: play(there, scene, fs))
        store = open_store(there / "state")
        place = (scene.name, fs.at, fs.fault, result)

        assert damage(store) == [], place
        assert around(there) == decoys, place
        judge_result(store, scene, expected, fs.fault, result, template is not None)

        assert play(there, scene).total == 0, place
        assert picture(store, scene.session) == expected, place
        assert damage(store) == [], place
        assert temporaries(there) == [], place
        assert around(there) == decoys, place


def judge_result(store: Store, scene: Scene, expected: Picture, fault: Fault, result: Result, again: bool) -> None:
    """Hold what the store counts against what the command said."""
    place = (scene.name, fault, result)
    found = picture(store, scene.session) if store.layout.resolve(scene.session) else None
    if result.acknowledged:
        assert found == expected, place
    elif fault in HARMLESS:
        raise AssertionError(place)
    elif fault in DEADLY:
        assert found in (None, expected), place
    elif result.failures is not None and (result.failures.records or result.failures.turns) and not again:
        assert found is None, place
    else:
        assert result.failures is not None or isinstance(result.error, (StoreError, KeyboardInterrupt)), place


def collect(root: Path, selection: Selection, fs: Fs | None = None) -> None:
    """Run gc as the command does."""
    store = open_store(root / "state", fs=fs)
    apply_gc(store, plan_gc(store, selection))


def crash_a_removal(root: Path, template: Path, scene: Scene, fs: FaultyFs) -> None:
    """Let the removal of a session meet a fault: it is whole or gone, the others are untouched, the next gc ends it."""
    with fresh(root, template) as there:
        decoys = plant_decoys(there)
        name = open_store(there / "state").layout.resolve(scene.session)[0]
        before = kept(there)
        selection = Selection((scene.session,))
        result = suffer(fs, lambda: collect(there, selection, fs))
        place = (fs.at, fs.fault, result)
        store = open_store(there / "state")

        assert damage(store) == [], place
        assert others(there, name) == {path: found for path, found in before.items() if not owned(path, name)}, place
        if scene.session in store.sessions():
            assert mine(there, name) == {path: found for path, found in before.items() if owned(path, name)}, place
        else:
            try:
                raise AssertionError((place, store.resolve(scene.session)))
            except NothingMatchedError:
                pass
        if fs.fault in HARMLESS:
            assert result.error is None, place

        collect(there, selection if mine(there, name) else Selection(all=True, older_than=1e12, now=0.0))
        assert mine(there, name) == {}, place
        assert damage(store) == [], place
        assert around(there) == decoys, place


def crash_a_trim(root: Path, template: Path, scene: Scene, expected: Picture, fs: FaultyFs) -> None:
    """Let the removal of old runs meet a fault: the newest run stays as it is, the next gc ends the work."""
    with fresh(root, template) as there:
        before = [run.id for run in open_store(there / "state").runs(scene.session)]
        selection = Selection((scene.session,), keep_runs=1)
        result = suffer(fs, lambda: collect(there, selection, fs))
        place = (fs.at, fs.fault, result)
        store = open_store(there / "state")

        assert damage(store) == [], place
        assert picture(store, scene.session) == expected, place
        assert [run.id for run in store.runs(scene.session)] in (before, before[-1:]), place

        collect(there, selection)
        assert [run.id for run in store.runs(scene.session)] == before[-1:], place
        assert picture(store, scene.session) == expected, place
        assert damage(store) == [], place
        assert temporaries(there) == [], place


def owned(path: str, name: str) -> bool:
    """Say whether a path of a state directory belongs to a stored name."""
    parts = path.split("/")
    return len(parts) > 2 and (parts[2] == name or parts[2].startswith(name + "."))


def kept(root: Path) -> dict[str, tuple[int, str]]:
    """Give what is in the state directory, locks and notes of deletions left out."""
    return {
        path: found for path, found in tree(root / "state").items() if path.split("/")[1] not in ("locks", ".trash")
    }


def mine(root: Path, name: str) -> dict[str, tuple[int, str]]:
    """Give what a stored name has in the state directory."""
    return {path: found for path, found in kept(root).items() if owned(path, name)}


def others(root: Path, name: str) -> dict[str, tuple[int, str]]:
    """Give what all others have in the state directory."""
    return {path: found for path, found in kept(root).items() if not owned(path, name)}
