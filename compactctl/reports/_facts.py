"""What ``inspect`` says: each session's facts as a short block, as a row of a table, and in Markdown."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from compactctl.context.words import quantity
from compactctl.reports._columns import Column, Table
from compactctl.reports._safe import safe

COLUMNS = (
    Column("session_id", str, "the session"),
    Column("path", str, "its transcript; the home directory is ~"),
    Column("format", str, "format of the transcript"),
    Column("model", str, "model that was recorded"),
    Column("harness", str, "harness that recorded the session"),
    Column("harness_version", str, "its version"),
    Column("window_tokens", int, "context window"),
    Column("window_source", str, "where the window is from"),
    Column("messages", int, "messages of the main thread"),
    Column("model_calls", int, "replies of the model"),
    Column("tool_calls", int, "distinct calls of tools"),
    Column("tool_results", int, "distinct results of tools"),
    Column("recorded_compactions", int, "compactions that the transcript records"),
    Column("peak_prompt_tokens", int, "largest prompt that was recorded"),
    Column("lines", int, "lines of the transcript"),
    *(Column(f"lines_{word}", int, f"lines {word}") for word in ("used", "recovered", "ignored", "skipped", "blank")),
)
# The column's name where it is not the key.
_KEYS = {"window_tokens": "window"}


def facts_table(document: Mapping[str, Any]) -> Table:
    """Give a row of facts a session."""
    rows = (tuple(_value(session, column.name) for column in COLUMNS) for session in document["sessions"])
    return Table("facts", COLUMNS, tuple(rows))


def _value(session: Mapping[str, Any], name: str) -> Any:
    value = session[_KEYS.get(name, name)]
    return len(value) if isinstance(value, list) else value


def fact_rows(session: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Give the facts of one session as names and words; not yet safe to print."""
    return [
        ("path", session["path"]),
        (
            "format",
            " ".join(dict.fromkeys(filter(None, (session["format"], session["harness"], session["harness_version"])))),
        ),
        ("model", _models(session)),
        ("window", f"{session['window']:,} tokens ({session['window_source']})"),
        ("messages", f"{session['messages']:,}, of these {quantity(session['model_calls'], 'model call')}"),
        ("tools", f"{quantity(session['tool_calls'], 'call')}, {quantity(session['tool_results'], 'result')}"),
        ("peak prompt", _tokens(session["peak_prompt_tokens"])),
        ("compactions", "; ".join(map(_compaction, session["recorded_compactions"])) or "none recorded"),
        ("lines", _lines(session)),
    ]


def _models(session: Mapping[str, Any]) -> str:
    """Give the model, and with how many calls where a session had several; prices and window are the first one's."""
    calls = sorted(session["calls_by_model"].items(), key=lambda item: (item[0] != session["model"], -item[1], item[0]))
    if len(calls) < 2:
        return session["model"] or "not recorded"
    return ", ".join(f"{name} ({quantity(number, 'call')})" for name, number in calls)


def facts(document: Mapping[str, Any]) -> str:
    """Give the blocks, a blank line between them."""
    return "\n".join(map(_block, document["sessions"]))


def _block(session: Mapping[str, Any]) -> str:
    lines = [safe(session["session_id"])]
    lines += [f"  {name:<12} {safe(value)}" for name, value in fact_rows(session)]
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
