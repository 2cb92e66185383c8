"""No compaction at all: the ceiling of what a model could see, and what that costs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from compactctl.compactors._list_face import ListFace, record_of
from compactctl.context.counting import Meter
from compactctl.context.view import View
from compactctl.meters.bytes4 import Bytes4
from compactctl.model import Session, Tier, Trigger
from compactctl.ports import CompactorSpec, Ports, Quiet, Step


class NoCompactor(ListFace):
    """Sends the whole history at every turn."""

    name = "none"

    def __init__(self, meter: Meter | None = None) -> None:
        self.meter: Meter = meter or Bytes4()

    def step(self, view: View, trigger: Trigger) -> Step:
        """Give the view as it is."""
        record = record_of(view, view, tier=Tier.NONE, compactor=self.name, trigger=trigger)
        return Step(view, record, quiet=Quiet())


def _make(options: Mapping[str, Any], session: Session | None, ports: Ports) -> NoCompactor:
    return NoCompactor(ports.meter)


COMPACTOR = CompactorSpec("none", "no compaction: all that a model could see, and what that costs", _make)
