"""The table of sessions that ``replay`` and ``report`` show on a terminal: one code, so that both say the same.

Every figure names its tokens: real tokens are what a provider would charge, decision tokens what the compactor counts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from compactctl.context.words import quantity
from compactctl.measures._spec import dollars
from compactctl.reports._overview import (
    BOUND_COST,
    COST,
    SENT,
    WORST_FIRST,
    Session,
    figure,
    real_sent_without,
    total,
    unit_of,
    worst_first,
)
from compactctl.reports._paper import Paper, cells
from compactctl.reports._safe import safe
from compactctl.reports._timeline import SPARK, sparkline
from compactctl.reports._words import percent, size, tokens

WITHOUT = "without compaction"
TIERS = "tiers"
_NARROW_SPARK = 16
_FEW_COLUMNS = 100

# Column: heading, aligned to the right.
_COLUMNS: tuple[tuple[str, str, bool], ...] = (
    ("session", "session", False),
    ("run", "run", False),
    ("compactor", "compactor", False),
    ("turns", "turns", True),
    ("compactions", "compactions", False),
    ("peak", "decision peak", True),
    ("real_peak", "real peak", True),
    ("real", "real tokens", True),
    ("reduction", "real reduction", True),
    ("tokens", "decision tokens", True),
    ("decision_reduction", "decision reduction", True),
    ("offloads", "offloads", True),
    ("summaries", "summaries", True),
    ("cost", "cost USD", True),
    ("skipped", "skipped lines", True),
    ("spark", "over turns", False),
)
# What goes first where there is no room; the session, its tiers and what failed never do.
_SPARE = (
    *("skipped", "decision_reduction", "summaries", "offloads", "tokens", "peak", "reduction", "run", "spark"),
    *("real_peak", "cost", "compactor", "real"),
)
LEGEND = "w Warn, s Soft, F Full, E Emergency; over turns: the view, a full block is the window or more"


def session_table(sessions: Sequence[Session], paper: Paper, *, most: int | None = None) -> None:
    """Write the sessions worst first, each with what it is without compaction where that differs, and all together.

    Only the ``most`` worst are listed one by one; what all together holds is of every session.
    """
    order = worst_first(sessions)[:most]
    names = row_names(sessions, paper.width)
    places = SPARK if paper.width is None or paper.width >= _FEW_COLUMNS else _NARROW_SPARK
    rows: list[Mapping[str, str]] = []
    styles: list[str] = []
    for place in order:
        session = sessions[place]
        blocks, marks = session_spark(session, places)
        rows.append({**_row(session), "session": safe(names[place]), "spark": blocks})
        styles.append(_worst_tier(session))
        if marks.strip():
            # Below the views of the very run; the row after it is that of another.
            rows.append({"session": f"  {TIERS}", "spark": marks})
            styles.append(_worst_tier(session))
        if any(session["compactions_by_tier"].values()) and session["without_compaction"] is not None:
            rows.append(_bound_row(session))
            styles.append("dim")
    if len(sessions) > 1:
        everything = all_together(sessions)
        rows.append({**_row(everything), "session": everything["session_id"]})
        styles.append("bold")
        if any(everything["compactions_by_tier"].values()) and everything["without_compaction"] is not None:
            rows.append(_bound_row(everything))
            styles.append("dim")
    # A session that was replayed in several ways has a row of each, and an id alone does not tell them apart.
    ids = [session["session_id"] for session in sessions]
    told = {"run", "compactor"} if len(set(ids)) < len(ids) else set()
    # The run alone tells them apart where there is no room for both.
    never = {"run"} & told
    shown = [
        column
        for column in _COLUMNS
        if (column[0] not in ("run", "compactor") or column[0] in told)
        and any(row.get(column[0]) for row in rows)
        and not (column[0] == "skipped" and all(row.get("skipped") in ("0", "", None) for row in rows))
    ]
    keep = _fitting(shown, rows, paper.width, never)
    heads = _heads([title for _, title, _ in keep])
    body = [[row.get(name, "") for name, _, _ in keep] for row in rows]
    # Without the views over turns nothing is left of the row of their tiers.
    told_rows = [(cells, style) for cells, style in zip(body, styles, strict=True) if any(cells[1:])]
    paper.columns(
        [*heads, *(cells for cells, _ in told_rows)],
        [right for _, _, right in keep],
        [*["bold"] * len(heads), *(style for _, style in told_rows)],
    )
    if len(sessions) > 1:
        paper.wrapped(WORST_FIRST, "", "dim")
    if most is not None and len(sessions) > most:
        more = quantity(len(sessions) - most, f"more {unit_of(sessions)}")
        paper.wrapped(f"{more} in --format csv, json, ... and in `report`", "")
    paper.wrapped(LEGEND, "", "dim")
    if partial := _partial_sums(sessions):
        paper.wrapped(f"sums of those that have it: {partial}", "", "dim")


def _partial_sums(sessions: Sequence[Session]) -> str:
    """Say of which sums over all some sessions have no part, and how many do; empty where all have."""
    known = {
        name: sum(figure(session, key) is not None for session in sessions)
        for name, key in (("real tokens", SENT), ("cost", COST))
    }
    parts = [f"{name} of {number:,}" for name, number in known.items() if 0 < number < len(sessions)]
    return f"{', '.join(parts)} of {quantity(len(sessions), unit_of(sessions))}" if parts else ""


def row_names(sessions: Sequence[Session], width: int | None) -> list[str]:
    """Give each session's id, as short as the width asks for."""
    return short_names([session["session_id"] for session in sessions], width)


def session_spark(session: Session, width: int = SPARK) -> tuple[str, str]:
    """Give the views of a session over its turns in blocks on the scale of its window, and the tiers below them.

    Views are in real tokens. Empty where no turns are known, and
    without measures: such a replay may leap over turns, whose tiers nobody can tell then.
    """
    occupancy = session.get("occupancy")
    if not occupancy or not occupancy["first_turn"] or not session["measures"]:
        return "", ""
    return sparkline(
        occupancy["first_turn"],
        occupancy["simulated_real_tokens"],
        [(row["turn"], row["tier"]) for row in session["compactions"] if row["changed"]],
        session["window"],
        width,
    )


def short_names(ids: Sequence[str], width: int | None) -> list[str]:
    """Give the ids, cut to what still tells them apart where the width is small; never below 8 characters.

    >>> short_names(["aaaaaaaa-1111-2222", "bbbbbbbb-1111-2222"], 80)
    ['aaaaaaaa…', 'bbbbbbbb…']
    >>> short_names(["aaaaaaaa-1111-2222", "aaaaaaaa-1111-3333"], None)
    ['aaaaaaaa-1111-2222', 'aaaaaaaa-1111-3333']
    """
    if width is None or width >= 160:
        return list(ids)
    ordered = sorted(set(ids))
    shared = dict.fromkeys(ordered, 0)
    for one, other in pairwise(ordered):
        same = next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
        shared[one], shared[other] = max(shared[one], same), max(shared[other], same)
    lengths = {ident: max(8, shared[ident] + 1) for ident in ordered}
    return [ident if len(ident) <= lengths[ident] + 1 else ident[: lengths[ident]] + "…" for ident in ids]


def short_tiers(counts: Mapping[str, int]) -> str:
    """Give counts by tier in a few letters.

    >>> short_tiers({"warn": 6, "soft": 0, "full": 15, "emergency": 36})
    '6w 15F 36E'
    """
    letters = {"warn": "w", "soft": "s", "full": "F", "emergency": "E"}
    return " ".join(f"{count}{letters[name]}" for name, count in counts.items() if count) or "none"


def turns_words(session: Session) -> str:
    """Give a session's turns, and of how many the request would fail.

    >>> turns_words({"turns": 115, "failed_turns": 51}), turns_words({"turns": 9, "failed_turns": 0})
    ('115, 51 failed', '9')
    """
    turns = session["turns"]
    failed = f", {session['failed_turns']:,} failed" if session.get("failed_turns") else ""
    return ("n/a" if turns is None else f"{turns:,}") + failed


def all_together(sessions: Sequence[Session]) -> dict[str, Any]:
    """Give all sessions as one: sums of what is known, and the largest peaks."""

    def largest(key: str, rows: Sequence[Session]) -> Any:
        return max((row[key] for row in rows if row[key] is not None), default=None)

    summed = ("turns", "failed_turns", "tokens", "offloaded_files", "offloaded_bytes", "summarizer_calls")
    bounds = [session["without_compaction"] for session in sessions if session["without_compaction"] is not None]
    whole = total(bounds, "tokens")
    sent = total(sessions, "tokens")
    bound = {key: total(bounds, key) for key in ("turns", "failed_turns", "tokens")}
    return {
        "session_id": f"all {quantity(len(sessions), unit_of(sessions))}",
        "run": "",
        "compactor": "",
        **{key: total(sessions, key) for key in summed},
        "lines_skipped": total(sessions, "lines_skipped"),
        "compactions_by_tier": {
            tier: sum(session["compactions_by_tier"][tier] for session in sessions)
            for tier in sessions[0]["compactions_by_tier"]
        },
        "peak_occupancy": largest("peak_occupancy", sessions),
        "real_peak_occupancy": largest("real_peak_occupancy", sessions),
        "reduction": 1 - sent / whole if sent is not None and whole else None,
        "measures": {
            key: {"value": _sum(sessions, key)}
            for key in (SENT, COST, BOUND_COST)
            if any(_asked(session, key) for session in sessions)
        },
        "real_without": _added([real_sent_without(session) for session in sessions]),
        "without_compaction": {
            **bound,
            "peak_occupancy": largest("peak_occupancy", bounds),
            "real_peak_occupancy": largest("real_peak_occupancy", bounds),
        }
        if bounds
        else None,
    }


def _sum(sessions: Sequence[Session], key: str) -> float | None:
    return _added([figure(session, key) for session in sessions])


def _added(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def _row(session: Session) -> dict[str, str]:
    real, whole = figure(session, SENT), _real_without(session)
    return {
        "run": str(session.get("run") or ""),
        "compactor": safe(str(session.get("compactor") or "")),
        "turns": turns_words(session),
        "compactions": short_tiers(session["compactions_by_tier"]),
        "peak": percent(session["peak_occupancy"]),
        "real_peak": percent(session["real_peak_occupancy"]),
        "real": tokens(real) if _asked(session, SENT) else "",
        "reduction": percent(1 - real / whole if real is not None and whole else None) if _asked(session, SENT) else "",
        "tokens": tokens(session["tokens"]),
        "decision_reduction": percent(session["reduction"]),
        "offloads": f"{session['offloaded_files']} {size(session['offloaded_bytes'])}",
        "summaries": _count(session["summarizer_calls"]),
        "cost": dollars(figure(session, COST)) if _asked(session, COST) else "",
        "skipped": str(session.get("lines_skipped") or 0),
    }


def _bound_row(session: Session) -> dict[str, str]:
    bound = session["without_compaction"]
    return {
        "session": f"  {WITHOUT}",
        "turns": turns_words(bound),
        "peak": percent(bound["peak_occupancy"]),
        "real_peak": percent(bound["real_peak_occupancy"]),
        "real": tokens(_real_without(session)) if _asked(session, SENT) else "",
        "tokens": tokens(bound["tokens"]),
        "cost": dollars(figure(session, BOUND_COST)) if _asked(session, COST) else "",
    }


def _asked(session: Session, key: str) -> bool:
    """Say whether a measure was asked for: one that was not is left out, one that could not be had is n/a."""
    return key in session["measures"] or session["turns"] is None


def _real_without(session: Session) -> float | None:
    if "real_without" in session:
        found: float | None = session["real_without"]
        return found
    return real_sent_without(session)


def _heads(titles: Sequence[str]) -> list[list[str]]:
    """Give the headings in two lines, the last word of each in the lower one."""
    upper = [title.rpartition(" ")[0] for title in titles]
    lower = [title.rpartition(" ")[2] for title in titles]
    return [upper, lower] if any(upper) else [lower]


def _fitting(
    columns: Sequence[tuple[str, str, bool]], rows: Sequence[Mapping[str, str]], width: int | None, never: set[str]
) -> list[tuple[str, str, bool]]:
    """Give the columns that fit; the least needed ones go first."""
    keep = list(columns)
    if width is None:
        return keep
    widths = {
        name: max(*(cells(row.get(name, "")) for row in rows), *map(len, title.rsplit(" ", 1)))
        for name, title, _ in columns
    }
    for spare in _SPARE:
        if sum(widths[name] for name, _, _ in keep) + 2 * (len(keep) - 1) <= width:
            break
        if spare not in never:
            keep = [column for column in keep if column[0] != spare]
    return keep


def _count(number: int | None) -> str:
    return "n/a" if number is None else f"{number:,}"


def _worst_tier(session: Session) -> str:
    counts = session["compactions_by_tier"]
    return next((name for name in ("emergency", "full", "soft", "warn") if counts[name]), "")
