"""The seed document's ProgressiveCompactor: four tiers, offload, anchors, records."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from compactctl.compactors._fallback import Fallback
from compactctl.compactors._tier_policy import TierPolicy, safer_options, thresholds_in_order, tier_options
from compactctl.compactors._tiers import TieredCompactor, from_ports
from compactctl.context.counting import Meter
from compactctl.context.offload import DEFAULT_THRESHOLD
from compactctl.model import Session
from compactctl.ports import (
    Clock,
    Compactor,
    CompactorSpec,
    ForceCompactor,
    HistoryMode,
    MemoryExtractor,
    Offloader,
    Ports,
    RecordStore,
    Summarizer,
    TodoInjector,
)


class ProgressiveCompactor(TieredCompactor):
    """Compacts harder the fuller the window is (seed section 2); all its failures are open (section 6).

    ``context_window`` is in tokens, thresholds are shares of it and inclusive, ``offload_threshold`` is in bytes. A
    window of 0 never compacts; ``min_tail_messages`` of 0 means 6. From ``balanced_cuts`` on the options are not the
    seed's: each is off by default, ``safer_options`` says what it does.
    """

    name = "progressive"

    def __init__(
        self,
        summarizer: Summarizer | None,
        context_window: int,
        *,
        warn_threshold: float = 0.60,
        soft_threshold: float = 0.70,
        full_threshold: float = 0.80,
        emergency_threshold: float = 0.95,
        offload_threshold: int = DEFAULT_THRESHOLD,
        min_tail_messages: int = 6,
        offloader: Offloader | None = None,
        session_id: str = "",
        memory_extractor: MemoryExtractor | None = None,
        todo_injector: TodoInjector | None = None,
        record_store: RecordStore | None = None,
        fallback: Fallback | Compactor | ForceCompactor | None = None,
        meter: Meter | None = None,
        clock: Clock | None = None,
        summary_tokens: int = 2000,
        protect: Collection[str] = (),
        balanced_cuts: bool = False,
        remeasure_after_offload: bool = False,
        preview_bytes: int = 0,
        target: float = 0.0,
        emergency_keeps_task: bool = False,
        emergency_keeps_anchors: bool = False,
        file_index: bool = False,
        refuse_poor_replies: bool = False,
    ) -> None:
        policy = TierPolicy(
            warn_threshold,
            soft_threshold,
            full_threshold,
            emergency_threshold,
            offload_threshold,
            min_tail_messages,
            emergency_keeps_task=emergency_keeps_task,
            emergency_keeps_anchors=emergency_keeps_anchors,
            balanced_cuts=balanced_cuts,
            remeasure_after_offload=remeasure_after_offload,
            preview_bytes=preview_bytes,
            target=target,
            file_index=file_index,
            refuse_poor_replies=refuse_poor_replies,
        )
        super().__init__(
            summarizer,
            context_window,
            policy,
            meter=meter,
            offloader=offloader,
            session_id=session_id,
            memory_extractor=memory_extractor,
            todo_injector=todo_injector,
            record_store=record_store,
            fallback=fallback,
            clock=clock,
            summary_tokens=summary_tokens,
            protect=protect,
        )


def _make(options: Mapping[str, Any], session: Session | None, ports: Ports) -> ProgressiveCompactor:
    return ProgressiveCompactor(**from_ports(session, ports), **options)


COMPACTOR = CompactorSpec(
    "progressive",
    "the seed document's four tiers: offload, summarise half, summarise all, truncate",
    _make,
    tier_options() + safer_options(),
    thresholds_in_order,
    models="harness9's ProgressiveCompactor as its document describes it",
    history=HistoryMode.VIEW,
    uses_summarizer=True,
)
