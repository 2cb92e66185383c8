"""compactctl: replay recorded agent sessions through context compactors.

The public face for library users. Everything is imported when it is first asked for, so that ``import compactctl``
costs next to nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from compactctl.compactors._list_face import ListFace as ListFace
    from compactctl.compactors.dsh import DshCompactor as DshCompactor
    from compactctl.compactors.progressive import ProgressiveCompactor as ProgressiveCompactor
    from compactctl.context.anchors import (
        merge_anchors as merge_anchors,
        parse_anchors_and_summary as parse_anchors_and_summary,
    )
    from compactctl.context.base import Base as Base, Kind as Kind
    from compactctl.context.offload import MemoryOffloader as MemoryOffloader
    from compactctl.context.pairing import repair_orphaned_tool_pairs as repair_orphaned_tool_pairs
    from compactctl.context.prune import ToolResultPruner as ToolResultPruner
    from compactctl.context.view import View as View
    from compactctl.errors import CompactctlError as CompactctlError, SummarizerError as SummarizerError
    from compactctl.meters.bytes4 import estimate_tokens as estimate_tokens
    from compactctl.model import (
        Anchor as Anchor,
        AnchorType as AnchorType,
        CompactionRecord as CompactionRecord,
        Message as Message,
        OffloadEntry as OffloadEntry,
        Origin as Origin,
        Parts as Parts,
        RecordedCompaction as RecordedCompaction,
        Session as Session,
        Tier as Tier,
        ToolCall as ToolCall,
        Trigger as Trigger,
        Usage as Usage,
    )
    from compactctl.ports import (
        Compactor as Compactor,
        CompactorSpec as CompactorSpec,
        ForceCompactor as ForceCompactor,
        HistoryMode as HistoryMode,
        Meter as Meter,
        Offloader as Offloader,
        Option as Option,
        Ports as Ports,
        RecordedCompactor as RecordedCompactor,
        RecordStore as RecordStore,
        Step as Step,
        Summarizer as Summarizer,
        SummaryReply as SummaryReply,
        SummaryRequest as SummaryRequest,
        Turn as Turn,
    )
    from compactctl.replay import replay as replay
    from compactctl.transcripts import load as load

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
    "report_frame": "cli._frame",
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
