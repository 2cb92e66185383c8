"""Run the benchmarks: ``python -m bench`` runs all, ``python -m bench replay startup`` these two.

Each line is a ratio with minimum, median and maximum of several runs against a yardstick of the same run. D is the CPU
time of decoding the same file line by line with orjson, start-up of Python and imports taken off both.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import orjson

from bench import data
from bench.data import session
from bench.measure import cost, in_turns, output, python, spread, tool, verdict
from bench.report import report
from bench.tune import tune

RUNS = 5
DRY = ("--dry-run", "--summarizer", "opaque", "--measures", "none", "--window", "200000", "--no-config", "-q")
Target = Callable[[Path, int], bool]


def replay(room: Path, runs: int) -> bool:
    """Targets 1 and 4: load and replay a 100 MB session; memory; growth from a tenth of it."""
    large, small = session(room, "large", 1.0), session(room, "small", 0.1)
    nothing = session(room, "nothing", 0.0002)
    memory: list[float] = []

    def replayed(path: Path) -> float:
        taken = cost(tool("replay", str(path), "--history", "write-back", *DRY))
        if path is large:
            memory.append(taken.memory)
        return taken.cpu

    # The yardstick stands on both sides of what it is held to: a machine that others use changes its pace meanwhile.
    start, before, whole, after, tenth, empty = in_turns(
        runs,
        lambda: cost(python("-m", "bench.yardstick", str(nothing))).cpu,
        lambda: cost(python("-m", "bench.yardstick", str(large))).cpu,
        lambda: replayed(large),
        lambda: cost(python("-m", "bench.yardstick", str(large))).cpu,
        lambda: replayed(small),
        lambda: replayed(nothing),
    )
    d = [(a + b) / 2 - c for a, b, c in zip(before, after, start, strict=True)]
    ratios = [(a - b) / c for a, b, c in zip(whole, empty, d, strict=True)]
    # A tenth costs less than the start of Python, and more than that may be off in one run: the quickest ones tell.
    nothing_read = min(empty)
    growth = [(a - nothing_read) / (min(tenth) - nothing_read) for a in whole]
    text = large.stat().st_size
    shares = [(used - 100e6) / text for used in memory]
    held = [
        verdict("1  load and replay 100 MB", ratios, 4.0, "D", f"D = {spread(d, 3)} CPU s", "aim 3 D"),
        verdict("1  growth, 10 x the messages", growth, 12.0, "x"),
        verdict("4  peak memory less 100 MB", shares, 2.5, "x the file"),
    ]
    return all(held)


def stored(room: Path, runs: int) -> bool:
    """Reported, not gated: the same with the stub, all measures, and files and records written."""
    large, nothing = session(room, "large", 1.0), session(room, "nothing", 0.0002)
    number = iter(range(10_000))

    def replayed(path: Path, *more: str) -> float:
        state = str(room / f"state-{next(number)}")
        options = ("--history", "write-back", "--window", "200000", "--no-config", "-q", "--state-dir", state)
        return cost(tool("replay", str(path), *options, *more)).cpu

    start, decode, plain, empty = in_turns(
        min(runs, 3),
        lambda: cost(python("-m", "bench.yardstick", str(nothing))).cpu,
        lambda: cost(python("-m", "bench.yardstick", str(large))).cpu,
        lambda: replayed(large),
        lambda: replayed(nothing),
    )
    d = [a - b for a, b in zip(decode, start, strict=True)]
    ratios = [(a - b) / c for a, b, c in zip(plain, empty, d, strict=True)]
    return verdict("1  stub, all measures, stored (reported)", ratios, float("inf"), "D")


def view(room: Path, runs: int) -> bool:
    """Target 3: view mode over 1,000 turns costs at most 2 seconds and grows with what changes."""
    path = session(room, "view", 2000 / data.MESSAGES)
    nothing = session(room, "nothing", 0.0002)
    options = ("--history", "view", "--window", "400000")
    taken, empty = in_turns(
        runs,
        lambda: cost(tool("replay", str(path), *DRY, *options)).cpu,
        lambda: cost(tool("replay", str(nothing), *DRY, *options)).cpu,
    )
    return verdict("3  view mode, 1,000 turns", [a - b for a, b in zip(taken, empty, strict=True)], 2.0, "CPU s")


def startup(room: Path, runs: int) -> bool:
    """Target 6: ``--version`` within 5 and ``--help`` within 14 starts of Python."""
    times = max(runs, 9)
    plain, version, usage = in_turns(
        times,
        lambda: cost(python("-c", "pass")).cpu,
        lambda: cost(tool("--version")).cpu,
        lambda: cost(tool("--help")).cpu,
    )
    one = statistics.median(plain)
    held = [
        verdict("6  --version", [value / one for value in version], 5.0, "x python -c pass"),
        verdict("6  --help", [value / one for value in usage], 14.0, "x python -c pass"),
    ]
    return all(held)


def measures(room: Path, runs: int) -> bool:
    """What measures cost: facts of the text once a session, all else for each of its replays."""
    large = session(room, "large", 1.0)
    found = [orjson.loads(output(python("-m", "bench.measures", str(large)))) for _ in range(min(runs, 3))]
    d = [one["decode"] for one in found]

    def ratios(part: str, whole: str) -> list[float]:
        return [one[part] / one[whole] for one in found]

    held = [
        verdict("facts of the text, once a session", ratios("facts", "pass"), 2.0, "x a regular expression pass"),
        verdict("all else, each replay of a sweep", ratios("sweep", "decode"), 0.5, "D", f"D = {spread(d, 3)} CPU s"),
    ]
    verdict("all else and findings, one replay of all steps (reported)", ratios("steps", "decode"), float("inf"), "D")
    verdict("what else a session's first replay needs (reported)", ratios("rest", "decode"), float("inf"), "D")
    return all(held)


TARGETS: dict[str, Target] = {
    "replay": replay,
    "view": view,
    "startup": startup,
    "measures": measures,
    "stored": stored,
    "tune": tune,
    "report": report,
}


def main() -> int:
    """Run the targets that were named."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("targets", nargs="*", choices=[*TARGETS, []], help="which; all where none is named")
    parser.add_argument("--runs", type=int, default=RUNS)
    given = parser.parse_args()
    held = True
    with tempfile.TemporaryDirectory() as room:
        for name in given.targets or TARGETS:
            held = TARGETS[name](Path(room), given.runs) and held
    return 0 if held else 1


if __name__ == "__main__":
    sys.exit(main())
