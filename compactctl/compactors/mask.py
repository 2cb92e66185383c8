"""Observation masking: only the newest tool results keep their content."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from compactctl.compactors._clearing import Clearing
from compactctl.compactors._list_face import ListFace, record_of, unchanged
from compactctl.context.counting import Meter
from compactctl.context.view import View
from compactctl.meters.bytes4 import Bytes4
from compactctl.model import Session, Tier, Trigger
from compactctl.ports import CompactorSpec, HistoryMode, Option, Ports, Step


class MaskCompactor(ListFace):
    """Replaces the content of every tool result by a mark, but for the newest ``keep`` and those of protected tools.

    At every turn and whatever the size: what "The Complexity Trap" (arXiv 2508.21433) calls observation masking. The
    default of 10 is the one of that study as cited second-hand.
    """

    name = "mask"
    history = HistoryMode.WRITE_BACK

    def __init__(self, keep: int = 10, *, meter: Meter | None = None, protect: Collection[str] = ()) -> None:
        self.meter: Meter = meter or Bytes4()
        self._clearing = Clearing(keep, spared=protect)

    def step(self, view: View, trigger: Trigger) -> Step:
        """Mask what is not among the newest results any more."""
        after = self._clearing.apply(view)
        if after is view:
            return unchanged(view, compactor=self.name, trigger=trigger)
        record = record_of(view, after, tier=Tier.WARN, compactor=self.name, trigger=trigger, preserved_tail=len(view))
        return Step(after, record, True)


def _make(options: Mapping[str, Any], session: Session | None, ports: Ports) -> MaskCompactor:
    return MaskCompactor(options["keep"], meter=ports.meter, protect=ports.protect)


COMPACTOR = CompactorSpec(
    "mask",
    "old tool results masked at every turn, the newest kept",
    _make,
    (Option("keep", 10, "newest tool results that keep their content", int, "tail", 0),),
    models="observation masking (arXiv 2508.21433)",
)
