"""Where a compactor says itself that it compacts no more, why, and what helps."""

from __future__ import annotations

from compactctl.findings._kinds import Case
from compactctl.model import Note

COMPACT_BY_ITSELF = "let it compact by itself (--set auto=true)"
# What it notes: the reason in words, and the ways out.
STOPS: dict[str, tuple[str, tuple[str, ...]]] = {
    Note.REFILL_BREAKER: (
        "the view was full again within three turns, three times in a row",
        ("compact earlier (--lower full)", "keep less (--lower tail)"),
    ),
    Note.FAILURE_BREAKER: ("three summaries failed in a row", ("look why summaries fail",)),
    Note.MANUAL_MARK: (
        "automatic compaction is off and the window is full",
        (COMPACT_BY_ITSELF,),
    ),
}


def stops(case: Case) -> dict[int, str]:
    """Give the turns at which the compactor had stopped itself, each with the note that says why."""
    return {span.turn: note for span, record in case.records() for note in record.notes if note in STOPS}
