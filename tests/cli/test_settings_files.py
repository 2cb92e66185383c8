"""Settings files from the outside: where they are found, what wins, and what of others' code is never run."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import Command

SHORT = "short-healthy-fix.jsonl"


@pytest.mark.parametrize(
    "content",
    [
        "[tool]\ncompactctl = { window = 1234 }\n",
        "[ tool.compactctl ]\nwindow = 1234\n",
        '["tool"."compactctl"]\nwindow = 1234\n',
        "tool.compactctl.window = 1234\n",
        "\ufeff[tool.compactctl]\nwindow = 1234\n",
    ],
)
def test_a_pyproject_is_found_however_it_is_written(command: Command, content: str) -> None:
    """What TOML reads as our table is our table."""
    Path("pyproject.toml").write_text(content)
    assert command("config", "show", "--json").json()["settings"]["window"]["value"] == 1234


@pytest.mark.parametrize(
    "line",
    [
        ("replay", "s.jsonl"),
        ("compare", "s.jsonl"),
        ("tune", "s.jsonl", "--grid", "soft=0.7", "-n"),
        ("check", "s.jsonl"),
        ("inspect", "s.jsonl"),
        ("report",),
        ("verify",),
        ("gc", "-n", "--all"),
        ("config", "show"),
    ],
)
def test_a_settings_file_of_a_directory_above_is_named(
    command: Command, samples: Path, monkeypatch: pytest.MonkeyPatch, line: tuple[str, ...]
) -> None:
    """Whoever works below a settings file is told once on stderr that it counts; beside it, or under -q, nobody is."""
    above = Path("compactctl.toml").resolve()
    above.write_text('set = {soft = 0.72}\nbudgets = [{measure = "m5.faults", max = 0}]\n')
    below = Path("below").resolve()
    below.mkdir()
    for place in (above.parent, below):
        (place / "s.jsonl").write_bytes((samples / SHORT).read_bytes())
        assert command("replay", place / "s.jsonl", "--state-dir", place / ".compactctl", "-q").err == ""
    words = f"settings from {above} (--no-config leaves them out)"

    assert "settings from" not in command(*line).err
    monkeypatch.chdir(below)
    assert command(*line).err.count(words) == 1
    assert words not in command(*line, "--no-config").err
    if line[0] not in ("verify", "gc", "config"):
        assert words not in command(*line, "-q").err


@pytest.mark.parametrize(
    "content", ["# see [tool.compactctl]\n", "[tool.compactctl-lint]\nx = 1\n", "x = 'compactctl'\n"]
)
def test_a_pyproject_that_only_names_us_hides_no_settings(
    command: Command, content: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The search goes on upward to the file that has settings."""
    Path("compactctl.toml").write_text("window = 777\n")
    Path("below").mkdir()
    Path("below/pyproject.toml").write_text(content)
    monkeypatch.chdir("below")
    assert command("config", "show", "--json").json()["settings"]["window"]["value"] == 777


@pytest.mark.parametrize(("file", "flag"), [("soft", "soft_threshold"), ("soft-threshold", "soft"), ("soft", "soft")])
def test_a_flag_wins_over_the_file_by_whatever_name(command: Command, samples: Path, file: str, flag: str) -> None:
    """An option that the file has by its short name and the command line by its full one is one option."""
    Path("compactctl.toml").write_text(f"[set]\n{file} = 0.65\n")
    ran = command("replay", samples / SHORT, "-n", "-f", "json", "--measures", "none", "--set", f"{flag}=0.7")
    assert ran.json()["settings"]["options"]["soft_threshold"] == 0.7
    assert command("replay", samples / SHORT, "-n", "--set", "soft=0.7", "--set", "soft_threshold=0.7").status == 2


def test_in_a_comparison_flags_win_over_the_file_and_ones_own_over_everybodys(command: Command, samples: Path) -> None:
    """Of what is set for a rival: its own flag, everybody's flag, its own line of the file, everybody's line."""
    Path("compactctl.toml").write_text('[set]\nsoft = 0.61\n"a.soft_threshold" = 0.62\n')
    line = (
        "compare",
        samples / SHORT,
        "-c",
        "a=progressive",
        "-c",
        "b=progressive",
        "-f",
        "json",
        "--measures",
        "none",
    )

    def soft(*flags: str) -> list[float]:
        found = command(*line, *flags).json()["settings"]["compactors"]
        return [found[name]["options"]["soft_threshold"] for name in "ab"]

    assert soft() == [0.62, 0.61]
    assert soft("--set", "soft_threshold=0.63") == [0.63, 0.63]
    assert soft("--set", "soft=0.63", "--set", "a.soft=0.64") == [0.64, 0.63]
    assert command(*line, "--set", "a.soft=0.63", "--set", "a.soft_threshold=0.64").status == 2


@pytest.mark.parametrize("name", ["none=progressive", "truncate=progressive", "a.b=progressive"])
def test_a_rival_takes_no_bounds_name(command: Command, samples: Path, name: str) -> None:
    """The ceiling and the floor of a comparison are what they are called; a dot parts a name from an option."""
    ran = command("compare", samples / SHORT, "-c", name)
    assert (ran.status, ran.out) == (2, "")
    assert "choose another name" in ran.err


ENDS = "raise SystemExit({status})\n"


@pytest.mark.parametrize("status", [0, 5])
@pytest.mark.parametrize("words", ["check", "replay", "compare", "tune --grid keep=1,2"])
@pytest.mark.parametrize("module", ["ends.py:X", "ends:X"])
def test_a_module_that_ends_the_process_decides_no_status(
    command: Command, samples: Path, module: str, words: str, status: int
) -> None:
    """A check whose compactor cannot even be imported has not passed."""
    Path("ends.py").write_text(ENDS.format(status=status))
    Path("compactctl.toml").write_text('[[budgets]]\nmeasure = "m5.faults"\nmax = 0\n')
    ran = command(*words.split(), samples / SHORT, "-n", "-c", module)
    assert (ran.status, ran.out) == (2, "")
    assert "could not be imported: SystemExit" in ran.err


ODD = """
class Odd:
    history = {history!r}
    def __init__(self, context_window, keep=2, most=float("inf")): self.keep = keep
    def compact(self, messages): return messages
"""


def test_a_users_class_may_have_what_is_no_option(command: Command, samples: Path) -> None:
    """A default that no output can show is left to the class; a history mode that is none is told at once."""
    Path("odd.py").write_text(ODD.format(history="view"))
    ran = command("tune", samples / SHORT, "-c", "odd.py:Odd", "--grid", "keep=1,2", "-n", "-f", "json")
    assert ran.status == 0
    assert ran.json()["settings"]["options"] == {"keep": 2}
    Path("odd.py").write_text(ODD.format(history="bogus"))
    wrong = command("replay", samples / SHORT, "-n", "-c", "odd.py:Odd")
    assert (wrong.status, wrong.out) == (2, "")
    assert "its history is 'bogus', and must be view or write-back" in wrong.err


def test_init_names_no_code_in_the_file_that_it_writes(command: Command, samples: Path) -> None:
    """Budgets of a user's compactor can be checked with the file that init wrote for it."""
    Path("odd.py").write_text(ODD.format(history="view"))
    assert command("init", samples / SHORT, "-c", "odd.py:Odd").status == 0
    assert "give --compactor odd.py:Odd" in Path("compactctl.toml").read_text()
    assert command("check", samples / SHORT, "-c", "odd.py:Odd").status == 0


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('"tokens": ', '"tokens": 1e999, "x": ', "tokens is inf, not a finite number"),
        ('"tokens": ', '"tokens": NaN, "x": ', "tokens is nan, not a finite number"),
        ('"tokens": ', f'"tokens": 1{"0" * 400}, "x": ', "not a finite number"),
        ('"settings": {', '"settings": [[1, 2]], "x": {', "its settings are no object"),
        ('"compactctl_baseline": 1', '"compactctl_baseline": true', "baseline version True is not 1"),
    ],
)
def test_a_baseline_that_was_edited_wrongly_is_told(
    command: Command, samples: Path, old: str, new: str, words: str
) -> None:
    """No number that is none lets a budget pass; the line names the file and says how to write it anew."""
    Path("compactctl.toml").write_text('[[budgets]]\nmeasure = "tokens"\nmax_increase = "5%"\n')
    line = ("check", samples / SHORT, "--baseline", "b.json")
    assert command(*line, "--update-baseline").status == 0
    content = Path("b.json").read_text()
    assert old in content
    Path("b.json").write_text(content.replace(old, new))
    ran = command(*line)
    assert (ran.status, ran.out) == (2, "")
    assert words in ran.err
    Path("b.json").write_text("\ufeff" + content)
    assert command(*line).status == 0
