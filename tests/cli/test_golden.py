"""Every sample is a test by itself: what ``replay`` and ``inspect`` say of it, held to golden files.

Only ``just golden`` rewrites them; the diff is to be read.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import SAMPLES, Command

NAMES = sorted(path.name for path in SAMPLES.iterdir() if path.suffix in (".json", ".jsonl"))


@pytest.fixture
def here(samples: Path, monkeypatch: pytest.MonkeyPatch, command: Command) -> None:
    """Work beside the samples, so that no path of a machine is in an output."""
    monkeypatch.chdir(samples.parent)


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize("name", NAMES)
def test_a_sample_is_replayed_as_before(name: str, command: Command, golden: Callable[[str, bytes], None]) -> None:
    """The terminal's words and the JSON of each sample, in the compactor's own history mode."""
    stem = name.rpartition(".")[0]
    path = f"sample_sessions/{name}"
    golden(f"replay/{stem}.txt", command("replay", path, "-n", "--no-config").out.encode())
    golden(f"replay/{stem}.json", command("replay", path, "-n", "--no-config", "--format", "json").out.encode())


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize("name", NAMES)
def test_a_sample_written_back_is_replayed_as_before(
    name: str, command: Command, golden: Callable[[str, bytes], None]
) -> None:
    """The same, each compaction written back."""
    stem = name.rpartition(".")[0]
    ran = command("replay", f"sample_sessions/{name}", "-n", "--no-config", "--history", "write-back")
    golden(f"write-back/{stem}.txt", ran.out.encode())


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize("name", NAMES)
def test_a_sample_is_inspected_as_before(name: str, command: Command, golden: Callable[[str, bytes], None]) -> None:
    """What each sample holds and where its lines went."""
    stem = name.rpartition(".")[0]
    golden(f"inspect/{stem}.txt", command("inspect", f"sample_sessions/{name}", "--no-config").out.encode())
    ran = command("inspect", f"sample_sessions/{name}", "--no-config", "--format", "json")
    golden(f"inspect/{stem}.json", ran.out.encode())


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize(
    ("variable", "value"), [("COLUMNS", "40"), ("COLUMNS", "300"), ("NO_COLOR", "1"), ("FORCE_COLOR", "1")]
)
def test_the_surroundings_change_no_byte(
    variable: str, value: str, command: Command, golden: Callable[[str, bytes], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a pipe the output is the same whatever a terminal's width and colours are said to be."""
    monkeypatch.setenv(variable, value)
    stem = "long-migration-permanent-emergency"
    ran = command("replay", f"sample_sessions/{stem}.jsonl", "-n", "--no-config")
    golden(f"replay/{stem}.txt", ran.out.encode())
