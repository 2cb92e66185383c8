"""What the tests of reports share: the samples, replayed once, and a run of the command line."""

from __future__ import annotations

import contextlib
import io
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest

from compactctl.cli import app

ROOT = Path(__file__).parents[2]
Command = Callable[..., subprocess.CompletedProcess[bytes]]


def _process(*arguments: str | Path, **environment: str) -> subprocess.CompletedProcess[bytes]:
    kept = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), "HOME": "/nonexistent", "PYTHONWARNINGS": "error"}
    return subprocess.run(
        [sys.executable, "-m", "compactctl", *map(str, arguments)],
        cwd=ROOT,
        env=kept | environment,
        capture_output=True,
        check=False,
        timeout=120,
    )


def _call(*arguments: str | Path) -> subprocess.CompletedProcess[bytes]:
    out, err = io.BytesIO(), io.BytesIO()
    with (
        contextlib.chdir(ROOT),
        contextlib.redirect_stdout(io.TextIOWrapper(out, encoding="utf-8", write_through=True)),
        contextlib.redirect_stderr(io.TextIOWrapper(err, encoding="utf-8", write_through=True)),
    ):
        status = app.run(list(map(str, arguments)))
        return subprocess.CompletedProcess(arguments, status, out.getvalue(), err.getvalue())


@pytest.fixture(scope="session")
def process() -> Command:
    """The command line as a process of its own: arguments, and variables of the environment."""
    return _process


@pytest.fixture(scope="session")
def command() -> Command:
    """The command line as a function of its arguments, in this process."""
    return _call


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
def report(state: Path, command: Command, process: Command) -> Callable[..., bytes]:
    """Run ``compactctl report`` over the samples and give its stdout; it must succeed and say nothing on stderr."""

    def run(*arguments: str | Path, **environment: str) -> bytes:
        run_it = process if environment else command
        done = run_it("report", "--state-dir", state, *arguments, **environment)
        assert (done.returncode, done.stderr) == (0, b"")
        return done.stdout

    return run
