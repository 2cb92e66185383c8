"""Which session a finding is told of, and the lines over turns."""

from __future__ import annotations

from typing import Any

import pytest

from compactctl.findings import FINDINGS
from compactctl.reports._overview import finding_badness, finding_groups
from compactctl.reports._timeline import sparkline


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
    """Blocks are shares of the window: 13% is the second of eight, and only beyond the window is the largest full."""
    assert sparkline([0, 1], [10, 13], [], 100)[0] == "▁▂"
    assert sparkline([0, 1], [100, 200], [], 100)[0] == "▅█"
