"""Titles that say the finding, the same over a picture, a section and a page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from compactctl.context.words import quantity
from compactctl.reports._overview import unit_of
from compactctl.reports._words import percent

Session = Mapping[str, Any]


def title_of(session: Session) -> str:
    """Give a session's id and its finding."""
    return f"{session['session_id']}: {finding_of(session)}"


def finding_of(session: Session) -> str:
    """Give the finding of one session: the worst tier and when it began, and the peak against no compaction."""
    counts = session["compactions_by_tier"]
    worst = next((tier for tier in ("emergency", "full", "soft", "warn") if counts[tier]), None)
    if session["turns"] is None:
        return f"{quantity(sum(counts.values()), 'compaction')}, {worst or 'none'} the hardest"
    bound = session["without_compaction"]["real_peak_occupancy"]
    failed = f", {session['failed_turns']:,} failed" if session["failed_turns"] else ""
    if worst is None:
        return f"never above {percent(bound)} of the window, no compaction{failed}"
    first = next(row["turn"] for row in session["compactions"] if row["changed"] and row["tier_name"].lower() == worst)
    peak = session["real_peak_occupancy"]
    most = f"at most {percent(peak)} of the window ({percent(bound)} without compaction)"
    return f"{worst.capitalize()} from turn {first}, {most}{failed}"


def title_of_all(sessions: Sequence[Session]) -> str:
    """Give the finding over several sessions: how many turns fail, how many compact, and how many end in Emergency."""
    unit = unit_of(sessions)
    compacting = sum(any(session["compactions_by_tier"].values()) for session in sessions)
    emergency = sum(session["compactions_by_tier"]["emergency"] > 0 for session in sessions)
    words = f"{compacting} of {quantity(len(sessions), unit)} compact, {emergency} reach Emergency"
    hit = [session for session in sessions if session["failed_turns"]]
    failed = sum(session["failed_turns"] for session in hit)
    return f"{quantity(failed, 'turn')} failed in {quantity(len(hit), unit)}; {words}" if failed else words
