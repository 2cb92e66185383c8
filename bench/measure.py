"""Measures whole processes and prints ratios: subject and yardstick in turns, so that both meet the same machine.

CPU seconds are the operating system's own account of the finished child. The start-up of Python and of the tool is
measured in the same turns and taken off where a target says so.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]


@dataclass(frozen=True, slots=True)
class Cost:
    """What one process took: CPU seconds and the largest resident memory in bytes."""

    cpu: float
    memory: int


def cost(arguments: Sequence[str], cwd: Path = ROOT) -> Cost:
    """Run a command to its end and give what it took; its output goes nowhere. Raises RuntimeError where it fails."""
    child = os.fork()
    if child == 0:
        nothing = os.open(os.devnull, os.O_RDWR)
        for stream in range(3):
            os.dup2(nothing, stream)
        os.chdir(cwd)
        environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
        os.execvpe(arguments[0], list(arguments), environment | {"PYTHONPATH": str(ROOT)})
    _, status, usage = os.wait4(child, 0)
    if status != 0:
        raise RuntimeError(f"{' '.join(arguments)} ended with {os.waitstatus_to_exitcode(status)}")
    return Cost(usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024)


def output(arguments: Sequence[str], cwd: Path = ROOT) -> bytes:
    """Run a command to its end and give what it printed. Raises CalledProcessError where it fails."""
    return subprocess.run(arguments, cwd=cwd, check=True, capture_output=True).stdout


def python(*arguments: str) -> list[str]:
    """Give the command line of a Python process."""
    return [sys.executable, *arguments]


def tool(*arguments: str) -> list[str]:
    """Give the command line of compactctl."""
    return python("-m", "compactctl", *arguments)


def spread(values: Sequence[float], digits: int = 2) -> str:
    """Give minimum, median and maximum."""
    return " / ".join(f"{value:.{digits}f}" for value in (min(values), statistics.median(values), max(values)))


def in_turns(runs: int, *subjects: Callable[[], float]) -> list[list[float]]:
    """Measure the subjects one after another, ``runs`` times, after one turn that does not count."""
    for subject in subjects:
        subject()
    taken: list[list[float]] = [[] for _ in subjects]
    for _ in range(runs):
        for subject, values in zip(subjects, taken, strict=True):
            values.append(subject())
    return taken


def verdict(name: str, ratios: Sequence[float], gate: float, unit: str, *more: str) -> bool:
    """Print one target's line and say whether its median is within the gate."""
    # A cost below nothing is none: then the machine was too busy for this to be measured.
    held = 0 <= statistics.median(ratios) <= gate
    print(f"{'held' if held else 'MISSED'}  {name}: {spread(ratios)} {unit} (min / median / max), gate {gate:g}")
    for line in more:
        print(f"        {line}")
    return held
