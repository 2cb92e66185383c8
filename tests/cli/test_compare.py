"""``compare``: compactors on the same session, with the bounds beside them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import Command

SAMPLE = "long-migration-permanent-emergency.jsonl"


def test_the_bounds_are_in_every_comparison_and_marked(command: Command, samples: Path) -> None:
    """none and truncate stand last, whatever is compared, and have no part in the best of a column."""
    found = command("compare", samples / SAMPLE, "-c", "progressive", "-c", "harness9", "-f", "json").json()
    (session,) = found["sessions"]
    assert [(one["name"], one["bound"]) for one in session["compared"]] == [
        ("progressive", False),
        ("harness9", False),
        ("none", True),
        ("truncate", True),
    ]
    for one in session["compared"]:
        assert one["bound"] <= (one["best"] == [])
    names = {one["name"]: one["figures"] for one in session["compared"]}
    sent = {name: figures["m2.tokens_sent"]["value"] for name, figures in names.items()}
    best = [one["name"] for one in session["compared"] if "m2.tokens_sent" in one["best"]]
    assert best == [min(("progressive", "harness9"), key=lambda name: sent[name])]


def test_options_reach_the_one_that_they_name(command: Command, samples: Path) -> None:
    """A.key=value is for A; a compactor may be in it twice under two names."""
    ran = command(
        *("compare", samples / SAMPLE, "-c", "now=progressive", "-c", "early=progressive"),
        *("--set", "early.warn=0.2", "--set", "early.soft=0.3", "--set", "tail=8", "-f", "json", "--measures", "none"),
    )
    settings = ran.json()["settings"]["compactors"]
    assert settings["early"]["options"]["soft_threshold"] == 0.3
    assert settings["now"]["options"]["soft_threshold"] == 0.7
    assert settings["early"]["options"]["min_tail_messages"] == settings["now"]["options"]["min_tail_messages"] == 8


def test_figures_are_those_of_replay(command: Command, samples: Path) -> None:
    """What compare says of a compactor is what replay says of it."""
    compared = command("compare", samples / SAMPLE, "-c", "harness9", "-f", "json").json()["sessions"][0]["compared"][0]
    replayed = command("replay", samples / SAMPLE, "-c", "harness9", "-n", "-f", "json").json()["sessions"][0]
    assert compared["figures"]["tokens"]["value"] == replayed["tokens"]
    for key, measured in replayed["measures"].items():
        assert compared["figures"][key]["value"] == measured["value"], key


def test_text_shows_the_curves_and_the_best(command: Command, samples: Path) -> None:
    """The table marks the best of each column, and each compactor has its curve on the same scale."""
    out = command("compare", samples / SAMPLE, "-c", "progressive", "-c", "harness9").out
    assert "(truncate)" in out
    assert "*" in out
    assert sum("at most" in line for line in out.splitlines()) == 4


def test_files_are_written_in_every_format(command: Command, samples: Path) -> None:
    """csv has a row for each session and compactor and one for all; pictures draw the curves."""
    two = (samples / SAMPLE, samples / "short-healthy-fix.jsonl")
    ran = command("compare", *two, "-c", "progressive", "-o", "c.csv", "-o", "c.svg", "-o", "c.png", "-o", "c.md")
    assert ran.status == 0, ran.err
    assert "all 2 sessions" in ran.out
    # A line of names, and three compactors for each of two sessions and for all.
    assert Path("c.csv").read_text().count("\n") == 1 + 3 * 3
    assert b"<svg" in Path("c.svg").read_bytes()
    assert Path("c.png").read_bytes().startswith(b"\x89PNG")


def test_two_jobs_give_the_same_bytes(command: Command, samples: Path) -> None:
    """The order and the figures do not depend on the number of processes."""
    files = sorted(samples.glob("*.jsonl"))[:3]
    arguments = ("compare", *files, "-c", "progressive", "-f", "json", "--measures", "m1")
    assert command(*arguments, "-j", 2).out == command(*arguments, "-j", 1).out


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("-c", "progresive"), "Did you mean 'progressive'?"),
        (("-c", "progressive", "-c", "progressive"), "is there already"),
        (("-c", "progressive", "--set", "harness8.soft=0.5"), "no compactor 'harness8' is compared"),
        (("-c", "progressive", "--set", "sofd=0.5"), "none of the compactors has it"),
        (("-c", "progressive", "--set", "progressive.soft=2"), "above"),
        (("-c", "progressive", "-f", "html"), "compare has no html"),
    ],
)
def test_mistakes_are_told_in_one_line(command: Command, samples: Path, arguments: tuple[str, ...], told: str) -> None:
    """A mistake ends with status 2 and the nearest name, before anything is replayed."""
    ran = command("compare", samples / SAMPLE, *arguments)
    assert (ran.status, ran.out) == (2, "")
    assert told in ran.err
