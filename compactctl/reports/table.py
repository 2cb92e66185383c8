"""The terminal's report: what each tier did, one table that one can act on, and what went wrong, worst first."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from typing import Any

from compactctl.reports._facts import facts
from compactctl.reports._notices import notices
from compactctl.reports._paper import Paper
from compactctl.reports._safe import safe
from compactctl.reports._spec import ReportSpec
from compactctl.reports._terminal import in_depth, overview
from compactctl.reports._words import percent, size, tiers, tokens

_STYLES = {"warn": "yellow", "soft": "cyan", "full": "blue", "emergency": "bold red"}
_SEVERITIES = {"error": "bold red", "warn": "yellow", "info": "dim"}


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
        from rich.text import Text

        self._console.print(Text(words, style=style), soft_wrap=True)

    def session(self, session: Mapping[str, Any], *, verbose: bool = False) -> None:
        """Write the head of a session and a notice for each compaction."""
        version = f" {session['harness_version']}" if session.get("harness_version") else ""
        self.line(
            f"{safe(session['session_id'])}  {safe(session['format'])}{safe(version)}, {session['turns']} turns, "
            f"window {session['window']:,} ({safe(session['window_source'])})",
            "bold",
        )
        for notice in notices(session["compactions"], verbose=verbose):
            self.line(f"  {notice.head}", _STYLES.get(notice.tier, ""))
            self.line(f"      {notice.details}")
        if not session["compactions"]:
            self.line("  no compaction")
        self.line()

    def summary(self, sessions: Sequence[Mapping[str, Any]]) -> None:
        """Write the table of all sessions, each with its bound in the row below."""
        from rich.table import Table
        from rich.text import Text

        table = Table(box=None, pad_edge=False, padding=(0, 2), show_edge=False)
        for name, justify in _COLUMNS:
            table.add_column(name, justify=justify, no_wrap=self._wide, overflow="fold", header_style="bold")
        for session in sessions:
            table.add_row(*map(Text, _row(session)))
            table.add_row(*map(Text, _bound_row(session)), style="dim")
        self._console.print(table)

    def findings(self, sessions: Sequence[Mapping[str, Any]]) -> None:
        """Write what went wrong, worst first, each with what to try."""
        rank = list(_SEVERITIES)
        rows = [(rank.index(f["severity"]), i, f, s) for s in sessions for i, f in enumerate(s["findings"])]
        if not rows:
            return
        self.line()
        self.line("What to look at, worst first:", "bold")
        for _, _, finding, session in sorted(rows, key=lambda row: row[:2]):
            name = f"{safe(session['session_id'])}: " if len(sessions) > 1 else ""
            self.line(f"  {finding['severity']:<5} {name}{safe(finding['message'])}", _SEVERITIES[finding["severity"]])
            self.line(f"        try: {safe(finding['advice'])}")


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
    if document["command"] == "report":
        paper = Paper()
        (in_depth if len(document["sessions"]) == 1 else overview)(document, paper)
        return paper.text().encode("utf-8", "backslashreplace")
    screen = Screen()
    for session in document["sessions"]:
        screen.session(session)
    screen.summary(document["sessions"])
    screen.findings(document["sessions"])
    return screen.taken().encode("utf-8", "backslashreplace")


REPORT = ReportSpec("table", "tables for people", render, (".txt",), shared=False, details=True)
