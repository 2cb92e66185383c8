"""The JSON object of ``compare`` and its text: compactors by figures, bounds beside them, curves over each other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from compactctl.context.words import quantity
from compactctl.measures._spec import Direction, Key, Measured, dollars
from compactctl.reports._overview import WORST_FIRST, badness
from compactctl.reports._paper import Paper
from compactctl.reports._safe import safe
from compactctl.reports._verdicts import figure
from compactctl.reports._words import blocks, percent, tokens
from compactctl.runs import Outcome, Setup
from compactctl.tuning.figures import FAILED, REAL_PEAK, Pooled

# The columns of the text; every figure is in json and csv.
_SHOWN = (
    ("tokens", "own tokens"),
    ("m2.tokens_sent", "sent"),
    ("m2.share_of_uncompacted", "of full"),
    ("real_peak_occupancy", "real peak"),
    ("failed_turns", "failed turns"),
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
# What a setting that lets requests fail is still compared in.
_FAILURES = (FAILED, "m1.overshoot_turns")
_MOST_SESSIONS = 8


def compared_document(
    name: str,
    setup: Setup,
    bound: bool,
    figures: Mapping[str, Measured] | Mapping[str, Pooled],
    outcome: Outcome | None = None,
) -> dict[str, Any]:
    """Give one compactor's part of a comparison; without an ``outcome`` it is over several sessions.

    A figure over several says over how many (``sessions``) and how it was taken (``over_sessions``).
    """
    document: dict[str, Any] = {
        "name": name,
        "compactor": setup.spec.name,
        "meter": setup.meter or setup.spec.meter,
        "bound": bound,
        "figures": {key: figure_document(measured) for key, measured in figures.items()},
        "best": [],
    }
    if outcome is not None:
        document["occupancy"] = {
            "first_turn": [point.first for point in outcome.occupancy],
            "real_tokens": [point.simulated for point in outcome.occupancy],
        }
    return document


def figure_document(measured: Measured | Pooled) -> dict[str, Any]:
    """Give a figure as the JSON object that outputs hold."""
    told: dict[str, Any] = {"value": measured.value}
    if measured.value is None:
        told["reason"] = measured.reason
    if isinstance(measured, Pooled):
        told |= {"sessions": measured.sessions, "over_sessions": measured.how}
    return told


def mark_best(compared: Sequence[dict[str, Any]], keys: Mapping[str, Key]) -> None:
    """Mark, for each figure that has a better way, who has the best; a bound is a measuring rod and has no part.

    Nobody is best alone, nor where all are the same, nor over other sessions than the rest. Who failed turns that
    another did not fail is best in nothing: what is not sent costs nothing. Figures in a compactor's own tokens are
    marked only where all have one meter.
    """
    rivals = [one for one in compared if not one["bound"]] or list(compared)
    one_meter = len({one["meter"] for one in rivals}) == 1
    failed = [one["figures"][FAILED]["value"] for one in rivals if FAILED in one["figures"]]
    sound = [one for one in rivals if not any(failed) or all(failed) or not one["figures"][FAILED]["value"]]
    for key in rivals[0]["figures"] if rivals else ():
        direction = keys[key].direction
        if direction is Direction.NEUTRAL or (key in _OWN_METER and not one_meter):
            continue
        having = [one for one in (rivals if key in _FAILURES else sound) if one["figures"][key]["value"] is not None]
        values = {one["figures"][key]["value"] for one in having}
        if len(values) < 2 or len({one["figures"][key].get("sessions") for one in having}) > 1:
            continue
        best = min(values) if direction is Direction.LOWER else max(values)
        for one in having:
            if one["figures"][key]["value"] == best:
                one["best"].append(key)


def comparison_text(document: Mapping[str, Any], paper: Paper) -> None:
    """Write the comparison: each session with its curves, then all together."""
    sessions: Sequence[Mapping[str, Any]] = document["sessions"]
    shown = sorted(sessions, key=_badness, reverse=True)[:_MOST_SESSIONS]
    for words in document["failed"]:
        paper.wrapped(safe(f"NOT COMPARED: {words}"), "", "error")
    if len(sessions) > 1:
        paper.line(f"{quantity(len(sessions), 'session')}, {WORST_FIRST}; bounds do not count", "dim")
        paper.line()
    for session in shown:
        head = f"{session['session_id']}  {quantity(session['turns'], 'turn')}, window {session['window']:,}"
        paper.line(safe(f"{head} ({session['window_source']}), real tokens from {session['real_tokens_from']}"), "bold")
        _table(session["compared"], document, paper)
        _curves(session, paper)
        paper.line()
    if len(sessions) > _MOST_SESSIONS:
        paper.line(f"{quantity(len(sessions) - _MOST_SESSIONS, 'more session')}: see --format csv or json", "dim")
        paper.line()
    if len(sessions) > 1:
        paper.line(f"all {len(sessions)} sessions", "bold")
        _table(document["overall"], document, paper)
        _taken(document, paper)
        paper.line()
    best = any(one["best"] for group in (*(s["compared"] for s in shown), document["overall"]) for one in group)
    footer = [
        "* the best of a column; who failed turns has none where another failed none" if best else "",
        "of full: tokens sent / those sent without compaction",
        "( ) bounds: none is without compaction, truncate drops the oldest",
    ]
    paper.wrapped("; ".join(words for words in footer if words), "", "dim")


def _badness(session: Mapping[str, Any]) -> tuple[float, float]:
    """Give how bad a session is for the worst of what is compared."""
    rivals = [one for one in session["compared"] if not one["bound"]] or session["compared"]
    failed, peak = (
        max(float(one["figures"][key]["value"] or 0) if key in one["figures"] else 0.0 for one in rivals)
        for key in (FAILED, REAL_PEAK)
    )
    return badness(failed, peak)


def _taken(document: Mapping[str, Any], paper: Paper) -> None:
    """Say how the columns over all sessions were taken, and which are over some of them only."""
    total = len(document["sessions"])
    titles: dict[str, list[str]] = {}
    partly: dict[str, list[str]] = {}
    for key, title in _columns(document):
        found = [one["figures"][key] for one in document["overall"]]
        titles.setdefault(found[0]["over_sessions"], []).append(title)
        counts = [one["sessions"] for one in found]
        if min(counts) < total:
            low, high = min(counts), max(counts)
            number = f"{low} of {total} sessions" if low == high else f"{low} to {high} of {total} sessions"
            partly.setdefault(number, []).append("a price" if key == "m3.cost_usd" else title)
    for number, names in partly.items():
        paper.line(f"  ({number} have {', '.join(names)})", "dim")
    told = {"max": "the largest", "mean": "means", "share": "shares of the sums over all sessions"}
    words = [f"{told[how]}: {', '.join(titles[how])}" for how in told if how in titles]
    if words:
        paper.wrapped(f"{'; '.join(words)}; the rest are sums", "  ", "dim")


def _columns(document: Mapping[str, Any]) -> list[tuple[str, str]]:
    hidden = ("tokens",) if "m2.tokens_sent" in document["figures"] else ()
    return [(key, title) for key, title in _SHOWN if key in document["figures"] and key not in hidden]


def _table(compared: Sequence[Mapping[str, Any]], document: Mapping[str, Any], paper: Paper) -> None:
    columns = _columns(document)
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
    return dollars(value, "$") if unit == "US dollars" else figure(value)


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
    # Compactors that sent the same at every turn share a line.
    alike: dict[tuple[tuple[int, ...], tuple[int, ...]], list[str]] = {}
    for one in session["compared"]:
        occupancy = one["occupancy"]
        alike.setdefault((tuple(occupancy["first_turn"]), tuple(occupancy["real_tokens"])), []).append(one["name"])
    named = [(", ".join(names), values) for (_, values), names in alike.items()]
    width = max(len(safe(name)) for name, _ in named)
    for name, values in named:
        most = max(values)
        words = blocks([min(value, top) for value in values], top)
        paper.line(f"  {safe(name):<{width}}  {words}  at most {tokens(most)} ({percent(most / session['window'])})")
