"""The commands gc and verify as a user meets them."""

from __future__ import annotations

import json
import os
import pty
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

import compactctl
from compactctl.cli.app import run
from compactctl.cli.gc import seconds
from compactctl.errors import StoreError, UsageError
from compactctl.store import FileBlobs, open_store
from compactctl.store.fs import Fs
from tests.store.scenes import SCENES, play, tree


@pytest.fixture
def state(disk: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A store with a run of each scene, in the working directory."""
    monkeypatch.chdir(disk)
    monkeypatch.setenv("COMPACTCTL_STATE_DIR", str(disk / "state"))
    for scene in SCENES:
        play(disk, scene)
    return disk / "state"


def test_gc_says_what_goes_before_and_after(state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The plan goes to stderr, the result to stdout."""
    assert run(["gc", "s-1"]) == 0

    shown = capsys.readouterr()
    assert shown.err.startswith("s-1: 6 files, ")
    assert shown.out.startswith("removed 6 files, freed ")
    assert "s-1" not in open_store(state).sessions()


def test_gc_dry_run_shows_the_same_and_changes_nothing(state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A dry run lists as JSON what gc would remove, and removes nothing."""
    before = tree(state)

    assert run(["gc", "--dry-run", "--json", "s-1"]) == 0

    shown = json.loads(capsys.readouterr().out)
    (session,) = shown["sessions"]
    assert (shown["schema_version"], shown["dry_run"], shown["freed_bytes"]) == (1, True, None)
    assert session["session_id"] == "s-1"
    assert session["bytes"] == shown["planned_bytes"] == sum(file["bytes"] for file in session["files"])
    assert tree(state) == before


@pytest.mark.parametrize("rule", [["--all"], ["--older-than", "0s"], ["--keep-runs", "1"]])
def test_gc_by_a_rule_needs_a_yes(state: Path, capsys: pytest.CaptureFixture[str], rule: list[str]) -> None:
    """Where nobody can be asked, a rule without --yes is exit status 5 and nothing goes."""
    play(state.parent, SCENES[0])
    before = tree(state)

    assert run(["gc", *rule]) == 5

    assert "give --yes" in capsys.readouterr().err
    assert tree(state) == before


def test_gc_of_old_runs_counts_runs(state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Where runs go and their session stays, both lines tell of runs, and the figures agree."""
    with open_store(state).writer("s-1", {"input_sha256": "cd", "settings": {}}) as writer:
        writer.end()
    before = len(list(open_store(state).runs("s-1")))
    assert run(["gc", "s-1", "--keep-runs", "1", "--yes"]) == 0
    told = capsys.readouterr()

    assert f"to remove: {before - 1} run of 1 session, " in told.err
    assert told.out.startswith(f"removed {before - 1} run")
    assert "0 files" not in told.out


def test_gc_all_with_a_yes_empties_the_store(state: Path) -> None:
    """--all --yes removes every session."""
    assert run(["gc", "--all", "--yes"]) == 0
    assert open_store(state).sessions() == []


def test_gc_of_an_unknown_session_is_an_error(state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A typo is exit status 4, and the sessions named beside it stay."""
    before = tree(state)

    assert run(["gc", "s-1", "s-2"]) == 4

    assert "'s-2'; nothing was removed" in capsys.readouterr().err
    assert tree(state) == before


def test_gc_of_a_session_in_use_is_locked(state: Path) -> None:
    """A session that is being replayed is exit status 6."""
    with open_store(state).writer("s-1", {}) as writer:
        assert run(["gc", "s-1"]) == 6
        assert run(["gc", "s-1", "--wait", "0.01"]) == 6
        writer.end()


def test_gc_that_leaves_foreign_files_says_so(state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What compactctl did not make stays and is exit status 5."""
    (state / "tool_results/s-1/notes.md").write_text("mine")

    assert run(["gc", "s-1"]) == 5

    assert "notes.md" in capsys.readouterr().err
    assert (state / "tool_results/s-1/notes.md").read_text() == "mine"


@pytest.mark.parametrize(("text", "expected"), [("14d", 1209600.0), ("1w", 604800.0), ("30s", 30.0)])
def test_ages_are_read(text: str, expected: float) -> None:
    """Ages have a unit."""
    assert seconds(text) == expected


@pytest.mark.parametrize("text", ["14", "d", "-1d", "1y", "1 d", "١d", ""])
def test_other_ages_are_refused(text: str) -> None:
    """An age that could be misread removes nothing."""
    with pytest.raises(UsageError, match="for example 14d"):
        seconds(text)


def test_verify_of_a_healthy_store(state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A healthy store is exit status 0 and one line that says what was checked."""
    assert run(["verify"]) == 0
    assert "checked 3 sessions, 3 runs, " in capsys.readouterr().out


def test_verify_of_a_damaged_store(state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Damage is exit status 1, with the file, the line and the byte; as JSON too."""
    log = state / "compaction_records/s-1.jsonl"
    log.write_bytes(log.read_bytes().replace(b'"tier":3', b'"tier":2'))

    assert run(["verify", "s-1"]) == 1
    assert "s-1.jsonl:1 (byte 0): wrong hash" in capsys.readouterr().out
    assert run(["verify", "--json"]) == 1
    shown = json.loads(capsys.readouterr().out)
    assert shown["problems"][0]["level"] == "error"
    assert shown["checked"]["sessions"] == 3


def test_verify_where_there_is_no_store(disk: Path) -> None:
    """A wrong --state-dir never looks like a healthy store."""
    assert run(["verify", "--state-dir", str(disk / "nowhere")]) == 4
    assert not (disk / "nowhere").exists()


def test_repairs_are_shown_first_and_need_a_yes(state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """--repair prints what it would do; without --yes that is all, with it the store is clean."""
    log = state / "turns/s-1.jsonl"
    log.write_bytes(log.read_bytes() + b"torn")
    before = tree(state)

    assert run(["verify", "--repair"]) == 5
    assert "set the torn last line aside" in capsys.readouterr().err
    assert tree(state) == before

    assert run(["verify", "--repair", "--yes"]) == 0
    assert "1 of 1 repairs done" in capsys.readouterr().err
    assert run(["verify", "--repair", "--yes"]) == 0


def test_an_unsafe_store_is_exit_status_5(state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A link in place of the state directory is not followed by any command."""
    link = state.with_name("link")
    link.symlink_to(state)

    for command in (["verify"], ["gc", "s-1"], ["gc", "--all", "--yes"]):
        assert run([*command, "--state-dir", str(link)]) == 5
        assert "does not follow" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["gc", "verify"])
def test_help_has_examples(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The help of each command shows how it is called."""
    assert run([command, "--help"]) == 0
    assert f"\n  compactctl {command} " in capsys.readouterr().out.replace("    ", "  ")


def test_nothing_but_the_file_system_object_touches_the_disk() -> None:
    """No other file of the store opens, writes, renames or removes anything: faults can be injected everywhere."""
    import ast

    import compactctl.store

    allowed = {"geteuid", "stat_result", "fspath"} | {name for name in dir(os) if name.startswith("O_")}
    for file in Path(str(compactctl.store.__file__)).parent.glob("*.py"):
        if file.name == "fs.py":
            continue
        names = [
            node.attr
            for node in ast.walk(ast.parse(file.read_text()))
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "os"
        ]
        calls = [
            node.func.id
            for node in ast.walk(ast.parse(file.read_text()))
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
        ]
        assert set(names) <= allowed, file
        assert "open" not in calls, file
    assert callable(Fs().open)


def test_the_beginning_of_an_id_is_enough(state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """verify and gc take how an id begins where it is the only one, and gc says the whole id."""
    assert run(["verify", "s"]) == 0
    assert "checked 1 session, " in capsys.readouterr().out
    assert run(["gc", "s"]) == 0
    assert capsys.readouterr().err.startswith("s-1: 6 files, ")
    assert "s-1" not in open_store(state).stored_names()


@pytest.mark.parametrize(("named", "status"), [(["s-"], 2), (["s-1", "s-"], 2), (["s-", "nobody"], 4), ([""], 4)])
@pytest.mark.parametrize("command", ["gc", "verify"])
def test_an_id_that_is_not_one_changes_nothing(
    state: Path, capsys: pytest.CaptureFixture[str], command: str, named: list[str], status: int
) -> None:
    """The beginning of several is exit status 2 with the candidates, an unknown id 4; nothing is removed in either."""
    (state / "compaction_records" / "s-2.jsonl").write_bytes(b"")
    before = tree(state)

    assert run([command, *named]) == status
    assert tree(state) == before
    if status == 2:
        assert "'s-' is the beginning of " in capsys.readouterr().err


def test_a_session_that_is_replayed_while_gc_asks_stays(state: Path) -> None:
    """gc --older-than names the session that was replayed before the answer came, and removes nothing of it."""
    for path in state.glob("*/*"):
        os.utime(path, (1000, 1000))
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "compactctl", "gc", "--older-than", "1d"]
    environment = {**os.environ, "PYTHONPATH": str(Path(compactctl.__file__).parents[1])}
    asked = subprocess.Popen(command, stdin=theirs, stderr=theirs, stdout=subprocess.PIPE, env=environment)
    os.close(theirs)
    said = b""
    while b"Remove them?" not in said:
        said += os.read(ours, 65536)
    play(state.parent, SCENES[0])
    os.write(ours, b"y\n")
    out, _ = asked.communicate(timeout=60)
    said += os.read(ours, 65536)
    os.close(ours)

    assert asked.returncode == 0
    assert b"s-1: stays, it was written after this was planned" in said
    assert b"removed " in out
    assert open_store(state).sessions() == ["s-1"]
    assert len(open_store(state).runs("s-1")) == 2


def test_one_damage_is_one_line(state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A file that many records name is told once, with how often and where first."""
    victim = next(path for path in sorted((state / "tool_results").rglob("*.txt")))
    victim.unlink()

    assert run(["verify"]) == 1
    lines = [line for line in capsys.readouterr().out.splitlines() if victim.name in line]
    assert len(lines) == len({line.partition(" (here first")[0] for line in lines}) <= 2


def _append(path: Path) -> None:
    path.write_bytes(path.read_bytes() + b"x")


def _flip(path: Path) -> None:
    data = path.read_bytes()
    path.write_bytes(data[:20] + bytes([data[20] ^ 1]) + data[21:])


def _behead(path: Path) -> None:
    path.write_bytes(path.read_bytes().partition(b"\n")[2])


def _empty(path: Path) -> None:
    path.write_bytes(b"")


def _link(path: Path) -> None:
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    path.symlink_to("/dev/null")


def _directory(path: Path) -> None:
    path.unlink()
    path.mkdir()


_LOGS = ("compaction_records/s-1.jsonl", "turns/s-1.jsonl", "memories/s-1.jsonl")


@pytest.mark.parametrize(
    ("place", "harm"),
    [
        *((log, harm) for log in _LOGS for harm in (_flip, _behead, _empty, Path.unlink, _link, _directory)),
        *(("tool_results/s-1/call_0.txt", harm) for harm in (_append, _flip, _empty, Path.unlink, _link, _directory)),
        ("tool_results/s-1", _link),
        ("turns/s-1.jsonl.length", _flip),
        (".trash/s-1.json", _append),
        ("cassettes/k", _flip),
    ],
)
def test_the_advice_for_damage_heals(
    state: Path, capsys: pytest.CaptureFixture[str], place: str, harm: Callable[[Path], None]
) -> None:
    """Whatever is damaged, what verify says to do leads to a store without damage."""
    FileBlobs(open_store(state).layout).put("k", b"reply")
    if place.startswith(".trash"):
        (state / ".trash").mkdir(mode=0o700, exist_ok=True)
        (state / place).touch(0o600)
    harm(state / place)
    if place == "tool_results/s-1/call_0.txt" and (state / place).exists():
        # A replay writes beside what is there and never over it: that alone heals nothing but a file that is gone.
        with suppress(StoreError):
            play(state.parent, SCENES[0])
    capsys.readouterr()

    assert run(["verify"]) == 1
    shown = capsys.readouterr()
    if "by hand" in shown.err:
        assert "away" in shown.out or "remove it" in shown.out
        (state / place).rmdir() if (state / place).is_dir() else (state / place).unlink()
    for command in re.findall("`compactctl (.*?)`", shown.err):
        assert run(command.split()) == 0
        play(state.parent, SCENES[0])

    assert run(["verify"]) == 0


def test_records_of_harness9_are_not_advised_away(
    disk: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where damaged records are harness9's own, verify does not advise to remove what no replay could write again."""
    monkeypatch.chdir(disk)
    for directory in ("state", "records"):
        Path(directory).mkdir(mode=0o700)
    Path("records/h9.jsonl").write_text("{\n{}\n")

    assert run(["verify", "--state-dir", "state", "--records-dir", "records"]) == 1
    told = capsys.readouterr().err
    assert "take them from a copy" in told
    assert "gc" not in told
