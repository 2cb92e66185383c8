"""What ``report`` shows on a terminal: all sessions at once, or one in depth."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from compactctl.context.words import quantity
from compactctl.model import Tier
from compactctl.reports._figures import figures
from compactctl.reports._notices import notices
from compactctl.reports._overview import (
    READ,
    WRITTEN,
    cost_words,
    coverage,
    figure,
    finding_groups,
    header,
    peak_words,
    run_words,
    runs_added,
    sent_words,
    tier_rows,
    total,
    unit_of,
)
from compactctl.reports._paper import Paper, cells
from compactctl.reports._safe import safe
from compactctl.reports._session_table import session_table, short_tiers, turns_words
from compactctl.reports._stored import StoredSession
from compactctl.reports._words import SCALE, blocks, percent, scale_of, size, tokens

_BAR = "█"
_EIGHTHS = " ▁▂▃▄▅▆▇█"
_DEEP_SPARK = 72
_FOLDED_LINES = 3
_FOLDED_CHARACTERS = 320
_MOST_FILES = 8


def overview(document: Mapping[str, Any], paper: Paper) -> None:
    """Write the report over all sessions."""
    sessions: Sequence[Mapping[str, Any]] = document["sessions"]
    details: Sequence[StoredSession] = document["details"]
    _header(document, paper)
    paper.line("Sessions", "bold")
    session_table(sessions, paper)
    paper.line()
    _tier_table(sessions, paper)
    paper.line()
    _totals(sessions, details, paper)
    finding_lines(sessions, paper)
    _coverage(sessions, paper)


def in_depth(document: Mapping[str, Any], paper: Paper, *, verbose: bool = False) -> None:
    """Write each session with every compaction, its anchors, its summary and its files."""
    _header(document, paper)
    for session, detail in zip(document["sessions"], document["details"], strict=True):
        _one_session(session, detail, paper, verbose=verbose)
    _coverage(document["sessions"], paper)


def _header(document: Mapping[str, Any], paper: Paper) -> None:
    paper.line(f"compactctl {document['tool_version']} report", "bold")
    for name, value in header(document):
        paper.wrapped(f"{name:<12} {safe(value)}", "  ", hang=13)
    paper.line()


def _tier_table(sessions: Sequence[Mapping[str, Any]], paper: Paper) -> None:
    paper.line("Tiers", "bold")
    rows = [["tier", "turns", "", "", "compactions", "reduction: least", "median", "most", "0% .. 100%"]]
    styles = ["bold"]
    found = tier_rows(sessions)
    turns = sum(row.turns or 0 for row in found)
    for row in found:
        share = row.turns / turns if turns and row.turns is not None else None
        counts = row.histogram()
        top = max(counts) or 1
        shape = "".join(_EIGHTHS[-(-count * 8 // top)] for count in counts)
        rows.append(
            [
                row.tier.label,
                _count(row.turns),
                percent(share),
                _BAR * round((share or 0) * 20),
                str(row.compactions) if row.tier is not Tier.NONE else "",
                *(
                    [percent(row.reductions[0]), percent(row.quantile(0.5)), percent(row.reductions[-1])]
                    if row.reductions
                    else ["", "", ""]
                ),
                shape.rstrip(),
            ]
        )
        styles.append(row.tier.name.lower() if row.compactions or row.turns else "dim")
    keep = _fitting_tiers(rows, paper.width)
    paper.columns([[row[i] for i in keep] for row in rows], [0 < i < 8 and i != 3 for i in keep], styles, "  ")


def _fitting_tiers(rows: Sequence[Sequence[str]], width: int | None) -> list[int]:
    keep = list(range(len(rows[0])))
    if width is None:
        return keep
    widths = [max(cells(row[i]) for row in rows) for i in keep]
    for spare in (3, 8):
        if sum(widths[i] for i in keep) + 2 * len(keep) <= width:
            break
        keep.remove(spare)
    return keep


def _totals(sessions: Sequence[Mapping[str, Any]], details: Sequence[StoredSession], paper: Paper) -> None:
    paper.line("Offloads, summaries and cost", "bold")
    by_tool: dict[str, list[int]] = {}
    for detail in details:
        for entry in detail.offloads:
            sums = by_tool.setdefault(entry.tool_name or "unknown tool", [0, 0])
            sums[0] += 1
            sums[1] += entry.bytes
    listed = sorted(by_tool.items(), key=lambda item: (-item[1][1], item[0]))
    shown = ", ".join(f"{safe(name)} {count} ({size(total)})" for name, (count, total) in listed[:6])
    more = f" and {quantity(len(listed) - 6, 'more tool')}" if len(listed) > 6 else ""
    files = total(sessions, "offloaded_files") or 0
    taken = total(sessions, "offloaded_bytes") or 0
    by = f": {shown}{more}" if shown else ""
    over = runs_added(sessions)
    if over:
        paper.wrapped(over, "  ")
    once = "each counted once a run" if over else "each counted once"
    paper.wrapped(f"{quantity(files, 'tool result')} offloaded, {once}, {size(taken)}{by}", "  ")
    failures = total(sessions, "offload_failures") or 0
    if failures:
        paper.line(f"  {quantity(failures, 'compaction')} in which an offload failed", "error")
    paper.wrapped(summary_words(sessions), "  ")
    paper.wrapped(cost_words(sessions), "  ")
    paper.line()


def summary_words(sessions: Sequence[Mapping[str, Any]]) -> str:
    """Give what the summarizer was asked, in one sentence."""
    calls, failed = total(sessions, "summarizer_calls"), total(sessions, "summarizer_failures") or 0
    kind, read, written, how = _summary_tokens(sessions)
    lost = f", {failed:,} failed" if failed else ""
    asked = "summarizer calls: n/a" if calls is None else quantity(calls, "summarizer call")
    return f"{asked}{lost}: {tokens(read)} {kind}tokens read, {tokens(written)} written{how}"


def _summary_tokens(sessions: Sequence[Mapping[str, Any]]) -> tuple[str, float | None, float | None, str]:
    """Give what the summarizers read and wrote between the words that say in which tokens: real ones, as they cost.

    Where a run that asked a summarizer did not compute them, the records' own: a sum of both would be neither.
    """
    known = [session for session in sessions if session["summary_input_tokens"] is not None]
    asking = [session for session in known if session["summarizer_calls"]]
    if all(figure(session, READ) is not None for session in asking):
        read, written = (sum(figure(session, key) or 0 for session in known) for key in (READ, WRITTEN))
        return "real ", read if known else None, written if known else None, ""
    read, written = (
        sum(session[key] for session in known) for key in ("summary_input_tokens", "summary_output_tokens")
    )
    return "", read, written, " (decision tokens, or a model's own count)"


def finding_lines(sessions: Sequence[Mapping[str, Any]], paper: Paper) -> None:
    """Write what to look at, worst first, each with the id under which `list findings` explains it."""
    groups = finding_groups(sessions)
    if not groups:
        return
    paper.line("What to look at, worst first", "bold")
    for group in groups:
        name = f"{safe(group.id)} {safe(group.where)}" if len(sessions) > 1 else safe(group.id)
        paper.wrapped(f"{group.severity:<5} {name}", "  ", group.severity, hang=6)
        paper.wrapped(safe(group.worst["message"]), "        ")
        paper.wrapped(f"try: {safe(group.worst['advice'])}", "        ", "dim")
    paper.line()


def _coverage(sessions: Sequence[Mapping[str, Any]], paper: Paper) -> None:
    gaps = coverage(sessions)
    if not gaps:
        return
    paper.line("Not measured", "bold")
    of = quantity(len(sessions), unit_of(sessions))
    for gap in gaps:
        where = f" ({gap.sessions} of {of})" if len(sessions) > 1 else ""
        paper.wrapped(f"{safe(gap.what)}: {safe(gap.reason)}{where}", "  ", "dim")
    paper.line()


def _one_session(session: Mapping[str, Any], detail: StoredSession, paper: Paper, *, verbose: bool) -> None:
    origin = " ".join(filter(None, (session["harness"] or session["format"], session["harness_version"])))
    paper.wrapped(f"{safe(session['session_id'])}  {safe(origin)}, {safe(run_words(session))}", "", "bold", hang=2)
    window = "n/a" if session["window"] is None else f"{session['window']:,} ({session['window_source']})"
    for words in (
        f"turns: {turns_words(session)}, window {safe(window)}; {peak_words(session)}",
        f"{sent_words(session)}; compactions: {short_tiers(session['compactions_by_tier'])}",
        summary_words([session]),
        cost_words([session]),
    ):
        paper.wrapped(words, "  ")
    _lines_over_turns(session, detail, paper)
    finding_lines([session], paper)
    shown: set[str] = set()
    for group in notices(session["compactions"], verbose=verbose):
        paper.wrapped(group.head, "  ", group.tier, hang=4)
        paper.wrapped(group.details, "      ")
        for anchor in group.last["anchors"] or ():
            paper.wrapped(f"{_anchor_name(anchor)}: {_folded(anchor['content'])}", "      ")
        if group.last["summary_text"]:
            paper.wrapped(f"summary: {_folded(group.last['summary_text'])}", "      ", "dim")
        _files(group.rows, detail, shown, paper)
    if not session["compactions"]:
        paper.line("  no compaction")
    paper.line()
    _measures(session, paper)


def _lines_over_turns(session: Mapping[str, Any], detail: StoredSession, paper: Paper) -> None:
    """Write the occupancy over turns: recorded above simulated, on the scale of the window, with the tiers below."""
    points = detail.timeline.at_most(_DEEP_SPARK if paper.width is None else min(_DEEP_SPARK, paper.width - 22))
    if not points:
        paper.line()
        return
    recorded = [point.recorded for point in points]
    real = [point.real for point in points]
    top = scale_of(session["window"], (*recorded, *real))
    scale = f"; {SCALE}" if session["window"] else ""
    paper.line()
    if any(value is not None for value in recorded):
        paper.line(f"  {'recorded':<10} {blocks(recorded, top)}  {_peak(recorded, session)}")
    paper.line(f"  {'simulated':<10} {blocks(real, top)}  {_peak(real, session)}")
    paper.line(f"  {'tiers':<10} {''.join(' wsFE'[point.tier] for point in points)}")
    paper.line(f"  {'':<10} turns {points[0].first} to {points[-1].last}, real tokens{scale}", "dim")
    paper.line()


def _measures(session: Mapping[str, Any], paper: Paper) -> None:
    rows = [
        (figure.key, figure.value, f"{figure.unit}: {figure.meaning}") for figure in figures(session) if figure.unit
    ]
    if rows:
        paper.line("Measures (`compactctl list measures` says more)", "bold")
        paper.columns([(key, value, safe(meaning)) for key, value, meaning in rows], [False, True, False], indent="  ")
        paper.line()


def _peak(values: Iterable[int | None], session: Mapping[str, Any]) -> str:
    most = max((value for value in values if value is not None), default=None)
    share = most / session["window"] if most is not None and session["window"] else None
    return f"at most {tokens(most)} ({percent(share)})"


def _files(rows: Sequence[Mapping[str, Any]], detail: StoredSession, shown: set[str], paper: Paper) -> None:
    """Write the files that these compactions wrote and no earlier one had."""
    known = {entry.path: entry for entry in detail.offloads}
    fresh = [path for path in _unique(path for row in rows for path in row["files"] or ()) if path not in shown]
    shown.update(fresh)
    for path in fresh[:_MOST_FILES]:
        entry = known[path]
        paper.line(
            f"      -> {safe(path)}  {safe(entry.tool_name)} {size(entry.bytes)}, {quantity(entry.lines, 'line')}"
        )
    if len(fresh) > _MOST_FILES:
        paper.line(f"      -> and {quantity(len(fresh) - _MOST_FILES, 'more file')}")


def _unique(paths: Iterable[str]) -> Iterator[str]:
    return iter(dict.fromkeys(paths))


def _anchor_name(anchor: Mapping[str, Any]) -> str:
    origin = f" (only from {anchor['origin']} output)" if anchor["origin"] == "tool" else ""
    return f"{anchor['type'].replace('_', ' ')}{origin}"


def _folded(text: str) -> str:
    """Give the first lines of a text as one, and how much more there is."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    shown = "\n".join(lines[:_FOLDED_LINES])[:_FOLDED_CHARACTERS]
    more = len("\n".join(lines)) - len(shown)
    return safe(shown.replace("\n", " / ")) + (f" ... ({more:,} more characters)" if more else "")


def _count(number: int | None) -> str:
    return "n/a" if number is None else f"{number:,}"
