"""What the tests of reports share: the samples, replayed once, and a run of the command line."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest

ROOT = Path(__file__).parents[2]
Command = Callable[..., subprocess.CompletedProcess[bytes]]


def _run(*arguments: str | Path, **environment: str) -> subprocess.CompletedProcess[bytes]:
    """Run the command line as a user does, from the directory of the project, without any of the user's settings."""
    kept = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), "HOME": "/nonexistent", "PYTHONWARNINGS": "error"}
    return subprocess.run(
        [sys.executable, "-m", "compactctl", *map(str, arguments)],
        cwd=ROOT,
        env=kept | environment,
        capture_output=True,
        check=False,
        timeout=120,
    )


@pytest.fixture(scope="session")
def command() -> Command:
    """The command line as a function of its arguments."""
    return _run


@pytest.fixture(scope="session")
def replayed(command: Command, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """The state directory of all samples, and what ``replay --format json --include-text`` said of them."""
    state = tmp_path_factory.mktemp("state") / "dir"
    done = command("replay", "sample_sessions", "--state-dir", state, "-f", "json", "--include-text", "-q")
    return state, orjson.loads(done.stdout)


@pytest.fixture(scope="session")
def state(replayed: tuple[Path, dict[str, Any]]) -> Path:
    """The state directory of all samples."""
    return replayed[0]


@pytest.fixture
def report(state: Path, command: Command) -> Callable[..., bytes]:
    """Run ``compactctl report`` over the samples and give its stdout; it must succeed and say nothing on stderr."""

    def run(*arguments: str | Path, **environment: str) -> bytes:
        done = command("report", "--state-dir", state, *arguments, **environment)
        assert (done.returncode, done.stderr) == (0, b"")
        return done.stdout

    return run
