"""What each parameter does alone, in grids with and without gaps."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given, strategies as st

from compactctl.measures._spec import Pool
from compactctl.ports import Option
from compactctl.tuning.effects import effects_of
from compactctl.tuning.figures import Objective
from compactctl.tuning.grid import Axis, Grid

COST = Objective("m3.cost_usd", "cost", Pool.SUM)


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
