"""harness9 as it is today: compactions are written back, Emergency keeps the task (harness9.md 1.7, 1.12)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from compactctl.compactors._tier_policy import policy_of, thresholds_in_order, tier_options
from compactctl.compactors._tiers import TieredCompactor, from_ports
from compactctl.context.offload import DEFAULT_THRESHOLD
from compactctl.model import Session
from compactctl.ports import CompactorSpec, HistoryMode, Ports


class Harness9Compactor(TieredCompactor):
    """The tiered compactor with what harness9 changed after its issue 117.

    Every view without an error, and Emergency's, becomes the history; Emergency keeps the first task message and then
    as many of the newest messages as fit 80 % of the window; the user's /compact is not forced.
    """

    name = "harness9"
    history = HistoryMode.WRITE_BACK


def _make(options: Mapping[str, Any], session: Session | None, ports: Ports) -> Harness9Compactor:
    # Its offloader has a gate of its own, so that the option can be raised but not lowered (harness9.md 1.8).
    gated = {**options, "offload_threshold": max(options["offload_threshold"], DEFAULT_THRESHOLD)}
    policy = policy_of(gated, write_back_emergency=True, emergency_keeps_task=True, manual_is_forced=False)
    return Harness9Compactor(policy=policy, **from_ports(session, ports))


COMPACTOR = CompactorSpec(
    "harness9",
    "harness9 today: the four tiers, written back, an Emergency that keeps the task",
    _make,
    tier_options(),
    thresholds_in_order,
    models="harness9 of September 2026 (after its issue 117)",
    history=HistoryMode.WRITE_BACK,
    uses_summarizer=True,
)
