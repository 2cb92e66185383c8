"""Compactors side by side: the figures of each, the bounds among them, and which is best in each column.

The bounds are in every table and never count as best: sending everything remembers most, and keeping next to nothing
costs least, which is what they are there to show.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from compactctl.context.scale import Scale
from compactctl.measures._spec import Direction, Measured
from compactctl.ports import Span
from compactctl.runs import Outcome
from compactctl.tuning.figures import figures_of, known_keys, pooled_figures

CEILING, FLOOR = "none", "truncate"
BOUNDS = (CEILING, FLOOR)


@dataclass(frozen=True, slots=True)
class Row:
    """The figures of one compactor, under the label that the user gave it."""

    label: str
    figures: Mapping[str, Measured]
    is_bound: bool = False


@dataclass(frozen=True, slots=True)
class Table:
    """Compactors by figures for one session, or over all (``session_id`` is None).

    ``best`` names for each figure the labels that are best in it; none where it has no better way, or nobody has it.
    """

    session_id: str | None
    rows: tuple[Row, ...]
    best: Mapping[str, frozenset[str]]

    @property
    def keys(self) -> list[str]:
        """The figures that any row has, in the order in which they first come."""
        return list(dict.fromkeys(key for row in self.rows for key in row.figures))


def with_bounds(names: Iterable[str]) -> list[str]:
    """Give the compactors to replay: the ceiling first, those asked for, and the floor last, each once.

    >>> with_bounds(["dsh", "truncate", "dsh"])
    ['none', 'dsh', 'truncate']
    """
    asked = [name for name in dict.fromkeys(names) if name not in BOUNDS]
    return [CEILING, *asked, FLOOR]


def table_of(session_id: str | None, figures: Mapping[str, Mapping[str, Measured]], bounds: Iterable[str]) -> Table:
    """Make the table of one session out of the figures of each label."""
    among = frozenset(bounds)
    rows = tuple(Row(label, row, label in among) for label, row in figures.items())
    keys = dict.fromkeys(key for row in rows for key in row.figures)
    return Table(session_id, rows, {key: _best(key, rows) for key in keys})


def compared(outcomes: Mapping[str, Sequence[Outcome]]) -> list[Table]:
    """Give a table for each session and, where there are several, one over all of them.

    ``outcomes`` are those of each label, one for each session and in the same order of sessions everywhere.
    """
    bounds = [label for label, replays in outcomes.items() if replays and replays[0].setup.spec.name in BOUNDS]
    figures = {label: [figures_of(outcome) for outcome in replays] for label, replays in outcomes.items()}
    sessions = [outcome.session.id for outcome in next(iter(outcomes.values()), ())]
    tables = [
        table_of(session, {label: rows[number] for label, rows in figures.items()}, bounds)
        for number, session in enumerate(sessions)
    ]
    if len(sessions) > 1:
        tables.append(table_of(None, {label: pooled_figures(rows) for label, rows in figures.items()}, bounds))
    return tables


def occupancy_curve(spans: Iterable[Span], scale: Scale, window: int) -> list[tuple[float, float]]:
    """Give the share of the window that each turn's view fills, in the tokens of the scale: (turn, share).

    The window must be known.
    """
    return [
        (float(turn), scale.tokens(span.view_at(turn)) / window)
        for span in spans
        for turn in range(span.turn, span.until)
    ]


def _best(key: str, rows: Sequence[Row]) -> frozenset[str]:
    direction = known_keys()[key].direction
    if direction is Direction.NEUTRAL:
        return frozenset()
    known = {
        row.label: found.value
        for row in rows
        if not row.is_bound and (found := row.figures.get(key)) is not None and found.value is not None
    }
    if len(known) < 2 or len(set(known.values())) == 1:
        # Where all are the same, or one alone has it, nobody is better than another.
        return frozenset()
    best = max(known.values()) if direction is Direction.HIGHER else min(known.values())
    return frozenset(label for label, value in known.items() if value == best)
