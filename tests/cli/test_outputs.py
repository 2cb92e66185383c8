"""What is to be written never destroys what is read."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from compactctl.cli._output import write_file
from tests.cli.conftest import Command

ROOT = Path(__file__).parents[2]
LINES = b'{"role":"user","content":"Fix it."}\n{"role":"assistant","content":"Done."}\n'


def test_a_format_whose_extra_is_missing_is_refused_before_the_work(
    command: Command, samples: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is replayed, and no other output is lost, for a file that could not be written in the end."""
    monkeypatch.setattr("compactctl.cli._output.find_spec", lambda name: None)
    ran = command("tune", samples, "--grid", "soft=0.7,0.75", "-o", "p.parquet", "-o", "p.txt", "-n")
    assert ran.status == 2
    assert ran.err == "compactctl: parquet needs duckdb: pip install 'compactctl[parquet]'\n"


@pytest.mark.parametrize(
    "arguments",
    [
        ("inspect", "-", "-f", "json", "-o"),
        ("convert", "-", "-o"),
        ("replay", "-", "--dry-run", "-o"),
        ("check", "-", "-o"),
        ("compare", "-", "-o"),
        ("tune", "-", "--grid", "soft=0.7:0.8:0.1", "-o"),
    ],
    ids=lambda arguments: arguments[0],
)
def test_a_transcript_on_stdin_is_never_the_output(tmp_path: Path, arguments: Sequence[str]) -> None:
    """Where stdin is the file that would be written, under whatever name, the command refuses and leaves it alone."""
    path, other = tmp_path / "session.json", tmp_path / "other.json"
    path.write_bytes(LINES)
    (tmp_path / "compactctl.toml").write_text('[[budgets]]\nmeasure = "m1.overshoot_turns"\nmax = 0\n')
    os.link(path, other)
    for name in (path, other):
        with path.open("rb") as stream:
            done = subprocess.run(
                [sys.executable, "-m", "compactctl", *arguments, str(name)],
                stdin=stream,
                capture_output=True,
                env={**os.environ, "PYTHONPATH": str(ROOT)},
                cwd=tmp_path,
                check=False,
            )

        assert (done.returncode, b"this is an input" in done.stderr) == (2, True), done.stderr
        assert path.read_bytes() == other.read_bytes() == LINES


def test_a_file_of_another_process_stays(tmp_path: Path) -> None:
    """What lies beside an output is never taken for the command's own, whatever it is called."""
    other = tmp_path / f".compactctl-{os.getpid()}.tmp"
    other.write_text("of a command that was killed")
    write_file(tmp_path / "a.json", [b"{}"])

    assert other.read_text() == "of a command that was killed"
    assert (tmp_path / "a.json").read_bytes() == b"{}"
    assert sorted(path.name for path in tmp_path.iterdir()) == [other.name, "a.json"]


def test_what_fails_half_way_leaves_nothing(tmp_path: Path) -> None:
    """An output is the earlier one or the whole new one; nothing of a failed one stays beside it."""

    def pieces() -> Iterator[bytes]:
        yield b"half"
        raise KeyboardInterrupt

    (tmp_path / "a.json").write_text("before")
    with pytest.raises(KeyboardInterrupt):
        write_file(tmp_path / "a.json", pieces())

    assert [path.name for path in tmp_path.iterdir()] == ["a.json"]
    assert (tmp_path / "a.json").read_text() == "before"


def test_a_new_file_has_the_mode_that_the_user_wants(tmp_path: Path) -> None:
    """The user's mask decides who may read an output, and an earlier file's mode stays."""
    before = os.umask(0o027)
    try:
        write_file(tmp_path / "a.json", [b"{}"])
    finally:
        os.umask(before)
    (tmp_path / "b.json").touch(0o600)
    write_file(tmp_path / "b.json", [b"{}"])

    assert [stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("a.json", "b.json")] == [0o640, 0o600]
