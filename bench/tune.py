"""Target 2: 200 settings over the 100 MB session, against decoding it and against 200 replays.

    python -m bench.tune [--runs 3] [--session FILE]

What is measured is the whole command less the same command with one point, so that start-up and loading are off.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

from bench.data import session
from bench.measure import cost, in_turns, python, spread, tool, verdict

GRID = ("--grid", "soft=0.60:0.79:0.01", "--grid", "full=0.80:0.89:0.01")
ONE = ("--grid", "soft=0.70", "--grid", "full=0.80")
FIXED = ("--history", "write-back", "--window", "200000", "--summarizer", "opaque", "--dry-run", "--no-config", "-q")
POINTS = 200
GATE, AIM, MEASURED_GATE = 40, 20, 140
GAIN_GATE = 1.6
# What else this machine does differs from second to second and takes from one of the two: few pairs say little.
_PAIRS_A_RUN = 3


def tune(room: Path, runs: int) -> bool:
    """Target 2: 200 settings over the 100 MB session; each of its figures takes minutes."""
    return measured(str(session(room, "large", 1.0)), min(runs, 3))


def measured(path: str, runs: int, *, with_measures: bool = False) -> bool:
    """Measure on one session, print the ratios, and say whether all are within their gates."""

    def tuned(*arguments: str) -> float:
        return cost(tool("tune", path, *FIXED, *arguments)).cpu

    subjects = [
        lambda: cost(python("-m", "bench.yardstick", path)).cpu - cost(python("-c", "import orjson")).cpu,
        lambda: tuned(*ONE, "--measures", "none"),
        lambda: tuned(*GRID, "--measures", "none"),
        lambda: cost(tool("replay", path, *FIXED, "--measures", "none")).cpu,
    ]
    decode, one, all_points, replay = in_turns(runs, *subjects)
    ratios = [(many - single) / yard for yard, single, many in zip(decode, one, all_points, strict=True)]
    gains = [POINTS * each / many for each, many in zip(replay, all_points, strict=True)]
    held = [
        verdict(f"2  {POINTS} settings, no measures (aim {AIM})", ratios, GATE, "D"),
        verdict(
            f"2  1 / ({POINTS} replays / {POINTS} settings)",
            [1 / gain for gain in gains],
            1 / 10,
            "",
            f"{spread(gains, 1)} times faster",
        ),
        _two_jobs(path, _PAIRS_A_RUN * runs),
    ]
    if with_measures:
        more = tuned(*GRID, "--measures", "m1,m3,m6") - tuned(*ONE, "--measures", "m1,m3,m6")
        name = f"2  {POINTS} settings with M1, M3 and M6"
        held.append(verdict(name, [more / yard for yard in decode], MEASURED_GATE, "D"))
    return all(held)


def _two_jobs(path: str, runs: int) -> bool:
    """Say how much faster two processes are than one, by the clock.

    A core that others use too makes two processes slower and one hardly: the quickest run of each says what the
    command can do, the median what this machine lets it.
    """

    def wall(jobs: str) -> float:
        started = time.perf_counter()
        cost(tool("tune", path, *FIXED, *GRID, "--measures", "none", "--jobs", jobs))
        return time.perf_counter() - started

    one, two = in_turns(runs, lambda: wall("1"), lambda: wall("2"))
    gains = [alone / shared for alone, shared in zip(one, two, strict=True)]
    return verdict(
        "2  1 / gain of two jobs",
        [1 / gain for gain in gains],
        1 / GAIN_GATE,
        "",
        f"{spread(gains)} times faster, by the quickest run of each {min(one) / min(two):.2f}; gate {GAIN_GATE}",
    )


def main() -> int:
    """Measure what was asked for; 1 where a gate is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--session", type=Path, help="take this file instead of making the session")
    parser.add_argument("--with-measures", action="store_true", help="also with M1, M3 and M6, which takes minutes")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as room:
        path = given.session or session(Path(room), "large", 1.0)
        return 0 if measured(str(path), given.runs, with_measures=given.with_measures) else 1


if __name__ == "__main__":
    sys.exit(main())
