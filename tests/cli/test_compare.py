"""``compare``: compactors on the same session, with the bounds beside them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from compactctl.reports._comparison import mark_best
from compactctl.tuning.figures import known_keys
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
    assert not any(names[name]["failed_turns"]["value"] for name in ("progressive", "harness9"))
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


def figures(name: str, **values: float | None) -> dict[str, Any]:
    """Give one compactor's part of a comparison."""
    told = {key: {"value": value} for key, value in values.items()}
    return {"name": name, "meter": "bytes4", "bound": False, "figures": told, "best": []}


@pytest.mark.parametrize(
    ("rivals", "best"),
    [
        # One alone is better than nobody.
        ([(0, 10)], [[]]),
        # All the same.
        ([(0, 10), (0, 10)], [[], []]),
        ([(0, 10), (0, 12)], [["tokens"], []]),
        # The first sends least because its turns failed, which buys no star.
        ([(3, 5), (0, 10), (0, 12)], [[], ["failed_turns", "tokens"], ["failed_turns"]]),
        # Who alone failed none has nobody left to be better than, but in that.
        ([(3, 5), (0, 10)], [[], ["failed_turns"]]),
        # Where all fail, they are still compared.
        ([(3, 5), (2, 10)], [["tokens"], ["failed_turns"]]),
    ],
)
def test_a_star_is_only_for_who_is_better(rivals: list[tuple[int, int]], best: list[list[str]]) -> None:
    """No star alone, none on a tie of all, and none for a figure that was bought by failing turns."""
    compared = [figures(str(at), failed_turns=failed, tokens=sent) for at, (failed, sent) in enumerate(rivals)]
    mark_best(compared, known_keys())
    assert [one["best"] for one in compared] == best


def test_all_sessions_pool_shares_and_count_those_that_have_a_figure(command: Command, samples: Path) -> None:
    """Shares over all are sums over sums; cost is of the sessions that have a price, and how many these are is told."""
    ran = command("compare", samples, "-c", "progressive", "-c", "harness9", "-o", "c.json")
    found = json.loads(Path("c.json").read_text())
    whole, one = (
        next(row for row in found["overall"] if row["name"] == name)["figures"] for name in ("none", "progressive")
    )
    share = one["m2.tokens_sent"]["value"] / whole["m2.tokens_sent"]["value"]
    assert one["m2.share_of_uncompacted"]["value"] == pytest.approx(share)
    costs = [
        session["compared"][0]["figures"]["m3.cost_usd"]["value"]
        for session in found["sessions"]
        if session["compared"][0]["figures"]["m3.cost_usd"]["value"] is not None
    ]
    assert 0 < len(costs) < len(found["sessions"])
    assert one["m3.cost_usd"]["value"] == pytest.approx(sum(costs))
    assert one["m3.cost_usd"]["sessions"] == len(costs)
    assert f"({len(costs)} of {len(found['sessions'])} sessions have a price)" in ran.out


def test_the_sessions_shown_are_the_worst_first(command: Command, samples: Path) -> None:
    """Sorted by failed turns and then by the real peak, whatever their names; JSON keeps the order of the input."""
    ran = command("compare", samples, "-c", "progressive", "-o", "c.json", "--measures", "m1")
    sessions = json.loads(Path("c.json").read_text())["sessions"]

    def badness(session: dict[str, Any]) -> tuple[float, float]:
        mine = session["compared"][0]["figures"]
        return mine["failed_turns"]["value"], mine["real_peak_occupancy"]["value"]

    order = [session["session_id"] for session in sorted(sessions, key=badness, reverse=True)]
    shown = [line.split("  ")[0] for line in ran.out.splitlines() if "real tokens from" in line]
    assert shown == order[: len(shown)]
    assert 1 < len(shown) < len(order)


def test_the_same_curve_is_drawn_once(command: Command, samples: Path) -> None:
    """Where compactors sent the same at every turn, one line names them all."""
    out = command("compare", samples / "short-healthy-fix.jsonl", "-c", "progressive", "-c", "harness9").out
    (curve,) = [line for line in out.splitlines() if "at most" in line]
    assert curve.startswith("  progressive, harness9, none, truncate  ")
    assert "*" not in out


def test_files_are_written_in_every_format(command: Command, samples: Path) -> None:
    """csv has a row for each session and compactor and one for all; pictures draw the curves."""
    two = (samples / SAMPLE, samples / "short-healthy-fix.jsonl")
    ran = command("compare", *two, "-c", "progressive", "-o", "c.csv", "-o", "c.svg", "-o", "c.png", "-o", "c.md")
    assert ran.status == 0, ran.err
    assert "all 2 sessions" in ran.out
    # A line of names, and three compactors for each of two sessions and for all.
    assert Path("c.csv").read_text().count("\n") == 1 + 3 * 3
    assert b"<svg" in Path("c.svg").read_bytes()
    # The line that curves are read against.
    assert b"window " in Path("c.svg").read_bytes()
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
