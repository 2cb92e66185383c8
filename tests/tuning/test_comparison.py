"""Compactors side by side: the best of each column, the bounds that are never best, sessions and all of them."""

from __future__ import annotations

import pytest

from compactctl.measures._spec import Measured
from compactctl.model import ASSISTANT, SYSTEM, USER, Message, Session
from compactctl.ports import CompactorSpec, Span
from compactctl.registry import plugin
from compactctl.runs import Outcome, Setup, Window, Workbench, run
from compactctl.tuning.comparison import compared, occupancy_curve, table_of, with_bounds


def test_the_bounds_are_in_every_table() -> None:
    """They need not be asked for, and asking for them does not double them."""
    assert with_bounds(["codex", "none"]) == ["none", "codex", "truncate"]
    assert with_bounds([]) == ["none", "truncate"]


def test_the_best_is_the_best_by_its_direction() -> None:
    """Fewer tokens are better, more reduction is, and the number of files is neither."""
    rows = {
        "a": {"tokens": Measured(10), "reduction": Measured(0.5), "offloaded_files": Measured(1)},
        "b": {"tokens": Measured(12), "reduction": Measured(0.6), "offloaded_files": Measured(2)},
        "c": {"tokens": Measured(10), "reduction": Measured(None, "nothing is sent"), "offloaded_files": Measured(3)},
    }

    assert table_of("s", rows, ()).best == {
        "tokens": frozenset({"a", "c"}),
        "reduction": frozenset({"b"}),
        "offloaded_files": frozenset(),
    }


def test_a_bound_is_never_best() -> None:
    """Truncation sends the fewest tokens, which is no merit."""
    rows = {"a": {"tokens": Measured(10)}, "b": {"tokens": Measured(9)}, "truncate": {"tokens": Measured(1)}}
    table = table_of("s", rows, ["truncate"])

    assert table.best == {"tokens": frozenset({"b"})}
    assert [row.is_bound for row in table.rows] == [False, False, True]


@pytest.mark.parametrize("others", [{}, {"b": {"tokens": Measured(10)}}, {"b": {"tokens": Measured(None, "n/a")}}])
def test_without_a_difference_nobody_is_best(others: dict[str, dict[str, Measured]]) -> None:
    """One alone, all the same, or one that is not measured: there is nothing to be better than."""
    assert table_of("s", {"a": {"tokens": Measured(10)}, **others}, ()).best == {"tokens": frozenset()}


def outcomes(name: str, **options: object) -> list[Outcome]:
    """Replay two sessions of 8 and of 4 turns, 100 tokens a turn, in a window of 500."""
    spec = plugin("compactctl.compactors", CompactorSpec, name, "compactor")
    chosen = {option.name: option.default for option in spec.options} | options
    found = []
    for number, turns in enumerate((8, 4)):
        said = [m for _ in range(turns) for m in (Message(USER, "u" * 400), Message(ASSISTANT, ""))]
        session = Session(f"s{number}", (Message(SYSTEM, ""), *said))
        bench = Workbench(session, Window(500, "flag"))
        found.append(run(bench, Setup(spec, chosen, meter="bytes4"), summarizer=None))
    return found


def test_each_session_has_a_table_and_all_have_one() -> None:
    """Tokens are added up over sessions: 100 + 200 + ... + 800 and 100 + ... + 400 without compaction."""
    tables = compared({"none": outcomes("none"), "t": outcomes("truncate", share=0.6)})
    tokens = [[row.figures["tokens"].value for row in table.rows] for table in tables]

    assert [table.session_id for table in tables] == ["s0", "s1", None]
    # At most 300 a turn: 100 + 200 + 6 x 300, and 100 + 200 + 2 x 300.
    assert tokens == [[3600, 2100], [1000, 900], [4600, 3000]]
    assert all(row.is_bound for table in tables for row in table.rows)
    assert "tokens" in tables[0].keys


def test_one_session_needs_no_table_over_all() -> None:
    """With a single session there is one table."""
    assert len(compared({"none": outcomes("none")[:1]})) == 1


def test_a_curve_has_a_point_for_each_turn() -> None:
    """Also for turns in which the compactor was not asked: 100 tokens more each, of a window of 500."""
    spec = plugin("compactctl.compactors", CompactorSpec, "none", "compactor")
    said = [m for _ in range(3) for m in (Message(USER, "u" * 400), Message(ASSISTANT, ""))]
    bench = Workbench(Session("s", (Message(SYSTEM, ""), *said)), Window(500, "flag"))
    spans: list[Span] = []
    run(bench, Setup(spec, {}), summarizer=None, skip=True, watch=spans.append)
    scale = bench.scale(bench.base("bytes4", False, 0)[0])

    assert len(spans) == 1
    assert occupancy_curve(spans, scale, 500) == [(0.0, 0.2), (1.0, 0.4), (2.0, 0.6)]
