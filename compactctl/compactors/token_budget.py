"""harness9's TokenBudgetCompactor: the oldest and the newest messages, the middle dropped (harness9.md 1.7)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from compactctl.compactors._list_face import ListFace, record_of, unchanged
from compactctl.context.budget import DEFAULT_MAX_TOKENS, DEFAULT_MIN_TAIL, last_message_only, truncated
from compactctl.context.counting import Meter
from compactctl.context.view import View
from compactctl.context.weights import weight_reaching
from compactctl.meters.bytes4 import Bytes4
from compactctl.model import Session, Tier, Trigger
from compactctl.ports import CompactorSpec, HistoryMode, Option, Ports, Quiet, Step


class TokenBudgetCompactor(ListFace):
    """Keeps the system message, as many of the oldest messages as fit ``max_tokens``, and a tail that always stays.

    0 or less means 160,000. What was said last before the tail goes first, as in harness9, whose comments say the
    opposite. The user's /compact keeps the system message and the last one only.
    """

    name = "token-budget"
    history = HistoryMode.VIEW

    def __init__(
        self, max_tokens: int = DEFAULT_MAX_TOKENS, min_tail: int = DEFAULT_MIN_TAIL, *, meter: Meter | None = None
    ) -> None:
        self.max_tokens = max_tokens if max_tokens > 0 else DEFAULT_MAX_TOKENS
        self.min_tail = min_tail
        self.meter: Meter = meter or Bytes4()

    def step(self, view: View, trigger: Trigger) -> Step:
        """Drop the middle where the view is over the budget."""
        forced = trigger is Trigger.MANUAL
        after = last_message_only(view) if forced else truncated(view, self.max_tokens, self.min_tail)
        if after is view:
            step = unchanged(view, compactor=self.name, trigger=trigger)
            return Step(view, step.record, quiet=None if forced else self._promise(view))
        record = record_of(
            view,
            after,
            tier=Tier.EMERGENCY,
            compactor=self.name,
            trigger=trigger,
            preserved_tail=1 if forced else self.min_tail,
        )
        return Step(after, record, True)

    def _promise(self, view: View) -> Quiet | None:
        if not self.meter.steady or view.tokens > self.max_tokens:
            return None
        return Quiet(weight=weight_reaching(self.meter, self.max_tokens + 1))


def _make(options: Mapping[str, Any], session: Session | None, ports: Ports) -> TokenBudgetCompactor:
    budget = options["max_tokens"] or ports.context_window * 80 // 100
    return TokenBudgetCompactor(budget, options["min_tail_messages"], meter=ports.meter)


COMPACTOR = CompactorSpec(
    "token-budget",
    "as many of the oldest messages as fit a budget, and the tail",
    _make,
    (
        Option("max_tokens", 0, "the budget in tokens, 0 for 80 % of the window", int, "", 0),
        Option("min_tail_messages", DEFAULT_MIN_TAIL, "newest messages that are always kept", int, "tail", 1),
    ),
    models="harness9's TokenBudgetCompactor",
    history=HistoryMode.VIEW,
)
