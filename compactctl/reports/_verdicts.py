"""The verdicts of ``check`` as JSON objects, and as the lines that people read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from compactctl.budgets import Level, Verdict
from compactctl.context.words import quantity
from compactctl.reports._paper import Paper
from compactctl.reports._safe import safe


def verdict_document(verdict: Verdict, fail_on: Level) -> dict[str, Any]:
    """Give a verdict as the JSON object that outputs hold; ``fails`` says whether it makes the command fail."""
    budget = verdict.budget
    return {
        "measure": budget.measure,
        "aggregate": budget.aggregate,
        "bound": str(budget.bound),
        "limit": verdict.limit,
        "level": str(budget.level),
        "budget": budget.sentence,
        "passed": verdict.passed,
        "fails": verdict.fails(fail_on),
        "value": verdict.value,
        "baseline": verdict.baseline,
        "reason": verdict.reason,
        "left_out": verdict.left_out,
        "worst_sessions": [
            {"session_id": session, "value": value, "baseline": verdict.before.get(session)}
            for session, value in verdict.worst
        ],
    }


def figure(value: float | None) -> str:
    """Give a figure as it is printed.

    >>> figure(0.123456), figure(12), figure(None), figure(1234567.0)
    ('0.1235', '12', 'n/a', '1,234,567')
    """
    if value is None:
        return "n/a"
    if float(value).is_integer():
        return f"{int(value):,}"
    return f"{value:,.1f}" if abs(value) >= 1000 else f"{value:.4g}"


def worst_words(worst: Mapping[str, Any]) -> str:
    """Say what one of the worst sessions has, and what it had.

    >>> worst_words({"session_id": "a", "value": 1.679, "baseline": 0.4})
    'a: 1.679 (baseline 0.4)'
    """
    before = worst.get("baseline")
    was = "" if before is None else f" (baseline {figure(before)})"
    return f"{worst['session_id']}: {figure(worst['value'])}{was}"


def told(verdict: Mapping[str, Any]) -> str:
    """Say a verdict in one line: the budget, the value, and the limit that a baseline gave."""
    words = f"{verdict['budget']}: {figure(verdict['value'])}"
    if verdict["baseline"] is not None:
        words += f" (baseline {figure(verdict['baseline'])}, limit {figure(verdict['limit'])})"
    if verdict["left_out"]:
        words += f"; no such figure in {quantity(verdict['left_out'], 'session')}"
    return f"{words}; {verdict['reason']}" if verdict["reason"] else words


def state(verdict: Mapping[str, Any]) -> str:
    """Give ``ok``, ``FAIL`` or ``warn``."""
    if verdict["passed"]:
        return "ok"
    return "FAIL" if verdict["fails"] else "warn"


def summary(document: Mapping[str, Any]) -> str:
    """Say the outcome in one line."""
    verdicts: Sequence[Mapping[str, Any]] = document["verdicts"]
    failed = sum(1 for verdict in verdicts if verdict["fails"])
    warned = sum(1 for verdict in verdicts if state(verdict) == "warn")
    held = sum(1 for verdict in verdicts if verdict["passed"])
    sessions = len(document["sessions"])
    return (
        f"{held} of {len(verdicts)} budgets held over {quantity(sessions, 'session')}"
        + (f", {warned} broken as a warning" if warned else "")
        + (f", {failed} FAILED" if failed else "")
    )


def verdict_text(document: Mapping[str, Any], paper: Paper) -> None:
    """Write each verdict with the worst sessions of those that are broken."""
    for words in document["failed"]:
        paper.wrapped(safe(f"NOT JUDGED: {words}"), "", "error")
    for words in document["differences"]:
        paper.wrapped(safe(f"NOT THE SAME AS THE BASELINE: {words}"), "", "warn")
    for verdict in document["verdicts"]:
        sign = state(verdict)
        style = {"ok": "", "FAIL": "error", "warn": "warn"}[sign]
        paper.wrapped(f"{safe(told(verdict))}", f"  {sign:<5}", style)
        if sign != "ok":
            for worst in verdict["worst_sessions"]:
                paper.line(safe(f"         {worst_words(worst)}"))
    paper.line(summary(document), "bold")
