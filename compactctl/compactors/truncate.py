"""Plain truncation: the floor of what a model could see at a given size."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from compactctl.compactors._list_face import ListFace, record_of, unchanged
from compactctl.context.counting import Meter, MeterContext
from compactctl.context.cuts import balanced_cut, balanced_cut_after
from compactctl.context.view import View
from compactctl.context.weights import weight_reaching
from compactctl.meters.bytes4 import Bytes4
from compactctl.model import Note, Session, Tier, Trigger
from compactctl.ports import CompactorSpec, HistoryMode, Option, Ports, Quiet, Step


class TruncateCompactor(ListFace):
    """Keeps the system message and the newest messages that fit ``max_tokens``; everything older is gone.

    No tool call is torn from its result: the cut moves towards the newest. The newest call and its results stay even
    where they do not fit, since a request of the system message alone is none.
    """

    name = "truncate"
    history = HistoryMode.WRITE_BACK

    def __init__(self, max_tokens: int, *, meter: Meter | None = None) -> None:
        self.max_tokens = max_tokens
        self.meter: Meter = meter or Bytes4()

    def step(self, view: View, trigger: Trigger) -> Step:
        """Drop the oldest messages until the view fits."""
        if self.max_tokens <= 0 or view.tokens <= self.max_tokens:
            step = unchanged(view, compactor=self.name, trigger=trigger)
            return Step(view, step.record, quiet=self._promise())
        start = 1 if view.has_system else 0
        cut = balanced_cut_after(view, self._fitting(view, start))
        notes: tuple[str, ...] = ()
        if cut is None:
            cut = balanced_cut(view, start, len(view) - 1)
            notes = (Note.TAIL_TOO_LARGE,)
        after = view.replaced(start, cut, ()) if cut > start else view
        record = record_of(
            view,
            after,
            tier=Tier.EMERGENCY,
            compactor=self.name,
            trigger=trigger,
            preserved_tail=len(after) - start,
            notes=notes,
        )
        return Step(after, record, after is not view, self._promise() if after.tokens <= self.max_tokens else None)

    def _fitting(self, view: View, start: int) -> int:
        """Give the position from which on everything fits."""
        fixed = view.weight_between(0, start)
        context = MeterContext(view.turn, False)
        low, high = start, len(view) - 1
        while low < high:
            middle = (low + high) // 2
            if self.meter.tokens(fixed + view.weight_between(middle, len(view)), context) <= self.max_tokens:
                high = middle
            else:
                low = middle + 1
        return low

    def _promise(self) -> Quiet | None:
        if self.max_tokens <= 0:
            return Quiet()
        return Quiet(weight=weight_reaching(self.meter, self.max_tokens + 1)) if self.meter.steady else None


def _make(options: Mapping[str, Any], session: Session | None, ports: Ports) -> TruncateCompactor:
    return TruncateCompactor(int(ports.context_window * options["share"]), meter=ports.meter)


COMPACTOR = CompactorSpec(
    "truncate",
    "the newest messages that fit: the lower bound of recall",
    _make,
    (Option("share", 0.8, "share of the window that the view may fill", float, "full", 0, 1),),
)
