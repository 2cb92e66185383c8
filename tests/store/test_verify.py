"""Verify sees every damage, calls a crash's leavings by their name, and repairs very little."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from compactctl.errors import LockedError, NothingMatchedError
from compactctl.model import Anchor, AnchorType, CompactionRecord, OffloadEntry, Tier, changed
from compactctl.store import FileBlobs, open_store
from compactctl.store.gc import Selection, apply_gc, plan_gc
from compactctl.store.lines import seal
from compactctl.store.problems import Level
from compactctl.store.repair import apply_repair, plan_repair
from compactctl.store.verify import verify
from tests.store.points import TORTURE
from tests.store.scenes import SCENES, damage, play, tree

Record = Callable[[str, object], None]

START = {"input_sha256": "ab", "settings": {}}
SMALL = CompactionRecord(Tier.WARN, 100, 50, 4, 3, compression_ratio=0.5, summary_text="é" * 100)


@contextmanager
def bytes_of(path: Path) -> Iterator[tuple[int, bytes]]:
    """Open a file for damaging it in place, and put it back as it was."""
    pristine = path.read_bytes()
    fd = os.open(path, os.O_RDWR)
    try:
        yield fd, pristine
    finally:
        os.pwrite(fd, pristine, 0)
        os.close(fd)


@pytest.mark.parametrize("bit", range(8))
def test_every_flipped_bit_of_a_record_file_is_detected(disk: Path, bit: int, record_property: Record) -> None:
    """Whichever single bit of 2 KB of records turns over, verify calls it damage."""
    store = open_store(disk / "state")
    with store.writer("s", START) as run:
        for turn in range(3):
            run.append(changed(SMALL, turn=turn))
        run.end()

    with bytes_of(disk / "state/compaction_records/s.jsonl") as (fd, pristine):
        assert len(pristine) > 2000
        assert verify(store, ["s"]).problems == []
        for at, byte in enumerate(pristine):
            os.pwrite(fd, bytes([byte ^ 1 << bit]), at)
            assert verify(store, ["s"]).count(Level.ERROR), at
            os.pwrite(fd, bytes([byte]), at)

    record_property("store: bit flips detected", len(pristine))


def test_every_flipped_byte_of_a_turns_file_is_detected(disk: Path, record_property: Record) -> None:
    """Whichever byte of start, turn and end lines changes, verify calls it damage."""
    store = open_store(disk / "state")
    play(disk, SCENES[0])

    with bytes_of(disk / "state/turns/s-1.jsonl") as (fd, pristine):
        for at, byte in enumerate(pristine[:-1]):
            for bit in range(8) if TORTURE else (at % 8,):
                os.pwrite(fd, bytes([byte ^ 1 << bit]), at)
                assert damage(store), (at, bit)
            os.pwrite(fd, bytes([byte]), at)
        # Without its last newline the end line is torn, as a crash may leave it: the run is called unfinished.
        os.pwrite(fd, b"x", len(pristine) - 1)
        assert "no end" in " ".join(problem.text for problem in verify(store).problems)

    record_property("store: bit flips detected", len(pristine) * (8 if TORTURE else 1))


def test_a_flip_in_any_offloaded_file_is_detected(disk: Path, record_property: Record) -> None:
    """One bit in any offloaded result, and verify names the record that it no longer fits."""
    store = open_store(disk / "state")
    play(disk, SCENES[1])
    files = sorted((disk / "state/tool_results").rglob("*.txt"))

    for number, file in enumerate(files):
        with bytes_of(file) as (fd, pristine):
            for at in range(0, len(pristine), 31 if TORTURE else 1009):
                os.pwrite(fd, bytes([pristine[at] ^ 1 << number % 8]), at)
                assert any("something else" in problem.text for problem in damage(store)), (file, at)
                os.pwrite(fd, pristine[at : at + 1], at)

    record_property("store: offloaded files with a flip detected", len(files))


@pytest.mark.parametrize("room", ["compaction_records", "turns", "memories", "tool_results"])
def test_truncation_at_every_byte_is_detected(disk: Path, room: str, record_property: Record) -> None:
    """Wherever a file ends too early, verify calls it damage: at line borders too, where a whole run is gone of which
    nothing else is stored, and where nothing is left."""
    store = open_store(disk / "state")
    play(disk, SCENES[0])
    with store.writer("s-1", START) as run:
        run.end()
    file = next(path for path in sorted((disk / "state" / room).rglob("*")) if path.is_file())

    with bytes_of(file) as (fd, pristine):
        sizes = range(0, len(pristine), 37 if room == "tool_results" and not TORTURE else 1)
        for size in sizes:
            os.ftruncate(fd, size)
            assert verify(store, ["s-1"]).count(Level.ERROR), size
            os.pwrite(fd, pristine[size:], size)

    record_property("store: truncations detected", len(sizes))


def test_turns_that_are_gone_are_detected(disk: Path) -> None:
    """Turns without any record beside them are missed when they are cut to nothing, removed, or when old runs went
    before; a note of their length that is damaged is damage. The next replay is whole again, and gc takes all."""
    store = open_store(disk / "state")
    for window in (1, 2):
        with store.writer("s", {"settings": {"window": window}}) as run:
            run.end()
    apply_gc(store, plan_gc(store, Selection(("s",), keep_runs=1)))
    turns = disk / "state/turns/s.jsonl"
    assert verify(store).problems == []

    with bytes_of(turns) as (fd, pristine):
        os.ftruncate(fd, 0)
        assert [problem.level for problem in damage(store)] == [Level.ERROR]
    assert turns.read_bytes() == pristine
    turns.unlink()
    assert [(problem.level, "too early" in problem.text) for problem in damage(store)] == [(Level.ERROR, True)]
    Path(f"{turns}.length").write_text("{}")
    assert ["damaged" in problem.text for problem in damage(store)] == [True]
    with store.writer("s", START) as run:
        run.end()
    assert verify(store).problems == []
    apply_gc(store, plan_gc(store, Selection(("s",))))
    assert list(turns.parent.iterdir()) == []


def rewritten(path: Path, change: Callable[[list[dict[str, object]]], list[dict[str, object]]]) -> None:
    """Change the rows of a file and give each line the hash that it would have: damage with good hashes."""
    rows = [json.loads(line) for line in path.read_bytes().splitlines()]
    path.write_bytes(b"".join(seal({k: v for k, v in row.items() if k != "sha"}) for row in change(rows)))


@pytest.mark.parametrize(
    ("room", "change", "said"),
    [
        ("compaction_records", lambda rows: rows[1:], "out of sequence"),
        ("compaction_records", lambda rows: [*rows, rows[-1]], "out of sequence"),
        ("compaction_records", lambda rows: rows[:-1], "its end says 3"),
        ("turns", lambda rows: [*rows[:2], *rows[3:]], "out of sequence"),
        ("turns", lambda rows: rows[1:], "out of sequence"),
        ("turns", lambda rows: [], "has no start line"),
        ("memories", lambda rows: [], "holds 0 memories"),
        ("compaction_records", lambda rows: [row | {"session_id": "other"} for row in rows], "of another session"),
        ("compaction_records", lambda rows: [row | {"tier": 9} for row in rows], "not a record"),
        ("compaction_records", lambda rows: [row | {"compression_ratio": 0.9} for row in rows], "compression_ratio"),
        ("compaction_records", lambda rows: [row | {"msgs_after": -1} for row in rows], "which cannot be"),
        (
            "compaction_records",
            lambda rows: [row | {"turn": 9 - at} for at, row in enumerate(rows)],
            "comes after turn",
        ),
        (
            "compaction_records",
            lambda rows: [row | {"anchors": [{"type": "user_intent", "content": "x"}]} for row in rows],
            "not the five kinds",
        ),
    ],
)
def test_damage_with_good_hashes_is_detected_too(
    disk: Path, room: str, change: Callable[[list[dict[str, object]]], list[dict[str, object]]], said: str
) -> None:
    """Lines that are gone, repeated or wrong in themselves are found although each is whole."""
    store = open_store(disk / "state")
    play(disk, SCENES[1])
    (log,) = (disk / "state" / room).glob("*.jsonl")

    rewritten(log, change)

    assert any(said in problem.text for problem in damage(store)), damage(store)


def test_records_that_name_files_elsewhere_are_damage(disk: Path) -> None:
    """A record that names a file outside its session is an error, and that file is not even looked at."""
    secret = disk / "secret.txt"
    secret.write_text("x")
    store = open_store(disk / "state")
    with store.writer("s", START) as run:
        run.append(changed(SMALL, offloaded=(OffloadEntry("c", "", str(secret), 1, 1),)))
        run.append(changed(SMALL, offloaded=(OffloadEntry("c", "", "tool_results/s/gone.txt", 1, 1, "00"),)))
        run.end()

    first, second = damage(store)

    assert "none of its session's results" in first.text
    assert (second.line, "not there" in second.text) == (2, True)


def test_what_is_open_to_others_is_a_warning_and_can_be_closed(disk: Path) -> None:
    """Wider modes are warnings; a repair closes them and changes nothing else."""
    play(disk, SCENES[0])
    store = open_store(disk / "state")
    before = tree(disk)
    for path, mode in (("turns", 0o755), ("turns/s-1.jsonl", 0o644), ("tool_results/s-1/call_0.txt", 0o664)):
        (disk / "state" / path).chmod(mode)

    problems = damage(store)
    steps = plan_repair(store)

    assert [problem.level for problem in problems] == [Level.WARNING] * 3
    assert len(steps) == 3
    assert apply_repair(store, steps) == 3
    assert tree(disk) == before


def test_a_repair_sets_torn_lines_aside_and_removes_temporaries(disk: Path) -> None:
    """Torn lines and temporaries are named, repaired when told to, and the torn bytes are kept."""
    play(disk, SCENES[0])
    store = open_store(disk / "state")
    log = disk / "state/turns/s-1.jsonl"
    whole = log.read_bytes()
    log.write_bytes(whole + b'{"half')
    for stale in ("tool_results/s-1/.tmp-c.txt", "compaction_records/.tmp-s-1.jsonl", ".trash/.tmp-s-1.json"):
        (disk / "state" / stale).parent.mkdir(exist_ok=True, mode=0o700)
        (disk / "state" / stale).write_text("half")
        (disk / "state" / stale).chmod(0o600)

    assert {problem.level for problem in verify(store).problems} == {Level.INFO}
    assert len(verify(store).problems) == 4
    before = tree(disk)
    steps = plan_repair(store)
    assert tree(disk) == before
    assert apply_repair(store, steps) == len(steps) == 4

    assert log.read_bytes() == whole
    assert [path.read_bytes() for path in log.parent.glob("*.torn-*")] == [b'{"half']
    assert verify(store).problems == []
    assert apply_repair(store, steps) <= 1


def test_a_repair_keeps_off_a_session_in_use(disk: Path) -> None:
    """The temporaries of a live writer are not stale."""
    store = open_store(disk / "state")
    with store.writer("s", START) as run:
        (disk / "state/compaction_records/.tmp-s.jsonl").write_text("live")
        with pytest.raises(LockedError):
            apply_repair(store, plan_repair(store))
        assert verify(store).busy == ["s"]
        run.end()


def test_damaged_cassettes_are_found(disk: Path) -> None:
    """A reply that is no longer what was stored is named."""
    store = open_store(disk / "state")
    FileBlobs(store.layout).put("k", b"reply")
    assert verify(store).problems == []

    (disk / "state/cassettes/k").write_bytes(b"reply")

    assert [problem.text for problem in damage(store)] == [
        "is damaged: its content is not what its hash says; remove it"
    ]


def test_verify_writes_nothing(disk: Path) -> None:
    """Checking a store, even a damaged one, leaves every byte and mode as it was."""
    for scene in SCENES:
        play(disk, scene)
    (disk / "state/turns/s-1.jsonl").write_bytes(b"{}\n{")
    before = tree(disk)

    assert verify(open_store(disk / "state")).sessions == 3

    assert tree(disk) == before


def test_an_unknown_session_is_not_a_clean_one(disk: Path) -> None:
    """A typo never verifies."""
    play(disk, SCENES[0])

    with pytest.raises(NothingMatchedError):
        verify(open_store(disk / "state"), ["s-2"])


def test_directories_of_harness9_are_verified(disk: Path) -> None:
    """Records and results that harness9 wrote are held against each other; its other files are not remarked on."""
    row = changed(SMALL, session_id="h9", anchors=tuple(Anchor(kind, "x") for kind in AnchorType)).to_json()
    for key in ("run", "turn", "tier_name", "compactor", "trigger", "history", "meter", "notes", "dropped"):
        row.pop(key)
    row["offloaded"] = [
        {"tool_call_id": "c1", "tool_name": "", "file_path": ".harness9/tool_results/h9/c1.txt", "bytes": 3, "lines": 1}
    ]
    (disk / "h9/tool_results/h9").mkdir(parents=True, mode=0o700)
    (disk / "h9/tool_results").chmod(0o700)
    (disk / "h9/sessions.db").write_text("")
    (disk / "records").mkdir(mode=0o700)
    for path, text in (("records/h9.jsonl", json.dumps(row) + "\n"), ("h9/tool_results/h9/c1.txt", "abc")):
        (disk / path).write_text(text)
        (disk / path).chmod(0o600)
    store = open_store(disk / "h9", disk / "records")

    assert verify(store).problems == []

    (disk / "h9/tool_results/h9/c1.txt").write_text("abcd")
    assert any("something else" in problem.text for problem in damage(store))
