"""What a writer promises and a reader gives."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import pytest

from compactctl.context.offload import OffloaderBase
from compactctl.errors import LockedError, NothingMatchedError, OffloadError, StoreError, UnsafeStoreError
from compactctl.model import CompactionRecord, Message, OffloadEntry, Tier
from compactctl.store import FileBlobs, LogCounts, open_store
from compactctl.store.fs import Fs
from compactctl.store.layout import TURNS
from compactctl.store.writer import TURN_HEAD
from tests.store.faults import Fault, FaultyFs
from tests.store.scenes import SCENES, damage, last_complete_run, play, tree

START = {"input_sha256": "ab", "settings": {"window": 100}}


def record(**more: object) -> CompactionRecord:
    """Give a small record: 100 tokens became 50."""
    fields = {"tokens_before": 100, "tokens_after": 50, "msgs_before": 4, "msgs_after": 3, "compression_ratio": 0.5}
    return CompactionRecord(Tier.WARN, **(fields | more))  # type: ignore[arg-type]  # keywords as they come


def result(offloader: OffloaderBase, id: str, text: str) -> OffloadEntry:
    """Offload a text that is long enough."""
    done = offloader.offload(Message("tool", text, tool_call_id=id), text)
    assert done is not None
    return done[0]


def test_a_run_comes_back_as_it_was_written(disk: Path) -> None:
    """Records, turns, start and end of a run read back the same, with the run's id and numbers on them."""
    store = open_store(disk / "state")
    with store.writer("s", START) as run:
        entry = result(run.offloader(), "c1", "x" * 5000)
        run.append(record(offloaded=(entry,), summary_text="half an emoji: \ud83c", turn=3))
        run.turn({"turn": 3, "tokens": 50})
        run.memory({"title": "a fact"})
        run.end({"measures": {"m": None}})

    found = last_complete_run(store, "s")

    assert found is not None
    assert found.id == run.run
    assert found.start is not None
    assert found.start["settings"] == {"window": 100}
    assert found.end is not None
    assert found.end["measures"] == {"m": None}
    (back,) = store.records("s", found)
    assert (back.summary_text, back.run, back.session_id, back.turn) == ("half an emoji: \ud83c", run.run, "s", 3)
    assert back.offloaded == (entry,)
    assert (disk / "state" / entry.file_path).read_text() == "x" * 5000
    assert [row["turn"] for row in store.turns("s", found)] == [3]
    assert damage(store) == []


def test_the_same_input_and_settings_give_the_same_run_and_a_counter(disk: Path) -> None:
    """A run's id is a hash of input and settings and a counter; other settings have another hash."""
    store = open_store(disk / "state")
    ids = []
    for start in (START, START, START | {"settings": {"window": 200}}):
        with store.writer("s", start) as run:
            run.end()
        ids.append(run.run)

    first, _, counter = ids[0].rpartition("-")
    assert counter == "1"
    assert ids[1] == f"{first}-2"
    assert not ids[2].startswith(first)
    assert ids[2].endswith("-1")


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError])
def test_a_run_that_was_stopped_does_not_count(disk: Path, error: type[BaseException]) -> None:
    """A run that was left early says so in its end line, and no report counts it."""
    store = open_store(disk / "state")

    def stopped() -> None:
        with store.writer("s", START) as run:
            run.append(record())
            raise error

    with pytest.raises(error):
        stopped()

    (found,) = store.runs("s")
    assert found.end is not None
    assert found.end["status"] == ("interrupted" if error is KeyboardInterrupt else "failed")
    assert last_complete_run(store, "s") is None
    assert damage(store) == []


def test_what_could_not_be_written_is_counted_and_not_hidden(disk: Path) -> None:
    """A record that the disk had no room for is counted, and its run does not pass for a whole one."""
    fs = FaultyFs()
    store = open_store(disk / "state", fs=fs)
    with store.writer("s", START) as run:
        fs.at, fs.fault = fs.count + 1, Fault.ENOSPC
        with pytest.raises(StoreError, match="No space left"):
            run.append(record())
        run.append(record())
        run.end()

    assert (run.failures.records, run.failures.total) == (1, 1)
    assert "free some space" in run.failures.first
    assert last_complete_run(store, "s") is None
    assert damage(open_store(disk / "state")) == []


def test_a_result_that_could_not_be_offloaded_is_counted_once(disk: Path) -> None:
    """A compactor that asks again at every turn for the same result makes it one failure."""
    fs = FaultyFs()
    store = open_store(disk / "state", fs=fs)
    with store.writer("s", START) as run:
        offloader = run.offloader()
        for _ in range(3):
            fs.at, fs.fault = fs.count + 2, Fault.EACCES
            with pytest.raises(OffloadError):
                result(offloader, "c1", "x" * 5000)
        result(offloader, "c1", "x" * 5000)
        run.end()

    assert run.failures.offloads == 1
    assert last_complete_run(store, "s") is not None


def test_two_contents_under_one_id_are_both_kept(disk: Path) -> None:
    """Ids come again, within a run and in the next one; each content stays in a file of its own."""
    store = open_store(disk / "state")
    paths = []
    for texts in (("a" * 5000, "b" * 5000), ("c" * 5000, "a" * 5000)):
        with store.writer("s", START) as run:
            offloader = run.offloader()
            for text in texts:
                entry = result(offloader, "call_1", text)
                paths.append(entry.file_path)
                assert (disk / "state" / entry.file_path).read_text() == text
            run.end()

    assert len(set(paths)) == 3
    assert paths[0] == "tool_results/s/call_1.txt" == paths[3]


def test_a_file_that_somebody_changed_is_never_written_over(disk: Path) -> None:
    """Where a result's file holds something else by now, the new result gets another name."""
    store = open_store(disk / "state")
    play(disk, SCENES[0])
    changed = disk / "state/tool_results/s-1/call_0.txt"
    changed.write_bytes(b"\xff not mine")

    assert play(disk, SCENES[0]).total == 0

    assert changed.read_bytes() == b"\xff not mine"
    assert [p.name for p in changed.parent.iterdir() if p.name.startswith("call_0~")] != []
    assert any("something else" in problem.text for problem in damage(store))


def test_modes_are_private_whatever_the_umask(disk: Path) -> None:
    """Directories are 0700 and files 0600, under the most open umask and under the narrowest."""
    for umask in (0o000, 0o277):
        old = os.umask(umask)
        try:
            play(disk / f"{umask:o}", SCENES[0])
        finally:
            os.umask(old)
        for path, (mode, _) in tree(disk / f"{umask:o}").items():
            assert stat.S_IMODE(mode) == (0o700 if stat.S_ISDIR(mode) else 0o600), path


def test_git_never_sees_the_state_directory(disk: Path) -> None:
    """A new state directory ignores itself; one that another program made is left as it is."""
    play(disk, SCENES[0])
    assert (disk / "state/.gitignore").read_text() == "*\n"

    (disk / "theirs").mkdir()
    (disk / "theirs/sessions.db").write_text("")
    with open_store(disk / "theirs").writer("s", START) as run:
        run.end()
    assert not (disk / "theirs/.gitignore").exists()


def test_a_torn_line_is_set_aside_and_kept(disk: Path) -> None:
    """Half a line at the end of a file goes into a side file when the session is next written; nothing is glued."""
    play(disk, SCENES[0])
    log = disk / "state/compaction_records/s-1.jsonl"
    whole = log.read_bytes()
    log.write_bytes(whole + b'{"half": ')

    play(disk, SCENES[0])

    assert log.read_bytes().startswith(whole + b'{"id"')
    (side,) = log.parent.glob("*.torn-*")
    assert side.read_bytes() == b'{"half": '
    assert damage(open_store(disk / "state")) == []


def test_bad_lines_are_counted_with_their_places(disk: Path) -> None:
    """A reader uses what is good, says which lines were not, and goes on behind them."""
    store = open_store(disk / "state")
    with store.writer("s", START) as run:
        run.append(record())
        run.append(record(summary_text="x" * (3 << 20)))
        run.append(record())
        run.end()
    log = disk / "state/compaction_records/s.jsonl"
    lines = log.read_bytes().splitlines(keepends=True)
    log.write_bytes(lines[0] + b"\n" + b"\0" * 300 + b"\n" + lines[1] + b"[1]\n" + lines[2] + b"{}{")

    records = store.records("s", run.run)

    assert len(list(records)) == 3
    counts = records.counts
    assert (counts.lines, counts.used, counts.blank, counts.torn_bytes) == (6, 3, 1, 3)
    assert [(bad.number, bad.reason) for bad in counts.bad] == [(3, "not JSON"), (5, "not an object")]
    assert counts.bad[0].offset == len(lines[0]) + 1


def test_lines_without_a_hash_are_used_as_records_only(disk: Path) -> None:
    """harness9 writes no hashes, but it writes no turns either: such a line among turns is counted, not used."""
    play(disk, SCENES[0])
    log = disk / "state/turns/s-1.jsonl"
    log.write_bytes(b'{"turn": 0}\n' + log.read_bytes())
    store = open_store(disk / "state")
    counts = LogCounts()

    (run,) = store.runs("s-1")

    assert len(list(store.turns("s-1", run, counts))) == 4
    assert [(bad.number, bad.reason) for bad in counts.bad] == [(1, "no hash")]
    assert [problem.text for problem in damage(store)] == ["no hash"]


def test_the_records_of_harness9_are_one_complete_run(disk: Path) -> None:
    """Records that harness9 wrote, with null arrays and no run, load as one run that counts."""
    row = record().to_json()
    for key in ("run", "turn", "tier_name", "compactor", "trigger", "history", "meter", "notes", "dropped"):
        row.pop(key)
    row |= {
        "session_id": "h.1",
        "anchors": None,
        "offloaded": None,
        "duration": 1200,
        "timestamp": "2026-08-01T10:00:00Z",
    }
    (disk / "records").mkdir()
    (disk / "records/h.1.jsonl").write_text(json.dumps(row) + "\n" + json.dumps(row) + "\n")
    store = open_store(disk / "state", disk / "records")

    assert store.sessions() == ["h.1"]
    (run,) = store.runs("h.1")
    assert (run.id, run.complete, last_complete_run(store, "h.1")) == ("", True, run)
    assert [r.duration for r in store.records("h.1", run)] == [1200, 1200]
    assert not (disk / "state").exists()


def test_hostile_session_ids_keep_apart_and_read_back(disk: Path) -> None:
    """Sessions whose ids are no names are stored under safe ones and listed under their own."""
    store = open_store(disk / "state")
    ids = ["../../x", "", "a/b", "A", "a", "é", "e\u0301", "\ud83c", "x" * 4000]
    for session in ids:
        with store.writer(session, START) as run:
            run.end()

    assert store.sessions() == sorted(ids)
    assert all(len(store.runs(session)) == 1 for session in ids)


def test_an_unknown_session_is_an_error(disk: Path) -> None:
    """Asking for a session that is not there never gives an empty answer."""
    with pytest.raises(NothingMatchedError, match="no session 'nope'"):
        open_store(disk / "state").runs("nope")


def test_a_second_writer_is_turned_away_or_waits(disk: Path) -> None:
    """Two writers of one session never mix; another session is free."""
    store = open_store(disk / "state")
    with store.writer("s", START) as run:
        with pytest.raises(LockedError, match="--wait"), store.writer("s", START):
            pass
        with pytest.raises(LockedError), store.writer("s", START, wait=0.01):
            pass
        with store.writer("t", START) as other:
            other.end()
        run.end()
    with store.writer("s", START) as again:
        again.end()


@pytest.mark.parametrize("place", ["", "tool_results", "tool_results/s-1", "turns", "compaction_records/s-1.jsonl"])
def test_links_are_refused(disk: Path, place: str) -> None:
    """Where a link stands in the store, nothing is written and nothing behind it is touched."""
    elsewhere = disk / "elsewhere"
    play(elsewhere, SCENES[0])
    before = tree(elsewhere)
    target = disk / "state" / place
    target.parent.mkdir(parents=True, exist_ok=True)
    target.symlink_to(elsewhere / "state" / place)

    with pytest.raises(UnsafeStoreError, match="does not follow"):
        play(disk, SCENES[0])

    assert tree(elsewhere) == before


@pytest.mark.parametrize("kind", ["fifo", "directory", "second name"])
def test_other_kinds_of_file_are_refused(disk: Path, kind: str) -> None:
    """A pipe in place of a file is never waited for, and a file with a second name elsewhere never written."""
    log = disk / "state/turns/s-1.jsonl"
    log.parent.mkdir(parents=True)
    if kind == "fifo":
        os.mkfifo(log)
    elif kind == "directory":
        log.mkdir()
    else:
        (disk / "mine.txt").write_text("mine\n")
        os.link(disk / "mine.txt", log)

    with pytest.raises(StoreError, match=r"s-1\.jsonl"):
        play(disk, SCENES[0])


def test_a_state_directory_that_is_read_only_is_told_before_any_work(disk: Path) -> None:
    """Where the store cannot be written the run does not begin, so no summary was paid for."""
    fs = FaultyFs(1, Fault.EACCES)

    with pytest.raises(StoreError, match="Permission denied"), open_store(disk / "state", fs=fs).writer("s", START):
        raise AssertionError("the run began")


def test_blobs_are_whole_or_absent(disk: Path) -> None:
    """A cassette gives back what was put under a key first, and nothing where its file was damaged."""
    store = open_store(disk / "state")
    blobs = FileBlobs(store.layout)

    assert blobs.get("k") is None
    blobs.put("k", b"one\ntwo")
    blobs.put("k", b"another")
    assert blobs.get("k") == b"one\ntwo"

    (file,) = (disk / "state/cassettes").iterdir()
    file.write_bytes(file.read_bytes()[:-1])
    assert blobs.get("k") is None
    blobs.put("k", b"again")
    assert blobs.get("k") == b"again"


def test_turn_lines_are_counted_too(disk: Path) -> None:
    """The counts of a file say how many of its lines were read while turns are streamed."""
    store = open_store(disk / "state")
    with store.writer("s", START) as run:
        for turn in range(5):
            run.turn({"turn": turn})
        run.end()
    counts = LogCounts()

    assert len(list(store.turns("s", run.run, counts))) == 5
    assert (counts.lines, counts.used) == (7, 7)  # start, five turns, end


def test_turn_lines_can_be_left_unread(disk: Path) -> None:
    """Who has no use for turns gets the other lines alone, and still the counts and the damage of all."""
    store = open_store(disk / "state")
    with store.writer("s", START) as run:
        for turn in range(5):
            run.turn({"turn": turn})
        run.end()
    log = disk / "state/turns/s.jsonl"
    log.write_bytes(log.read_bytes().replace(b'"turn":3', b'"turn":7'))
    counts = LogCounts()

    assert [row["event"] for _, row in store.rows(TURNS, "s", counts, unread=TURN_HEAD)] == ["start", "end"]
    assert (counts.lines, counts.used) == (7, 6)
    assert [(bad.number, bad.reason) for bad in counts.bad] == [(5, "wrong hash")]


def test_the_store_keeps_its_own_keys(disk: Path) -> None:
    """A caller cannot write the keys by which lines are numbered and trusted."""
    with open_store(disk / "state").writer("s", START) as run:
        with pytest.raises(ValueError, match="seq"):
            run.turn({"seq": 1})
        run.end()


class LateGc(Fs):
    """Takes the lock file away just after a writer opened it, once, as gc beside it does at its end."""

    def __init__(self) -> None:
        self.done = False

    def open(self, name: str, flags: int, dir_fd: int | None = None) -> int:
        """Open, and remove what was opened."""
        fd = super().open(name, flags, dir_fd)
        if name == "s" and flags & os.O_CREAT and not self.done:
            self.done = True
            os.unlink(name, dir_fd=dir_fd)
        return fd


def test_a_lock_that_gc_takes_away_meanwhile_is_taken_anew(disk: Path) -> None:
    """A writer that opens the lock of a session while gc removes it is not told of a second name; it goes on."""
    fs = LateGc()
    store = open_store(disk / "state", fs=fs)
    with store.writer("s", START) as run:
        run.append(record())
        run.end()

    assert fs.done
    assert len(list(store.records("s", run.run))) == 1
