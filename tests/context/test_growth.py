"""Totals over turns in which views only grow."""

from __future__ import annotations

from itertools import accumulate

from hypothesis import given, strategies as st

from compactctl.context.growth import Growth
from compactctl.meters.bytes4 import Bytes4

_WEIGHTS = st.lists(st.integers(0, 40), min_size=1, max_size=12)


@given(weights=_WEIGHTS, stretches=st.lists(st.tuples(st.integers(-30, 90), st.integers(0, 12), st.integers(0, 12))))
def test_running_sums_give_what_adding_turn_by_turn_gives(
    weights: list[int], stretches: list[tuple[int, int, int]]
) -> None:
    """However often a total was asked for, it is the sum of the tokens of each turn."""
    prefix = list(accumulate(weights, initial=0))
    growth = Growth(range(len(weights)), prefix, Bytes4())
    within = [(added, *sorted((min(a, len(weights)), min(b, len(weights))))) for added, a, b in stretches]
    expected = sum((prefix[turn] + added) // 4 for added, first, last in within for turn in range(first, last))
    assert [growth.total_of(within) for _ in range(8)] == [expected] * 8
