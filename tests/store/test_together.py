"""Several processes at one store: no line is lost or mixed with another's."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from compactctl.errors import LockedError
from compactctl.model import CompactionRecord, Tier
from compactctl.store import locks, open_store
from compactctl.store.gc import Selection, apply_gc, plan_gc
from compactctl.store.layout import LOCKS
from compactctl.store.locks import SessionLock
from compactctl.store.problems import Level
from compactctl.store.verify import verify
from tests.store.faults import in_child
from tests.store.points import TORTURE, collect, mine
from tests.store.scenes import SCENES, damage, last_complete_run, picture, play

Record = Callable[[str, object], None]

START = {"input_sha256": "ab", "settings": {}}
BIG = "x" * 200_000
ROUNDS = 200 if TORTURE else 20


def write(root: Path, session: str, records: int, wait: float | None = None) -> None:
    """Write a run of large records."""
    with open_store(root / "state").writer(session, START, wait) as run:
        for turn in range(records):
            run.append(CompactionRecord(Tier.FULL, 100, 50, 4, 3, compression_ratio=0.5, summary_text=BIG, turn=turn))
            run.turn({"turn": turn})
        run.end()


@contextmanager
def children(*works: Callable[[], object]) -> Iterator[list[int]]:
    """Do things in processes of their own, all begun at one moment; gives their ids, and waits for all at the end."""
    ready, go = os.pipe(), os.pipe()
    pids = []
    for work in works:
        pid = os.fork()
        if pid == 0:
            status = 1
            try:
                os.close(go[1])
                os.write(ready[1], b".")
                os.read(go[0], 1)
                work()
                status = 0
            except LockedError:
                status = LockedError.exit_status
            finally:
                os._exit(status)
        pids.append(pid)
    for _ in works:
        os.read(ready[0], 1)
    for end in (*ready, *go):
        os.close(end)
    yield pids


def ended(pid: int) -> int:
    """Wait for a process and give its exit status."""
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def test_two_writers_of_one_session_take_turns(disk: Path, record_property: Record) -> None:
    """Two writers that wait for each other both write their whole run; not a line is mixed."""
    for _ in range(ROUNDS):
        with children(*[lambda: write(disk, "s", 3, wait=60)] * 2) as pids:
            assert [ended(pid) for pid in pids] == [0, 0]

    store = open_store(disk / "state")
    assert damage(store) == []
    assert sum(run.complete for run in store.runs("s")) == 2 * ROUNDS
    record_property("store: pairs of writers", ROUNDS)


def test_two_writers_that_do_not_wait(disk: Path) -> None:
    """Without --wait a second writer either has the session for itself or is told so at once (exit status 6)."""
    for _ in range(ROUNDS):
        with children(*[lambda: write(disk, "s", 2)] * 2) as pids:
            assert sorted(ended(pid) for pid in pids) in ([0, 0], [0, 6])

    assert damage(open_store(disk / "state")) == []


def test_a_writer_and_gc(disk: Path, record_property: Record) -> None:
    """gc beside a writer removes a whole session or nothing; what the writer wrote afterwards is all there."""
    play(disk, SCENES[0])
    for _ in range(ROUNDS):
        write(disk, "s", 1)
        with children(lambda: write(disk, "s", 2, wait=60), lambda: collect(disk, Selection(("s",)))) as pids:
            writer, remover = [ended(pid) for pid in pids]
        store = open_store(disk / "state")
        assert writer == 0
        assert remover in (0, 6)
        assert damage(store) == []
        if mine(disk, "s"):
            assert [len(list(store.records("s", run))) for run in store.runs("s") if run.complete][-1] == 2
        else:
            assert remover == 0
    record_property("store: writers beside gc", ROUNDS)


def test_a_writer_and_a_reader(disk: Path, record_property: Record) -> None:
    """A report beside a writer sees whole lines only and counts whole runs only."""
    looks = 0
    for number in range(ROUNDS):
        root = disk / str(number // 20)  # a file that grew for ever would only make the looks fewer
        root.mkdir(exist_ok=True)
        store = open_store(root / "state")
        if number % 20 == 0:
            write(root, "s", 2)
        with children(partial(write, root, "s", 3)) as (pid,):
            while os.waitpid(pid, os.WNOHANG)[0] == 0:
                run = last_complete_run(store, "s")
                assert run is not None
                records = store.records("s", run)
                assert len(list(records)) in (2, 3)
                assert records.counts.bad == []
                looks += 1
    record_property("store: looks of readers at a store that is being written", looks)


def test_verify_leaves_out_what_is_being_written(disk: Path) -> None:
    """Verify does not judge half a run: it names the session as busy, and waits for it if told to."""
    store = open_store(disk / "state")
    play(disk, SCENES[0])
    with store.writer("s", START):
        assert verify(store).busy == ["s"]
    with children(lambda: write(disk, "s", 3, wait=60)) as (pid,):
        found = verify(store, ["s"], wait=60)
        assert ended(pid) == 0

    # Whether verify came before the first line was written or after the last one is the system's choice.
    assert (found.busy, found.count(Level.ERROR), found.count(Level.WARNING)) == ([], 0, 0)


def test_a_writer_waits_for_those_who_look(disk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A replay that begins while verify checks its session is not turned away: it begins when the check has ended.
    Only a check that goes on for long is an error, as another writer is at once."""
    write(disk, "s", 1)
    store = open_store(disk / "state")
    with store.layout.room(LOCKS) as home:
        assert home is not None
        check = SessionLock.share(home, "s", "s")
        assert check is not None
        with children(lambda: write(disk, "s", 1)) as (pid,):
            time.sleep(0.2)
            check.release()
            assert ended(pid) == 0
        monkeypatch.setattr(locks, "_FOR_READERS_SECONDS", 0.1)
        check = SessionLock.share(home, "s", "s")
        assert check is not None
        with pytest.raises(LockedError, match="--wait"):
            write(disk, "s", 1)
        check.release()

    assert len(store.runs("s")) == 2
    assert damage(store) == []


def test_a_lock_dies_with_its_process(disk: Path) -> None:
    """A writer that was killed locks nobody out."""

    def die() -> None:
        run = open_store(disk / "state").writer("s", START)
        with run:
            os._exit(77)

    assert in_child(die) == 77

    write(disk, "s", 1)
    assert damage(open_store(disk / "state")) == []


def test_two_stores_that_share_their_records_never_mix_lines(disk: Path) -> None:
    """Two state directories with one --records-dir: the second writer of a session is turned away."""
    one = open_store(disk / "one", disk / "records")
    two = open_store(disk / "two", disk / "records")
    with one.writer("s", START) as run:
        with pytest.raises(LockedError, match="another process"), two.writer("s", START):
            pass
        with pytest.raises(LockedError, match="another process"):
            apply_gc(two, plan_gc(two, Selection(("s",))))
        run.end()
    assert two.sessions() == ["s"]
    with two.writer("s", START) as run:
        run.end()

    assert [found.complete for found in two.runs("s")] == [True]


def test_a_real_limit_on_file_size(disk: Path, record_property: Record) -> None:
    """At whichever size the system refuses to let files grow, no damage is left and the next replay is whole."""
    import resource

    expected = None
    for limit in (*range(0, 5000, 40 if TORTURE else 310), 1 << 30):
        root = disk / str(limit)
        root.mkdir()

        def limited(root: Path = root, limit: int = limit) -> None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
            try:
                failures = play(root, SCENES[0])
            except Exception as error:
                os._exit(getattr(error, "exit_status", 70))
            os._exit(5 if failures.total else 0)

        status = in_child(limited)

        store = open_store(root / "state")
        assert status == (0 if limit > 4610 else 5), limit
        assert damage(store) == [], limit
        assert play(root, SCENES[0]).total == 0
        expected = expected or picture(store, "s-1")
        assert picture(store, "s-1") == expected
        record_property("store: file size limits", 1)
