"""The README cannot lie: its examples run, what it names exists, what exists is named."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import orjson
import pytest

from compactctl import errors, load
from compactctl.cli.app import COMMANDS
from compactctl.registry import names

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```sh\n(.*?)^```$", README, re.DOTALL | re.MULTILINE)


def test_it_opens_with_two_commands_that_need_only_python() -> None:
    """The first two blocks set everything up by themselves: one replays a sample, one runs the tests."""
    first, second = BLOCKS[:2]

    assert first.splitlines()[0] == second.splitlines()[0] == "python3 -m venv .venv"
    assert "compactctl replay sample_sessions/" in first
    assert "pytest" in second
    assert "just" not in first + second


@pytest.mark.parametrize("block", BLOCKS[2:])
def test_an_example_runs(block: str, tmp_path: Path) -> None:
    """Every other example works as it stands, from the top of the project."""
    words = shlex.split(block.replace("\\\n", " "))
    assert words[0].endswith("compactctl")
    environment = {"HOME": str(tmp_path), "PATH": "", "COMPACTCTL_STATE_DIR": str(tmp_path / "state")}
    ran = subprocess.run(
        [sys.executable, "-m", "compactctl", *words[1:]], cwd=ROOT, env=environment, capture_output=True, text=True
    )

    assert ran.returncode == 0, ran.stderr
    assert ran.stdout


def test_every_command_and_compactor_is_named() -> None:
    """Nothing that one can ask for is missing from the README."""
    wanted = {*COMMANDS, *(f"`{name}`" for name in names("compactctl.compactors"))}
    missing = {name for name in wanted if name not in README}

    assert missing == set()


def test_the_exit_statuses_are_those_of_the_errors() -> None:
    """Each status of the error tree is in the table."""
    table = {int(n) for row in re.findall(r"^\| ([\d, ]+) \|", README, re.MULTILINE) for n in row.split(",")}
    raised = {
        thing.exit_status
        for thing in vars(errors).values()
        if isinstance(thing, type) and issubclass(thing, errors.CompactctlError)
    }

    assert table >= raised | set(errors.PRECEDENCE) | {0}


def test_the_tests_behind_the_promises_are_there() -> None:
    """Each promise of the store names the test that holds it: each file that is named is there, each test too."""
    named = re.findall(r"`(?=test_)(?:(test_\w+\.py)(?:::)?)?(test_\w+)?`", README)
    assert len(named) > 10
    assert len(named) == README.count("`test_")
    for file, function in named:
        found = list((ROOT / "tests").rglob(file or "test_*.py"))
        assert found, file
        assert not function or any(f"def {function}(" in path.read_text() for path in found), (file, function)


def test_the_neutral_format_is_what_loads(tmp_path: Path) -> None:
    """The lines that the README shows are a session."""
    block = re.search(r"^```json\n(.*?)^```$", README, re.DOTALL | re.MULTILINE)
    assert block is not None
    lines = block[1].replace(",\n ", ",").splitlines()
    path = tmp_path / "shown.jsonl"
    path.write_text("\n".join(lines) + "\n")
    (session,) = load(path)

    assert all(orjson.loads(line) for line in lines)
    assert [message.role for message in session.messages] == ["user", "assistant", "tool"]
    assert (session.id, session.context_window, session.overhead_tokens) == ("s-1", 200_000, 21_000)
    assert session.messages[1].usage is not None
    assert session.compactions[0].tokens_before == 155_000
