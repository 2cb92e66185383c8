"""Which session a finding is told of, and the lines over turns."""

from __future__ import annotations

from typing import Any

import pytest

from compactctl.findings import FINDINGS
from compactctl.reports._notices import notices
from compactctl.reports._overview import finding_badness, finding_groups, worst_first
from compactctl.reports._timeline import sparkline
from compactctl.reports._words import scale_of


def session(name: str, *findings: dict[str, Any], failed: int = 0) -> dict[str, Any]:
    """Make what is needed of a session."""
    return {
        "session_id": name,
        "findings": list(findings),
        "turns_by_tier": {"emergency": 0},
        "failed_turns": failed,
        "real_peak_occupancy": 0.5,
    }


def finding(kind: str, **figures: float | str) -> dict[str, Any]:
    """Make a finding of a kind."""
    severity = str(FINDINGS[kind].severity)
    return {"id": kind, "severity": severity, "figures": figures, "turns": [], "message": "", "advice": ""}


@pytest.mark.parametrize(
    ("kind", "mild", "bad"),
    [
        ("estimate-off", {"estimate_ratio": 1.17}, {"estimate_ratio": 4.86}),
        ("estimate-off", {"estimate_ratio": 2.0}, {"estimate_ratio": 0.25}),
        ("summary-every-turn", {"calls": 21, "longest_run": 21}, {"calls": 80, "longest_run": 9}),
        ("summarised-again", {"messages": 164}, {"messages": 501}),
        ("permanent-emergency", {"from_turn": 79, "turns": 6}, {"from_turn": 8, "turns": 36}),
        ("rules-gone", {"worst": 0.4, "last": 0.4}, {"worst": 0.0, "last": 0.4}),
        ("spiral", {"compactions": 9, "refilled_by": "x"}, {"compactions": 57, "refilled_by": "a"}),
    ],
)
def test_the_worst_is_the_one_with_the_worst_figure(kind: str, mild: dict[str, Any], bad: dict[str, Any]) -> None:
    """Not the session that is worst in all, but the one with the largest figure of that finding is named."""
    sessions = [session("worst-in-all", finding(kind, **mild), failed=99), session("other", finding(kind, **bad))]
    [group] = finding_groups(sessions)

    assert (group.worst_session, group.worst["figures"]) == ("other", bad)
    assert group.where == "in 2 sessions, worst in other"


def test_a_finding_without_figures_is_as_bad_as_its_turns() -> None:
    """Where a finding has no figure the number of its turns decides."""
    assert finding_badness({"id": "option-without-effect", "figures": {}, "turns": [1, 2, 3]}) == 3


def test_a_session_far_below_its_window_looks_empty() -> None:
    """Blocks are shares of the window: 13% is the second of eight, and what is beyond the window is full."""
    assert sparkline([0, 1], [10, 13], [], 100)[0] == "▁▂"
    assert sparkline([0, 1], [50, 200], [], 100)[0] == "▅█"


def test_the_order_of_sessions_is_one_rule_everywhere() -> None:
    """Failed turns come first, then the real peak; findings and tiers have no part in it, so that compare agrees."""
    sessions = [session("calm"), session("alarmed", finding("spiral", compactions=9)), session("failing", failed=1)]
    sessions[0]["real_peak_occupancy"] = 0.9

    assert [sessions[place]["session_id"] for place in worst_first(sessions)] == ["failing", "calm", "alarmed"]


def row(turn: int, **more: Any) -> dict[str, Any]:
    """Make the row of a compaction."""
    plain = {"tier": 1, "tier_name": "Warn", "trigger": "pressure", "changed": True, "summarized": 0, "dropped": 0}
    figures = {"tokens_before": 100, "tokens_after": 50, "reduction": 0.5, "offloaded": 1, "offloaded_bytes": 9}
    return {"turn": turn, **plain, **figures, "preserved_tail": 6, "error": "", "notes": [], **more}


def test_notes_that_differ_in_numbers_alone_are_one() -> None:
    """Of 51 notes alike the first is shown, and how many more like it; another note stands by itself."""
    told = [f"full ({165_254 + turn} tokens, mark 165000)" for turn in range(51)]
    rows = [row(turn, error=words, notes=["manual_mark"]) for turn, words in enumerate(told)]
    [notice] = notices(rows)

    assert notice.problems == ["full (165254 tokens, mark 165000) (and 50 more like it)", "manual_mark"]


def test_what_changed_nothing_is_not_told_as_a_compaction() -> None:
    """A compactor that said why it did nothing has a notice of its own, which names no reduction."""
    idle = row(5, changed=False, tokens_after=100, reduction=0.0, error="stopped")
    told = [notice.head for notice in notices([row(4), idle, row(6)])]

    assert told[1] == "turn 5: [Warn] nothing was changed at 100 tokens"
    assert len(told) == 3


def test_a_line_over_turns_looks_alike_whatever_the_compactor() -> None:
    """The scale is the window's, so that recorded prompts are drawn alike beside a view far beyond the window."""
    assert scale_of(200, [50, 320]) == scale_of(200, [50, 100]) == 200
