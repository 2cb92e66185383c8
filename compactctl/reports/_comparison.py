"""The JSON object of ``compare`` and its text: compactors by figures, bounds beside them, curves over each other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from compactctl.measures._spec import Direction, Key, Measured
from compactctl.reports._paper import Paper
from compactctl.reports._safe import safe
from compactctl.reports._verdicts import figure
from compactctl.reports._words import blocks, percent, quantity, tokens
from compactctl.runs import Outcome, Setup

# The columns of the text; every figure is in json and csv.
_SHOWN = (
    ("tokens", "own tokens"),
    ("m2.tokens_sent", "sent"),
    ("m2.share_of_uncompacted", "of none"),
    ("real_peak_occupancy", "real peak"),
    ("failed_turns", "failed"),
    ("summarizer_calls", "summaries"),
    ("m1.overshoot_turns", "overshoot"),
    ("m3.cost_usd", "cost"),
    ("m3.cache_hit_ratio", "cache"),
    ("m5.faults", "faults"),
    ("m6.recall_visible", "recall"),
    ("m6.recall_reachable", "+ files"),
    ("m7.constraints_kept", "constraints"),
    ("m7.anchors_filled", "anchors"),
    ("m7.grounding", "grounded"),
)
# Counted by each compactor's own meter: two of them can be compared only where the meters are one.
_OWN_METER = ("tokens", "reduction", "peak_occupancy")
_SHARES = ("share", "share of the window")
_MOST_SESSIONS = 8


def compared_document(
    name: str, setup: Setup, bound: bool, figures: Mapping[str, Measured], outcome: Outcome | None = None
) -> dict[str, Any]:
    """Give one compactor's part of a comparison; without an ``outcome`` it is over several sessions."""
    document: dict[str, Any] = {
        "name": name,
        "compactor": setup.spec.name,
        "meter": setup.meter or setup.spec.meter,
        "bound": bound,
        "figures": {
            key: {"value": m.value, **({"reason": m.reason} if m.value is None else {})} for key, m in figures.items()
        },
        "best": [],
    }
    if outcome is not None:
        document["occupancy"] = {
            "first_turn": [point.first for point in outcome.occupancy],
            "real_tokens": [point.simulated for point in outcome.occupancy],
        }
    return document


def mark_best(compared: Sequence[dict[str, Any]], keys: Mapping[str, Key]) -> None:
    """Mark, for each figure that has a better way, who has the best; a bound is a measuring rod and has no part.

    Figures in a compactor's own tokens are marked only where all have one meter.
    """
    rivals = [one for one in compared if not one["bound"]] or list(compared)
    one_meter = len({one["meter"] for one in rivals}) == 1
    for key in rivals[0]["figures"] if rivals else ():
        if key in _OWN_METER and not one_meter:
            continue
        direction = keys[key].direction
        known = [one["figures"][key]["value"] for one in rivals if one["figures"][key]["value"] is not None]
        if direction is Direction.NEUTRAL or not known or (len(rivals) > 1 and len(known) > 1 and len(set(known)) == 1):
            continue
        best = min(known) if direction is Direction.LOWER else max(known)
        for one in rivals:
            if one["figures"][key]["value"] == best:
                one["best"].append(key)


def comparison_text(document: Mapping[str, Any], paper: Paper) -> None:
    """Write the comparison: each session with its curves, then all together."""
    sessions: Sequence[Mapping[str, Any]] = document["sessions"]
    for session in sessions[:_MOST_SESSIONS]:
        head = f"{session['session_id']}  {quantity(session['turns'], 'turn')}, window {session['window']:,}"
        paper.line(safe(f"{head} ({session['window_source']}), real tokens from {session['real_tokens_from']}"), "bold")
        _table(session["compared"], document, paper)
        _curves(session, paper)
        paper.line()
    if len(sessions) > _MOST_SESSIONS:
        paper.line(
            f"{quantity(len(sessions) - _MOST_SESSIONS, 'more session')}: see --format csv or json",
            "dim",
        )
    if len(sessions) > 1:
        paper.line(f"all {len(sessions)} sessions", "bold")
        _table(document["overall"], document, paper)
    paper.line("* the best of a column; ( ) bounds: without compaction, and truncation alone", "dim")


def _table(compared: Sequence[Mapping[str, Any]], document: Mapping[str, Any], paper: Paper) -> None:
    hidden = ("tokens",) if "m2.tokens_sent" in document["figures"] else ()
    columns = [(key, title) for key, title in _SHOWN if key in document["figures"] and key not in hidden]
    rows = [["", *(title for _, title in columns)]]
    for one in compared:
        name = f"({one['name']})" if one["bound"] else one["name"]
        cells = [_cell(key, one["figures"][key]["value"], document["units"][key]) for key, _ in columns]
        marks = ["*" if key in one["best"] else "" for key, _ in columns]
        rows.append([safe(name), *(cell + mark for cell, mark in zip(cells, marks, strict=True))])
    styles = ["dim"] + ["dim" if one["bound"] else "" for one in compared]
    # A column's marks stand behind its figures, so those without one get a space there.
    for at in range(1, len(columns) + 1):
        if any(row[at].endswith("*") for row in rows):
            for row in rows[1:]:
                row[at] += "" if row[at].endswith("*") else " "
    paper.columns(rows, (False, *[True] * len(columns)), styles, indent="  ")


def _cell(key: str, value: float | None, unit: str) -> str:
    if value is None:
        return "n/a"
    if unit in _SHARES:
        return percent(value, 1)
    if unit == "tokens":
        return tokens(value)
    return f"${value:.2f}" if unit == "US dollars" else figure(value)


def _curves(session: Mapping[str, Any], paper: Paper) -> None:
    """Write real tokens over turns, all compactors on one scale."""
    curves = [(one["name"], one["occupancy"]["real_tokens"]) for one in session["compared"]]
    if not all(values for _, values in curves):
        return
    # What does nothing can grow far beyond the window, and on its scale nothing else would be seen.
    rivals = [
        max(values) for (_, values), one in zip(curves, session["compared"], strict=True) if one["name"] != "none"
    ]
    top = max([*rivals, session["window"]])
    width = max(len(safe(name)) for name, _ in curves)
    for name, values in curves:
        most = max(values)
        words = blocks([min(value, top) for value in values], top)
        paper.line(f"  {safe(name):<{width}}  {words}  at most {tokens(most)} ({percent(most / session['window'])})")
