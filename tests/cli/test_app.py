"""The command line as a whole: help, version, pipes, interruptions, internal errors."""

from __future__ import annotations

import importlib
import inspect
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from compactctl import __version__
from compactctl.cli.app import COMMANDS, guarded
from compactctl.errors import (
    PRECEDENCE,
    BudgetError,
    InputError,
    LockedError,
    StoreError,
    SummarizerError,
    UsageError,
    worst,
)
from tests.cli.conftest import Command

ROOT = Path(__file__).parents[2]
SAMPLE = "sample_sessions/long-migration-permanent-emergency.jsonl"


def process(*arguments: object, **keywords: object) -> subprocess.CompletedProcess[str]:
    """Run the command line in a process of its own."""
    command = [sys.executable, "-m", "compactctl", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, cwd=ROOT, **keywords)  # type: ignore[call-overload,no-any-return]  # keywords as they come


def test_version_is_answered_before_anything_heavy_is_imported() -> None:
    """``--version`` imports neither typer nor rich."""
    code = (
        "import sys; sys.argv = ['compactctl', '--version']; from compactctl.__main__ import main; main();"
        "print([m for m in ('typer', 'rich', 'orjson', 'pandas') if m in sys.modules])"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT).stdout

    assert shown.splitlines() == [f"compactctl {__version__}", "[]"]


def test_help_imports_no_command() -> None:
    """``--help`` costs what typer costs; pandas and matplotlib come with the commands that need them."""
    code = (
        "import sys\nfrom compactctl.cli.app import run\nrun(['--help'])\n"
        "print([m for m in sys.modules if m.startswith('compactctl.cli.') and not m.endswith(('.app', '._process'))])"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT).stdout

    assert shown.splitlines()[-1] == "[]"


@pytest.mark.parametrize("name", list(COMMANDS))
def test_every_command_has_help_with_an_example(command: Command, name: str) -> None:
    """``--help`` of each command works, says what it does as the overview does, and shows an example."""
    words = ("config", "show") if name == "config" else (name,)
    ran = command(*words, "--help")

    assert ran.status == 0
    assert re.search(rf"^\s+(\w+=\S+ )?compactctl {' '.join(words)}\b", ran.out, re.MULTILINE)


@pytest.mark.parametrize("name", [name for name in COMMANDS if name != "config"])
def test_the_overview_says_what_the_command_says(name: str) -> None:
    """The table that help is made from is the first line of each command's docstring."""
    module = importlib.import_module(f"compactctl.cli.{name}")
    function = getattr(module, "list_" if name == "list" else name)

    assert COMMANDS[name] == (inspect.getdoc(function) or "").split("\n\n")[0].replace("\n", " ")


def test_an_unknown_command_is_usage(command: Command) -> None:
    """Exit status 2, and no traceback."""
    ran = command("replya")

    assert ran.status == 2
    assert "replya" in ran.err


@pytest.fixture(scope="module")
def state(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Give an environment whose state directory holds a replay."""
    environment = {**os.environ, "COMPACTCTL_STATE_DIR": str(tmp_path_factory.mktemp("state"))}
    assert process("replay", SAMPLE, "-q", env=environment).returncode == 0
    return environment


@pytest.mark.parametrize(
    "words",
    [
        f"replay {SAMPLE}",
        f"replay {SAMPLE} -v --measures none",
        f"replay {SAMPLE} -f json",
        f"compare {SAMPLE} -c harness9 -c none",
        f"inspect {SAMPLE}",
        f"tune {SAMPLE} --grid soft=0.60,0.70",
        "report",
        "verify",
        "gc --keep-runs 1 --yes",
        "list compactors",
        "config show",
        "--help",
        "--version",
    ],
)
def test_a_pipe_that_nobody_reads_ends_quietly(words: str, state: dict[str, str]) -> None:
    """Output into a pipe whose reader is gone ends the command with 0 and without a traceback."""
    reader, writer = os.pipe()
    os.close(reader)
    try:
        ran = subprocess.run(
            [sys.executable, "-m", "compactctl", *words.split()],
            stdout=writer,
            stderr=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env=state,
            check=False,
        )
    finally:
        os.close(writer)

    assert ran.returncode == 0, ran.stderr
    assert "Traceback" not in ran.stderr
    assert "BrokenPipe" not in ran.stderr


def into_a_closed_pipe(where: Path, *words: object, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run the command line with its output going where nobody reads."""
    reader, writer = os.pipe()
    os.close(reader)
    try:
        return subprocess.run(
            [sys.executable, "-m", "compactctl", *map(str, words)],
            stdout=writer,
            stderr=subprocess.PIPE,
            text=True,
            cwd=where,
            env={**os.environ, "PYTHONPATH": str(ROOT), **variables},
            check=False,
        )
    finally:
        os.close(writer)


@pytest.mark.parametrize("format", ["table", "json", "github"])
def test_a_pipe_that_nobody_reads_changes_no_verdict(format: str, tmp_path: Path) -> None:
    """``check | head -0`` has the status of its verdict, and its files and the summary of a GitHub step are written."""
    (tmp_path / "compactctl.toml").write_text('[[budgets]]\nmeasure = "tokens"\nmax = 1\n')
    line = ("check", ROOT / SAMPLE, "-q", "-f", format, "-o", "c.junit.xml", "-o", "c.json")
    ran = into_a_closed_pipe(tmp_path, *line, GITHUB_STEP_SUMMARY=str(tmp_path / "summary.md"))

    assert (ran.returncode, ran.stderr) == (1, "")
    assert all((tmp_path / name).stat().st_size for name in ("c.junit.xml", "c.json", "summary.md"))


def test_a_pipe_that_nobody_reads_hides_no_damage(tmp_path: Path) -> None:
    """``verify | head -0`` has status 1 for a damaged store, and a replay of many sessions keeps them all."""
    samples = [ROOT / SAMPLE, ROOT / "sample_sessions/short-healthy-fix.jsonl"]
    kept = into_a_closed_pipe(tmp_path, "replay", "-q", "-v", *samples, tmp_path / "none.jsonl")
    logs = sorted((tmp_path / ".compactctl/turns").glob("*.jsonl"))
    logs[0].write_bytes(b"{\n" + logs[0].read_bytes())

    assert (kept.returncode, len(logs)) == (2, 2), kept.stderr
    assert into_a_closed_pipe(tmp_path, "verify").returncode == 1


def test_an_output_that_cannot_be_written_takes_no_other_with_it(tmp_path: Path) -> None:
    """Where one file does not fit the disk, the others are written, and the verdict and other errors are told."""
    (tmp_path / "compactctl.toml").write_text('[[budgets]]\nmeasure = "tokens"\nmax = 1\n')
    (tmp_path / "bad.jsonl").write_text("no transcript\n")
    line = f"ulimit -f 1; {sys.executable} -m compactctl check {ROOT / SAMPLE} bad.jsonl -o c.json -o c.csv"
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    ran = subprocess.run(
        ["bash", "-c", line], capture_output=True, text=True, cwd=tmp_path, env=environment, check=False
    )

    assert ran.returncode == 5
    assert "--output c.json: File too large" in ran.stderr
    assert "bad.jsonl" in ran.stderr
    assert "FAIL worst tokens" in ran.stdout
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bad.jsonl", "c.csv", "compactctl.toml"]


def test_the_reader_of_a_pipe_may_leave() -> None:
    """``| head`` has its line and stops the output: what does not fit the pipe (64 KB) is given up, nothing is said."""
    line = f"{sys.executable} -m compactctl replay sample_sessions/*.jsonl -n -q -f json | head -n 1"
    ran = subprocess.run(["bash", "-c", line], capture_output=True, text=True, cwd=ROOT, check=True)

    assert ran.stderr == ""
    assert len(ran.stdout.splitlines()) == 1


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interruption_has_its_exit_status(number: signal.Signals, status: int, tmp_path: Path) -> None:
    """Ctrl-C and a termination end the command with 130 and 143, without a traceback."""
    fifo = tmp_path / "stdin"
    os.mkfifo(fifo)
    with subprocess.Popen(
        [sys.executable, "-m", "compactctl", "replay", "-", "-n"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    ) as child:
        # It waits for its standard input, which never comes.
        for _ in range(200):
            if "do_read" in Path(f"/proc/{child.pid}/wchan").read_text() or _reads(child.pid):
                break
            time.sleep(0.02)
        time.sleep(0.3)
        child.send_signal(number)
        _, err = child.communicate(timeout=20)

    assert child.returncode == status, err
    assert "Traceback" not in err


def _reads(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/syscall").read_text().split()[0] == "0"
    except OSError:
        return False


def test_an_internal_error_is_70_and_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    """A fault of ours is said to be one, and how to report it."""

    def broken() -> None:
        raise ZeroDivisionError("oh")

    with pytest.raises(SystemExit) as exit_:
        guarded(broken)()

    assert exit_.value.code == 70
    assert capsys.readouterr().err.startswith("compactctl: internal error: ZeroDivisionError: oh")


def test_of_several_statuses_the_first_of_the_order_wins() -> None:
    """All inputs are tried; then 130/143, 70, 6, 5, 7, 2, 3, 4, 1 in this order."""
    classes = (LockedError, StoreError, SummarizerError, UsageError, InputError, BudgetError)
    statuses = [error.exit_status for error in classes]

    assert statuses == [6, 5, 7, 2, 3, 1]
    assert [worst(PRECEDENCE[i:]) for i in range(len(PRECEDENCE))] == list(PRECEDENCE)
    assert worst([1, 3, 2]) == 2
    assert worst([]) == 0


def test_foreign_text_cannot_speak_to_the_terminal(command: Command, tmp_path: Path) -> None:
    """Escape sequences, markup and direction overrides in ids and names are shown, not obeyed."""
    path = tmp_path / "evil\x1b]0;owned\x07[red].jsonl"
    path.write_text(
        '{"compactctl": 1, "session_id": "a\\u001b[2J[link=x]\\u202eb"}\n'
        '{"role": "user", "content": "hi"}\n{"role": "assistant", "content": "\\u001b[31m"}\n'
    )
    for words in (("replay", path, "-n"), ("inspect", path)):
        ran = command(*words)

        assert ran.status == 0
        assert "\x1b" not in ran.out + ran.err
        assert "\u202e" not in ran.out + ran.err
        assert "[link=x]" in ran.out
