"""What ``inspect`` shows on a terminal: each session's facts as a short block."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from compactctl.reports._safe import safe


def facts(document: Mapping[str, Any]) -> str:
    """Give the blocks, a blank line between them."""
    return "\n".join(map(_block, document["sessions"]))


def _block(session: Mapping[str, Any]) -> str:
    rows = [
        ("path", session["path"]),
        ("format", " ".join(filter(None, (session["format"], session["harness"], session["harness_version"])))),
        ("model", session["model"] or "not recorded"),
        ("window", f"{session['window']:,} tokens ({session['window_source']})"),
        ("messages", f"{session['messages']:,}, of these {session['model_calls']:,} model calls"),
        ("tools", f"{session['tool_calls']:,} calls, {session['tool_results']:,} results"),
        ("peak prompt", _tokens(session["peak_prompt_tokens"])),
        ("compactions", "; ".join(map(_compaction, session["recorded_compactions"])) or "none recorded"),
        ("lines", _lines(session)),
    ]
    lines = [safe(session["session_id"])]
    lines += [f"  {name:<12} {safe(value)}" for name, value in rows]
    lines += [f"  {'skipped':<12} line {row['line']}: {safe(row['reason'])}" for row in session["skipped_lines"][:10]]
    if len(session["skipped_lines"]) > 10:
        lines.append(f"  {'skipped':<12} and {len(session['skipped_lines']) - 10} more")
    return "\n".join(lines) + "\n"


def _tokens(count: int | None) -> str:
    return "not recorded" if count is None else f"{count:,} tokens"


def _compaction(row: Mapping[str, Any]) -> str:
    words = f"{row['kind']} ({row['trigger'] or 'no trigger recorded'}) before model call {row['before_model_call']}"
    if row["tokens_before"] is None:
        return words
    after = "" if row["tokens_after"] is None else f" -> {row['tokens_after']:,}"
    return f"{words}, {row['tokens_before']:,}{after} tokens"


def _lines(session: Mapping[str, Any]) -> str:
    total = f"{session['lines']:,}: {session['lines_used']:,} used"
    kinds = ", ".join(f"{count} {kind}" for kind, count in session["ignored_by_kind"].items())
    parts = [
        (session["lines_recovered"], "recovered"),
        (session["lines_ignored"], f"ignored ({kinds})"),
        (session["lines_skipped"], "skipped"),
        (session["lines_blank"], "blank"),
    ]
    return total + "".join(f", {count:,} {word}" for count, word in parts if count)
