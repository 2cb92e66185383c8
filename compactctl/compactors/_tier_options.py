"""The options that all tiered compactors have, and what is impossible among them."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from typing import Any

from compactctl.context.offload import DEFAULT_THRESHOLD
from compactctl.ports import Option


def tier_options() -> tuple[Option, ...]:
    """Give the options of the seed's table in section 2.2."""
    return (
        Option("warn_threshold", 0.60, "share of the window at which large results are offloaded", float, "warn", 0),
        Option("soft_threshold", 0.70, "share at which the older half of the head is summarised", float, "soft", 0),
        Option("full_threshold", 0.80, "share at which the whole head is summarised", float, "full", 0),
        Option("emergency_threshold", 0.95, "share at which the view is truncated", float, "emergency", 0),
        Option("offload_threshold", DEFAULT_THRESHOLD, "results longer than this many bytes go", int, "offload", 0),
        Option("min_tail_messages", 6, "newest messages that are always kept", int, "tail", 1),
    )


def thresholds_in_order(options: Mapping[str, Any]) -> Iterable[str]:
    """Say what is impossible: a threshold below the one before it."""
    names = ("warn_threshold", "soft_threshold", "full_threshold", "emergency_threshold")
    for lower, higher in itertools.pairwise(names):
        if options[lower] > options[higher]:
            yield f"{lower} {options[lower]:g} is above {higher} {options[higher]:g}; they must not fall"
