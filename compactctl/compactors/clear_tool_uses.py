"""The Anthropic API's context editing, clear_tool_uses_20250919: old tool results cleared on the server."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from compactctl.compactors._clearing import Clearing
from compactctl.compactors._list_face import ListFace, record_of, unchanged
from compactctl.context.counting import Meter, MeterContext
from compactctl.context.view import View
from compactctl.meters.bytes4 import Bytes4
from compactctl.model import Session, Tier, Trigger
from compactctl.ports import CompactorSpec, HistoryMode, Option, Ports, Step


class ClearToolUsesCompactor(ListFace):
    """Clears all tool results but the newest ``keep`` once the prompt has more than ``trigger`` tokens.

    Nothing is cleared where less than ``clear_at_least`` tokens would be freed, since every clearing costs the prompt
    cache. The client keeps its whole history and each request is edited afresh, hence the history mode. The inputs of
    calls stay, as by default. ``exclude_tools`` and protected tools are never cleared.
    """

    name = "clear-tool-uses"
    history = HistoryMode.VIEW

    def __init__(
        self,
        trigger: int = 100_000,
        keep: int = 3,
        *,
        clear_at_least: int = 0,
        exclude_tools: Collection[str] = (),
        meter: Meter | None = None,
        protect: Collection[str] = (),
    ) -> None:
        self.trigger = trigger
        self.clear_at_least = clear_at_least
        self._clearing = Clearing(keep, spared={*exclude_tools, *protect})
        self.meter: Meter = meter or Bytes4()

    def step(self, view: View, trigger: Trigger) -> Step:
        """Clear where the prompt is above the trigger."""
        if view.tokens <= self.trigger and trigger is Trigger.PRESSURE:
            return unchanged(view, compactor=self.name, trigger=trigger)
        after = self._clearing.apply(view)
        if after is view or not self._is_worth_it(view, after):
            return unchanged(view, compactor=self.name, trigger=trigger)
        record = record_of(view, after, tier=Tier.WARN, compactor=self.name, trigger=trigger, preserved_tail=len(view))
        return Step(after, record, True)

    def _is_worth_it(self, view: View, after: View) -> bool:
        """Whether enough is freed. Two totals of one kind are compared: some meters add what no message holds."""
        if self.clear_at_least <= 0:
            return True
        context = MeterContext(view.turn, False)
        freed = self.meter.tokens(view.weight, context) - self.meter.tokens(after.weight, context)
        return freed >= self.clear_at_least


def _make(options: Mapping[str, Any], session: Session | None, ports: Ports) -> ClearToolUsesCompactor:
    return ClearToolUsesCompactor(
        options["trigger"],
        options["keep"],
        clear_at_least=options["clear_at_least"],
        exclude_tools=[name.strip() for name in options["exclude_tools"].split(",") if name.strip()],
        meter=ports.meter,
        protect=ports.protect,
    )


COMPACTOR = CompactorSpec(
    "clear-tool-uses",
    "old tool results cleared above a number of tokens, as the Anthropic API does it",
    _make,
    (
        Option("trigger", 100_000, "prompts with more tokens than this are edited", int, "full", 0),
        Option("keep", 3, "newest tool results that keep their content", int, "tail", 0),
        Option("clear_at_least", 0, "least tokens that an edit must free, 0 for any", int, "", 0),
        Option("exclude_tools", "", "tools that are never cleared, separated by commas", str),
    ),
    models="the Anthropic API's clear_tool_uses_20250919, from its documentation",
    meter="usage",
    history=HistoryMode.VIEW,
)
