"""What ``tune`` shows on a terminal and in Markdown: the recommendation first, then the front, then what matters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from compactctl.context.words import quantity
from compactctl.reports._paper import Paper
from compactctl.reports._safe import safe
from compactctl.reports._tuning import (
    averaged_words,
    bent_words,
    change_words,
    flat_points,
    flat_words,
    gate_words,
    objective_name,
    objective_words,
    options_words,
    settings_words,
    tuned_words,
    value_words,
    verdict_words,
)

_MOST_FRONT = 25
_SHADES = "░▒▓█"


def tuning_text(document: Mapping[str, Any], paper: Paper) -> None:
    """Write the report of a search."""
    _head(document, paper)
    _recommendation(document, paper)
    _front(document, paper)
    _heat(document, paper)
    _sensitivity(document, paper)
    if document["notes"]:
        paper.line()
        for words in document["notes"]:
            paper.wrapped(safe(f"note: {words}"), "", "dim")


def _head(document: Mapping[str, Any], paper: Paper) -> None:
    grid, split = document["grid"], document["split"]
    of = " of those drawn" if grid["sampled"] else ""
    left_out = f", {grid['impossible']:,}{of} impossible and left out" if grid["impossible"] else ""
    held = f" and {len(split['held_out'])} kept back" if split["held_out"] else ""
    words = (
        f"{document['settings']['compactor']}: {settings_words(document)}{left_out}, "
        f"{quantity(len(split['tuning']), 'session')}{held}, seed {document['seed']}"
    )
    paper.line(safe(words), "bold")
    if grid["impossible"]:
        paper.wrapped(safe(f"impossible, for example: {grid['impossible_for_example']}"), "  ", "dim")
    if not document["complete"]:
        failed = quantity(len(document["failed"]), "input or session", "inputs or sessions")
        without = f" ({failed} could not be used)" if document["failed"] else ""
        words = f"not complete: only what was done in every session listed is compared{without}"
        paper.wrapped(words, "", "warn")
    for gate in document["gates"]:
        broken = sum(1 for point in document["points"] if gate["name"] in point["gates_broken"])
        paper.line(
            f"  gate: {gate_words(gate)}{tuned_words(document)} ({quantity(broken, 'setting fails', 'settings fail')})"
        )
    paper.line()


def _recommendation(document: Mapping[str, Any], paper: Paper) -> None:
    found = document["recommendation"]
    paper.line(f"Recommended: {verdict_words(document)}", "bold")
    paper.wrapped(safe(found["reason"]), "  ")
    if found["best"] is None:
        paper.line()
        return
    _against_present(document, paper)
    if bent := bent_words(document):
        paper.wrapped(safe(f"accepted with it{tuned_words(document)}, since no setting is free of them: {bent}"), "  ")
    if flat := flat_points(document):
        words = f"flat region, {len(flat)} settings that are as good as each other: {flat_words(document)}"
        paper.wrapped(safe(words), "  ")
    paper.line()


def _against_present(document: Mapping[str, Any], paper: Paper) -> None:
    """Write the objectives of the best point beside those of the present one, where it is another."""
    found, points = document["recommendation"], document["points"]
    best, present = points[found["best"]], next(point for point in points if point["present"])
    if best is present:
        return
    parts = [("tuning", "objectives", "tuned on"), ("held_out", "held_out", "kept back")]
    # Of one session nothing can be drawn again.
    drawn = any(
        change is not None and change["sessions"] > 1
        for changes in found["against_present"].values()
        for change in (changes or {}).values()
    )
    change = "change (95 of 100 resamples)" if drawn else "change"
    rows: list[list[str]] = [["", "sessions", "present", options_words(best["options"]), change]]
    for part, field, name in parts:
        changes = found["against_present"][part]
        if changes is None:
            continue
        rows.extend(
            [
                objective_name(objective),
                name,
                objective_words(objective, present[field][objective["name"]]),
                objective_words(objective, best[field][objective["name"]]),
                change_words(objective, changes[objective["name"]]),
            ]
            for objective in document["objectives"]
        )
    paper.columns(rows, (False, False, True, True, False), ["dim"] + [""] * (len(rows) - 1), indent="  ")


def _front(document: Mapping[str, Any], paper: Paper) -> None:
    objectives = document["objectives"]
    points: Sequence[Mapping[str, Any]] = document["points"]
    front = sorted((p for p in points if p["on_front"]), key=lambda p: p["objectives"][objectives[0]["name"]] or 0)
    groups = _alike(front, document)
    listed = _thinned(list(groups.values()))
    present = next(point for point in points if point["present"])
    shown = [(group[0], len(group) - 1) for group in listed]
    chosen = [point for point in points if point["number"] == document["recommendation"]["number"]]
    for point in (*chosen, present):
        if all(point is not other for other, _ in shown):
            shown.append((point, 0))
    names = [parameter["name"] for parameter in document["grid"]["parameters"]]
    paper.line(f"Pareto front{tuned_words(document)}, cheapest first (* present, > recommended)", "bold")
    rows = [["", *names, *(f"{objective_name(o)} ({o['key']})" for o in objectives), ""]]
    rows.extend(
        [
            _sign(point, document),
            *(value_words(point["options"][name]) for name in names),
            *(objective_words(o, point["objectives"][o["name"]]) for o in objectives),
            f"and {others} more with the same figures" if others else _state(point, document),
        ]
        for point, others in shown
    )
    right = (False, *[True] * len(names), *[True] * len(objectives), False)
    paper.columns(rows, right, ["dim"] + [""] * (len(rows) - 1), indent="  ")
    dominated = sum(1 for point in points if point["passes"] and not point["on_front"])
    failing = sum(1 for point in points if not point["passes"])
    hidden = "; those not shown are in --format csv or json" if len(listed) < len(groups) else ""
    paper.line(
        f"  {len(front)} on the front, {dominated} dominated, {quantity(failing, 'fails', 'fail')} a gate{hidden}",
        "dim",
    )
    paper.line()


def _alike(
    front: Sequence[Mapping[str, Any]], document: Mapping[str, Any]
) -> dict[tuple[Any, ...], list[Mapping[str, Any]]]:
    """Group points whose objectives read the same; the present or the recommended one stands for its group."""
    groups: dict[tuple[Any, ...], list[Mapping[str, Any]]] = {}
    for point in front:
        read = tuple(objective_words(o, point["objectives"][o["name"]]) for o in document["objectives"])
        group = groups.setdefault(read, [])
        group.insert(0 if _sign(point, document) else len(group), point)
    return groups


def _thinned(front: list[list[Mapping[str, Any]]]) -> list[list[Mapping[str, Any]]]:
    """Give at most so many of the front, evenly spread and with both ends."""
    if len(front) <= _MOST_FRONT:
        return front
    last = len(front) - 1
    return [front[round(at * last / (_MOST_FRONT - 1))] for at in range(_MOST_FRONT)]


def _sign(point: Mapping[str, Any], document: Mapping[str, Any]) -> str:
    chosen = ">" if point["number"] == document["recommendation"]["number"] else ""
    return chosen + ("*" if point["present"] else "")


def _state(point: Mapping[str, Any], document: Mapping[str, Any]) -> str:
    if not point["passes"]:
        return "fails: " + ", ".join(point["gates_broken"])
    if point["on_front"]:
        return ""
    chosen = point["number"] == document["recommendation"]["number"]
    return "dominated within the tolerance: the middle of those that are as good" if chosen else "dominated"


def _heat(document: Mapping[str, Any], paper: Paper) -> None:
    """Write the first objective over the first two parameters as shades, for grids of two or more."""
    parameters = document["grid"]["parameters"]
    if len(parameters) < 2 or document["grid"]["sampled"]:
        return
    objective = document["objectives"][0]
    across, down = parameters[0], parameters[1]
    cells = heat(document, objective["name"])
    known = [value for row in cells for value in row if value is not None]
    failing = {(y, x) for x, y in failing_cells(document)}
    if not known or max(known) == min(known):
        return
    low, high = min(known), max(known)
    paper.line(
        f"{objective['name']} over {down['name']} (down) and {across['name']} (across): "
        f"light {objective_words(objective, low)}, dark {objective_words(objective, high)}, "
        f"{'x fails a gate, ' * bool(failing)}· not possible",
        "bold",
    )
    if averaged := averaged_words(document):
        paper.line(f"  {averaged}", "dim")
    width = max(len(value_words(value)) for value in down["values"])
    for y, (value, row) in enumerate(zip(down["values"], cells, strict=True)):
        shades = "".join(
            ("x" if (y, x) in failing else "·") if cell is None else _shade((cell - low) / (high - low))
            for x, cell in enumerate(row)
        )
        paper.line(f"  {value_words(value):>{width}} {shades}")
    paper.line(f"  {'':>{width}} {value_words(across['values'][0])} to {value_words(across['values'][-1])}")
    paper.line()


def _shade(share: float) -> str:
    return _SHADES[min(int(share * len(_SHADES)), len(_SHADES) - 1)]


def heat(document: Mapping[str, Any], name: str) -> list[list[float | None]]:
    """Give the mean of an objective for each value of the second parameter (rows) and of the first (columns).

    It is that of the settings that pass the gates: what fails one may look best, and is not for choosing.
    """
    across, down = document["grid"]["parameters"][:2]
    groups = {cell: [p["objectives"][name] for p in points if p["passes"]] for cell, points in _cells(document).items()}
    known = {cell: [value for value in values if value is not None] for cell, values in groups.items()}
    return [
        [sum(found) / len(found) if (found := known.get((x, y))) else None for x in range(len(across["values"]))]
        for y in range(len(down["values"]))
    ]


def failing_cells(document: Mapping[str, Any]) -> list[tuple[int, int]]:
    """Give the places across and down in such a map where every setting that was tried fails a gate."""
    return [cell for cell, points in _cells(document).items() if not any(point["passes"] for point in points)]


def _cells(document: Mapping[str, Any]) -> dict[tuple[int, int], list[Mapping[str, Any]]]:
    """Group the points of the grid by their places on the first two parameters."""
    across, down = (
        (parameter["name"], {value: at for at, value in enumerate(parameter["values"])})
        for parameter in document["grid"]["parameters"][:2]
    )
    cells: dict[tuple[int, int], list[Mapping[str, Any]]] = {}
    for point in document["points"]:
        if point["in_grid"]:
            places = tuple(at[point["options"][name]] for name, at in (across, down))
            cells.setdefault((places[0], places[1]), []).append(point)
    return cells


def _sensitivity(document: Mapping[str, Any], paper: Paper) -> None:
    objectives = document["objectives"]
    paper.line("How much each parameter matters, all others being equal: the most that its values are apart", "bold")
    rows = [["parameter", *(o["name"] for o in objectives)]]
    for effect in document["sensitivity"]:
        rows.append([effect["name"], *(_spread(o, effect["spread"][o["name"]]) for o in objectives)])
    paper.columns(rows, (False, *[True] * len(objectives)), ["dim"] + [""] * (len(rows) - 1), indent="  ")
    for effect in document["sensitivity"]:
        if effect["reason"]:
            paper.wrapped(safe(f"{effect['name']}: {effect['reason']}"), "  ", "dim")


def _spread(objective: Mapping[str, Any], spread: float | None) -> str:
    if spread is None:
        return "n/a"
    return f"{spread * 100:.1f}%" if objective["over_sessions"] == "sum" else f"{spread * 100:.1f} points"
