"""Runs the command line in this process."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import orjson
import pytest

from compactctl.cli.app import run
from tests.summarizers.conftest import server  # noqa: F401 - a fixture

SAMPLES = Path(__file__).parents[2] / "sample_sessions"


@dataclass(frozen=True, slots=True)
class Ran:
    """What a command gave."""

    status: int
    out: str
    err: str

    def json(self) -> dict:  # type: ignore[type-arg]  # any JSON
        """Read stdout as one JSON object."""
        return orjson.loads(self.out)  # type: ignore[no-any-return]  # any JSON


Command = Callable[..., Ran]


@pytest.fixture
def command(capsysbinary: pytest.CaptureFixture[bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Command:
    """Run ``compactctl`` in an empty directory, with an empty home and environment."""
    home = tmp_path / "home"
    work = tmp_path / "work"
    home.mkdir()
    work.mkdir()
    monkeypatch.chdir(work)
    monkeypatch.setenv("HOME", str(home))
    for name in ("NO_COLOR", "FORCE_COLOR", "COLUMNS", "COMPACTCTL_STATE_DIR"):
        monkeypatch.delenv(name, raising=False)
    for name in [name for name in os.environ if name.startswith("COMPACTCTL_") or name.endswith("_API_KEY")]:
        monkeypatch.delenv(name)

    def go(*arguments: object) -> Ran:
        capsysbinary.readouterr()
        status = run([str(argument) for argument in arguments])
        shown = capsysbinary.readouterr()
        return Ran(status, shown.out.decode(), shown.err.decode())

    return go


@pytest.fixture(scope="session")
def samples() -> Path:
    """The directory of the sample sessions."""
    return SAMPLES
