"""M7, instruction and anchor retention: is the task still there, are the rules, and are the anchors true?"""

from __future__ import annotations

from collections.abc import Mapping

from compactctl.measures._retention import (
    WORDS_KEPT,
    anchor_checks,
    anchored_records,
    constraint_rounds,
    user_retention,
)
from compactctl.measures._spec import Direction, Key, Measured, MeasureSpec, Trace

FIRST, LAST, USER_KEPT = "m7.first_user_kept", "m7.last_user_kept", "m7.user_tokens_kept"
CONSTRAINTS, WORST, CLIFF = "m7.constraints_kept", "m7.constraints_worst", "m7.cliff_round"
FILLED, EMPTY, GROUNDING, DRIFT, TOOL_ONLY, INTENT = (
    "m7.anchors_filled",
    "m7.empty_summaries",
    "m7.grounding",
    "m7.drift",
    "m7.tool_only_anchors",
    "m7.intent_grounding",
)
CLIFF_SHARE = 0.5


def cliff(rounds: list[float]) -> int | None:
    """Give the first compaction round, from 1, after which less than half of the constraints were left.

    >>> cliff([1.0, 0.6, 0.4, 0.5])
    3
    """
    return next((number for number, kept in enumerate(rounds, 1) if kept < CLIFF_SHARE), None)


def _compute(trace: Trace) -> Mapping[str, Measured]:
    return {**_instructions(trace), **_anchors(trace)}


def _instructions(trace: Trace) -> dict[str, Measured]:
    users = user_retention(trace)
    if users is None:
        none = Measured(None, "the session has no message of a user before its last call")
        return dict.fromkeys((FIRST, LAST, USER_KEPT, CONSTRAINTS, WORST, CLIFF), none)
    found = {
        FIRST: Measured(int(users.first)),
        LAST: Measured(int(users.last)),
        USER_KEPT: Measured(users.share) if users.share is not None else Measured(None, "the user wrote no text"),
    }
    rounds = constraint_rounds(trace)
    if rounds is None:
        none = Measured(None, "no sentence of the user says must, never, always, do not or only")
        return found | dict.fromkeys((CONSTRAINTS, WORST, CLIFF), none)
    if not rounds:
        none = Measured(None, "no compaction took messages away")
        return found | dict.fromkeys((CONSTRAINTS, WORST, CLIFF), none)
    shares = [share for _, share in rounds]
    fall = cliff(shares)
    return found | {
        CONSTRAINTS: Measured(shares[-1]),
        WORST: Measured(min(shares)),
        CLIFF: Measured(fall) if fall is not None else Measured(None, "at least half of the rules were always kept"),
    }


def _anchors(trace: Trace) -> dict[str, Measured]:
    records = anchored_records(trace)
    if not records:
        none = Measured(None, "no summary with anchors was written")
        return dict.fromkeys((FILLED, EMPTY, GROUNDING, DRIFT, TOOL_ONLY, INTENT), none)
    checks = anchor_checks(trace)
    unnamed = Measured(None, "the anchors name nothing")
    return {
        FILLED: Measured(checks[-1].filled),
        EMPTY: Measured(sum(1 for check in checks if check.empty)),
        GROUNDING: _mean([(check.grounded, check.named) for check in checks], unnamed),
        DRIFT: _mean(
            [(check.lost, check.before) for check in checks if check.before], Measured(None, "there is no earlier one")
        ),
        TOOL_ONLY: Measured(checks[-1].tool_only)
        if checks[-1].tool_only is not None
        else Measured(None, "the session is too long to look for every line"),
        INTENT: Measured(checks[-1].intent)
        if checks[-1].intent is not None
        else Measured(None, "the last summary states no intent"),
    }


def _mean(parts: list[tuple[int, int]], none: Measured) -> Measured:
    whole = sum(total for _, total in parts)
    return Measured(sum(part for part, _ in parts) / whole) if whole else none


MEASURE = MeasureSpec(
    "m7",
    "instruction and anchor retention",
    (
        Key(FIRST, "yes = 1", Direction.HIGHER, "the user's first message is verbatim in the last view"),
        Key(LAST, "yes = 1", Direction.HIGHER, "the user's last message is verbatim in the last view"),
        Key(
            USER_KEPT, "share", Direction.HIGHER, "real tokens of the user's messages that the last view holds verbatim"
        ),
        Key(
            CONSTRAINTS, "share", Direction.HIGHER, f"binding sentences kept, verbatim or {WORDS_KEPT:.0%} of the words"
        ),
        Key(WORST, "share", Direction.HIGHER, "the same after the worst compaction round"),
        Key(CLIFF, "round", Direction.HIGHER, "first compaction round that left under half of them"),
        Key(FILLED, "of 5", Direction.HIGHER, "anchors of the last summary that say something"),
        Key(EMPTY, "summaries", Direction.LOWER, "summaries whose reply filled no anchor at all"),
        Key(GROUNDING, "share", Direction.HIGHER, "names in anchors that occur in what was summarised"),
        Key(DRIFT, "share", Direction.LOWER, "names lost from one summary to the next"),
        Key(TOOL_ONLY, "lines", Direction.LOWER, "anchor lines of the last summary that only a tool result says"),
        Key(INTENT, "share", Direction.HIGHER, "words of the last User Intent that the user wrote"),
    ),
    _compute,
)
