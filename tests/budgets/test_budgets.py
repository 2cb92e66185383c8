"""Budgets: how they are read, and what passes."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given, strategies as st

from compactctl.budgets import AGGREGATES, Bound, Budget, Level, judge, parse_budgets
from compactctl.errors import SettingsError
from compactctl.measures._spec import Measured

KEYS = ("m1.overshoot_turns", "m3.cost_usd", "m6.recall_visible")
COST = "m3.cost_usd"
RECALL = "m6.recall_visible"


def figures(key: str, **values: float | None) -> dict[str, dict[str, Measured]]:
    """Give the figures of sessions that have one key."""
    return {name: {key: Measured(value, "" if value is not None else "no price")} for name, value in values.items()}


def test_the_three_examples_of_the_issue_are_read() -> None:
    """The budgets that the documentation shows mean what it says."""
    read = parse_budgets(
        [
            {"measure": "m1.overshoot_turns", "max": 0},
            {"measure": RECALL, "aggregate": "p10", "min": 0.85, "level": "warn"},
            {"measure": COST, "max_increase": "5%"},
        ],
        KEYS,
    )
    assert read == [
        Budget("m1.overshoot_turns", "worst", Bound.MAX, 0),
        Budget(RECALL, "p10", Bound.MIN, 0.85, level=Level.WARN),
        Budget(COST, "mean", Bound.MAX_INCREASE, 0.05, relative=True),
    ]


@pytest.mark.parametrize(
    ("table", "told"),
    [
        ({"measure": "m6.recal_visible", "min": 1}, "Did you mean 'm6.recall_visible'?"),
        ({"measure": RECALL, "mim": 1}, "Did you mean 'min'?"),
        ({"measure": RECALL, "min": 1, "aggregate": "meen"}, "Did you mean 'mean'?"),
        ({"measure": RECALL, "min": "0.8"}, "is not a number"),
        ({"measure": RECALL, "min": True}, "is not a number"),
        ({"measure": RECALL, "min": math.nan}, "is not a number"),
        ({"measure": RECALL, "min": "5%"}, "is not a number"),
        ({"measure": RECALL, "max_increase": "five%"}, "or a share such as '5%'"),
        ({"measure": RECALL, "max_increase": -1}, "max_decrease for the other way"),
        ({"measure": RECALL, "min": 1, "level": "fatal"}, "not one of error, warn"),
        ({"measure": RECALL}, "needs a bound"),
        ({"min": 1}, "needs a measure"),
        ({"measure": RECALL, "min": 1, "skip_unmeasured": "yes"}, "not true or false"),
    ],
)
def test_a_mistake_is_an_error_that_offers_the_nearest(table: dict[str, object], told: str) -> None:
    """A mistyped budget never passes in silence: it is a settings error that says what is allowed."""
    with pytest.raises(SettingsError, match="budget 2") as error:
        parse_budgets([{"measure": RECALL, "min": 0}, table], KEYS, "budget")
    assert told in str(error.value)


def test_worst_is_the_largest_under_a_ceiling_and_the_smallest_over_a_floor() -> None:
    """One table with two bounds gives two verdicts, each by its own worst session."""
    budgets = parse_budgets([{"measure": COST, "max": 3, "min": 1}], KEYS)
    ceiling, floor = judge(budgets, figures(COST, a=1.0, b=2.0, c=4.0))
    assert (ceiling.value, ceiling.passed, ceiling.worst[0]) == (4.0, False, ("c", 4.0))
    assert (floor.value, floor.passed, floor.worst[0]) == (1.0, True, ("a", 1.0))


@pytest.mark.parametrize(
    ("aggregate", "expected"),
    # Of 1, 2, ..., 10: a tenth of them is not above 1, nine tenths are not above 9.
    [("mean", 5.5), ("median", 5.5), ("p10", 1), ("p90", 9), ("sum", 55), ("min", 1), ("max", 10)],
)
def test_each_aggregate_by_hand(aggregate: str, expected: float) -> None:
    """Aggregates are what their names say; percentiles are values that were measured."""
    budget = Budget(COST, aggregate, Bound.MAX, 0)
    assert budget.take([float(n) for n in range(10, 0, -1)]) == expected


@pytest.mark.parametrize("aggregate", ["worst", *AGGREGATES])
@pytest.mark.parametrize("bound", list(Bound))
def test_a_null_never_passes(aggregate: str, bound: Bound) -> None:
    """What could not be measured in one session fails every budget, whatever the others are."""
    budget = Budget(COST, aggregate, bound, 1e9 if bound is not Bound.MIN else -1e9)
    baseline = {"a": {COST: 1.0}, "b": {COST: 1.0}}
    (verdict,) = judge([budget], figures(COST, a=1.0, b=None), baseline)
    assert not verdict.passed
    assert verdict.fails(Level.ERROR)
    assert "b: no price" in verdict.reason


def test_a_figure_that_nobody_computed_is_a_null_too() -> None:
    """A session without the key at all fails as well."""
    (verdict,) = judge([Budget(COST, "worst", Bound.MAX, 9)], {"a": {}})
    assert (verdict.passed, verdict.value) == (False, None)


def test_unmeasured_sessions_are_left_out_only_where_a_budget_says_so() -> None:
    """With skip_unmeasured they are counted, and a budget that nobody measures still fails."""
    budgets = parse_budgets([{"measure": RECALL, "min": 0.5, "skip_unmeasured": True}], KEYS)
    (some,) = judge(budgets, figures(RECALL, a=0.6, b=None))
    (none,) = judge(budgets, figures(RECALL, b=None))
    assert (some.passed, some.value, some.left_out) == (True, 0.6, 1)
    assert (none.passed, none.left_out) == (False, 1)


def test_no_session_passes_nothing() -> None:
    """Over no session at all, nothing holds."""
    (verdict,) = judge([Budget(COST, "sum", Bound.MAX, 9)], {})
    assert not verdict.passed


def test_increase_is_a_share_of_the_baseline_over_the_sessions_that_both_have() -> None:
    """Five percent on a mean of 2: 2.1 passes and 2.11 does not; a new session has no part in it."""
    budget = parse_budgets([{"measure": COST, "max_increase": "5%"}], KEYS)
    baseline = {"a": {COST: 1.0}, "b": {COST: 3.0}, "gone": {COST: 50.0}}
    # (1.2 + 3.0) / 2 = 2.1 = 2 + 5 %
    (at,) = judge(budget, figures(COST, a=1.2, b=3.0, new=100.0), baseline)
    (over,) = judge(budget, figures(COST, a=1.22, b=3.0), baseline)
    assert (at.passed, at.value, at.baseline, at.limit) == (True, pytest.approx(2.1), 2.0, pytest.approx(2.1))
    assert not over.passed
    assert over.worst[0] == ("a", 1.22)


def test_decrease_is_the_other_way_and_a_number_is_absolute() -> None:
    """A recall of 0.9 may fall by 0.02 to 0.88, not to 0.87."""
    budget = parse_budgets([{"measure": RECALL, "max_decrease": 0.02}], KEYS)
    baseline = {"a": {RECALL: 0.9}}
    assert judge(budget, figures(RECALL, a=0.88), baseline)[0].passed
    assert not judge(budget, figures(RECALL, a=0.87), baseline)[0].passed


def test_from_a_baseline_of_zero_any_increase_by_percent_fails() -> None:
    """A share of nothing is nothing."""
    budget = parse_budgets([{"measure": COST, "max_increase": "50%"}], KEYS)
    baseline = {"a": {COST: 0.0}}
    assert judge(budget, figures(COST, a=0.0), baseline)[0].passed
    assert not judge(budget, figures(COST, a=0.01), baseline)[0].passed


@pytest.mark.parametrize(
    ("baseline", "told"),
    [
        (None, "no baseline"),
        ({}, "none of these sessions"),
        ({"a": {}}, "none of these sessions"),
        ({"a": {COST: None}}, "was not measured in a"),
    ],
)
def test_without_a_value_in_the_baseline_nothing_passes(
    baseline: dict[str, dict[str, float | None]] | None, told: str
) -> None:
    """A budget against a baseline that does not hold its figure fails, and says why."""
    (verdict,) = judge([Budget(COST, "mean", Bound.MAX_INCREASE, 9)], figures(COST, a=1.0), baseline)
    assert not verdict.passed
    assert told in verdict.reason


def test_a_warning_fails_the_command_only_where_asked() -> None:
    """level = "warn" is shown, and makes the command fail under --fail-on warn alone."""
    (verdict,) = judge([Budget(COST, "worst", Bound.MAX, 0, level=Level.WARN)], figures(COST, a=1.0))
    assert (verdict.fails(Level.ERROR), verdict.fails(Level.WARN)) == (False, True)


@given(
    st.dictionaries(st.text(min_size=1, max_size=3), st.floats(-1e6, 1e6), min_size=1, max_size=8),
    st.sampled_from(["worst", *AGGREGATES]),
    st.sampled_from([Bound.MAX, Bound.MIN]),
    st.floats(-1e6, 1e6),
)
def test_worst_is_the_strictest_aggregate_but_sum(
    values: dict[str, float], aggregate: str, bound: Bound, limit: float
) -> None:
    """Where the worst session holds a budget, so does every mean and percentile of the same sessions."""
    if aggregate == "sum" or aggregate == ("max" if bound is Bound.MIN else "min"):
        return
    known = {name: {COST: Measured(value)} for name, value in values.items()}
    (worst,) = judge([Budget(COST, "worst", bound, limit)], known)
    (other,) = judge([Budget(COST, aggregate, bound, limit)], known)
    assert other.passed or not worst.passed


def test_a_session_without_the_figure_in_the_baseline_is_never_dropped_silently() -> None:
    """A figure that the baseline lacks is like one that was not measured: it breaks the budget, or is counted."""
    now = {"a": {"m": Measured(1.0)}, "b": {"m": Measured(100.0)}}
    strict = Budget("m", "sum", Bound.MAX_INCREASE, 0.05, relative=True)
    lenient = replace(strict, skip_unmeasured=True)
    for lacking in ({}, {"m": None}):
        before = {"a": {"m": 1.0}, "b": lacking}
        (broken,) = judge([strict], now, before)
        (counted,) = judge([lenient], now, before)

        assert (broken.passed, broken.value) == (False, None)
        assert "b" in broken.reason
        assert broken.worst == (("b", 100.0),)
        assert (counted.passed, counted.left_out) == (True, 1)


def test_a_limit_is_not_missed_by_the_last_bit_of_a_fraction() -> None:
    """0.1 + 0.2 is more than 0.3 in binary, and holds a limit of 0.3 all the same; a billionth more does not."""
    for value, holds in ((0.1 + 0.2, True), (0.3 * (1 + 1e-9), False)):
        (verdict,) = judge([Budget(COST, "worst", Bound.MAX, 0.3)], figures(COST, a=value))
        assert verdict.passed is holds
