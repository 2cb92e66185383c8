"""What the tiered compactors can be told: their numbers, their choices, and the options that set them."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from compactctl.context.budget import DEFAULT_MIN_TAIL
from compactctl.context.offload import DEFAULT_THRESHOLD
from compactctl.ports import Option


@dataclass(frozen=True, slots=True)
class TierPolicy:
    """The numbers and choices of a tiered compactor. Thresholds are shares of the window, ``offload`` is in bytes."""

    warn: float = 0.60
    soft: float = 0.70
    full: float = 0.80
    emergency: float = 0.95
    offload: int = DEFAULT_THRESHOLD
    min_tail: int = DEFAULT_MIN_TAIL
    # Whether an Emergency's view may become the history, and whether it keeps the first task message.
    write_back_emergency: bool = False
    emergency_keeps_task: bool = False
    # Whether the user's /compact goes straight to Emergency (the seed) or only looks at the tier (harness9 today).
    manual_is_forced: bool = True
    # The safer choices (DESIGN.md, Compactors): the seed makes none of them.
    emergency_keeps_anchors: bool = False
    balanced_cuts: bool = False
    remeasure_after_offload: bool = False
    preview_bytes: int = 0
    target: float = 0.0
    file_index: bool = False
    refuse_poor_replies: bool = False


def tier_options() -> tuple[Option, ...]:
    """Give the options of the seed's table in section 2.2."""
    return (
        Option("warn_threshold", 0.60, "share of the window at which large results are offloaded", float, "warn", 0),
        Option("soft_threshold", 0.70, "share at which the older half of the head is summarised", float, "soft", 0),
        Option("full_threshold", 0.80, "share at which the whole head is summarised", float, "full", 0),
        Option("emergency_threshold", 0.95, "share at which the view is truncated", float, "emergency", 0),
        Option("offload_threshold", DEFAULT_THRESHOLD, "results longer than this many bytes go", int, "offload", 0),
        Option("min_tail_messages", DEFAULT_MIN_TAIL, "newest messages that are always kept", int, "tail", 1),
    )


def safer_options(on: bool = False) -> tuple[Option, ...]:
    """Give the options that the seed does not have; ``on`` gives them the defaults of ``progressive-safe``."""
    return (
        Option("balanced_cuts", on, "cut only where no tool call is torn from its result", bool),
        Option("remeasure_after_offload", on, "summarise or truncate only what offloading did not solve", bool),
        Option("preview_bytes", 1000 if on else 0, "most bytes of a preview, 0 for no bound", int, "", 0),
        Option("target", 0.5 if on else 0.0, "share to come down to once a summary is made, 0 for none", float, "", 0),
        Option("emergency_keeps_task", on, "an Emergency keeps the first task and the newest that fit", bool),
        Option("emergency_keeps_anchors", on, "an Emergency keeps the anchors known so far", bool),
        Option("file_index", on, "a compaction message lists all files offloaded so far", bool),
        Option("refuse_poor_replies", on, "refuse summaries that are empty or make nothing smaller", bool),
    )


def policy_of(options: Mapping[str, Any], **fixed: bool) -> TierPolicy:
    """Make the policy out of the options of a plug-in and what it has fixed."""
    numbers = (
        options["warn_threshold"],
        options["soft_threshold"],
        options["full_threshold"],
        options["emergency_threshold"],
        options["offload_threshold"],
        options["min_tail_messages"],
    )
    safer = {option.name: options[option.name] for option in safer_options() if option.name in options}
    return TierPolicy(*numbers, **{**safer, **fixed})


def thresholds_in_order(options: Mapping[str, Any]) -> Iterable[str]:
    """Say what is impossible: a threshold below the one before it, or a target that is none."""
    names = ("warn_threshold", "soft_threshold", "full_threshold", "emergency_threshold")
    for lower, higher in itertools.pairwise(names):
        if options[lower] > options[higher]:
            yield (
                f"{lower} {options[lower]:g} is above {higher} {options[higher]:g}; the order is warn <= soft <= full "
                "<= emergency"
            )
    target = options.get("target", 0)
    if target and target >= options["soft_threshold"]:
        yield f"target {target:g} must be below soft_threshold {options['soft_threshold']:g} (0 for no target)"
