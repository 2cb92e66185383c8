"""What each parameter does alone, in grids with and without gaps."""

from __future__ import annotations

import random
from itertools import product

import pytest
from hypothesis import given, strategies as st

from compactctl.ports import Option
from compactctl.tuning.effects import effects_of
from compactctl.tuning.figures import Objective
from compactctl.tuning.grid import Axis, Grid

COST = Objective("m3.cost_usd", "cost", "sum")


def grid(*sizes: int) -> Grid:
    """Give a grid of axes a, b, ... whose values are 0, 1, ..., with all points."""
    axes = tuple(Axis(Option("abc"[at], 0, "an option"), tuple(range(size))) for at, size in enumerate(sizes))
    places = tuple(product(*(range(size) for size in sizes)))
    return Grid(axes, places, places, 0, len(places), sampled=False)


def without(whole: Grid, *gone: tuple[int, ...]) -> Grid:
    """Give a grid without some points."""
    left = tuple(places for places in whole.places if places not in gone)
    return Grid(whole.axes, left, left, len(gone), whole.of, sampled=False)


def test_a_gap_feigns_no_effect() -> None:
    """Cost rises by 10 with each step of a; b does nothing, but its first value lacks a = 2, which is impossible."""
    gappy = without(grid(3, 2), (2, 0))
    a, b = effects_of(gappy, [COST], {"cost": [100 + 10 * places[0] for places in gappy.places]})
    # Plain means would give b (100 + 110) / 2 = 105 and (100 + 110 + 120) / 3 = 110: 4.8 % of nothing.
    assert b.spread["cost"] == 0
    low, middle, high = (level or 0 for level in a.means["cost"])
    assert (middle - low, high - middle) == pytest.approx((10, 10))


def test_a_value_without_a_point_has_no_level() -> None:
    """What could not be tried has no level, and no part in how far the others are apart."""
    gappy = without(grid(2, 2), (1, 0), (1, 1))
    a, b = effects_of(gappy, [COST], {"cost": [5, 7]})
    assert a.means["cost"] == (6, None)
    assert a.spread["cost"] == 0
    assert b.spread["cost"] == pytest.approx(2 / 5)


@pytest.mark.parametrize(
    ("costs", "spread"),
    [
        ([0, 5], None),
        ([0, 0], 0),
        # 4 more than 1.
        ([1, 5], 4),
    ],
)
def test_of_nothing_there_is_no_share(costs: list[float], spread: float | None) -> None:
    """5 dollars instead of none are not 500 %: there is no spread, and the reason says why."""
    (a,) = effects_of(grid(2), [COST], {"cost": costs})
    assert (a.means["cost"], a.spread["cost"]) == (tuple(costs), spread)
    assert a.reason == ("the least cost is not above 0, so that there is no share of it" if spread is None else "")


def test_a_difference_of_shares_needs_nothing_to_be_a_share_of() -> None:
    """From a recall of 0 to one of 0.5 it is 50 points."""
    (a,) = effects_of(grid(2), [Objective("m6.recall_visible", "recall", "share")], {"recall": [0, 0.5]})
    assert (a.spread["recall"], a.reason) == (0.5, "")


def test_without_any_figure_there_is_no_effect() -> None:
    """An objective that no point has gives no levels and no spread."""
    (a,) = effects_of(grid(2), [COST], {"cost": [None, None]})
    assert (a.means["cost"], a.spread["cost"]) == ((None, None), None)


@given(st.integers(1, 4), st.integers(1, 4), st.integers(1, 3), st.data())
def test_in_a_whole_grid_levels_are_plain_means(x: int, y: int, z: int, data: st.DataObject) -> None:
    """Where nothing is impossible, the level of a value is the mean over all that it was tried with."""
    whole = grid(x, y, z)
    values = data.draw(st.lists(st.floats(1, 100), min_size=x * y * z, max_size=x * y * z))
    for at, effect in enumerate(effects_of(whole, [COST], {"cost": values})):
        for place, level in enumerate(effect.means["cost"]):
            tried = [value for places, value in zip(whole.places, values, strict=True) if places[at] == place]
            assert level == pytest.approx(sum(tried) / len(tried))


@given(st.integers(2, 4), st.integers(2, 4), st.integers(1, 3), st.integers(0, 20), st.randoms(use_true_random=False))
def test_effects_do_not_depend_on_the_order_of_the_axes(
    x: int, y: int, z: int, gone: int, chance: random.Random
) -> None:
    """Whatever part of a grid was tried, an axis has the same levels, or none, wherever it stands in --grid."""
    whole = grid(x, y, z)
    kept = sorted(chance.sample(whole.places, max(1, len(whole.places) - gone)))
    values = [chance.uniform(1, 100) for _ in kept]
    straight = Grid(whole.axes, tuple(kept), tuple(kept), 0, whole.of, sampled=True)
    turned = tuple(places[::-1] for places in kept)
    back = Grid(whole.axes[::-1], turned, turned, 0, whole.of, sampled=True)
    one, other = (effects_of(some, [COST], {"cost": values}) for some in (straight, back))
    for effect, again in zip(one, other[::-1], strict=True):
        assert effect.name == again.name
        assert effect.reason == again.reason
        for level, same in zip(effect.means["cost"], again.means["cost"], strict=True):
            assert level == (same if same is None else pytest.approx(same, rel=1e-6))


def test_where_two_parameters_cannot_be_told_apart_neither_has_an_effect() -> None:
    """Of a diagonal nobody knows which of the two it was; a third parameter that was tried with both has its own."""
    whole = grid(3, 3, 2)
    diagonal = tuple(places for places in whole.places if places[0] == places[1])
    sample = Grid(whole.axes, diagonal, diagonal, 0, whole.of, sampled=True)
    a, b, c = effects_of(sample, [COST], {"cost": [10 + places[1] + 2 * places[2] for places in diagonal]})
    for effect in (a, b):
        assert effect.means["cost"] == (None, None, None)
        assert effect.spread["cost"] is None
        assert effect.reason == (
            "its values cannot be told apart from those of other parameters by these points; more --trials"
        )
    assert (c.means["cost"], c.reason) == (pytest.approx((11, 13)), "")


def test_more_trials_are_not_advised_where_no_other_point_is_possible() -> None:
    """Where all that is possible was tried, the reason says so."""
    gappy = without(grid(2, 2), (0, 1), (1, 0))
    for effect in effects_of(gappy, [COST], {"cost": [5, 7]}):
        assert effect.reason.endswith("by these points, and all other points are impossible")


def test_what_can_be_told_of_a_sample_is_told_of_the_right_parameter() -> None:
    """A staircase of single steps links all values: cost follows b alone, and so say both orders of the axes."""
    whole = grid(12, 12)
    stairs = tuple((a, b) for a, b in whole.places if a in (b, b + 1))
    sample = Grid(whole.axes, stairs, stairs, 0, whole.of, sampled=True)
    a, b = effects_of(sample, [COST], {"cost": [100 + 10 * places[1] for places in stairs]})
    assert (a.spread["cost"], b.spread["cost"]) == (0, pytest.approx(1.1))


def test_thousands_of_values_are_no_matter() -> None:
    """One parameter of thousands of values beside a small one is fitted."""
    long = grid(3000, 2)
    a, b = effects_of(long, [COST], {"cost": [1.0 + places[0] + 5 * places[1] for places in long.places]})
    assert (a.spread["cost"], b.spread["cost"]) == (pytest.approx(2999 / 3.5), pytest.approx(5 / 1500.5))


@pytest.mark.parametrize(("short", "told"), [(300, True), (301, False)])
def test_too_many_values_are_told_as_that(short: int, told: bool) -> None:
    """Beside the longest parameter 300 values are worked out; of more it says that, and not to try more of them."""
    axes = grid(400, short).axes
    # A band links all values, so that it is for their number alone that there are no levels.
    band = tuple((a, (a + step) % short) for a in range(400) for step in (0, 1))
    sample = Grid(axes, band, band, 0, 400 * short, sampled=True)
    for effect in effects_of(sample, [COST], {"cost": [1.0 + places[0] for places in band]}):
        if told:
            assert (effect.spread["cost"] is not None, effect.reason) == (True, "")
        else:
            assert effect.spread["cost"] is None
            assert effect.reason == (
                "there are more than 300 values beside those of the longest parameter, too many to work out what each "
                "does; take larger steps"
            )
