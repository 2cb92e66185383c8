"""Findings: what a person should look at in a replay, worst first, each with the option to change.

``find(trace, measured, situation)`` gives them; ``FINDINGS`` explains every kind. A kind is one function in the file of
its theme; it is asked only where the measures that it needs were computed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from compactctl.findings import _content, _stability, _summaries, _window
from compactctl.findings._kinds import Case, Finding, FindingKind, Severity, Situation
from compactctl.measures._spec import Measured, Trace

__all__ = ["FINDINGS", "Finding", "FindingKind", "Severity", "Situation", "find", "left_out"]

# Their order is that in which findings of one severity are shown.
FINDINGS: dict[str, FindingKind] = {
    kind.id: kind for kind in (*_window.KINDS, *_stability.KINDS, *_content.KINDS, *_summaries.KINDS)
}


def find(trace: Trace, measured: Mapping[str, Measured], situation: Situation) -> tuple[Finding, ...]:
    """Give what is wrong with a replay, worst first.

    ``measured`` is what ``measure_all`` gave; kinds whose measures are not in it are left out, so that no measures give
    no findings.
    """
    if not measured:
        return ()
    names = _owners(measured)
    case = Case(trace, measured, situation)
    found: list[Finding] = []
    for kind in FINDINGS.values():
        if not names.issuperset(kind.needs):
            continue
        shown = kind.look(case)
        if shown is not None:
            severity = shown.severity or kind.severity
            found.append(Finding(kind.id, severity, shown.turns, shown.figures, shown.message, case.advice(shown)))
    order = list(Severity)
    return tuple(sorted(found, key=lambda finding: order.index(finding.severity)))


def left_out(measures: Iterable[str]) -> int:
    """Count the kinds that are not looked for where only these measures, or measures of these keys, are computed.

    >>> left_out([]) == len(FINDINGS), left_out(["all"])
    (True, 0)
    """
    names = _owners(measures)
    if "all" in names:
        return 0
    return sum(1 for kind in FINDINGS.values() if not names or not names.issuperset(kind.needs))


def _owners(keys: Iterable[str]) -> set[str]:
    return {key.partition(".")[0] for key in keys}
