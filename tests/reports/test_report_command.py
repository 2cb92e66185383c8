"""`compactctl report` as a command: what it takes, what it says, its exit status."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import orjson
import pytest

from compactctl.cli._output import ROOM
from compactctl.registry import plugins
from compactctl.reports._session_table import short_names
from compactctl.reports._spec import ReportSpec
from tests.pseudo_terminal import written_to_terminal

Command = Callable[..., CompletedProcess[bytes]]


def test_nothing_there(command: Command, tmp_path: Path) -> None:
    """Without a state directory the status is 4 and one line says what to do."""
    done = command("report", "--state-dir", tmp_path / "none")

    assert done.returncode == 4
    assert done.stdout == b""
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (("nobody",), 4, "no session 'nobody'"),
        (("--run", "feedc0de"), 4, "no run"),
        (("--rows", "sums"), 2, "known: sessions, compactions, turns, offloads, findings"),
        (("-o", "out.docx"), 2, "known by its suffix"),
        (("-f", "tables"), 2, "Known:"),
    ],
)
def test_wrong_arguments(arguments: tuple[str, ...], status: int, said: str, state: Path, command: Command) -> None:
    """A wrong argument is one line on stderr with what is allowed, and writes nothing."""
    done = command("report", "--state-dir", state, *arguments)

    assert done.returncode == status
    assert said in done.stderr.decode()
    assert b"Traceback" not in done.stderr


def test_beginning_of_an_id(state: Path, command: Command) -> None:
    """The beginning of an id is enough where it is the only one; else the candidates are listed, status 2."""
    names = sorted(log.stem for log in (state / "turns").glob("*.jsonl"))
    shutil.copytree(state, state.parent / "twins", dirs_exist_ok=True)
    twin = state.parent / "twins" / "compaction_records" / f"{names[0][:12]}-twin.jsonl"
    twin.write_bytes(b"")

    assert command("report", names[0][:12], "--state-dir", state, "-q").returncode == 0
    done = command("report", names[0][:12], "--state-dir", state.parent / "twins")
    assert done.returncode == 2
    assert names[0] in done.stderr.decode()


def test_runs(command: Command, tmp_path: Path) -> None:
    """The last complete run of a session is shown, all with --all-runs, and any by the beginning of its id."""
    sample, state = "sample_sessions/short-healthy-fix.jsonl", tmp_path / "state"
    for flag in ("3000", "4000"):
        assert command("replay", sample, "--window", flag, "--state-dir", state, "-q").returncode == 0

    def shown(*arguments: str) -> list[tuple[int, str]]:
        done = command("report", "--state-dir", state, "-f", "json", *arguments)
        assert done.returncode == 0, done.stderr
        return [(session["window"], session["run"]) for session in orjson.loads(done.stdout)["sessions"]]

    [(window, last)] = shown()
    both = shown("--all-runs")

    assert window == 4000
    assert [size for size, _ in both] == [3000, 4000]
    assert shown("--run", both[0][1][:8]) == both[:1]
    assert both[1][1] == last


def test_totals_over_runs_say_what_they_add_up(command: Command, tmp_path: Path) -> None:
    """Where totals add up several runs of one session, each output says so: the runs are alternatives."""
    sample, state = "sample_sessions/short-healthy-fix.jsonl", tmp_path / "state"
    for window in ("3000", "4000"):
        assert command("replay", sample, "--window", window, "--state-dir", state, "-q").returncode == 0
    told = "totals over 2 runs of 1 session: runs of one session are alternatives"

    shown = command("report", "--state-dir", state, "--all-runs").stdout.decode()
    assert told in shown
    assert "each counted once a run" in shown
    for output in (("-f", "markdown"), ("-f", "html")):
        assert told in command("report", "--state-dir", state, "--all-runs", *output).stdout.decode()
    alone = command("report", "--state-dir", state).stdout.decode()
    assert "totals over" not in alone
    assert "each counted once," in alone


def test_incomplete_run_is_never_shown(command: Command, tmp_path: Path) -> None:
    """A run without its end line is not counted: it is named on stderr, and status 4 where nothing else is there."""
    state = tmp_path / "state"
    command("replay", "sample_sessions/short-healthy-fix.jsonl", "--state-dir", state, "-q")
    [log] = (state / "turns").glob("*.jsonl")
    log.write_bytes(b"".join(log.read_bytes().splitlines(keepends=True)[:-1]))
    done = command("report", "--state-dir", state)

    assert done.returncode == 4
    assert "no complete run" in done.stderr.decode()


def test_damaged_line_is_told(state: Path, command: Command, tmp_path: Path) -> None:
    """A turn line with a flipped bit is not used, and the file and the line are named."""
    copy = tmp_path / "state"
    shutil.copytree(state, copy)
    log = next(log for log in sorted((copy / "turns").glob("*.jsonl")) if log.stat().st_size > 10_000)
    lines = log.read_bytes().splitlines(keepends=True)
    lines[3] = lines[3].replace(b'"tokens":', b'"tokenz":', 1)
    log.write_bytes(b"".join(lines))
    done = command("report", "--state-dir", copy)

    assert done.returncode == 0
    assert f"{log.name}: line 4 is not used (wrong hash)" in done.stderr.decode()


def test_files_without_a_record_are_told(state: Path, command: Command, tmp_path: Path) -> None:
    """A session that left files but neither record nor run is named in a warning; asked for, it is status 4."""
    copy = shutil.copytree(state, tmp_path / "copy")
    (copy / "tool_results" / "lost").mkdir()
    (copy / "tool_results" / "lost" / "c1.txt").write_text("kept")

    everything = command("report", "--state-dir", copy)
    asked = command("report", "lost", "--state-dir", copy)

    assert everything.returncode == 0
    assert "warning: session 'lost' has files but no record" in everything.stderr.decode()
    assert asked.returncode == 4
    assert "session 'lost' has files but no record" in asked.stderr.decode()


def test_several_outputs(state: Path, command: Command, tmp_path: Path) -> None:
    """One run writes several files, and stdout holds what --format says."""
    outputs = [tmp_path / f"out.{suffix}" for suffix in ("html", "csv", "md", "json")]
    words = [word for path in outputs for word in ("-o", str(path))]
    done = command("report", "--state-dir", state, "-f", "jsonl", *words)

    assert done.returncode == 0
    assert orjson.loads(done.stdout.splitlines()[0])["event"] == "run"
    assert all(path.stat().st_size > 1000 for path in outputs)


def test_directory_of_pages(state: Path, command: Command, tmp_path: Path) -> None:
    """An output that ends in a slash becomes an index and a page of each session, linked by number, never by id."""
    site = tmp_path / "site"
    done = command("report", "--state-dir", state, "-q", "-o", f"{site}/")
    names = sorted(path.name for path in site.iterdir())
    sessions = len(list((state / "turns").glob("*.jsonl")))

    assert done.returncode == 0, done.stderr
    assert names == ["index.html", *(f"session-{number:05}.html" for number in range(1, sessions + 1))]
    assert set(re.findall(r'href="(session-\d+\.html)"', (site / "index.html").read_text())) == set(names[1:])
    assert all(path.stat().st_size < 500_000 for path in site.iterdir())


def test_closed_pipe(state: Path) -> None:
    """`compactctl report | head -1` ends quietly."""
    line = f"{sys.executable} -m compactctl report --state-dir '{state}' -f json | head -c 20"
    root = Path(__file__).parents[2]
    done = subprocess.run(["sh", "-c", line], capture_output=True, check=False, cwd=root)

    assert (len(done.stdout), done.stderr) == (20, b"")


def on_terminal(state: Path, *arguments: str, **environment: str) -> str:
    """Give what `report` writes to a terminal of 80 columns."""
    known = {"PATH": os.environ["PATH"], "COLUMNS": "80", "TERM": "xterm-256color", "HOME": "/nonexistent"}
    command = [sys.executable, "-m", "compactctl", "report", "--state-dir", str(state), "-q", *arguments]
    return written_to_terminal(command, known | environment)


def test_terminal_of_80_columns(state: Path) -> None:
    """On a terminal the tables fit its width, with ids that still tell the sessions apart."""
    plain = on_terminal(state, NO_COLOR="1")
    table = plain.split("\nSessions")[1].split("Tiers")[0].splitlines()[1:-1]
    names = [log.stem for log in (state / "turns").glob("*.jsonl")]

    assert "\x1b" not in plain
    assert max(len(line) for line in table) <= 80
    for short in short_names(names, 80):
        assert sum(name.startswith(short.removesuffix("…")) for name in names) == 1
        assert short in plain


def test_colour_on_a_terminal(state: Path) -> None:
    """Colour is for a terminal, and NO_COLOR turns it off without changing a letter."""
    coloured, plain = on_terminal(state), on_terminal(state, NO_COLOR="1")

    assert "\x1b[1;31m" in coloured
    assert re.sub(r"\x1b\[[\d;]*m", "", coloured) == plain


def test_help(process: Command) -> None:
    """`report --help` has examples and fits 100 columns."""
    told = process("report", "--help", COLUMNS="100").stdout.decode()

    assert "compactctl report -o report.html" in told
    assert max(map(len, told.splitlines())) <= 100


@pytest.fixture(scope="module")
def two_settings(command: Command, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A state directory whose two sessions were replayed under different settings."""
    state = tmp_path_factory.mktemp("two") / "state"
    for name, soft in (("short-healthy-fix", "0.6"), ("one-batch-none-to-emergency", "0.7")):
        line = ("replay", f"sample_sessions/{name}.jsonl", "--set", f"soft={soft}", "--state-dir", state, "-q")
        assert command(*line).returncode == 0
    return state


@pytest.mark.parametrize("name", sorted(plugins(ROOM, ReportSpec)))
def test_runs_of_different_settings_make_a_report_in_every_format(
    name: str, two_settings: Path, command: Command
) -> None:
    """Where runs share no settings there is no hash of all of them; each format goes without."""
    done = command("report", "--state-dir", two_settings, "-f", name)

    assert done.returncode == 0, done.stderr
    assert done.stdout
    if name == "junit":
        assert b"settings_hash" not in done.stdout
        assert ET.fromstring(done.stdout).get("errors") == "0"


def test_a_directory_of_pages_is_never_written_into_the_store(state: Path, command: Command, tmp_path: Path) -> None:
    """A state directory, a room of it, and a page that leads into it are refused before the work."""
    site = tmp_path / "site"
    site.mkdir()
    record = next((state / "compaction_records").iterdir())
    before = record.read_bytes()
    (site / "session-00001.html").symlink_to(record)
    for folder in (state, state / "turns", site):
        done = command("report", "--state-dir", state, "-q", "-o", f"{folder}/")

        assert (done.returncode, done.stdout) == (2, b""), done.stderr
        assert b"lies in a state directory" in done.stderr
    assert record.read_bytes() == before
    assert not list(state.rglob("*.html"))


def test_pages_of_an_earlier_and_larger_report_go(state: Path, command: Command, tmp_path: Path) -> None:
    """What is in the directory is this report; only pages of the tool's own kind of name are removed."""
    site = tmp_path / "site"
    assert command("report", "--state-dir", state, "-q", "-o", f"{site}/").returncode == 0
    (site / "session-notes.html").touch()
    (site / "session-1.html").touch()
    session = sorted(path.stem for path in (state / "turns").glob("*.jsonl"))[0]
    assert command("report", session, "--state-dir", state, "-q", "-o", f"{site}/").returncode == 0
    names = sorted(path.name for path in site.iterdir())

    assert names == ["index.html", "session-00001.html", "session-1.html", "session-notes.html"]


@pytest.mark.parametrize("name", ["nowhere/site/", "file/"])
def test_a_directory_that_cannot_be_made_is_refused_before_the_work(
    name: str, state: Path, command: Command, tmp_path: Path
) -> None:
    """Nothing is read for pages that could not be written in the end."""
    (tmp_path / "file").touch()
    done = command("report", "--state-dir", state, "-o", f"{tmp_path}/{name}")

    assert (done.returncode, done.stdout) == (2, b"")
