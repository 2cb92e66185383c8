"""Markdown for pull requests and step summaries: small tables, findings first, below GitHub's limit of 1 MiB."""

from __future__ import annotations

import html
import re
from collections.abc import Mapping, Sequence
from typing import Any

from compactctl.context.words import quantity
from compactctl.measures._spec import dollars
from compactctl.model import Tier
from compactctl.reports._decisions import decision_markdown
from compactctl.reports._facts import fact_rows
from compactctl.reports._notices import notices
from compactctl.reports._overview import (
    COST,
    SENT,
    cost_words,
    coverage,
    figure,
    finding_groups,
    header,
    real_reduction,
    tier_rows,
    totals_words,
    unit_of,
    worst_first,
)
from compactctl.reports._safe import safe
from compactctl.reports._session_table import short_tiers, turns_words
from compactctl.reports._spec import ReportSpec
from compactctl.reports._terminal import summary_words
from compactctl.reports._words import percent, size, tokens

# A step summary above 1 MiB is dropped whole; this many rows stay far below.
MOST_SESSIONS = 200
MOST_NOTICES = 100
_SIGNS = {"error": "❌", "warn": "⚠️", "info": "ℹ️"}
# What begins markup, a reference or a mention anywhere in a line, and what makes a bare address a link.
_SPECIAL = re.compile(r"[\\`*_\[\]|~$<>&@#]|://|\bwww\.")


def text(words: str) -> str:
    r"""Give foreign text as Markdown that shows it: no markup, no link, no mention, one line.

    >>> text("a|b [x](http://y) @all <b> $x$")
    'a\\|b \\[x\\](http:&#8203;//y) @&#8203;all &lt;b&gt; \\$x\\$'
    """
    return _SPECIAL.sub(_shown, safe(words))


def _shown(match: re.Match[str]) -> str:
    found = match[0]
    if found in "<>&":
        return html.escape(found)
    # GitHub looks for mentions, references and addresses in the finished text: an invisible space keeps them apart.
    if found in "@#":
        return f"{found}&#8203;"
    if len(found) > 1:
        return f"{found[0]}&#8203;{found[1:]}" if found == "://" else f"{found[:-1]}&#8203;."
    return f"\\{found}"


def render(document: Mapping[str, Any]) -> bytes:
    """Give the report; sessions beyond the worst ones are counted, not listed."""
    decided = decision_markdown(document)
    if decided is not None:
        return decided
    if document["command"] == "inspect":
        return _facts(document)
    sessions: Sequence[Mapping[str, Any]] = document["sessions"]
    lines = [f"## compactctl {text(document['tool_version'])}: {quantity(len(sessions), unit_of(sessions))}", ""]
    lines += [f"- {name}: {text(value)}" for name, value in header(document)]
    lines += ["", *_findings(sessions), *_session_table(sessions), "", *_tier_table(sessions), ""]
    told = totals_words(sessions, f"{summary_words(sessions)}; {cost_words(sessions)}")
    lines += [f"{text(told)}.", ""]
    if len(sessions) == 1:
        lines += _compactions(sessions[0])
    lines += _coverage(sessions)
    if any(session.get("text_omitted") for session in sessions):
        lines += ["_Anchors, summaries and file names are left out; `--include-text` puts them in._", ""]
    return "\n".join(lines).encode("utf-8", "backslashreplace")


def _facts(document: Mapping[str, Any]) -> bytes:
    """Give what ``inspect`` says: a row a session, and below it what a row has no room for."""
    sessions = document["sessions"]
    lines = [f"## compactctl inspect {text(document['tool_version'])}: {quantity(len(sessions), 'session')}", ""]
    lines += _head(("session", *(name for name, _ in fact_rows(sessions[0]))), "l" * 10)
    lines += [_row(text(s["session_id"]), *(text(value) for _, value in fact_rows(s))) for s in sessions]
    skipped = [
        f"- {text(s['session_id'])}, line {row['line']}: {text(row['reason'])}"
        for s in sessions
        for row in s["skipped_lines"]
    ]
    if skipped:
        lines += ["", "### Skipped lines", "", *skipped[:MOST_NOTICES]]
        if len(skipped) > MOST_NOTICES:
            lines += [f"- and {len(skipped) - MOST_NOTICES} more"]
    return "\n".join([*lines, ""]).encode("utf-8", "backslashreplace")


def _findings(sessions: Sequence[Mapping[str, Any]]) -> list[str]:
    groups = finding_groups(sessions)
    if not groups:
        return []
    lines = ["### What to look at", ""]
    for group in groups:
        where = f" {text(group.where)}" if len(sessions) > 1 else ""
        lines.append(f"- {_SIGNS[group.severity]} **{text(group.id)}**{where}: {text(group.worst['message'])}")
        lines.append(f"  Try: {text(group.worst['advice'])}")
    return [*lines, ""]


def _session_table(sessions: Sequence[Mapping[str, Any]]) -> list[str]:
    several = len({session["session_id"] for session in sessions}) < len(sessions)
    names = (
        *("session", *(("run", "compactor") if several else ()), "turns", "compactions", "real peak"),
        *("real peak without compaction", "real tokens", "real reduction", "decision peak", "decision tokens"),
        *("decision reduction", "offloads", "summaries", "cost USD"),
    )
    lines = _head(names, "lll" + "rl" + "r" * 10 if several else "lrl" + "r" * 10)
    order = worst_first(sessions)
    for session in (sessions[place] for place in order[:MOST_SESSIONS]):
        lines.append(
            _row(
                text(session["session_id"]),
                *((text(session["run"] or ""), text(session["compactor"])) if several else ()),
                turns_words(session),
                short_tiers(session["compactions_by_tier"]),
                percent(session["real_peak_occupancy"]),
                percent((session["without_compaction"] or {}).get("real_peak_occupancy")),
                tokens(figure(session, SENT)),
                percent(real_reduction(session)),
                percent(session["peak_occupancy"]),
                tokens(session["tokens"]),
                percent(session["reduction"]),
                f"{session['offloaded_files']} ({size(session['offloaded_bytes'])})",
                _count(session["summarizer_calls"]),
                dollars(figure(session, COST)),
            )
        )
    if len(order) > MOST_SESSIONS:
        lines += [
            "",
            f"and {quantity(len(order) - MOST_SESSIONS, 'more session')}, none of them worse",
        ]
    return lines


def _tier_table(sessions: Sequence[Mapping[str, Any]]) -> list[str]:
    lines = _head(("tier", "turns", "compactions", "least reduction", "median", "most"), "lrrrrr")
    for row in tier_rows(sessions):
        least, most = (row.reductions[0], row.reductions[-1]) if row.reductions else (None, None)
        lines.append(
            _row(
                row.tier.label,
                _count(row.turns),
                str(row.compactions) if row.tier is not Tier.NONE else "",
                *(percent(share) if share is not None else "" for share in (least, row.quantile(0.5), most)),
            )
        )
    return lines


def _compactions(session: Mapping[str, Any]) -> list[str]:
    listed = list(notices(session["compactions"]))
    lines = ["### Compactions", ""] if listed else []
    for notice in listed[:MOST_NOTICES]:
        lines += [f"- {text(notice.head)}", f"  {text(notice.details)}"]
        for anchor in notice.last["anchors"] or ():
            lines.append(f"  - {text(anchor['type'].replace('_', ' '))}: {text(anchor['content'])}")
    if len(listed) > MOST_NOTICES:
        lines.append(f"- and {len(listed) - MOST_NOTICES} more")
    return [*lines, ""]


def _coverage(sessions: Sequence[Mapping[str, Any]]) -> list[str]:
    gaps = coverage(sessions)
    if not gaps:
        return []
    of = quantity(len(sessions), unit_of(sessions))
    listed = [f"- {text(gap.what)}: {text(gap.reason)} ({gap.sessions} of {of})" for gap in gaps]
    return ["<details><summary>Not measured</summary>", "", *listed, "", "</details>", ""]


def _head(names: Sequence[str], align: str) -> list[str]:
    return [_row(*names), _row(*("---:" if side == "r" else "---" for side in align))]


def _row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def _count(number: int | None) -> str:
    return "n/a" if number is None else f"{number:,}"


REPORT = ReportSpec("markdown", "Markdown for pull requests", render, (".md", ".markdown"))
