"""A fast disk for the fault tests, and their figures at the end of the run."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

FIGURE = "store: "


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A directory of the test's own, in memory where the system has such a place: the tests sync thousands of times."""
    memory = Path("/dev/shm")
    if not (memory.is_dir() and os.access(memory, os.W_OK)):
        yield tmp_path
        return
    root = Path(tempfile.mkdtemp(prefix="compactctl-test-", dir=memory))
    yield root
    shutil.rmtree(root, ignore_errors=True)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print what the store's tests counted: faults injected, kills that hit, flips detected."""
    figures: Counter[str] = Counter()
    for report in terminalreporter.getreports("passed"):
        for name, value in report.user_properties:
            if name.startswith(FIGURE) and isinstance(value, int):
                figures[name.removeprefix(FIGURE)] += value
    if figures:
        terminalreporter.section("store figures")
        for name, value in sorted(figures.items()):
            terminalreporter.line(f"{name}: {value}")
