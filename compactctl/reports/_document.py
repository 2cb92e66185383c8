"""The JSON objects that all outputs are made of: one a session, and the root around them.

``replay`` makes them from an Outcome and puts the same object into the store, so that ``report`` shows the same
figures without the transcript.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import compactctl
from compactctl.model import CompactionRecord, Tier
from compactctl.runs import Outcome, settings_hash
from compactctl.tally import LEAPT, Tally

SCHEMA_VERSION = 1
# What a summary writes under an anchor's heading where it has nothing to say.
NOTHING_FOUND = "N/A"
# What of a compaction is transcript text.
_NO_TEXT = {"summary_text": None, "anchors": None, "files": None}


def root_document(
    command: str, settings: Mapping[str, Any], sessions: Sequence[Mapping[str, Any]], **more: Any
) -> dict[str, Any]:
    """Give the root object of an output: versions, settings and their hash, and the sessions in input order."""
    return {
        "schema_version": SCHEMA_VERSION,
        "tool_version": compactctl.__version__,
        "command": command,
        "settings": dict(settings),
        "settings_hash": settings_hash(settings),
        **more,
        "sessions": list(sessions),
    }


def session_document(outcome: Outcome, head: Mapping[str, Any]) -> dict[str, Any]:
    """Give what one replay said about one session; ``head`` is what ``inspect`` says of it.

    Tokens are decision tokens unless the key says ``real``. Occupancies and reductions are shares.
    """
    tally, window = outcome.tally, outcome.window
    return {
        **head,
        "window": window.tokens,
        "window_source": window.source,
        "compactor": outcome.setup.spec.name,
        "history": str(outcome.setup.mode),
        "meter": outcome.setup.meter or outcome.setup.spec.meter,
        "real_tokens_from": outcome.real_source,
        **_figures(tally, window.tokens),
        "reduction": outcome.reduction,
        "offloaded_files": len(tally.offloaded),
        "offloaded_bytes": sum(entry.bytes for entry in tally.offloaded.values()),
        "offload_failures": tally.offload_failures,
        "summarizer_calls": tally.summarizer_calls,
        "summarizer_failures": tally.summarizer_failures,
        "summary_input_tokens": tally.summary_input_tokens,
        "summary_output_tokens": tally.summary_output_tokens,
        "occupancy": {
            "first_turn": [point.first for point in outcome.occupancy],
            "simulated_real_tokens": [point.simulated for point in outcome.occupancy],
            "recorded_prompt_tokens": [point.recorded for point in outcome.occupancy],
        },
        "without_compaction": _figures(outcome.bound, window.tokens),
        "measures": {
            key: {"value": measured.value, **({"reason": measured.reason} if measured.value is None else {})}
            for key, measured in outcome.measures.items()
        },
        "findings": [finding_document(finding) for finding in outcome.findings],
        "compactions": [compaction_document(record) for record in tally.compactions],
        **({"leapt": dict(zip(LEAPT, tally.leapt, strict=True))} if any(tally.leapt) else {}),
    }


def finding_document(finding: Any) -> dict[str, Any]:
    """Give a finding as the JSON object that outputs hold."""
    return {
        "id": finding.id,
        "severity": str(finding.severity),
        "turns": list(finding.turns),
        "figures": dict(finding.figures),
        "message": finding.message,
        "advice": finding.advice,
    }


def compaction_document(record: CompactionRecord) -> dict[str, Any]:
    """Give one compaction with its texts; ``without_text`` takes them out for files that are shared.

    Where ``changed`` is false the compactor left the view as it was, and ``error`` or ``notes`` say why.
    """
    return {
        "turn": record.turn,
        "tier": int(record.tier),
        "tier_name": record.tier_name,
        "trigger": str(record.trigger),
        "changed": record.acted,
        "tokens_before": record.tokens_before,
        "tokens_after": record.tokens_after,
        "reduction": record.reduction,
        "msgs_before": record.msgs_before,
        "msgs_after": record.msgs_after,
        "summarized": record.summarized,
        "offloaded": len(record.offloaded),
        "offloaded_bytes": sum(entry.bytes for entry in record.offloaded),
        "preserved_tail": record.preserved_tail,
        "dropped": record.dropped,
        "error": record.error,
        "notes": list(record.notes),
        "tokens_after_offload": record.tokens_after_offload,
        "anchors_found": sum(anchor.content != NOTHING_FOUND for anchor in record.anchors),
        "summary_text": record.summary_text,
        "anchors": [{"type": str(a.type), "content": a.content, "origin": a.origin} for a in record.anchors],
        "files": [entry.file_path for entry in record.offloaded],
        "timestamp": record.timestamp,
        "duration": record.duration,
    }


def without_text(session: Mapping[str, Any]) -> dict[str, Any]:
    """Give a session's object without transcript text and without the path of a home directory."""
    out = dict(session)
    if session.get("path") is not None:
        out["path"] = short_path(str(session["path"]))
    out["text_omitted"] = True
    if "compactions" in session:
        out["compactions"] = [
            row if row["summary_text"] is row["anchors"] is row["files"] is None else {**row, **_NO_TEXT}
            for row in session["compactions"]
        ]
    return out


def short_path(path: str) -> str:
    """Give a path with the user's home directory as ``~``."""
    home = os.path.expanduser("~")  # noqa: PTH111 - Path would fail where the home directory is unknown
    return "~" + path[len(home) :] if home not in ("", "/", "~") and path.startswith(home + os.sep) else path


def _figures(tally: Tally, window: int) -> dict[str, Any]:
    return {
        "turns": tally.turns,
        "failed_turns": tally.failed_turns,
        "turns_by_tier": {tier.name.lower(): tally.turns_by_tier[tier] for tier in Tier},
        "compactions_by_tier": {
            tier.name.lower(): tally.compactions_by_tier[tier] for tier in Tier if tier is not Tier.NONE
        },
        "peak_tokens": tally.peak.tokens,
        "peak_turn": tally.peak.turn,
        "peak_occupancy": tally.peak.occupancy(window),
        "real_peak_tokens": tally.real_peak.tokens,
        "real_peak_turn": tally.real_peak.turn,
        "real_peak_occupancy": tally.real_peak.occupancy(window),
        "tokens": tally.tokens_sent,
    }


def by_tier_names(names: Iterable[str]) -> dict[str, int]:
    """Count names of tiers, every tier but None named."""
    counts = {tier.name.lower(): 0 for tier in Tier if tier is not Tier.NONE}
    for name in names:
        if name.lower() in counts:
            counts[name.lower()] += 1
    return counts
