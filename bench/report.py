"""What a report over many sessions costs, as a ratio to decoding the lines of the state directory.

    python -m bench.report [--sessions 500]

Replays the samples into a temporary state directory, copies their runs under new ids until there are as many sessions
as asked for, and measures CPU seconds, imports taken off: of decoding every line with orjson, and of each report. The
ratio of the table is the figure that is held (at most 3).
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import io
import resource
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import orjson

from compactctl.cli.app import run
from compactctl.store.lines import seal, unseal

SAMPLES = Path(__file__).parent.parent / "sample_sessions"
REPEATS = 5


def main() -> None:
    """Print one line for each report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sessions", type=int, default=500)
    sessions = parser.parse_args().sessions
    gc.disable()  # as in the process of the command
    with tempfile.TemporaryDirectory() as made:
        state = Path(made)
        quietly(["replay", str(SAMPLES), "--state-dir", str(state), "--quiet"])
        copies(state, sessions)
        logs = [*state.glob("turns/*.jsonl"), *state.glob("compaction_records/*")]
        print(f"{sessions} sessions, {sum(log.stat().st_size for log in logs) / 1e6:.0f} MB of lines")
        base = cpu(lambda: decode(logs))
        print(f"{'decode':<10} {base:6.2f} s  1.0")
        for format in ("table", "json", "csv", "markdown", "html"):
            spent = cpu(partial(quietly, ["report", "--state-dir", str(state), "--format", format, "--quiet"]))
            print(f"{format:<10} {spent:6.2f} s  {spent / base:.1f}")
    print(f"peak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000:.0f} MB")


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
    """Give the least CPU seconds of some repetitions; the first pays the imports and does not count."""
    work()
    best = float("inf")
    for _ in range(REPEATS):
        start = time.process_time()
        work()
        best = min(best, time.process_time() - start)
    return best


if __name__ == "__main__":
    main()
