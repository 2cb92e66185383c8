"""gc removes what was named, all of it, and nothing else."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from compactctl.errors import LockedError, NothingMatchedError, UnsafeStoreError, UsageError
from compactctl.model import CompactionRecord, Tier
from compactctl.store import Store, open_store
from compactctl.store.gc import Selection, apply_gc, plan_gc
from compactctl.store.trash import Deletion, write_down
from compactctl.store.verify import verify
from tests.store.points import collect, mine
from tests.store.scenes import SCENES, damage, picture, play, tree

UNSAFE = [
    "",
    ".",
    "..",
    "../..",
    "/",
    "/etc",
    "*",
    "~",
    "s-1/",
    "s-1\0",
    "s-1/../s-1",
    "x" * 4000,
    "\ud83c",
    "S-1",
    "tool_results",
]


@pytest.fixture
def store_dir(disk: Path) -> Path:
    """A store with one run of each scene and two of the first."""
    for scene in (*SCENES, SCENES[0]):
        play(disk, scene)
    return disk / "state"


def test_the_whole_cascade_goes(disk: Path, store_dir: Path) -> None:
    """Results, records, turns and memories of a session go together; no other session loses a byte."""
    before = tree(store_dir)
    store = open_store(store_dir)
    plan = plan_gc(store, Selection(("s-1",)))

    freed = apply_gc(store, plan)

    assert mine(disk, "s-1") == {}
    assert tree(store_dir) == {p: f for p, f in before.items() if "/s-1" not in p} | {"/.trash": (0o040700, "")}
    assert (freed.files, freed.bytes) == (len(plan[0].files), plan[0].bytes) == (6, freed.bytes)
    assert freed.bytes > 9000
    assert store.sessions() == sorted(scene.session for scene in SCENES[1:])
    assert damage(store) == []


@pytest.mark.parametrize("session", UNSAFE)
def test_an_unknown_id_removes_nothing(store_dir: Path, session: str) -> None:
    """Whatever an unknown id looks like, it is an error and no byte goes, not even of the sessions named beside it."""
    before = tree(store_dir)

    with pytest.raises(NothingMatchedError, match="nothing was removed"):
        plan_gc(open_store(store_dir), Selection(("s-1", session)))

    assert tree(store_dir) == before


def test_a_session_with_a_hostile_id_goes_by_its_own_id_and_by_its_stored_name(store_dir: Path) -> None:
    """An id that no shell can pass can be removed by the name under which the store keeps it."""
    for scene, given in ((SCENES[1], SCENES[1].session), (SCENES[2], None)):
        store = open_store(store_dir)
        (name,) = store.resolve(scene.session)
        apply_gc(store, plan_gc(store, Selection((given or name,))))
        assert scene.session not in store.sessions()


def test_a_plan_writes_nothing(store_dir: Path) -> None:
    """What --dry-run does leaves the store as it is, down to locks and times."""
    before = tree(store_dir), {path: path.stat().st_mtime_ns for path in store_dir.rglob("*")}

    for selection in (
        Selection(("s-1",)),
        Selection(all=True),
        Selection(keep_runs=1),
        Selection(older_than=0, now=2e9),
    ):
        assert plan_gc(open_store(store_dir), selection)

    assert (tree(store_dir), {path: path.stat().st_mtime_ns for path in store_dir.rglob("*")}) == before


def test_a_session_in_use_stays_and_so_do_the_others(store_dir: Path) -> None:
    """Where one of the named sessions is being written, none goes."""
    store = open_store(store_dir)
    before = tree(store_dir / "tool_results")
    with store.writer("s-1", SCENES[0].start) as run:
        with pytest.raises(LockedError, match="--wait"):
            collect(store_dir.parent, Selection((SCENES[1].session, "s-1")))
        run.end()

    assert tree(store_dir / "tool_results") == before


def test_old_sessions_go_by_the_time_of_their_last_write(store_dir: Path) -> None:
    """--older-than looks at when a session was last written, not at what its transcript says."""
    for path in store_dir.glob("*/s-1*"):
        os.utime(path, (1000, 1000))

    collect(store_dir.parent, Selection(older_than=60, now=1059.0))
    assert "s-1" in open_store(store_dir).sessions()

    collect(store_dir.parent, Selection(older_than=60, now=1061.0))
    assert open_store(store_dir).sessions() == sorted(scene.session for scene in SCENES[1:])


def test_only_old_runs_go_where_runs_are_kept(store_dir: Path) -> None:
    """--keep-runs leaves the newest complete runs as they are, with every file that they name."""
    store = open_store(store_dir)
    expected = picture(store, "s-1")
    runs = [run.id for run in store.runs("s-1")]
    (log,) = (store_dir / "compaction_records").glob("s-1.jsonl")
    log.write_bytes(log.read_bytes() + b"{damaged}\n")

    collect(store_dir.parent, Selection(keep_runs=1))

    assert [run.id for run in store.runs("s-1")] == runs[1:]
    assert picture(store, "s-1") == expected
    assert log.read_bytes().endswith(b"\n{damaged}\n")  # gc never destroys what it cannot read
    assert set(store.sessions()) == {scene.session for scene in SCENES}


def test_results_of_old_runs_go_with_them(disk: Path) -> None:
    """A result that only removed runs name goes; one that a kept run names stays."""
    first, second = SCENES[1], SCENES[0]
    play(disk, first)
    store = open_store(disk / "state")
    with store.writer(first.session, second.start) as run:
        run.end()

    collect(disk, Selection((first.session,), keep_runs=1))

    assert list((disk / "state/tool_results").rglob("*.txt")) == []
    assert damage(store) == []


def test_nothing_selected_is_a_mistake(store_dir: Path) -> None:
    """gc without sessions or a rule never means everything."""
    with pytest.raises(UsageError):
        plan_gc(open_store(store_dir), Selection())
    with pytest.raises(UsageError):
        plan_gc(open_store(store_dir), Selection(("s-1",), all=True))


def test_foreign_files_stay_and_are_named(store_dir: Path) -> None:
    """What compactctl did not make stays where it is, links among it are not followed."""
    results = store_dir / "tool_results/s-1"
    (results / "notes.md").write_text("mine")
    (results / "link.txt").symlink_to(store_dir)
    (results / "deep").mkdir()
    store = open_store(store_dir)
    plan = plan_gc(store, Selection(("s-1",)))

    freed = apply_gc(store, plan)

    assert [Path(path).name for path in freed.kept] == ["deep", "link.txt", "notes.md"]
    assert freed.kept == list(plan[0].foreign)
    assert sorted(path.name for path in results.iterdir()) == ["deep", "link.txt", "notes.md"]


def test_gc_never_follows_a_link(disk: Path, store_dir: Path) -> None:
    """A session directory that is a link stops gc before anything is removed."""
    elsewhere = disk / "elsewhere"
    (store_dir / "tool_results/s-1").rename(elsewhere)
    (store_dir / "tool_results/s-1").symlink_to(elsewhere)
    before = tree(disk)

    with pytest.raises(UnsafeStoreError):
        collect(disk, Selection(("s-1",)))

    assert tree(disk) == before


def test_a_removal_that_has_begun_is_finished_by_the_next_writer_or_gc(disk: Path, store_dir: Path) -> None:
    """Once a removal is written down the session counts as gone, and whoever comes next finishes it."""
    store = open_store(store_dir)
    for name in ("s-1", store.resolve(SCENES[1].session)[0]):
        write_down(store.layout, Deletion(name))
    with pytest.raises(NothingMatchedError):
        store.runs("s-1")
    assert [problem.text for problem in verify(store).problems if "removal" in problem.text] == [
        "the removal of 'many~cf45ebc585e94165597ad822' is not finished: run gc again",
        "the removal of 's-1' is not finished: run gc again",
    ]

    play(disk, SCENES[0])
    assert len(store.runs("s-1")) == 1
    collect(disk, Selection((SCENES[2].session,)))
    assert store.sessions() == ["s-1"]


@pytest.fixture
def half_trimmed(disk: Path) -> Store:
    """A store of one session with three runs; the removal of the first has been written down and not been done."""
    for window in range(3):
        with open_store(disk / "state").writer("s-1", {"settings": {"window": window}}) as run:
            if window < 2:
                run.append(CompactionRecord(Tier.WARN, 100, 50, 4, 3, compression_ratio=0.5))
            run.end()
    store = open_store(disk / "state")
    write_down(store.layout, Deletion("s-1", (store.runs("s-1")[0].id,)))
    return store


def test_a_named_session_goes_whole_although_the_removal_of_a_run_has_begun(disk: Path, half_trimmed: Store) -> None:
    """What an earlier gc began is no excuse: what was named is gone afterwards, and counted with what was begun."""
    (planned,) = plan_gc(half_trimmed, Selection(("s-1",)))

    freed = apply_gc(half_trimmed, [planned])

    assert planned.runs is None
    assert freed.files == len(planned.files)
    assert planned.bytes - freed.bytes in (0, 1)  # finishing what was begun notes a length with a digit less
    assert mine(disk, "s-1") == {}
    assert half_trimmed.sessions() == []


@pytest.mark.parametrize("selection", [Selection(all=True), Selection(older_than=1, now=4e9)])
def test_all_means_sessions_of_which_a_run_is_half_gone_too(
    disk: Path, half_trimmed: Store, selection: Selection
) -> None:
    """--all and --older-than take a session whose removal of a run was begun like any other."""
    collect(disk, selection)

    assert mine(disk, "s-1") == {}


def test_more_runs_go_than_an_earlier_gc_has_begun(disk: Path, half_trimmed: Store) -> None:
    """--keep-runs leaves as many runs as it says, and its plan names the begun ones as well; where nothing is left to
    do beyond those, they are finished."""
    runs = [run.id for run in half_trimmed.runs("s-1")]
    (finished,) = plan_gc(half_trimmed, Selection(("s-1",), keep_runs=2))
    (more,) = plan_gc(half_trimmed, Selection(("s-1",), keep_runs=1))

    freed = apply_gc(half_trimmed, [more])

    assert (finished.unfinished, finished.runs) == (True, finished.deletion.drop)
    assert more.runs == (*(finished.runs or ()), runs[0])
    assert freed.bytes == more.bytes
    assert [run.id for run in half_trimmed.runs("s-1")] == runs[1:]
    assert damage(half_trimmed) == []


def test_a_note_of_another_gc_is_never_done_in_place_of_ones_own(half_trimmed: Store) -> None:
    """Where a removal was begun by somebody else meanwhile, one's own is refused instead of being forgotten."""
    with pytest.raises(LockedError, match="run gc again"):
        write_down(half_trimmed.layout, Deletion("s-1"))


def test_a_session_that_was_replayed_after_the_plan_stays(disk: Path, store_dir: Path) -> None:
    """--older-than looks again before it removes: what was written while the user was asked stays and is named."""
    for path in (*store_dir.glob("*/s-1*"), *store_dir.glob("*/many*")):
        os.utime(path, (1000, 1000))
    store = open_store(store_dir)
    plans = [plan_gc(store, Selection(older_than=60, now=1061.0, keep_runs=keep)) for keep in (None, 1)]
    play(disk, SCENES[0])
    before = mine(disk, "s-1")

    freed = [apply_gc(store, plan) for plan in reversed(plans)]

    assert [one.stayed for one in freed] == [["s-1"], ["s-1"]]
    assert [len(plan) for plan in plans] == [2, 1]
    assert mine(disk, "s-1") == before
    assert store.sessions() == sorted([SCENES[0].session, SCENES[2].session])


def test_a_damaged_note_of_a_removal_removes_nothing(store_dir: Path) -> None:
    """A note that does not verify is never acted on."""
    (store_dir / ".trash").mkdir()
    (store_dir / ".trash/s-1.json").write_text(json.dumps({"name": "s-1", "drop": None, "files": []}) + " ")
    (store_dir / ".trash/s-1.json").write_bytes(b'{"name":"s-1","drop":null,"files":[],"sha":"' + b"0" * 64 + b'"}\n')
    before = tree(store_dir)

    with pytest.raises(UnsafeStoreError, match="damaged"):
        collect(store_dir.parent, Selection(("s-1",)))

    assert tree(store_dir) == before
    assert damage(open_store(store_dir))


def test_directories_of_harness9_lose_their_session_files_only(disk: Path) -> None:
    """From what harness9 made gc takes <session>/*.txt and <session>.jsonl, and leaves no trace of its own."""
    for path in (
        "work/sessions.db",
        "work/tool_results/a.1/c1.txt",
        "work/tool_results/a.1/c2.txt",
        "work/tool_results/b/c1.txt",
        "home/a.1.jsonl",
        "home/b.jsonl",
        "home/sessions.db",
        "home/a.1.jsonl.bak",
    ):
        (disk / path).parent.mkdir(parents=True, exist_ok=True)
        (disk / path).write_text('{"session_id":"a.1"}\n')
    before = tree(disk)
    store = open_store(disk / "work", disk / "home")
    assert store.sessions() == ["a.1", "b"]

    apply_gc(store, plan_gc(store, Selection(("a.1",))))

    gone = ("/work/tool_results/a.1", "/home/a.1.jsonl")
    assert tree(disk) == {p: f for p, f in before.items() if p not in gone and not p.startswith(gone[0] + "/")}
