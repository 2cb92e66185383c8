"""Pictures of ``tune`` (heat map, Pareto front, effect of each parameter) and ``compare`` (curves over each other)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from compactctl.reports._pictures import _figure, curves_figure, label
from compactctl.reports._tuning import objective_words, options_words, value_words
from compactctl.reports._tuning_text import heat

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_FRONT, _DOMINATED, _FAILS, _CHOSEN = "#1f4e9c", "#b9bec7", "#e3b3ae", "#2f7d4f"
_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
_LEAST_SESSIONS = 6


def tuning_figure(document: Mapping[str, Any]) -> Figure:
    """Draw a search: objectives against each other, the first objective over two parameters, each parameter alone."""
    parameters, objectives = document["grid"]["parameters"], document["objectives"]
    flat = len(parameters) >= 2 and not document["grid"]["sampled"]
    panels = (len(objectives) - 1) + len(objectives) * flat + len(parameters)
    columns = 2 if panels > 1 else 1
    rows = -(-panels // columns)
    with _figure(5.2 * columns, 3.8 * rows + 0.4) as figure:
        places = list(figure.subplots(rows, columns, squeeze=False).flat)
        free = iter(places)
        for other in objectives[1:]:
            _pareto(next(free), document, objectives[0], other)
        for objective in objectives if flat else ():
            _heat_map(next(free), figure, document, objective)
        for at in range(len(parameters)):
            _effect(next(free), document, at)
        for axes in free:
            axes.set_axis_off()
        chosen = document["recommendation"]["options"]
        words = f"recommended: {options_words(chosen)}" if chosen else "nothing recommended"
        title = f"{document['settings']['compactor']}: {document['grid']['points']} settings, {words}"
        figure.suptitle(label(title), fontsize=11, fontweight="bold", x=0.01, ha="left")
    return figure


def _pareto(axes: Axes, document: Mapping[str, Any], across: Mapping[str, Any], up: Mapping[str, Any]) -> None:
    points: Sequence[Mapping[str, Any]] = [
        point
        for point in document["points"]
        if point["objectives"][across["name"]] is not None and point["objectives"][up["name"]] is not None
    ]
    groups = (
        ("fails a gate", _FAILS, "x", [p for p in points if not p["passes"]]),
        ("dominated", _DOMINATED, "o", [p for p in points if p["passes"] and not p["on_front"]]),
        ("on the front", _FRONT, "o", [p for p in points if p["on_front"]]),
    )
    for name, colour, marker, group in groups:
        if group:
            axes.scatter(*_xy(group, across, up), s=22, color=colour, marker=marker, label=name)
    # A ring each, so that a point that is both shows both.
    for name, colour, size, wanted in (
        ("present", "#c0261c", 110, [p for p in points if p["present"]]),
        ("recommended", _CHOSEN, 190, [p for p in points if p["number"] == document["recommendation"]["number"]]),
    ):
        if wanted:
            axes.scatter(
                *_xy(wanted, across, up), s=size, facecolors="none", edgecolors=colour, linewidths=1.6, label=name
            )
    axes.set_xlabel(f"{across['name']} ({across['key']}), {across['better']} is better")
    axes.set_ylabel(f"{up['name']} ({up['key']}), {up['better']} is better")
    axes.legend()
    axes.grid(alpha=0.3)


def _xy(
    points: Sequence[Mapping[str, Any]], across: Mapping[str, Any], up: Mapping[str, Any]
) -> tuple[list[float], list[float]]:
    return [p["objectives"][across["name"]] for p in points], [p["objectives"][up["name"]] for p in points]


def _heat_map(axes: Axes, figure: Figure, document: Mapping[str, Any], objective: Mapping[str, Any]) -> None:
    across, down = document["grid"]["parameters"][:2]
    cells = [[float("nan") if cell is None else cell for cell in row] for row in heat(document, objective["name"])]
    drawn = axes.imshow(
        cells, aspect="auto", origin="lower", cmap="viridis" if objective["better"] == "higher" else "viridis_r"
    )
    figure.colorbar(drawn, ax=axes, format=lambda value, _: objective_words(objective, value))
    for values, put, name in (
        (across["values"], axes.set_xticks, across["name"]),
        (down["values"], axes.set_yticks, down["name"]),
    ):
        step = max(1, -(-len(values) // 10))
        put(list(range(0, len(values), step)), [value_words(value) for value in values[::step]])
        (axes.set_xlabel if put == axes.set_xticks else axes.set_ylabel)(label(name))
    flat = set(document["recommendation"]["flat_region"]["points"])
    inside = [p["options"] for p in document["points"] if p["number"] in flat and p["in_grid"]]
    axes.scatter(
        [across["values"].index(options[across["name"]]) for options in inside],
        [down["values"].index(options[down["name"]]) for options in inside],
        s=14,
        color="white",
        edgecolors="black",
        linewidths=0.6,
    )
    told = ", dots: as good as the best" if inside else ""
    axes.set_title(label(f"{objective['name']} ({objective['key']}){told}"), fontsize=9)


def _effect(axes: Axes, document: Mapping[str, Any], at: int) -> None:
    """Draw the mean of each objective at each value of one parameter, as a share of its largest mean."""
    effect = document["sensitivity"][at]
    places = list(range(len(effect["values"])))
    for number, objective in enumerate(document["objectives"]):
        means = effect["means"][objective["name"]]
        top = max((abs(mean) for mean in means if mean is not None), default=0) or 1
        axes.plot(
            places,
            [float("nan") if mean is None else mean / top for mean in means],
            marker=_MARKERS[number % len(_MARKERS)],
            markersize=4,
            label=objective["name"],
        )
    step = max(1, -(-len(places) // 10))
    axes.set_xticks(places[::step], [value_words(value) for value in effect["values"][::step]])
    axes.set_xlabel(label(effect["name"]))
    axes.set_ylabel("mean / its largest")
    axes.legend()
    axes.grid(axis="y", alpha=0.3)


def comparison_figure(document: Mapping[str, Any]) -> Figure:
    """Draw real tokens over turns of the longest session, all compactors over each other."""
    session = max(document["sessions"], key=lambda session: (session["turns"], session["session_id"]))
    named = {
        one["name"]: list(zip(one["occupancy"]["first_turn"], one["occupancy"]["real_tokens"], strict=True))
        for one in session["compared"]
    }
    more = len(document["sessions"]) - 1
    title = f"{session['session_id']}, the longest of {more + 1} sessions" if more else session["session_id"]
    return curves_figure(title, "turn (model calls made before)", "real tokens of the view", named)
