"""Settings files as the commands read them: whose code runs, which options are meant, and files that are none."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import Command

SHORT = "short-healthy-fix.jsonl"
MINE = """
import pathlib
pathlib.Path("ran").touch()
class Keeps:
    def __init__(self, context_window, soft_threshold=0.5): pass
    def compact(self, messages): return messages
"""


@pytest.mark.parametrize(
    ("words", "runs"),
    [
        ("inspect {sample}", False),
        ("report", False),
        ("verify", False),
        ("gc --keep-runs 1 --yes", False),
        ("config show", False),
        ("compare {sample} -c progressive", False),
        ("replay {sample} -n", True),
        ("check {sample}", True),
    ],
)
def test_only_commands_that_replay_run_the_code_of_a_compactor(
    words: str, runs: bool, command: Command, samples: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """COMPACTCTL_COMPACTOR=mine.py:Keeps and a file with options: only what replays through it loads it."""
    Path("mine.py").write_text(MINE)
    Path("compactctl.toml").write_text('[set]\nsoft_threshold = 0.65\n[[budgets]]\nmeasure = "tokens"\nmax = 1000000\n')
    assert command("replay", samples / SHORT, "-q").status == 0
    monkeypatch.setenv("COMPACTCTL_COMPACTOR", "mine.py:Keeps")
    ran = command(*words.format(sample=samples / SHORT).split())

    assert ran.status == 0, ran.err
    assert Path("ran").exists() is runs


@pytest.mark.parametrize("of_the_file", [True, False])
def test_looking_at_settings_runs_no_installed_package_either(
    of_the_file: bool, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A compactor that another package offers by name is not loaded to show settings, whoever names it."""
    Path("offered.py").write_text(MINE)
    info = Path("offered-1.dist-info")
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: offered\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[compactctl.compactors]\noffered-keeps = offered:Keeps\n")
    monkeypatch.syspath_prepend(Path.cwd())
    own = "compactor = 'offered-keeps'\n" if of_the_file else ""
    Path("compactctl.toml").write_text(f"{own}[set]\nsoft = 0.65\n")
    monkeypatch.setenv("COMPACTCTL_COMPACTOR", "progressive" if of_the_file else "offered-keeps")
    ran = command("config", "show")

    assert ran.status == 0, ran.err
    assert not Path("ran").exists()


@pytest.mark.parametrize(
    "written", ['[set]\n"early.warn" = 0.4\n', "[set]\nearly.warn = 0.4\n", "[set.early]\nwarn = 0.4\n"]
)
def test_options_of_a_rival_are_for_compare_alone(written: str, command: Command, samples: Path) -> None:
    """A settings file may hold options of one of several compactors; other commands go on as without them."""
    Path("compactctl.toml").write_text(written + '[[budgets]]\nmeasure = "tokens"\nmax = 1000000\n')
    for line in (
        ("replay", samples / SHORT, "-n"),
        ("check", samples / SHORT),
        ("tune", samples / SHORT, "--grid", "soft=0.6,0.7", "-n"),
        ("inspect", samples / SHORT),
    ):
        ran = command(*line)
        assert (ran.status, "early" in ran.err) == (0, False), ran.err
    assert "set.early.warn" in command("config", "show").out
    line = ("compare", samples / SHORT, "-c", "early=progressive", "-c", "now=progressive", "-f", "json")
    ran = command(*line)
    used = ran.json()["settings"]["compactors"]
    over = command(*line, "--set", "early.warn=0.5").json()["settings"]["compactors"]

    assert (ran.status, ran.err) == (0, "")
    assert [used[name]["options"]["warn_threshold"] for name in ("early", "now")] == [0.4, 0.6]
    assert over["early"]["options"]["warn_threshold"] == 0.5


def test_options_of_a_rival_that_is_not_compared_are_left_out_and_told(command: Command, samples: Path) -> None:
    """The note names the file, --quiet leaves it out; on the command line such an option is a mistake."""
    Path("compactctl.toml").write_text('[set]\nsoft = 0.65\n"early.warn" = 0.4\n')
    line = ("compare", samples / SHORT, "-c", "none")
    told = "compactctl.toml: left out, since nothing that is compared has it: early.warn, soft\n"
    ran = command(*line)

    assert (ran.status, ran.err.endswith(told)) == (0, True), ran.err
    assert command(*line, "-q").err == ""
    assert command(*line, "--set", "early.warn=0.4").status == 2


def test_an_option_that_a_file_sets_twice_is_refused(command: Command, samples: Path) -> None:
    """``"early.warn"`` and ``[set.early] warn`` are one option."""
    Path("compactctl.toml").write_text('[set]\n"early.warn" = 0.4\n[set.early]\nwarn = 0.5\n')
    ran = command("replay", samples / SHORT, "-n")

    assert ran.status == 2
    assert "set.early.warn is there twice" in ran.err


def test_a_settings_file_that_is_no_text_is_status_2(command: Command, samples: Path) -> None:
    """Settings that cannot be read are a mistake of the settings, not of the input."""
    Path("compactctl.toml").write_bytes(b"window = 1000 # \xff\n")
    ran = command("replay", samples / SHORT, "-n")

    assert ran.status == 2
    assert "cannot be read as settings" in ran.err


def test_a_foreign_project_file_that_is_no_text_stops_nothing(command: Command, samples: Path) -> None:
    """A pyproject.toml that says nothing of compactctl may hold what it likes."""
    Path("pyproject.toml").write_bytes(b"[project]\nname = '\xff'\n")

    assert command("replay", samples / SHORT, "-n", "-q").status == 0
    Path("pyproject.toml").write_bytes(b"[tool.compactctl]\nwindow = 1000 # \xff\n")
    assert command("replay", samples / SHORT, "-n", "-q").status == 2


@pytest.mark.parametrize("given", ["none", "m1"])
def test_measures_none_is_none_of_them(given: str, command: Command, samples: Path) -> None:
    """``none`` from file, environment or flag computes no measure, and is shown as it is written."""
    Path("compactctl.toml").write_text(f'measures = "{given}"\n')
    (session,) = command("replay", samples / SHORT, "-n", "-f", "json").json()["sessions"]
    shown = command("config", "show", "--json").json()["settings"]["measures"]["value"]

    assert ({key.partition(".")[0] for key in session["measures"]}, shown) == ({given} - {"none"}, [given])
