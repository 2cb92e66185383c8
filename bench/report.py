"""What a report over many sessions costs, as a ratio to decoding the lines of the state directory.

    python -m bench.report [--sessions 500]

Replays the samples into a temporary state directory, copies their runs under new ids until there are as many sessions
as asked for, and measures CPU seconds, imports taken off: of decoding every line with orjson, and of each report. The
ratio of the table is held, the others are reported.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import io
import resource
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import orjson

from bench.measure import in_turns, spread, verdict
from compactctl.cli.app import run
from compactctl.store.lines import seal, unseal

SAMPLES = Path(__file__).parent.parent / "sample_sessions"
RUNS = 5
FORMATS = ("table", "json", "csv", "markdown", "html")
HELD, GATE = "table", 3.0


def report(room: Path, runs: int, sessions: int = 500) -> bool:
    """Print a line for each format, and say whether the table is within its gate."""
    state = room / "report-state"
    gc.disable()  # as in the process of the command
    try:
        quietly(["replay", str(SAMPLES), "--state-dir", str(state), "--quiet", "--no-config"])
        copies(state, sessions)
        logs = [*state.glob("turns/*.jsonl"), *state.glob("compaction_records/*")]
        made = [
            partial(quietly, ["report", "--state-dir", str(state), "--format", format, "--quiet", "--no-config"])
            for format in FORMATS
        ]
        # The turn that does not count pays the imports.
        base, *spent = in_turns(runs, *(partial(cpu, work) for work in (partial(decode, logs), *made)))
    finally:
        gc.enable()
    size = sum(log.stat().st_size for log in logs) / 1e6
    print(f"        {sessions} sessions, {size:.0f} MB of lines, decoded in {spread(base, 3)} CPU s")
    held = True
    for format, taken in zip(FORMATS, spent, strict=True):
        ratios = [one / yard for one, yard in zip(taken, base, strict=True)]
        if format == HELD:
            held = verdict(f"report as {format}", ratios, GATE, "x decoding")
        else:
            verdict(f"report as {format} (reported)", ratios, float("inf"), "x decoding")
    print(f"        peak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000:.0f} MB")
    return held


def decode(logs: list[Path]) -> None:
    """Decode every line of these files."""
    for log in logs:
        with log.open("rb") as lines:
            for line in lines:
                orjson.loads(line)


def copies(state: Path, sessions: int) -> None:
    """Copy the runs of a state directory under new ids until it holds so many sessions."""
    names = sorted(log.stem for log in state.glob("turns/*.jsonl"))
    for number in range(sessions - len(names)):
        name = names[number % len(names)]
        for room in ("turns", "compaction_records"):
            lines = (state / room / f"{name}.jsonl").read_bytes().splitlines()
            copy = f"{name[:20]}-{number:04}"
            (state / room / f"{copy}.jsonl").write_bytes(b"".join(under(line, copy) for line in lines))


def under(line: bytes, session_id: str) -> bytes:
    """Give a line of the store as that of another session."""
    row = unseal(line)
    del row["sha"]
    return seal(row | ({"session_id": session_id} if "session_id" in row else {}))


def quietly(command: list[str]) -> None:
    """Run a command, its output thrown away; fails where it fails."""
    out = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()):
        status = run(command)
    if status:
        raise SystemExit(f"{' '.join(command)}: exit status {status}")


def cpu(work: Callable[[], object]) -> float:
    """Give the CPU seconds that something takes in this process."""
    start = time.process_time()
    work()
    return time.process_time() - start


def main() -> int:
    """Measure; 1 where the gate is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sessions", type=int, default=500)
    parser.add_argument("--runs", type=int, default=RUNS)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as room:
        return 0 if report(Path(room), given.runs, given.sessions) else 1


if __name__ == "__main__":
    sys.exit(main())
