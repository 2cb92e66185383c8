"""harness9's SlidingWindowCompactor: the newest messages, counted (harness9.md 1.7)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from compactctl.compactors._list_face import ListFace, record_of, unchanged
from compactctl.context.counting import Meter
from compactctl.context.view import View
from compactctl.meters.bytes4 import Bytes4
from compactctl.model import Session, Tier, Trigger
from compactctl.ports import CompactorSpec, HistoryMode, Option, Ports, Quiet, Step

DEFAULT_MAX_MESSAGES = 100


class SlidingWindowCompactor(ListFace):
    """Keeps the system message and the newest messages up to ``max_messages`` in all; 0 means 100, 1 means 2.

    The window is widened so that it does not begin with a tool result. A view without a system message stays as it is.
    """

    name = "sliding-window"
    history = HistoryMode.VIEW

    def __init__(self, max_messages: int = DEFAULT_MAX_MESSAGES, *, meter: Meter | None = None) -> None:
        self.max_messages = max(max_messages, 2) if max_messages > 0 else DEFAULT_MAX_MESSAGES
        self.meter: Meter = meter or Bytes4()

    def step(self, view: View, trigger: Trigger) -> Step:
        """Keep the newest messages."""
        if len(view) <= self.max_messages or not view.has_system:
            step = unchanged(view, compactor=self.name, trigger=trigger)
            return Step(view, step.record, quiet=Quiet(messages=self.max_messages + 1) if view.has_system else Quiet())
        start = len(view) - self.max_messages + 1
        while start > 1 and view.message(start).tool_call_id:
            start -= 1
        after = view.replaced(1, start, ()).repaired() if start > 1 else view.repaired()
        record = record_of(
            view,
            after,
            tier=Tier.EMERGENCY if after is not view else Tier.NONE,
            compactor=self.name,
            trigger=trigger,
            preserved_tail=len(after) - 1,
        )
        return Step(after, record, after is not view)


def _make(options: Mapping[str, Any], session: Session | None, ports: Ports) -> SlidingWindowCompactor:
    return SlidingWindowCompactor(options["max_messages"], meter=ports.meter)


COMPACTOR = CompactorSpec(
    "sliding-window",
    "the system message and the newest messages, counted",
    _make,
    (Option("max_messages", DEFAULT_MAX_MESSAGES, "messages in all, 0 for 100", int, "", 0),),
    models="harness9's SlidingWindowCompactor",
    history=HistoryMode.VIEW,
)
