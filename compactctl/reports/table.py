"""The terminal's report: what each tier did, one table that one can act on, and what went wrong, worst first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from compactctl.context.words import quantity
from compactctl.reports._decisions import decision_text
from compactctl.reports._facts import facts
from compactctl.reports._measures import NOTE, measure_lines
from compactctl.reports._notices import notices
from compactctl.reports._paper import Paper
from compactctl.reports._safe import safe
from compactctl.reports._session_table import session_table, turns_words
from compactctl.reports._spec import ReportSpec
from compactctl.reports._terminal import finding_lines, in_depth, overview
from compactctl.reports._words import SCALE, blocks, percent, scale_of, size, tokens

# Notices of one session beyond these are counted, not shown; --verbose shows every compaction.
_FIRST_NOTICES, _LAST_NOTICES = 16, 4
# Up to so many sessions are shown one by one even where nothing happened; of the table the worst, up to so many rows.
_FEW = 8
_MOST_ROWS = 30


def replayed_session(session: Mapping[str, Any], paper: Paper, *, verbose: bool = False) -> None:
    """Write the head of a session, a notice for each compaction, its curve and its measures."""
    names = (session.get("harness") or session["format"], session.get("harness_version"))
    origin = safe(" ".join(filter(None, names)))
    window = f"window {session['window']:,} ({safe(session['window_source'])})"
    turns = quantity(session["turns"], "turn") if not session["failed_turns"] else f"turns: {turns_words(session)}"
    head = f"{safe(session['session_id'])}  {origin}, {turns}, {window}"
    paper.wrapped(head, "", "bold", hang=2)
    shown = list(notices(session["compactions"], verbose=verbose))
    hidden = 0 if verbose else len(shown) - _FIRST_NOTICES - _LAST_NOTICES
    for number, notice in enumerate(shown):
        if hidden > 0 and _FIRST_NOTICES <= number < _FIRST_NOTICES + hidden:
            if number == _FIRST_NOTICES:
                words = quantity(hidden, "more notice")
                paper.line(f"  ... {words} (--verbose shows every compaction)", "dim")
            continue
        paper.wrapped(notice.head, "  ", notice.tier, hang=4)
        paper.wrapped(notice.details, "      ")
    if leapt := session.get("leapt"):
        words = (
            f"and {quantity(leapt['turns'], 'turn')} at Warn in {quantity(leapt['stretches'], 'stretch')}"
            f": {leapt['offloaded']:,} offload({size(leapt['offloaded_bytes'])}); --verbose shows each"
        )
        paper.wrapped(words, "  ", "dim")
    elif not session["compactions"]:
        paper.line("  no compaction")
    _occupancy(session, paper)
    for title, figures in measure_lines(session["measures"]):
        paper.wrapped(f"{title:<21} {safe(figures)}", "  ", hang=22)
    paper.line()


def replay_end(sessions: Sequence[Mapping[str, Any]], paper: Paper) -> None:
    """Write what is said of all sessions together: their table, what went wrong, and how to take the recall."""
    session_table(sessions, paper, most=_MOST_ROWS)
    if any(session["findings"] for session in sessions):
        paper.line()
        finding_lines(sessions, paper)
    if any(key.startswith("m6.") for session in sessions for key in session["measures"]):
        if not any(session["findings"] for session in sessions):
            paper.line()
        paper.wrapped(NOTE, "", "dim")


def _occupancy(session: Mapping[str, Any], paper: Paper) -> None:
    """Write real tokens over turns, recorded above simulated on the scale of the window; only with recorded usage."""
    recorded = session["occupancy"]["recorded_prompt_tokens"]
    simulated = session["occupancy"]["simulated_real_tokens"]
    known = [value for value in recorded if value is not None]
    if not known:
        return
    top = scale_of(session["window"], (*known, *simulated))
    for name, values, most in (("recorded", recorded, max(known)), ("simulated", simulated, max(simulated))):
        share = percent(most / session["window"] if session["window"] else None)
        words = f"at most {tokens(most)} ({share}) real tokens"
        drawn = blocks(values, top)
        if paper.width is not None and 14 + len(drawn) + len(words) > paper.width:
            step = -(-len(values) // max(8, paper.width - 14 - len(words)))
            groups = [[v for v in values[i : i + step] if v is not None] for i in range(0, len(values), step)]
            drawn = blocks([max(group, default=None) for group in groups], top)
        paper.line(f"  {name:<10}{drawn}  {words}")
    if session["window"]:
        paper.line(f"  {'':<10}{SCALE}", "dim")


def render(document: Mapping[str, Any]) -> bytes:
    """Give the whole report as plain text; of ``inspect`` the facts of each session."""
    if document["command"] == "inspect":
        return facts(document).encode("utf-8", "backslashreplace")
    paper = Paper()
    if decision_text(document, paper):
        return paper.text().encode("utf-8", "backslashreplace")
    sessions = document["sessions"]
    if document["command"] == "report":
        (in_depth if len(sessions) == 1 else overview)(document, paper)
        return paper.text().encode("utf-8", "backslashreplace")
    for session in sessions:
        if session["compactions"] or len(sessions) <= _FEW:
            replayed_session(session, paper)
    if sessions:
        replay_end(sessions, paper)
    return paper.text().encode("utf-8", "backslashreplace")


REPORT = ReportSpec("table", "tables for people", render, (".txt",), shared=False, details=True)
