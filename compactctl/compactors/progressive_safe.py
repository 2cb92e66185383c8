"""The seed document's tiers with every safer choice made (DESIGN.md, Compactors)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from compactctl.compactors._tier_policy import policy_of, safer_options, thresholds_in_order, tier_options
from compactctl.compactors._tiers import TieredCompactor, from_ports
from compactctl.model import Session
from compactctl.ports import CompactorSpec, HistoryMode, Ports


class SafeCompactor(TieredCompactor):
    """The tiered compactor that tears no tool call from its result and writes every view back that helped.

    No system follows these rules; it is what the seed's design could be without its known faults.
    """

    name = "progressive-safe"
    history = HistoryMode.WRITE_BACK


def _make(options: Mapping[str, Any], session: Session | None, ports: Ports) -> SafeCompactor:
    policy = policy_of(options, write_back_emergency=True)
    return SafeCompactor(policy=policy, **from_ports(session, ports))


COMPACTOR = CompactorSpec(
    "progressive-safe",
    "the four tiers with balanced cuts, re-measuring, a target, and an Emergency that keeps task and anchors",
    _make,
    tier_options() + safer_options(on=True),
    thresholds_in_order,
    models="nobody's harness: the seed's design with its safer options on",
    history=HistoryMode.WRITE_BACK,
    uses_summarizer=True,
)
