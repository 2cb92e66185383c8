"""Every format over the samples, byte for byte; `pytest --golden` rewrites what is expected."""

from __future__ import annotations

import importlib.metadata
import importlib.util
from collections.abc import Callable
from pathlib import Path

import pytest

from compactctl.reports._tables import TABLES

Report = Callable[..., bytes]
Golden = Callable[[str, bytes], None]

ONE = "f0f5ff0d"  # small, and every turn from the eighth on compacts
DRAWN_WITH = "3.11"


@pytest.mark.parametrize("suffix", ["txt", "json", "jsonl", "csv", "md", "html"])
def test_all_sessions(suffix: str, report: Report, golden: Golden, tmp_path: Path) -> None:
    """A file of each format over all samples does not change unless somebody means it to."""
    path = tmp_path / f"all.{suffix}"
    report("-q", "-o", path)
    golden(path.name, path.read_bytes())


@pytest.mark.parametrize("suffix", ["txt", "md", "html"])
def test_one_session(suffix: str, report: Report, golden: Golden, tmp_path: Path) -> None:
    """One session in depth, its transcript text included on request."""
    path = tmp_path / f"one.{suffix}"
    report(ONE, "-q", "-o", path, "--include-text")
    golden(path.name, path.read_bytes())


@pytest.mark.parametrize("rows", [table for table in TABLES if table != "sessions"])
def test_tables(rows: str, report: Report, golden: Golden) -> None:
    """Every table that csv can hold has the columns it had."""
    golden(f"{rows}.csv", report("-f", "csv", "--rows", rows))


@pytest.mark.parametrize(("name", "session"), [("all.svg", ()), ("one.svg", (ONE,))])
def test_pictures(name: str, session: tuple[str, ...], report: Report, golden: Golden, tmp_path: Path) -> None:
    """A picture is the same bytes under the same matplotlib."""
    installed = importlib.metadata.version("matplotlib")
    if not installed.startswith(f"{DRAWN_WITH}."):
        pytest.skip(f"expected pictures were drawn with matplotlib {DRAWN_WITH}, this is {installed}: install that one")
    path = tmp_path / name
    report(*session, "-q", "-o", path)
    golden(name, path.read_bytes())


def test_same_bytes_again(report: Report, tmp_path: Path) -> None:
    """Two runs give the same bytes, whatever the terminal, the colours and the hash seed are."""
    suffixes = ["txt", "png", "svg", "html", "csv", "md", "json"]
    if importlib.util.find_spec("duckdb"):
        suffixes.append("parquet")
    first, second = ([tmp_path / f"{run}.{suffix}" for suffix in suffixes] for run in ("first", "second"))
    report("-q", *_outputs(first), COLUMNS="40", PYTHONHASHSEED="1", NO_COLOR="1")
    report(
        "-q", *_outputs(second), COLUMNS="200", PYTHONHASHSEED="2", FORCE_COLOR="1", CLICOLOR_FORCE="1", TERM="xterm"
    )

    assert [path.read_bytes() for path in first] == [path.read_bytes() for path in second]


def _outputs(paths: list[Path]) -> list[str]:
    return [word for path in paths for word in ("-o", str(path))]


@pytest.mark.parametrize("environment", [{"COLUMNS": "30"}, {"NO_COLOR": "1"}, {"FORCE_COLOR": "1"}, {"TERM": "dumb"}])
def test_terminal_report_in_a_pipe(environment: dict[str, str], report: Report, golden: Golden) -> None:
    """In a pipe the tables are as wide as they need and without colour, whatever the environment says."""
    golden("all.txt", report("-q", **environment))
