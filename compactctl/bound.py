"""What a session is without a compactor: the bound that every replay of it is held against."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from compactctl.compactors.none import NoCompactor
from compactctl.context.base import Base
from compactctl.context.counting import MeterContext
from compactctl.context.scale import Scale
from compactctl.context.view import View
from compactctl.model import RecordedCompaction
from compactctl.ports import HistoryMode, Span
from compactctl.replay import Plan, walk


def uncompacted(
    base: Base, scale: Scale, room: int, compactions: Sequence[RecordedCompaction] = (), *, follow: bool = False
) -> tuple[Span, ...]:
    """Give the spans of a replay in which no compactor does anything: as ``none`` would leave them, in far fewer steps.

    Turns whose real tokens are more than ``room`` have failed. Where the session's own ``compactions`` are followed,
    they are applied here as well: what the harness did itself is no merit of a compactor.
    """
    plan = Plan(HistoryMode.WRITE_BACK, tuple(compactions), skip=True, follow=follow)
    return tuple(part for span in walk(base, NoCompactor(base.meter), plan) for part in _parts(span, scale, room))


def _parts(span: Span, scale: Scale, room: int) -> Iterator[Span]:
    """Cut a span where its view, which only grows, begins or ceases to be too large."""
    for turn, until, failed in _fates(span.view, scale, room, span.turn, span.until):
        view = span.view_at(turn)
        yield Span(turn, until, span.records, view, failed, span.before if turn == span.turn else view)


def _fates(view: View, scale: Scale, room: int, turn: int, until: int) -> Iterator[tuple[int, int, bool]]:
    """Give turns in a row at which a view fits, or does not: the first, the one behind the last, whether it failed."""
    if scale.meter.steady:
        first = scale.first_above(view, room, turn, until)
        if turn < first:
            yield turn, first, False
        if first < until:
            yield first, until, True
        return
    fixed, calls = scale.weight(view) - scale.prefix[view.hi], scale.base.calls
    for failed, turns in groupby(
        range(turn, until),
        lambda at: scale.meter.tokens(fixed + scale.prefix[calls[at]], MeterContext(at, view.pristine)) > room,
    ):
        found = list(turns)
        yield found[0], found[-1] + 1, failed
