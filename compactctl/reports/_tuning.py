"""The JSON object of ``tune``: points, front, sensitivity and recommendation, as all its outputs show them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from compactctl.context.words import quantity
from compactctl.measures._spec import Measured, dollars
from compactctl.reports._words import tokens
from compactctl.tuning.choice import Recommendation, Result
from compactctl.tuning.figures import pooled_figures
from compactctl.tuning.grid import Grid
from compactctl.tuning.judging import Judged
from compactctl.tuning.split import Interval

Row = Mapping[str, Measured]
_MOST_FLAT = 6


def tuning_document(
    grid: Grid,
    options: Sequence[Mapping[str, Any]],
    result: Result,
    rows: Sequence[Sequence[Row]],
    session_ids: Sequence[str],
    *,
    seed: int,
    complete: bool,
) -> dict[str, Any]:
    """Give what a search found; ``options`` are those of each point, ``rows`` its figures in each session.

    Figures under ``measures`` are over all sessions, those under ``objectives`` and what gates count over the sessions
    tuned on, and those under ``held_out`` over the ones kept back (null where none are).
    """
    return {
        "complete": complete,
        "seed": seed,
        "grid": {
            "parameters": [{"name": axis.name, "values": list(axis.values)} for axis in grid.axes],
            "points": len(options),
            "combinations": grid.of,
            "impossible": grid.impossible,
            "impossible_for_example": grid.why or None,
            "sampled": grid.sampled,
        },
        "objectives": [
            {
                "name": objective.name,
                "key": objective.key,
                "over_sessions": objective.over,
                "better": "higher" if objective.higher else "lower",
            }
            for objective in result.objectives
        ],
        "gates": [
            {"key": gate.key, "name": gate.name, "limit": gate.limit, "least": gate.least} for gate in result.gates
        ],
        "split": {
            "tuning": [session_ids[at] for at in result.split.tuning],
            "held_out": [session_ids[at] for at in result.split.held_out],
            "note": result.split.note,
        },
        "points": [
            _point(point, options[point.number], rows[point.number], result, place)
            for point, place in zip(result.points, _places(grid, len(options)), strict=True)
        ],
        "sensitivity": [
            {
                "name": effect.name,
                "values": list(axis.values),
                "means": {name: list(means) for name, means in effect.means.items()},
                "spread": dict(effect.spread),
                "reason": effect.reason,
            }
            for effect, axis in zip(result.effects, grid.axes, strict=True)
        ],
        "recommendation": _recommendation(result.recommendation, options),
        "notes": list(result.notes),
    }


def _places(grid: Grid, count: int) -> list[Sequence[int] | None]:
    return [grid.places[number] if number < len(grid.places) else None for number in range(count)]


def _point(
    point: Judged, options: Mapping[str, Any], rows: Sequence[Row], result: Result, place: Sequence[int] | None
) -> dict[str, Any]:
    return {
        "number": point.number,
        "options": dict(options),
        "in_grid": place is not None,
        "present": point.number == result.present,
        "passes": not point.broken,
        "gates_broken": list(point.broken),
        "on_front": point.on_front,
        "dominated_by": point.dominated_by,
        "objectives": dict(point.tuning),
        "held_out": dict(point.held_out) if result.split.held_out else None,
        "measures": {
            key: {
                "value": measured.value,
                "over_sessions": measured.how,
                "sessions": measured.sessions,
                **({"reason": measured.reason} if measured.value is None else {}),
            }
            for key, measured in pooled_figures(rows).items()
        },
    }


def _recommendation(found: Recommendation, options: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    flat = [options[number] for number in found.flat]
    return {
        "number": found.number,
        "options": None if found.number is None else dict(options[found.number]),
        "reason": found.reason,
        "flat_region": {
            "points": list(found.flat),
            "ranges": {
                name: [min(row[name] for row in flat), max(row[name] for row in flat)]
                for name in (flat[0] if flat else ())
            },
        },
        "best": found.best,
        "against_present": {
            "tuning": _intervals(found.tuning),
            "held_out": _intervals(found.held_out),
        },
    }


def _intervals(found: Mapping[str, Interval | None] | None) -> dict[str, Any] | None:
    if found is None or all(interval is None for interval in found.values()):
        return None
    return {
        name: None
        if interval is None
        else {
            "change": _finite(interval.change),
            "low": _finite(interval.low),
            "high": _finite(interval.high),
            "sessions": interval.sessions,
        }
        for name, interval in found.items()
    }


def _finite(change: float) -> float | None:
    """Give a change, None for one that is more than any share, which JSON cannot hold."""
    return change if math.isfinite(change) else None


def objective_words(objective: Mapping[str, Any], value: float | None) -> str:
    """Give the value of an objective as people read it.

    >>> objective_words({"key": "m3.cost_usd"}, 1.5), objective_words({"key": "m6.recall_visible"}, 0.91234)
    ('$1.50', '91.2%')
    """
    if value is None:
        return "n/a"
    if objective["key"] == "m3.cost_usd":
        return dollars(value, "$")
    return tokens(value) if objective["key"] == "tokens" else f"{value * 100:.1f}%"


def change_words(objective: Mapping[str, Any], interval: Mapping[str, Any] | None) -> str:
    """Give a difference to the present setting with its interval; amounts in percent, shares in points.

    >>> change_words({"over_sessions": "sum"}, {"change": -0.062, "low": -0.081, "high": -0.04, "sessions": 9})
    '-6.2% (-8.1 to -4.0)'
    """
    if interval is None:
        return "n/a"
    if interval["change"] is None:
        return "from nothing"
    unit = "%" if objective["over_sessions"] == "sum" else " points"
    middle = f"{interval['change'] * 100:+.1f}{unit}"
    if interval["sessions"] < 2:
        return middle
    low, high = ("no limit" if (edge := interval[name]) is None else f"{edge * 100:+.1f}" for name in ("low", "high"))
    return f"{middle} ({low} to {high})"


def objective_name(objective: Mapping[str, Any]) -> str:
    """Name an objective with how it is taken over sessions.

    >>> objective_name({"name": "recall", "over_sessions": "share"})
    'recall, of all'
    """
    taken = {"sum": "total", "mean": "mean", "max": "largest", "share": "of all"}[objective["over_sessions"]]
    return f"{objective['name']}, {taken}"


def settings_words(document: Mapping[str, Any]) -> str:
    """Say how many settings were tried; the present one is counted apart where the grid does not hold it.

    >>> points = [{"in_grid": True}, {"in_grid": True}, {"in_grid": False}]
    >>> settings_words({"grid": {"sampled": False, "combinations": 2}, "points": points, "complete": True})
    '2 settings and the present one'
    >>> settings_words({"grid": {"sampled": True, "combinations": 9}, "points": points, "complete": False})
    '2 settings done out of 9 and the present one'
    """
    how = "sampled" if document["complete"] else "done"
    inside = sum(1 for point in document["points"] if point["in_grid"])
    sampled = f" {how} out of {document['grid']['combinations']:,}" if document["grid"]["sampled"] else ""
    apart = " and the present one" if inside < len(document["points"]) else ""
    return f"{quantity(inside, 'setting')}{sampled}{apart}"


def averaged_words(document: Mapping[str, Any]) -> str:
    """Say over what a map of the first two parameters takes the mean; empty where they are all.

    >>> grid = {"parameters": [{"name": name} for name in ("soft", "full", "tail")]}
    >>> averaged_words({"grid": grid, "points": [{"passes": True}]})
    'mean over tail'
    """
    others = [parameter["name"] for parameter in document["grid"]["parameters"][2:]]
    passing = "" if all(point["passes"] for point in document["points"]) else " of those that pass the gates"
    return f"mean over {', '.join(others)}{passing}" if others else ""


def verdict_words(document: Mapping[str, Any]) -> str:
    """Say what is recommended: options, the present setting, or nothing."""
    found = document["recommendation"]
    if found["options"] is not None:
        return options_words(found["options"])
    # Nothing was looked at more closely where there is nothing to choose by; and what fails a gate is not to be kept.
    fails = any(point["present"] and not point["passes"] for point in document["points"])
    return "nothing" if found["best"] is None or fails else "keep the present setting"


def range_words(ranges: Mapping[str, Sequence[Any]]) -> str:
    """Give the values that options take in a region.

    >>> range_words({"soft_threshold": [0.7, 0.8], "min_tail_messages": [6, 6]})
    'soft_threshold 0.7 to 0.8, min_tail_messages 6'
    """
    return ", ".join(
        f"{name} {value_words(low)}" + (f" to {value_words(high)}" if high != low else "")
        for name, (low, high) in ranges.items()
    )


def options_words(options: Mapping[str, Any]) -> str:
    """Give options as they are written after ``--set``.

    >>> options_words({"soft_threshold": 0.7, "balanced_cuts": True})
    'soft_threshold=0.7 balanced_cuts=true'
    """
    return " ".join(f"{name}={value_words(value)}" for name, value in options.items())


def value_words(value: Any) -> str:
    """Give one value of an option as it is written."""
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:g}" if isinstance(value, float) else str(value)


def how_found(document: Mapping[str, Any]) -> list[str]:
    """Say in a few lines how settings were chosen, for the comment beside them."""
    split, choice = document["split"], document["recommendation"]
    lines = [
        f"Chosen by compactctl tune {document['tool_version']}, seed {document['seed']}: {settings_words(document)}, "
        f"{quantity(len(split['tuning']), 'session')} tuned on, {len(split['held_out'])} kept back.",
        f"{choice['reason'][:1].upper()}{choice['reason'][1:]}.",
    ]
    for part, name in (("tuning", "tuned on"), ("held_out", "kept back")):
        changes = choice["against_present"][part]
        if changes:
            told = ", ".join(f"{o['name']} {change_words(o, changes[o['name']])}" for o in document["objectives"])
            lines.append(f"Against the setting before, sessions {name}: {told}.")
    if flat_points(document):
        lines.append(f"As good within the tolerance: {flat_words(document)}.")
    bent = bent_words(document)
    return [*lines, *([f"Accepted{tuned_words(document)}: {bent}."] if bent else [])]


def bent_words(document: Mapping[str, Any]) -> str:
    """Say what was accepted where gates bend to the least that any setting reaches: it must not be read as none."""
    return "; ".join(gate_words(gate) for gate in document["gates"] if gate["limit"])


def gate_words(gate: Mapping[str, Any]) -> str:
    """Say what a gate holds settings to.

    >>> gate_words({"name": "failed turns", "limit": 99.0, "least": 90.0})
    'failed turns at most 99, a tenth more than the least that is reached'
    >>> gate_words({"name": "failed turns", "limit": 0, "least": 0})
    'failed turns at most 0'
    """
    slack = "a tenth more than " if gate["limit"] > gate["least"] else ""
    least = f", {slack}the least that is reached" if gate["limit"] else ""
    return f"{gate['name']} at most {gate['limit']:g}{least}"


def flat_points(document: Mapping[str, Any]) -> list[int]:
    """Give the points of the flat region, none where it is a point alone: then there is nothing to show."""
    points: list[int] = document["recommendation"]["flat_region"]["points"]
    return points if len(points) > 1 else []


def tuned_words(document: Mapping[str, Any]) -> str:
    """Say which sessions were counted; empty where it is all.

    >>> tuned_words({"split": {"tuning": ["a", "b", "c", "d"], "held_out": ["e", "f"]}})
    ' over the 4 sessions tuned on'
    """
    split = document["split"]
    return f" over the {quantity(len(split['tuning']), 'session')} tuned on" if split["held_out"] else ""


def flat_words(document: Mapping[str, Any]) -> str:
    """Give the settings that are as good as the best: as ranges where all in them are, otherwise one by one.

    >>> points = [{"options": {"soft": soft, "tail": tail}} for soft, tail in ((0.7, 4), (0.75, 4), (0.75, 8))]
    >>> axes = [{"name": "soft", "values": [0.7, 0.75]}, {"name": "tail", "values": [4, 8]}]
    >>> flat = {"points": [0, 1, 2], "ranges": {"soft": [0.7, 0.75], "tail": [4, 8]}}
    >>> flat_words({"points": points, "grid": {"parameters": axes}, "recommendation": {"flat_region": flat}})
    'soft=0.7 tail=4; soft=0.75 tail=4; soft=0.75 tail=8'
    """
    flat = document["recommendation"]["flat_region"]
    whole = 1
    for axis in document["grid"]["parameters"]:
        low, high = flat["ranges"][axis["name"]]
        whole *= sum(low <= value <= high for value in axis["values"])
    if whole == len(flat["points"]):
        return range_words(flat["ranges"])
    listed = [options_words(document["points"][number]["options"]) for number in flat["points"][:_MOST_FLAT]]
    more = len(flat["points"]) - len(listed)
    return "; ".join([*listed, *([f"and {more:,} more"] if more else [])])
