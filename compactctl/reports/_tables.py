"""The report as tables of plain values: what csv, parquet and ``report_frame`` hold.

Column names carry their unit (``_tokens``, ``_bytes``, ``_share`` of 1, ``_ns`` nanoseconds; counts have none) and do
not change within a schema version; new ones come at the end. Measures are columns under their keys.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from compactctl.errors import UsageError
from compactctl.reports._columns import Column, Table
from compactctl.reports._figures import meanings
from compactctl.reports._overview import SENT, figure, real_sent_without
from compactctl.reports._stored import StoredSession

Row = Mapping[str, Any]


_IDENTITY = (
    Column("session_id", str, "the session"),
    Column("run", str, "the run of that session; empty for records that harness9 wrote"),
)

SESSIONS = (
    *_IDENTITY,
    Column("format", str, "format of the transcript"),
    Column("model", str, "model that was recorded"),
    Column("harness", str, "harness that recorded the session"),
    Column("harness_version", str, "its version"),
    Column("compactor", str, "compactor of the replay"),
    Column("history", str, "view or write-back"),
    Column("meter", str, "meter of decision tokens"),
    Column("window_tokens", int, "context window"),
    Column("window_source", str, "where the window is from"),
    Column("turns", int, "model calls"),
    Column("failed_turns", int, "turns whose request failed: a provider would reject it"),
    *(Column(f"turns_{tier}", int, f"turns at tier {tier}") for tier in ("none", "warn", "soft", "full", "emergency")),
    *(Column(f"compactions_{tier}", int, f"compactions {tier}") for tier in ("warn", "soft", "full", "emergency")),
    Column("peak_decision_tokens", int, "largest view in decision tokens"),
    Column("peak_turn", int, "its turn"),
    Column("peak_occupancy_share", float, "its share of the window"),
    Column("real_peak_tokens", int, "largest view in real tokens"),
    Column("real_peak_turn", int, "its turn"),
    Column("real_peak_occupancy_share", float, "its share of the window"),
    Column("sent_real_tokens", int, "real tokens of all views together"),
    Column("without_compaction_sent_real_tokens", int, "the same without compaction"),
    Column("sent_decision_tokens", int, "decision tokens of all views together"),
    Column("without_compaction_sent_decision_tokens", int, "the same without compaction"),
    Column("without_compaction_real_peak_tokens", int, "largest view without compaction in real tokens"),
    Column("without_compaction_real_peak_occupancy_share", float, "its share of the window"),
    Column("reduction_share", float, "1 - sent / sent without compaction, in decision tokens"),
    Column("offloaded_files", int, "tool results moved to files, each counted once"),
    Column("offloaded_bytes", int, "their size"),
    Column("offload_failures", int, "compactions in which an offload failed"),
    Column("summarizer_calls", int, "calls that gave a summary"),
    Column("summarizer_failures", int, "calls that failed"),
    Column("summary_input_tokens", int, "decision tokens that the summarizer read, or a model's own count"),
    Column("summary_output_tokens", int, "tokens that it wrote, counted alike; m4 has both in real tokens"),
    Column("findings_error", int, "findings of severity error"),
    Column("findings_warn", int, "findings of severity warn"),
    Column("lines_skipped", int, "lines of the transcript that could not be read"),
)

COMPACTIONS = (
    *_IDENTITY,
    Column("turn", int, "model calls made before it"),
    Column("tier", int, "0 None, 1 Warn, 2 Soft, 3 Full, 4 Emergency"),
    Column("tier_name", str, "the tier as a word"),
    Column("trigger", str, "pressure, context-overflow or manual"),
    Column("before_decision_tokens", int, "decision tokens of the view before"),
    Column("after_offload_decision_tokens", int, "when only large results had been offloaded"),
    Column("after_decision_tokens", int, "decision tokens of the view after"),
    Column("reduction_share", float, "1 - after / before, in decision tokens"),
    Column("before_messages", int, "messages before"),
    Column("after_messages", int, "messages after"),
    Column("summarized_messages", int, "messages replaced by a summary"),
    Column("offloaded_files", int, "tool results that were files in this view"),
    Column("offloaded_bytes", int, "their size"),
    Column("tail_messages", int, "newest messages that were kept as they are"),
    Column("dropped_messages", int, "messages that went away without a summary"),
    Column("anchors_found", int, "anchors that are not N/A, of five"),
    Column("error", str, "what went wrong"),
    Column("notes", str, "what a user should know, separated by spaces"),
    Column("timestamp", str, "RFC 3339, of the transcript"),
    Column("duration_ns", int, "how long it took, where that was measured"),
    Column("changed", bool, "whether the view was changed; where not, error and notes say why"),
)

TURNS = (
    *_IDENTITY,
    Column("turn", int, "model calls made before it"),
    Column("tier", int, "0 None, 1 Warn, 2 Soft, 3 Full, 4 Emergency"),
    Column("before_decision_tokens", int, "decision tokens that the compactor was given"),
    Column("sent_decision_tokens", int, "decision tokens of the view"),
    Column("sent_real_tokens", int, "real tokens of the view"),
    Column("recorded_real_tokens", int, "prompt that the transcript records for this call"),
    Column("failed", bool, "whether the request failed: a provider would reject it"),
)

OFFLOADS = (
    *_IDENTITY,
    Column("turn", int, "turn of the compaction that first moved it"),
    Column("tool_name", str, "tool whose result it is"),
    Column("size_bytes", int, "size of the result"),
    Column("lines", int, "its lines"),
    Column("tool_call_id", str, "the call; left out of shared files without --include-text"),
    Column("file_path", str, "relative to the state directory; left out like the call"),
)

FINDINGS = (
    *_IDENTITY,
    Column("severity", str, "error, warn or info"),
    Column("id", str, "the finding (`compactctl list findings`)"),
    Column("first_turn", int, "first turn that it concerns"),
    Column("turns", int, "how many turns it concerns"),
    Column("message", str, "what was found"),
    Column("advice", str, "what to try"),
)


def table(document: Mapping[str, Any], name: str | None = None) -> Table:
    """Give one table of a report's document; raises UsageError for an unknown name.

    ``turns`` and ``offloads`` need ``details`` in the document and are empty without.
    """
    chosen = name or document.get("rows") or "sessions"
    maker = _MAKERS.get(chosen)
    if maker is None:
        raise UsageError(f"no table {chosen!r}; known: {', '.join(_MAKERS)}")
    return maker(document)


def _unit(key: str) -> str:
    """Give the unit and the meaning of a measure's key; a column that an older version wrote has none."""
    known = meanings().get(key)
    return ": ".join(known) if known is not None else "see `compactctl list measures`"


def _sessions(document: Mapping[str, Any]) -> Table:
    keys = sorted({key for session in document["sessions"] for key in session["measures"]})
    columns = (*SESSIONS, *(Column(key, float, _unit(key)) for key in keys))
    return Table("sessions", columns, tuple(tuple(_session(session, keys)) for session in document["sessions"]))


def _session(session: Row, keys: Sequence[str]) -> Iterator[Any]:
    bound, turns = session["without_compaction"] or {}, session["turns_by_tier"] or {}
    severities = [finding["severity"] for finding in session["findings"]]
    for key in ("session_id", "run", "format", "model", "harness", "harness_version", "compactor", "history", "meter"):
        yield session.get(key)
    for key in ("window", "window_source", "turns", "failed_turns"):
        yield session[key]
    for tier in ("none", "warn", "soft", "full", "emergency"):
        yield turns.get(tier)
    yield from session["compactions_by_tier"].values()
    for key in ("peak_tokens", "peak_turn", "peak_occupancy", "real_peak_tokens", "real_peak_turn"):
        yield session[key]
    yield session["real_peak_occupancy"]
    yield _whole(figure(session, SENT))
    yield _whole(real_sent_without(session))
    yield session["tokens"]
    for key in ("tokens", "real_peak_tokens", "real_peak_occupancy"):
        yield bound.get(key)
    for key in ("reduction", "offloaded_files", "offloaded_bytes", "offload_failures", "summarizer_calls"):
        yield session[key]
    for key in ("summarizer_failures", "summary_input_tokens", "summary_output_tokens"):
        yield session[key]
    yield severities.count("error")
    yield severities.count("warn")
    yield session["lines_skipped"]
    for key in keys:
        yield session["measures"].get(key, {}).get("value")


def _whole(number: float | None) -> int | None:
    return None if number is None else round(number)


def _compactions(document: Mapping[str, Any]) -> Table:
    rows = (
        (
            session["session_id"],
            session.get("run"),
            *(row[key] for key in ("turn", "tier", "tier_name", "trigger", "tokens_before", "tokens_after_offload")),
            *(row[key] for key in ("tokens_after", "reduction", "msgs_before", "msgs_after", "summarized")),
            *(row[key] for key in ("offloaded", "offloaded_bytes", "preserved_tail", "dropped", "anchors_found")),
            row["error"],
            " ".join(map(str, row["notes"])),
            row["timestamp"],
            row["duration"],
            row["changed"],
        )
        for session in document["sessions"]
        for row in session["compactions"]
    )
    return Table("compactions", COMPACTIONS, tuple(rows))


def _turns(document: Mapping[str, Any]) -> Table:
    rows = (
        (
            session["session_id"],
            session.get("run"),
            *(point.first, point.tier, point.before, point.tokens, point.real, point.recorded),
            point.failed,
        )
        for session, detail in _detailed(document)
        for point in detail.timeline.points
    )
    return Table("turns", TURNS, tuple(rows))


def _offloads(document: Mapping[str, Any]) -> Table:
    rows = (
        (
            session["session_id"],
            session.get("run"),
            *(entry.turn, entry.tool_name, entry.bytes, entry.lines),
            *((None, None) if session.get("text_omitted") else (entry.tool_call_id, entry.path)),
        )
        for session, detail in _detailed(document)
        for entry in detail.offloads
    )
    return Table("offloads", OFFLOADS, tuple(rows))


def _findings(document: Mapping[str, Any]) -> Table:
    rows = (
        (
            session["session_id"],
            session.get("run"),
            finding["severity"],
            finding["id"],
            finding["turns"][0] if finding["turns"] else None,
            len(finding["turns"]),
            finding["message"],
            finding["advice"],
        )
        for session in document["sessions"]
        for finding in session["findings"]
    )
    return Table("findings", FINDINGS, tuple(rows))


def _detailed(document: Mapping[str, Any]) -> Iterator[tuple[Row, StoredSession]]:
    yield from zip(document["sessions"], document.get("details", ()), strict=False)


_MAKERS: Mapping[str, Callable[[Mapping[str, Any]], Table]] = {
    "sessions": _sessions,
    "compactions": _compactions,
    "turns": _turns,
    "offloads": _offloads,
    "findings": _findings,
}
TABLES = tuple(_MAKERS)


def frame(made: Table) -> Any:
    """Give a table as a pandas DataFrame; integers that may be missing are ``Int64``, so that none becomes a float."""
    import pandas

    kinds: dict[type, Any] = {int: "Int64", float: "Float64", str: "string", bool: "boolean"}
    columns = zip(*made.rows, strict=True) if made.rows else [()] * len(made.columns)
    return pandas.DataFrame(
        {
            column.name: pandas.array(list(values), dtype=kinds[column.type])
            for column, values in zip(made.columns, columns, strict=True)
        }
    )
