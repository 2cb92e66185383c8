"""The process as a whole: signals at any moment, workers that end with it, streams that are closed or full."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.cli.conftest import Command

ROOT = Path(__file__).parents[2]
SAMPLE = ROOT / "sample_sessions" / "long-migration-permanent-emergency.jsonl"
# A compactor that says that it began, and then never ends.
HANGS = """
import pathlib, time
class Hangs:
    def __init__(self, context_window, keep=2): pass
    def compact(self, messages):
        pathlib.Path(f"{__file__}.{__import__('os').getpid()}").touch()
        time.sleep(600)
"""
# A compactor that takes its process with it unless that is the command itself.
DIES = """
import multiprocessing, os, time
class Dies:
    def __init__(self, context_window, keep=2): pass
    def compact(self, messages):
        if multiprocessing.parent_process() is not None: os.kill(os.getpid(), 9)
        time.sleep(0.05)
        return messages
"""


def shell(line: str) -> subprocess.CompletedProcess[str]:
    """Run a line of the shell in which $C is the command."""
    environment = {**os.environ, "C": f"{sys.executable} -m compactctl", "PYTHONUNBUFFERED": ""}
    return subprocess.run(["bash", "-c", line], capture_output=True, text=True, cwd=ROOT, env=environment, timeout=60)


@pytest.mark.parametrize("words", ["--version", "--help", "replay --help", f"replay {SAMPLE} -n -q --measures none"])
def test_a_full_disk_behind_stdout_is_5_and_a_closed_stdout_is_quiet(words: str) -> None:
    """``>/dev/full`` is told in one line with exit status 5; ``>&-`` says nothing at all."""
    full, closed = shell(f"$C {words} >/dev/full"), shell(f"$C {words} >&-")

    assert (full.returncode, full.stderr) == (
        5,
        "compactctl: standard output could not be written: No space left on device\n",
    )
    assert (closed.returncode, closed.stderr) == (0, "")


@pytest.mark.parametrize("to", ["&-", "/dev/full"])
@pytest.mark.parametrize(("words", "status"), [("replay nothing.jsonl", 2), ("bogus", 2), (f"inspect {SAMPLE}", 0)])
def test_a_stderr_that_takes_nothing_changes_no_status(words: str, status: int, to: str) -> None:
    """What cannot be said on stderr is lost, and does not turn up on stdout."""
    with_, without = shell(f"$C {words} 2>{to}"), shell(f"$C {words}")

    assert with_.returncode == without.returncode == status
    assert with_.stdout == without.stdout


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
@pytest.mark.parametrize("group", [True, False])
@pytest.mark.parametrize("words", ["replay", "tune --grid keep=1:3:1"])
def test_no_worker_outlives_the_command(words: str, number: signal.Signals, group: bool, tmp_path: Path) -> None:
    """With --jobs, whoever waits for the output has its end as soon as the command is gone, however it went."""
    inputs = [tmp_path / f"{n}.jsonl" for n in range(3)]
    for path in inputs:
        path.write_bytes(SAMPLE.read_bytes())
    hangs = tmp_path / "hangs.py"
    hangs.write_text(HANGS)
    command = [sys.executable, "-m", "compactctl", *words.split(), *map(str, inputs), "-n", "--jobs", "3"]
    with subprocess.Popen(
        [*command, "--compactor", f"{hangs}:Hangs"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        start_new_session=True,
    ) as child:
        marks = []
        while len(marks) < 3 and child.poll() is None:
            marks = list(tmp_path.glob("hangs.py.*"))
            time.sleep(0.02)
        assert len(marks) == 3
        os.killpg(child.pid, number) if group else child.send_signal(number)
        _, err = child.communicate(timeout=15)

    assert child.returncode == (-9 if number == signal.SIGKILL else 128 + number), err
    assert "Traceback" not in err
    # The pipe is closed a little before the system is done with a process that it ends.
    until = time.monotonic() + 10
    while any(_lives(int(mark.suffix[1:])) for mark in marks) and time.monotonic() < until:
        time.sleep(0.02)
    assert not [mark for mark in marks if _lives(int(mark.suffix[1:]))]


@pytest.mark.parametrize("words", ["replay", "tune --grid keep=1:3:1"])
def test_a_worker_that_the_system_ends_is_told_in_one_line(words: str, tmp_path: Path) -> None:
    """A worker that is killed, as for want of memory, is no internal error: status 70, and what to try."""
    inputs = [tmp_path / f"{n}.jsonl" for n in range(3)]
    for path in inputs:
        path.write_bytes(SAMPLE.read_bytes())
    dies = tmp_path / "dies.py"
    dies.write_text(DIES)
    done = shell(f"$C {words} {' '.join(map(str, inputs))} -n --jobs 2 --compactor {dies}:Dies")

    assert done.returncode == 70, done.stderr
    told = "compactctl: a worker process was ended from outside, perhaps for want of memory; try fewer --jobs\n"
    assert done.stderr.endswith(told)
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("words", ["replay", "tune --grid tail=4:8:1"])
def test_processes_that_cannot_be_started_are_told_in_one_line(words: str) -> None:
    """Where the system gives no more pipes, locks or processes, that is what is said, and what to try."""
    done = shell(f"ulimit -n 14; $C {words} {SAMPLE.parent} -n --no-config --jobs 64")

    assert done.returncode == 70, done.stderr
    told = "compactctl: no process to share the work could be started (Too many open files); try --jobs 1\n"
    assert done.stderr.endswith(told)
    assert "Traceback" not in done.stderr


def _lives(process: int) -> bool:
    """Whether a process is still there; one that is dead and not yet collected by init is not."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
@pytest.mark.parametrize("at", ["compactctl.cli.app", "typer", "compactctl.cli.replay", "rich"])
def test_a_signal_during_the_start_has_its_status(number: signal.Signals, status: int, at: str) -> None:
    """A signal that comes while modules are imported ends the command as one that comes later, without a traceback."""
    code = f"""
import os, signal, sys
class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == {at!r}:
            sys.meta_path.remove(self)
            os.kill(os.getpid(), {int(number)})
signal.signal(signal.SIGINT, signal.default_int_handler)
sys.argv = ["compactctl", "replay", {str(SAMPLE)!r}, "-n"]
from compactctl.__main__ import main
sys.meta_path.insert(0, Finder())
main()
"""
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, timeout=60)

    assert ran.returncode == status, ran.stderr
    assert "Traceback" not in ran.stderr


@pytest.mark.parametrize("name", ["t.jsonl", "hard.jsonl", "soft.jsonl", "list.txt"])
def test_no_output_is_written_over_an_input(command: Command, name: str) -> None:
    """Exit status 2 before anything is done, by whatever name the input goes."""
    path = Path("t.jsonl")
    path.write_bytes(SAMPLE.read_bytes())
    Path("hard.jsonl").hardlink_to(path)
    Path("soft.jsonl").symlink_to(path)
    Path("list.txt").write_text("t.jsonl\n")
    before = Path(name).read_bytes()

    if name != "list.txt":
        assert command("replay", path, "-n", "-o", name).status == 2
        assert command("inspect", ".", "-o", name).status == 2
        assert command("check", path, "--baseline", name, "--update-baseline").status == 2
    assert command("convert", "@list.txt", "-o", name).status == 2
    assert Path(name).read_bytes() == before


def test_only_regular_files_outside_the_store_are_written(command: Command) -> None:
    """A pipe would be waited for and a file of the store would be damage: both are exit status 2."""
    command("replay", SAMPLE, "--measures", "none")
    os.mkfifo("pipe.json")
    Path("folder.json").mkdir()
    kept = next(Path(".compactctl/turns").glob("*.jsonl"))

    for name in ("pipe.json", "folder.json", kept, ".compactctl/turns/new.json"):
        assert command("inspect", SAMPLE, "-o", name).status == 2, name
    assert command("report", "-o", "pipe.json").status == 2


def test_an_output_is_whole_or_as_it_was(command: Command) -> None:
    """A link stays a link, rights stay, nothing is left beside, and a file that may not be written is left alone."""
    Path("real.json").write_text("old")
    Path("real.json").chmod(0o640)
    Path("link.json").symlink_to("real.json")

    assert command("inspect", SAMPLE, "-o", "link.json").status == 0
    assert Path("link.json").is_symlink()
    assert Path("real.json").stat().st_mode & 0o777 == 0o640
    assert Path("real.json").read_bytes().startswith(b"{")
    assert sorted(path.name for path in Path().iterdir()) == ["link.json", "real.json"]


def test_the_store_is_no_input(command: Command) -> None:
    """A walk leaves state directories out and counts them; one that is named, or named as both, is exit status 2."""
    Path("in").mkdir()
    Path("in/t.jsonl").write_bytes(SAMPLE.read_bytes())
    assert command("replay", "in", "--state-dir", "in/state", "--measures", "none").status == 0

    again = command("replay", "in", "--state-dir", "in/state", "--measures", "none")
    other = command("inspect", "in", "-f", "json")
    assert "1 state directory" in again.err
    assert "1 state directory" in other.err
    assert len(other.json()["sessions"]) == 1
    assert command("inspect", next(Path("in/state/turns").glob("*.jsonl"))).status == 2
    assert command("replay", "in", "--state-dir", "in").status == 2
    assert len(command("inspect", "in/**/*.jsonl", "-f", "json").json()["sessions"]) == 1


def test_a_directory_that_others_may_read_is_named(command: Command) -> None:
    """An existing state directory stays as it is; a warning says that it is open."""
    Path("open").mkdir(mode=0o755)
    Path("open").chmod(0o755)

    ran = command("replay", SAMPLE, "--measures", "none", "--state-dir", "open")

    assert "warning: open is open to others (mode 0755)" in ran.err
    assert Path("open").stat().st_mode & 0o777 == 0o755
    assert "warning" not in command("replay", SAMPLE, "--measures", "none").err


@pytest.mark.parametrize(
    "words", [("config", "show"), ("replay", SAMPLE, "-n"), ("inspect", SAMPLE), ("check", SAMPLE)]
)
def test_a_settings_file_of_the_project_runs_no_code(
    command: Command, words: tuple[object, ...], tmp_path: Path
) -> None:
    """A compactor of the user's own is loaded where the user names it, never where a file found on the way does."""
    Path("evil.py").write_text(
        "import pathlib\npathlib.Path('ran').touch()\nclass X:\n    def compact(self, m): return m\n"
    )
    for named in ("evil:X", "evil.py:X", str(Path("evil.py").resolve()) + ":X"):
        Path("compactctl.toml").write_text(f"compactor = {named!r}\n")
        for more in ((), ("--config", "compactctl.toml")):
            ran = command(*words, *more)
            assert ran.status == 2
            assert "--compactor" in ran.err
    assert not Path("ran").exists()

    mine = tmp_path / "mine.toml"
    mine.write_text("compactor = 'evil.py:X'\n")
    assert command("config", "show", "--config", mine).status == 0
    assert not Path("ran").exists()
    assert command("replay", SAMPLE, "-n", "--config", mine).status == 0
    assert Path("ran").exists()


@pytest.mark.parametrize("place", ["{outside}/elsewhere", "../elsewhere", "link/state"])
@pytest.mark.parametrize("name", ["state_dir", "records_dir"])
def test_a_settings_file_of_the_project_writes_inside_it(
    command: Command, name: str, place: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Its directories must lie in the project; those that a flag names may lie anywhere."""
    place = place.format(outside=tmp_path_factory.mktemp("outside"))
    Path("link").symlink_to("..")
    Path("compactctl.toml").write_text(f"{name} = {place!r}\n")

    ran = command("replay", SAMPLE, "-n", "--measures", "none")

    assert ran.status == 2
    assert f"--{name.replace('_', '-')}" in ran.err
    Path("compactctl.toml").write_text(f"{name} = 'inside/state'\n")
    assert command("replay", SAMPLE, "-n", "--measures", "none").status == 0


def test_json_holds_no_orders_for_a_terminal(command: Command) -> None:
    """Direction overrides and other characters that do not print are escapes in JSON; what is read is the same."""
    Path("t.jsonl").write_text(
        '{"compactctl": 1, "session_id": "a\\u202eb\\u007f\\u0085\\ud83c\\udf0d"}\n'
        '{"role": "user", "content": "\\u2066x"}\n{"role": "assistant", "content": "\\u4e2d"}\n'
    )

    shown, converted = command("inspect", "t.jsonl", "-f", "json"), command("convert", "t.jsonl")

    for ran in (shown, converted):
        assert all(c.isprintable() or c == "\n" for c in ran.out)
    assert shown.json()["sessions"][0]["session_id"] == "a\u202eb\x7f\x85\U0001f30d"
    assert "\u4e2d" in converted.out
