"""The real command, killed at random moments while it writes."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from compactctl.store import open_store
from tests.store.points import TORTURE
from tests.store.scenes import around, damage, picture, plant_decoys

Record = Callable[[str, object], None]

KILLS = 100 if TORTURE else 20
SESSION = "killed"


def long_transcript(path: Path, turns: int = 200) -> None:
    """Write a session in which every fourth result is large."""
    rows: list[dict[str, object]] = [
        {"compactctl": 1, "session_id": SESSION, "context_window": 60_000},
        {"role": "system", "content": "You are an agent."},
        {"role": "user", "content": "Fix it."},
    ]
    for turn in range(turns):
        size = 900 if turn % 4 == 0 else 30
        call = {"id": f"c{turn}", "name": "read", "arguments": "{}"}
        rows.append({"role": "assistant", "content": f"step {turn}", "tool_calls": [call]})
        rows.append({"role": "tool", "tool_call_id": f"c{turn}", "content": f"{turn} line\n" * size})
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def launch(root: Path) -> subprocess.Popen[bytes]:
    """Start the replay as a user does."""
    command = [
        sys.executable,
        "-m",
        "compactctl",
        "replay",
        str(root / "session.jsonl"),
        "--quiet",
        "--measures",
        "none",
    ]
    command += ["--no-config", "--state-dir", str(root / "state")]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    return subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def running(process: subprocess.Popen[bytes]) -> bool:
    """Give way to a process for a moment, and say whether it is still there."""
    try:
        process.wait(0.001)
    except subprocess.TimeoutExpired:
        return True
    return False


def written(root: Path) -> int:
    """Give how many bytes the store holds of the session's lines and results."""
    total = 0
    for room in ("turns", "compaction_records", f"tool_results/{SESSION}"):
        try:
            with os.scandir(root / "state" / room) as entries:
                total += sum(entry.stat().st_size for entry in entries)
        except FileNotFoundError:
            continue
    return total


def test_random_kills_of_the_real_command(disk: Path, record_property: Record) -> None:
    """However often a replay is killed outright, the store is sound and the next replay is whole."""
    long_transcript(disk / "session.jsonl")
    assert launch(disk).wait(120) == 0
    store = open_store(disk / "state")
    expected = picture(store, SESSION)
    whole = written(disk)
    decoys = plant_decoys(disk)
    draw = random.Random(20260801)

    hits = 0
    for number in range(KILLS):
        before = written(disk)
        # The moment is drawn by how much was written, so that it does not depend on how busy the machine is.
        enough = before + draw.uniform(0, 0.9) * (whole - sum_of_results(disk))
        process = launch(disk)
        while written(disk) <= enough and running(process):
            pass
        process.kill()
        hits += process.wait(120) == -9

        assert damage(store) == [], number
        assert picture(store, SESSION) == expected, number
        assert around(disk) == decoys, number

    assert hits >= 0.6 * KILLS
    complete = sum(run.complete for run in store.runs(SESSION))
    assert launch(disk).wait(120) == 0
    assert picture(store, SESSION) == expected
    assert sum(run.complete for run in store.runs(SESSION)) == complete + 1
    assert damage(store) == []
    record_property("store: kills of the real command", KILLS)
    record_property("store: kills that hit it writing", hits)


def sum_of_results(root: Path) -> int:
    """Give the bytes of the result files, which a second replay finds there and does not write again."""
    return sum(path.stat().st_size for path in (root / "state/tool_results" / SESSION).iterdir())


@pytest.mark.parametrize("signal", [2, 15])
def test_a_stopped_command_says_so(disk: Path, signal: int) -> None:
    """After Ctrl-C or SIGTERM the exit status is 130 or 143, and the run is in the store as interrupted."""
    long_transcript(disk / "session.jsonl", 4000)  # so long that the signal comes before the end on any machine
    process = launch(disk)
    while written(disk) < 20_000 and running(process):
        pass
    process.send_signal(signal)

    assert process.wait(120) == 128 + signal

    store = open_store(disk / "state")
    (run,) = store.runs(SESSION)
    assert run.end is not None
    assert run.end["status"] == "interrupted"
    assert damage(store) == []
