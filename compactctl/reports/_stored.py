"""A session's document again, from the lines that the store holds of one run.

The end line of a run is the document without its compactions, and each compaction is a record: nothing is worked out
anew, so ``report`` cannot say another figure than ``replay`` said. Records of harness9 have no run, no turns and no
window; what they do not hold is None.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from compactctl.model import CompactionRecord, has_acted, is_summary_failure
from compactctl.reports._document import NOTHING_FOUND, by_tier_names, root_document
from compactctl.reports._timeline import MOST, Timeline

# What the store itself writes into an end line.
_STORES_OWN = frozenset({"event", "run", "seq", "status", "stored", "sha"})


@dataclass(frozen=True, slots=True)
class Offloaded:
    """A tool result that a run moved to a file, told once however often the turns after it offloaded it again."""

    path: str
    tool_call_id: str
    tool_name: str
    bytes: int
    lines: int
    turn: int | None


@dataclass(slots=True)
class RunLines:
    """What the store holds of one run: its first and last line, the turns between them and its records.

    ``id`` is empty for the records of harness9, which have no other lines.
    """

    id: str
    session_id: str
    start: Mapping[str, Any] = field(default_factory=dict)
    end: Mapping[str, Any] = field(default_factory=dict)
    turns: Sequence[Mapping[str, Any]] = ()
    records: Sequence[Mapping[str, Any]] = ()


@dataclass(slots=True)
class StoredSession:
    """One run of a session, ready for the reports.

    ``document`` is what ``replay --format json`` gave for it. ``settings`` are those of its start line. ``bad_records``
    counts rows of its record file that are no records.
    """

    document: dict[str, Any]
    settings: Mapping[str, Any]
    settings_hash: str | None
    tool_version: str | None
    timeline: Timeline
    offloads: tuple[Offloaded, ...]
    bad_records: int = 0


def stored_session(lines: RunLines, *, text: bool = True, points: int | None = MOST) -> StoredSession:
    """Make a session's document and what else the reports show of it.

    Without ``text``, summaries, anchors and file names are not kept; ``points`` is how many the timeline has at most,
    None for none at all: hundreds of sessions fit into memory.
    """
    compactions: list[dict[str, Any]] = []
    offloads: dict[str, Offloaded] = {}
    bad = 0
    for row in lines.records if lines.id else _normal(lines.records):
        if row is None:
            bad += 1
            continue
        compaction = compaction_of(row, text=text)
        # A turn above a threshold at which nothing was done has its record in the store, and is no compaction.
        if not (compaction["changed"] or compaction["error"] or compaction["notes"]):
            continue
        if not lines.id:
            compaction["turn"] = compaction["trigger"] = None
        for entry in row["offloaded"]:
            path = entry["file_path"]
            if path not in offloads:
                offloads[path] = _offloaded(entry, compaction["turn"])
        compactions.append(compaction)
    if lines.id:
        document = {key: value for key, value in lines.end.items() if key not in _STORES_OWN}
        document["compactions"] = compactions
        document["run"] = lines.id
        failures = (lines.end.get("stored") or {}).get("failures") or {}
        if any(count for name, count in failures.items() if name != "first"):
            document["store_failures"] = failures
    else:
        document = _recorded_by_harness9(lines, compactions, offloads.values())
    return StoredSession(
        document,
        {key: value for key, value in (lines.start.get("settings") or {}).items() if key != "window"},
        lines.start.get("settings_hash"),
        lines.start.get("tool_version"),
        Timeline() if points is None else Timeline.of(lines.turns, points),
        tuple(offloads.values()),
        bad,
    )


def report_document(found: Sequence[StoredSession]) -> dict[str, Any]:
    """Give the root object of a report: settings where all runs share them, the runs, and the sessions.

    ``details`` holds what only some outputs draw.
    """
    hashes = {stored.settings_hash for stored in found}
    shared = dict(found[0].settings) if len(hashes) == 1 else {}
    document = root_document("report", shared, [stored.document for stored in found])
    if len(hashes) > 1 or None in hashes:
        document["settings_hash"] = None
    runs = [
        {
            "session_id": stored.document["session_id"],
            "run": stored.document["run"],
            "settings_hash": stored.settings_hash,
            "tool_version": stored.tool_version,
        }
        for stored in found
    ]
    return document | {"runs": runs, "details": found}


def compaction_of(row: Mapping[str, Any], *, text: bool = True) -> dict[str, Any]:
    """Give what ``compaction_document`` gives for the record that this row of ours is, without making the record.

    Without ``text``, summary, anchors and file names are None.
    """
    offloaded, anchors = row["offloaded"], row["anchors"]
    return {
        "turn": row["turn"],
        "tier": row["tier"],
        "tier_name": row["tier_name"],
        "trigger": row["trigger"],
        "changed": has_acted(
            row["tokens_before"],
            row["tokens_after"],
            row["msgs_before"],
            row["msgs_after"],
            row["summarized"],
            len(offloaded),
        ),
        "tokens_before": row["tokens_before"],
        "tokens_after": row["tokens_after"],
        "reduction": 1.0 - row["compression_ratio"] if row["tokens_before"] else 0.0,
        "msgs_before": row["msgs_before"],
        "msgs_after": row["msgs_after"],
        "summarized": row["summarized"],
        "offloaded": len(offloaded),
        "offloaded_bytes": sum([entry["bytes"] for entry in offloaded]),
        "preserved_tail": row["preserved_tail"],
        "dropped": row["dropped"],
        "error": row.get("error", ""),
        "notes": row["notes"],
        "tokens_after_offload": row["tokens_after_offload"],
        "anchors_found": sum([anchor["content"] != NOTHING_FOUND for anchor in anchors]),
        "summary_text": row["summary_text"] if text else None,
        "anchors": [_anchor(anchor) for anchor in anchors] if text else None,
        "files": [entry["file_path"] for entry in offloaded] if text else None,
        "timestamp": row["timestamp"],
        "duration": row["duration"],
    }


def _normal(rows: Iterable[Mapping[str, Any]]) -> Iterator[dict[str, Any] | None]:
    """Give foreign rows as we write them, None for what is no record: lines of harness9 carry no hash of ours."""
    for row in rows:
        try:
            yield CompactionRecord.from_json(row).to_json()
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError):
            yield None


def _anchor(anchor: Mapping[str, Any]) -> dict[str, str]:
    return {"type": anchor["type"], "content": anchor["content"], "origin": anchor.get("origin", "")}


def _offloaded(entry: Mapping[str, Any], turn: int | None) -> Offloaded:
    path, call, tool = entry["file_path"], entry["tool_call_id"], entry["tool_name"]
    return Offloaded(path, call, tool, entry["bytes"], entry["lines"], turn)


def _recorded_by_harness9(
    lines: RunLines, compactions: Sequence[Mapping[str, Any]], offloads: Iterable[Offloaded]
) -> dict[str, Any]:
    """Give a document for records that harness9 wrote while it worked: all that they hold, and None for the rest."""
    files = list(offloads)
    document = dict.fromkeys(_HARNESS9_KEYS)
    document.update(
        session_id=lines.session_id,
        format="records",
        harness="harness9",
        recorded_compactions=[],
        warnings=[],
        compactor="harness9",
        compactions_by_tier=by_tier_names(row["tier_name"] for row in compactions if row["changed"]),
        offloaded_files=len(files),
        offloaded_bytes=sum(entry.bytes for entry in files),
        summarizer_calls=sum(1 for row in compactions if row["summarized"] and not row["error"]),
        summarizer_failures=sum(1 for row in compactions if is_summary_failure(row["error"])),
        measures={},
        findings=[],
        compactions=list(compactions),
        run="",
    )
    return document


# The keys of a replayed session, in their order.
_HARNESS9_KEYS: tuple[str, ...] = (
    *(
        "path",
        "format",
        "session_id",
        "model",
        "calls_by_model",
        "harness",
        "harness_version",
        "input_sha256",
        "messages",
    ),
    *("model_calls", "tool_calls", "tool_results", "recorded_compactions", "peak_prompt_tokens"),
    *("lines", "lines_used", "lines_recovered", "lines_ignored", "lines_skipped", "lines_blank"),
    *("ignored_by_kind", "skipped_by_reason", "skipped_lines", "warnings"),
    *("window", "window_source", "compactor", "history", "meter", "real_tokens_from"),
    *("turns", "failed_turns", "turns_by_tier", "compactions_by_tier"),
    *("peak_tokens", "peak_turn", "peak_occupancy", "real_peak_tokens", "real_peak_turn", "real_peak_occupancy"),
    *("tokens", "reduction", "offloaded_files", "offloaded_bytes", "offload_failures"),
    *("summarizer_calls", "summarizer_failures", "summary_input_tokens", "summary_output_tokens"),
    *("without_compaction", "measures", "findings", "compactions", "run"),
)
