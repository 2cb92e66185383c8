"""The terminal's report: what each tier did, one table that one can act on, and what went wrong, worst first."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from typing import Any

from compactctl.reports._decisions import decision_text
from compactctl.reports._facts import facts
from compactctl.reports._measures import NOTE, measure_lines
from compactctl.reports._notices import notices
from compactctl.reports._paper import Paper
from compactctl.reports._safe import safe
from compactctl.reports._spec import ReportSpec
from compactctl.reports._terminal import in_depth, overview
from compactctl.reports._words import blocks, percent, size, tiers, tokens

_STYLES = {"warn": "yellow", "soft": "cyan", "full": "blue", "emergency": "bold red"}
_SEVERITIES = {"error": "bold red", "warn": "yellow", "info": "dim"}
_ANSI = {"bold": "1", "dim": "2", "bold red": "1;31", "yellow": "33", "blue": "34", "cyan": "36"}
# Notices of one session beyond these are counted, not shown; --verbose shows every compaction.
_FIRST_NOTICES, _LAST_NOTICES = 16, 4


class Screen:
    """Writes the parts of the report as text; ``width`` None takes as much as the content needs."""

    def __init__(self, *, width: int | None = None, colour: bool = False) -> None:
        from rich.console import Console

        self._out = io.StringIO()
        self._wide = width is None
        self._console = Console(
            file=self._out,
            width=width or 10_000,
            color_system="standard" if colour else None,
            force_terminal=colour,
            markup=False,
            emoji=False,
            highlight=False,
            legacy_windows=False,
        )

    def taken(self) -> str:
        """Give what was written since the last call; spaces at line ends are left out."""
        written = self._out.getvalue()
        self._out.seek(0)
        self._out.truncate()
        return "".join(line.rstrip() + "\n" for line in written.split("\n")[:-1])

    def line(self, words: str = "", style: str = "") -> None:
        """Write one line of text that is already safe."""
        # There can be thousands of them, and a console's own machinery costs more than the replay that they tell of.
        if self._console.color_system and style:
            words = f"\x1b[{_ANSI[style]}m{words}\x1b[0m"
        self._out.write(words + "\n")

    def session(self, session: Mapping[str, Any], *, verbose: bool = False) -> None:
        """Write the head of a session and a notice for each compaction."""
        version = f" {session['harness_version']}" if session.get("harness_version") else ""
        harness = session.get("harness") or session["format"]
        self.line(
            f"{safe(session['session_id'])}  {safe(harness)}{safe(version)}, {session['turns']} turns, "
            f"window {session['window']:,} ({safe(session['window_source'])})",
            "bold",
        )
        shown = list(notices(session["compactions"], verbose=verbose))
        hidden = 0 if verbose else len(shown) - _FIRST_NOTICES - _LAST_NOTICES
        for number, notice in enumerate(shown):
            if hidden > 0 and _FIRST_NOTICES <= number < _FIRST_NOTICES + hidden:
                if number == _FIRST_NOTICES:
                    self.line(f"  ... {hidden} more notices (--verbose shows every compaction)", "dim")
                continue
            self.line(f"  {notice.head}", _STYLES.get(notice.tier, ""))
            self.line(f"      {notice.details}")
        if leapt := session.get("leapt"):
            self.line(
                f"  and {leapt['turns']:,} turns at Warn in {leapt['stretches']:,} stretches: "
                f"{leapt['offloaded']:,} offload({size(leapt['offloaded_bytes'])}); --verbose shows each",
                "dim",
            )
        elif not session["compactions"]:
            self.line("  no compaction")
        self.occupancy(session)
        self.measures(session)
        self.line()

    def occupancy(self, session: Mapping[str, Any]) -> None:
        """Write real tokens over turns, recorded above simulated on one scale; only where usage was recorded."""
        recorded = session["occupancy"]["recorded_prompt_tokens"]
        simulated = session["occupancy"]["simulated_real_tokens"]
        known = [value for value in recorded if value is not None]
        if not known:
            return
        top = max(*known, *simulated)
        for name, values, most in (("recorded", recorded, max(known)), ("simulated", simulated, max(simulated))):
            share = percent(most / session["window"] if session["window"] else None)
            self.line(f"  {name:<10}{blocks(values, top)}  at most {tokens(most)} ({share}) real tokens")

    def measures(self, session: Mapping[str, Any]) -> None:
        """Write what the measures say of a session, a line for each of M1 to M8."""
        lines = list(measure_lines(session["measures"]))
        for title, figures in lines:
            self.line(f"  {title:<22}{safe(figures)}")
        if any(title.startswith("M6") for title, _ in lines):
            self.line(f"  {NOTE}", "dim")

    def sessions(self, sessions: Sequence[Mapping[str, Any]]) -> None:
        """Write the whole report of a replay."""
        for session in sessions:
            if session["compactions"] or len(sessions) <= _FEW:
                self.session(session)
        self.summary(sessions)
        self.findings(sessions)

    def summary(self, sessions: Sequence[Mapping[str, Any]]) -> None:
        """Write the table of all sessions, with the bounds; of many sessions the worst, and a row for all."""
        from rich.table import Table
        from rich.text import Text

        table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_edge=False)
        for name, justify in _COLUMNS:
            table.add_column(name, justify=justify, no_wrap=self._wide, overflow="fold", header_style="bold")
        few = len(sessions) <= _FEW
        shown = sessions if few else sorted(sessions, key=_badness)[:_MOST_ROWS]
        for session in shown:
            table.add_row(*map(Text, _row(session)))
            if few:
                table.add_row(*map(Text, _bound_row(session)), style="dim")
        if not few:
            everything = _all_of(sessions)
            table.add_row(*map(Text, _row(everything)), style="bold")
            table.add_row(*map(Text, _bound_row(everything)), style="dim")
        self._console.print(table)
        if len(shown) < len(sessions):
            hidden = len(sessions) - len(shown)
            self.line(f"worst first; {hidden} more sessions are in --format csv, json, ... and in `report`")

    def findings(self, sessions: Sequence[Mapping[str, Any]]) -> None:
        """Write what went wrong, worst first, each with what to try."""
        rank = list(_SEVERITIES)
        rows = [(rank.index(f["severity"]), i, f, s) for s in sessions for i, f in enumerate(s["findings"])]
        if not rows:
            return
        self.line()
        self.line("What to look at, worst first:", "bold")
        # The same finding in many sessions is one line, told by the first of them.
        alike: dict[str, list[tuple[int, int, Mapping[str, Any], Mapping[str, Any]]]] = {}
        for row in sorted(rows, key=lambda row: row[:2]):
            alike.setdefault(row[2]["id"], []).append(row)
        for group in alike.values():
            _, _, finding, session = group[0]
            name = f"{safe(session['session_id'])}: " if len(sessions) > 1 else ""
            more = f" (and {len(group) - 1} more sessions)" if len(group) > 1 else ""
            words = f"  {finding['severity']:<5} {name}{safe(finding['message'])}{more}"
            self.line(words, _SEVERITIES[finding["severity"]])
            self.line(f"        try: {safe(finding['advice'])}")


# Up to so many sessions are shown one by one, each with its bound; of more the worst, up to so many rows.
_FEW = 8
_MOST_ROWS = 30

_COLUMNS: tuple[tuple[str, Any], ...] = (
    ("session", "left"),
    ("turns", "right"),
    ("compactions", "left"),
    ("peak", "right"),
    ("real peak", "right"),
    ("tokens sent", "right"),
    ("reduction", "right"),
    ("offloads", "right"),
    ("summaries", "right"),
    ("skipped lines", "right"),
)


def _badness(session: Mapping[str, Any]) -> tuple[Any, ...]:
    """Sort worst first: by the worst finding, failed turns, then real peak."""
    rank = list(_SEVERITIES)
    worst = min((rank.index(f["severity"]) for f in session["findings"]), default=len(rank))
    return (worst, -session["failed_turns"], -(session["real_peak_occupancy"] or 0), session["session_id"])


def _all_of(sessions: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Give the row of all sessions together: sums, and the largest peaks."""

    def total(key: str, rows: Sequence[Mapping[str, Any]] = sessions) -> Any:
        return sum(row.get(key) or 0 for row in rows)

    def largest(key: str, rows: Sequence[Mapping[str, Any]] = sessions) -> Any:
        return max((row[key] for row in rows if row[key] is not None), default=None)

    bounds = [session["without_compaction"] for session in sessions]
    sent = total("tokens", bounds)
    return {
        "session_id": f"all {len(sessions)} sessions",
        "turns": total("turns"),
        "failed_turns": total("failed_turns"),
        "compactions_by_tier": {
            tier: sum(session["compactions_by_tier"][tier] for session in sessions)
            for tier in sessions[0]["compactions_by_tier"]
        },
        "peak_occupancy": largest("peak_occupancy"),
        "real_peak_occupancy": largest("real_peak_occupancy"),
        "tokens": total("tokens"),
        "reduction": 1 - total("tokens") / sent if sent else None,
        "offloaded_files": total("offloaded_files"),
        "offloaded_bytes": total("offloaded_bytes"),
        "summarizer_calls": total("summarizer_calls"),
        "lines_skipped": total("lines_skipped"),
        "without_compaction": {
            "turns": total("turns", bounds),
            "peak_occupancy": largest("peak_occupancy", bounds),
            "real_peak_occupancy": largest("real_peak_occupancy", bounds),
            "tokens": sent,
        },
    }


def _row(session: Mapping[str, Any]) -> list[str]:
    skipped = session.get("lines_skipped") or 0
    return [
        safe(session["session_id"]),
        str(session["turns"]) + (f" ({session['failed_turns']} failed)" if session["failed_turns"] else ""),
        tiers(session["compactions_by_tier"]),
        percent(session["peak_occupancy"]),
        percent(session["real_peak_occupancy"]),
        tokens(session["tokens"]),
        percent(session["reduction"]),
        f"{session['offloaded_files']} ({size(session['offloaded_bytes'])})",
        str(session["summarizer_calls"]),
        str(skipped),
    ]


def _bound_row(session: Mapping[str, Any]) -> list[str]:
    bound = session["without_compaction"]
    return [
        "  without compaction",
        str(bound["turns"]),
        "",
        percent(bound["peak_occupancy"]),
        percent(bound["real_peak_occupancy"]),
        tokens(bound["tokens"]),
        "",
        "",
        "",
        "",
    ]


def render(document: Mapping[str, Any]) -> bytes:
    """Give the whole report as plain text; of ``inspect`` the facts of each session."""
    if document["command"] == "inspect":
        return facts(document).encode("utf-8", "backslashreplace")
    paper = Paper()
    if decision_text(document, paper):
        return paper.text().encode("utf-8", "backslashreplace")
    if document["command"] == "report":
        (in_depth if len(document["sessions"]) == 1 else overview)(document, paper)
        return paper.text().encode("utf-8", "backslashreplace")
    screen = Screen()
    screen.sessions(document["sessions"])
    return screen.taken().encode("utf-8", "backslashreplace")


REPORT = ReportSpec("table", "tables for people", render, (".txt",), shared=False, details=True)
