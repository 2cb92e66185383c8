"""compactctl: replay recorded agent sessions through context compactors.

The public face for library users. Everything is imported when it is first asked for, so that ``import compactctl``
costs next to nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

__version__ = "0.1.0"

_HOMES = {
    "Anchor": "model",
    "AnchorType": "model",
    "Base": "context.view",
    "CompactctlError": "errors",
    "CompactionRecord": "model",
    "Compactor": "ports",
    "CompactorSpec": "ports",
    "DshCompactor": "compactors.dsh",
    "ForceCompactor": "ports",
    "HistoryMode": "ports",
    "Kind": "context.view",
    "ListFace": "compactors._list_face",
    "MemoryOffloader": "context.offload",
    "Message": "model",
    "Meter": "ports",
    "OffloadEntry": "model",
    "Offloader": "ports",
    "Option": "ports",
    "Origin": "model",
    "Parts": "model",
    "Ports": "ports",
    "ProgressiveCompactor": "compactors.progressive",
    "RecordStore": "ports",
    "RecordedCompaction": "model",
    "RecordedCompactor": "ports",
    "Session": "model",
    "Step": "ports",
    "Summarizer": "ports",
    "SummarizerError": "errors",
    "SummaryReply": "ports",
    "SummaryRequest": "ports",
    "Tier": "model",
    "ToolCall": "model",
    "ToolResultPruner": "context.prune",
    "Trigger": "model",
    "Turn": "ports",
    "Usage": "model",
    "View": "context.view",
    "estimate_tokens": "meters.bytes4",
    "load": "transcripts",
    "merge_anchors": "context.anchors",
    "parse_anchors_and_summary": "context.anchors",
    "repair_orphaned_tool_pairs": "context.pairing",
    "replay": "replay",
}

__all__ = ["__version__", *sorted(_HOMES)]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"compactctl has no {name!r}")
    value = getattr(import_module(f"compactctl.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
