"""Pictures of ``tune`` (heat map, Pareto front, effect of each parameter) and ``compare`` (curves over each other)."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from textwrap import fill, wrap
from typing import TYPE_CHECKING, Any

from compactctl.reports._pictures import _figure, curves_figure, label
from compactctl.reports._tuning import (
    averaged_words,
    flat_points,
    objective_name,
    objective_words,
    settings_words,
    value_words,
    verdict_words,
)
from compactctl.reports._tuning_text import failing_cells, heat

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

# Each has 3:1 or more against white, and a shape of its own.
_FRONT, _DOMINATED, _FAILS, _CHOSEN, _PRESENT = "#1f4e9c", "#8a8f98", "#c0261c", "#2f7d4f", "#111111"
_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
# So much of a title fits over one panel, and so much of the smaller words over its axes.
_TITLE_CHARACTERS = 48
_REASON_CHARACTERS = 3 * _TITLE_CHARACTERS
_WORDS_CHARACTERS = 52
_UNBROKEN = "\u00a0"
# So many steps between ticks keep the longest labels apart.
_STEPS = 5


def tuning_figure(document: Mapping[str, Any]) -> Figure:
    """Draw a search: objectives against each other, the first objective over two parameters, each parameter alone."""
    parameters, objectives = document["grid"]["parameters"], document["objectives"]
    mapped = [objective for objective in objectives if _has_map(document, objective)]
    panels = (len(objectives) - 1) + len(mapped) + len(parameters)
    # As wide as leaves the fewest places empty.
    columns = min(panels, min((3, 2), key=lambda columns: -panels % columns))
    rows = -(-panels // columns)
    with _figure(5.2 * columns, 3.8 * rows + 0.6) as figure:
        places = list(figure.subplots(rows, columns, squeeze=False).flat)
        free = iter(places)
        for other in objectives[1:]:
            _pareto(next(free), document, objectives[0], other)
        for objective in mapped:
            _heat_map(next(free), figure, document, objective)
        for at in range(len(parameters)):
            _effect(next(free), document, at)
        for axes in free:
            axes.set_axis_off()
        lines = (
            f"{document['settings']['compactor']}: {settings_words(document)}",
            f"recommended: {verdict_words(document)}",
        )
        title = "\n".join(label(line, _TITLE_CHARACTERS * columns) for line in lines)
        figure.suptitle(title, fontsize=11, fontweight="bold", x=0.01, ha="left")
    return figure


def _has_map(document: Mapping[str, Any], objective: Mapping[str, Any]) -> bool:
    """Whether an objective can be drawn over two parameters, and is not the same everywhere."""
    if len(document["grid"]["parameters"]) < 2 or document["grid"]["sampled"]:
        return False
    known = {cell for row in heat(document, objective["name"]) for cell in row if cell is not None}
    return len(known) > 1


def _pareto(axes: Axes, document: Mapping[str, Any], across: Mapping[str, Any], up: Mapping[str, Any]) -> None:
    points: Sequence[Mapping[str, Any]] = [
        point
        for point in document["points"]
        if point["objectives"][across["name"]] is not None and point["objectives"][up["name"]] is not None
    ]
    groups = (
        ("fails a gate", _FAILS, "x", [p for p in points if not p["passes"]]),
        ("dominated", _DOMINATED, "s", [p for p in points if p["passes"] and not p["on_front"]]),
        ("on the front", _FRONT, "o", [p for p in points if p["on_front"]]),
    )
    for name, colour, marker, group in groups:
        if group:
            axes.scatter(*_xy(group, across, up), s=26, color=colour, marker=marker, label=name)
    # A ring each, so that a point that is both shows both.
    for name, colour, size, wanted in (
        ("present", _PRESENT, 110, [p for p in points if p["present"]]),
        ("recommended", _CHOSEN, 190, [p for p in points if p["number"] == document["recommendation"]["number"]]),
    ):
        if wanted:
            axes.scatter(
                *_xy(wanted, across, up), s=size, facecolors="none", edgecolors=colour, linewidths=1.6, label=name
            )
    axes.set_xlabel(f"{objective_name(across)} ({across['key']}), {across['better']} is better")
    # In two lines, since the height of a panel is less than its width.
    axes.set_ylabel(f"{objective_name(up)} ({up['key']})\n{up['better']} is better")
    for axis, objective, values in zip((axes.xaxis, axes.yaxis), (across, up), _xy(points, across, up), strict=True):
        _ticks(axis, objective, values)
    _legend_above(axes)
    axes.grid(alpha=0.3)


def _ticks(axis: Axis, objective: Mapping[str, Any], values: Sequence[float]) -> None:
    """Set few ticks, with as many digits as tell them apart and no more: longer labels would run into each other."""
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    span = max(values, default=0) - min(values, default=0)
    digits = max(0, -math.floor(math.log10(span / _STEPS))) if span > 0 else 2

    def words(value: float, _: int | None) -> str:
        if objective["key"] == "tokens":
            return objective_words(objective, value)
        if objective["key"] == "m3.cost_usd":
            return f"${value:,.{2 if digits == 1 else digits}f}"
        return f"{value * 100:.{max(0, digits - 2)}f}%"

    axis.set_major_locator(MaxNLocator(_STEPS, steps=[1, 2, 5, 10]))
    axis.set_major_formatter(FuncFormatter(words))


def _legend_above(axes: Axes) -> None:
    """Put the legend above the axes, where no point can lie under it."""
    axes.legend(loc="lower left", bbox_to_anchor=(0, 1.01), borderaxespad=0, ncols=3, columnspacing=1.2)


def _xy(
    points: Sequence[Mapping[str, Any]], across: Mapping[str, Any], up: Mapping[str, Any]
) -> tuple[list[float], list[float]]:
    return [p["objectives"][across["name"]] for p in points], [p["objectives"][up["name"]] for p in points]


def _heat_map(axes: Axes, figure: Figure, document: Mapping[str, Any], objective: Mapping[str, Any]) -> None:
    across, down = document["grid"]["parameters"][:2]
    cells = [[float("nan") if cell is None else cell for cell in row] for row in heat(document, objective["name"])]
    known = sum(cell == cell for row in cells for cell in row)  # a NaN is not itself
    lower = objective["better"] == "lower"
    drawn = axes.imshow(cells, aspect="auto", origin="lower", cmap="viridis_r" if lower else "viridis")
    # What is impossible together was not replayed; the hatch tells it from a light cell.
    axes.patch.set(facecolor="#eceef1", hatch="//", edgecolor="#c4c8cf")
    bar = figure.colorbar(drawn, ax=axes)
    _ticks(bar.ax.yaxis, objective, [cell for row in cells for cell in row if cell == cell])
    for values, put, name in (
        (across["values"], axes.set_xticks, across["name"]),
        (down["values"], axes.set_yticks, down["name"]),
    ):
        step = max(1, -(-len(values) // 10))
        put(list(range(0, len(values), step)), [value_words(value) for value in values[::step]])
        (axes.set_xlabel if put == axes.set_xticks else axes.set_ylabel)(label(name))
    failing = set(failing_cells(document))
    if failing:
        # White below the cross: the hatch is for what was not replayed.
        blank = [[0.0 if (x, y) in failing else float("nan") for x in range(len(row))] for y, row in enumerate(cells)]
        axes.imshow(blank, aspect="auto", origin="lower", cmap="Greys", vmin=0, vmax=1)
        axes.scatter([x for x, _ in failing], [y for _, y in failing], s=40, marker="x", color=_FAILS, linewidths=1.4)
    flat = set(flat_points(document))
    chosen = document["recommendation"]["number"]
    told = [
        _marked(axes, document, lambda p: p["present"], "ring: present", (110, "o", ("white", _PRESENT)[lower])),
        _marked(axes, document, lambda p: p["number"] == chosen, "square: recommended", (190, "s", _CHOSEN)),
        _marked(axes, document, lambda p: p["number"] in flat, "dots: the flat region", (14, "o", "black"), "white"),
        "x: fails a gate" if failing else "",
        "hatched: not possible" if sum(map(len, cells)) > len(failing) + known else "",
    ]
    title = f"{objective_name(objective)} ({objective['key']})"
    # A sign and what it means stay in one line.
    whole = [averaged_words(document), *(words.replace(" ", _UNBROKEN) for words in told)]
    lines = wrap("; ".join(filter(None, whole)), _WORDS_CHARACTERS)
    axes.set_title("\n".join(label(line.replace(_UNBROKEN, " ")) for line in (title, *lines)), fontsize=9, loc="left")


def _marked(
    axes: Axes,
    document: Mapping[str, Any],
    wanted: Callable[[Mapping[str, Any]], bool],
    words: str,
    mark: tuple[float, str, str],
    fill: str = "none",
) -> str:
    """Mark some points of the grid on a map, by size, shape and edge, and give the words for it; empty without any."""
    across, down = document["grid"]["parameters"][:2]
    size, shape, edge = mark
    places = [
        (across["values"].index(p["options"][across["name"]]), down["values"].index(p["options"][down["name"]]))
        for p in document["points"]
        if p["in_grid"] and wanted(p)
    ]
    if not places:
        return ""
    axes.scatter(
        [x for x, _ in places],
        [y for _, y in places],
        s=size,
        marker=shape,
        facecolors=fill,
        edgecolors=edge,
        linewidths=0.6 if fill != "none" else 1.6,
    )
    return words


def _effect(axes: Axes, document: Mapping[str, Any], at: int) -> None:
    """Draw each objective at each value of one parameter, all others being equal, as a share of its largest."""
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
    # A curve that is not there is told; that a spread has no share is of no matter to the curves.
    if any(all(mean is None for mean in means) for means in effect["means"].values()):
        axes.set_title(fill(label(effect["reason"] or "n/a", _REASON_CHARACTERS), _TITLE_CHARACTERS), fontsize=9)
    step = max(1, -(-len(places) // 10))
    axes.set_xticks(places[::step], [value_words(value) for value in effect["values"][::step]])
    axes.set_xlabel(label(effect["name"]))
    axes.set_ylabel("level / its largest, others equal")
    _legend_above(axes)
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
    mark = (f"window {session['window']:,}", session["window"])
    return curves_figure(title, "turn (model calls made before)", "real tokens of the view", named, mark)
