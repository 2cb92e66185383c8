"""Maps of a search: what fails a gate is told from what is good, in text and in pictures."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import combinations, pairwise
from typing import Any

import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg

from compactctl.measures._spec import Measured, share
from compactctl.ports import CompactorSpec
from compactctl.registry import plugin
from compactctl.reports._decision_plots import tuning_figure
from compactctl.reports._paper import Paper
from compactctl.reports._tuning import change_words, tuning_document
from compactctl.reports._tuning_text import tuning_text
from compactctl.settings import compactor_options
from compactctl.tuning.choice import decide
from compactctl.tuning.grid import full_grid, parse_axes

SPEC = plugin("compactctl.compactors", CompactorSpec, "progressive", "compactor")


def searched(sessions: int = 1, flat: bool = False) -> Mapping[str, Any]:
    """Give the document of a search over 3 x 2 settings: one is impossible, and the cheapest has a failed turn."""
    costs = [4.0, 5.0, 3.0 if flat else 2.0, 3.0, 1.0]
    return search(["soft=0.70,0.75,0.80", "full=0.75,0.80"], costs, sessions)


def search(axes: Sequence[str], costs: Sequence[float], sessions: int = 1) -> Mapping[str, Any]:
    """Give the document of a search over some axes, from the cost of each point; a cost of 1 has a failed turn."""
    grid = full_grid(parse_axes(axes, SPEC), SPEC, compactor_options(SPEC, {}))
    rows = [
        [
            {
                "m3.cost_usd": Measured(cost),
                "m6.recall_visible": share(9, 10),
                "real_peak_occupancy": Measured(0.8 + cost / 1000),
                "failed_turns": Measured(float(cost == 1)),
            }
        ]
        * sessions
        for cost in costs
    ]
    names = [f"s{number}" for number in range(sessions)]
    result = decide(grid, rows, names, 0, seed=1)
    options = [grid.options(number) for number in range(len(costs))]
    body = tuning_document(grid, options, result, rows, names, seed=1, complete=True)
    return {"command": "tune", "tool_version": "0", "settings": {"compactor": "progressive"}, "failed": [], **body}


def text_of(document: Mapping[str, Any]) -> str:
    """Give the report as text."""
    paper = Paper()
    tuning_text(document, paper)
    return paper.text()


def test_the_text_map_marks_what_fails_a_gate() -> None:
    """The cheapest setting fails: it is an x and not the lightest shade; what is impossible is a dot."""
    words = text_of(searched())
    assert "light $2.00, dark $5.00, x fails a gate, · not possible" in words
    assert "\n  0.75 ▓░·\n   0.8 █▒x\n" in words


def test_the_picture_marks_what_fails_a_gate_and_what_is_recommended() -> None:
    """Titles of maps name the signs that are drawn, and no others."""
    figure = tuning_figure(searched())
    (title,) = (title for axes in figure.axes if "m3.cost_usd" in (title := axes.get_title("left")))
    for sign in ("ring: present", "square: recommended", "x: fails a gate", "hatched: not possible"):
        assert sign in title
    # The recommended setting is alone: neither the table nor the map shows a flat region.
    assert "dots" not in title
    assert "flat region" not in text_of(searched())


@pytest.mark.parametrize(
    ("axes", "costs"),
    [
        (["offload=2000,4000,8000"], [101.5, 138.0, 130.0]),
        (["soft=0.70,0.75,0.80", "full=0.75,0.80"], [131.0, 5.0, 102.0, 120.0, 1.0]),
        (
            ["soft=0.70,0.75,0.80", "full=0.75,0.80", "offload=2000,4000"],
            [130.0, 131.0, 105.0, 106.0, 102.0, 103.0, 120.0, 121.0, 1.0, 1.0],
        ),
    ],
)
def test_no_words_of_a_picture_are_cut_or_lie_on_one_another(axes: Sequence[str], costs: Sequence[float]) -> None:
    """Titles, labels of axes and ticks lie whole in the picture and apart, and no legend lies over points."""
    figure = tuning_figure(search(axes, costs))
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    panels = [panel for panel in figure.axes if panel.axison]
    titles = [panel._left_title for panel in panels]  # type: ignore[attr-defined]  # matplotlib gives no public way to a title on the left
    names = [axis.label for panel in panels for axis in (panel.xaxis, panel.yaxis)]
    boxes = [text.get_window_extent() for text in [*titles, *names] if text.get_text()]
    for box in boxes:
        assert figure.bbox.fully_contains(box.x0, box.y0)
        assert figure.bbox.fully_contains(box.x1, box.y1)
    assert not any(one.overlaps(other) for one, other in combinations(boxes, 2))
    for panel in panels:
        for axis in (panel.xaxis, panel.yaxis):
            shown = [tick for tick in axis.get_ticklabels() if tick.get_text() and tick.get_visible()]
            ticks = [tick.get_window_extent().expanded(1.1, 1) for tick in shown]
            assert not any(one.overlaps(other) for one, other in pairwise(ticks))
        if (legend := panel.get_legend()) is not None:
            assert not panel.bbox.overlaps(legend.get_window_extent())


@pytest.mark.parametrize("flat", [True, False])
def test_picture_and_text_agree_about_the_flat_region(flat: bool) -> None:
    """Dots are drawn exactly where the table names a flat region."""
    document = searched(flat=flat)
    assert ("flat region" in text_of(document)) == flat
    titles = [axes.get_title("left") for axes in tuning_figure(document).axes]
    assert any("dots: the flat region" in title for title in titles) == flat


@pytest.mark.parametrize(("sessions", "words"), [(6, " over the 4 sessions tuned on"), (3, "")])
def test_it_says_which_sessions_are_counted(sessions: int, words: str) -> None:
    """Gates and front count the sessions tuned on, which is said where some were kept back."""
    told = text_of(searched(sessions))
    assert f"Pareto front{words}, cheapest first" in told
    assert f"gate: failed turns at most 0{words} (1 setting fails)" in told


def test_a_change_from_nothing_is_told_in_words() -> None:
    """What has no share of what it was before is null in JSON, which holds no infinity, and not n/a in the text."""
    grid = full_grid(parse_axes(["soft=0.70,0.75"], SPEC), SPEC, compactor_options(SPEC, {}))
    # The present setting fails a turn and costs nothing; the other costs 1.
    rows = [
        [
            {
                "m3.cost_usd": Measured(cost),
                "m6.recall_visible": share(9, 10),
                "real_peak_occupancy": Measured(0.8),
                "failed_turns": Measured(1 - cost),
            }
        ]
        for cost in (0.0, 1.0)
    ]
    result = decide(grid, rows, ["a"], 0, seed=1)
    body = tuning_document(grid, [grid.options(n) for n in (0, 1)], result, rows, ["a"], seed=1, complete=True)
    assert "cost from nothing" in body["recommendation"]["reason"]
    change = body["recommendation"]["against_present"]["tuning"]["cost"]
    assert change == {"change": None, "low": None, "high": None, "sessions": 1}
    words = text_of(
        {"command": "tune", "tool_version": "0", "settings": {"compactor": "progressive"}, "failed": [], **body}
    )
    assert re.search(r"cost, total +tuned on +\$0.00 +\$1.00 +from nothing", words)
    unlimited = {"change": -0.46, "low": -0.5, "high": None, "sessions": 5}
    assert change_words({"over_sessions": "sum"}, unlimited) == "-46.0% (-50.0 to no limit)"


def test_a_panel_without_curves_says_why() -> None:
    """What a parameter does may not be known by the points that were tried: then its panel is not merely empty."""
    document = dict(searched())
    told = {axes.get_title() for axes in tuning_figure(document).axes}
    reason = "its values cannot be told apart from those of other parameters by these points; more --trials"
    document["sensitivity"] = [
        {**effect, "means": {name: [None] * len(means) for name, means in effect["means"].items()}, "reason": reason}
        for effect in document["sensitivity"]
    ]
    titles = [axes.get_title().replace("\n", " ") for axes in tuning_figure(document).axes]
    assert titles.count(reason) == len(document["sensitivity"])
    assert reason not in told
