"""Grids: what a range holds, what is impossible, and seeded samples."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given, strategies as st

from compactctl.errors import SettingsError
from compactctl.ports import CompactorSpec
from compactctl.registry import plugin
from compactctl.settings import compactor_options
from compactctl.tuning.dice import Dice
from compactctl.tuning.grid import Grid, full_grid, parse_axes, parse_axis, sampled_grid

SPEC = plugin("compactctl.compactors", CompactorSpec, "progressive", "compactor")
FIXED = compactor_options(SPEC, {})


def grid(*written: str) -> Grid:
    """Give the full grid of some axes over the defaults."""
    return full_grid(parse_axes(written, SPEC), SPEC, FIXED)


def test_a_range_has_both_ends_in_decimal() -> None:
    """0.60:0.80:0.02 is the eleven decimals that one would write, 0.80 among them."""
    axis = parse_axis("soft=0.60:0.80:0.02", SPEC)
    assert axis.name == "soft_threshold"
    assert axis.values == (0.60, 0.62, 0.64, 0.66, 0.68, 0.70, 0.72, 0.74, 0.76, 0.78, 0.80)


@given(st.integers(0, 500), st.integers(1, 100), st.data())
def test_a_range_is_exactly_the_decimals_between_its_ends(first: int, step: int, data: st.DataObject) -> None:
    """Whatever the ends and the step, no value is off by a binary fraction, and both ends are in it."""
    last = first + step * data.draw(st.integers(0, (1000 - first) // step))
    written = f"soft={first / 1000:.3f}:{last / 1000:.3f}:{step / 1000:.3f}"
    expected = [float(f"{number / 1000:.3f}") for number in range(first, last + 1, step)]
    assert list(parse_axis(written, SPEC).values) == expected


def test_a_range_that_does_not_reach_its_end_says_where_it_ends() -> None:
    """A value that was written and is not tried is told."""
    axis = parse_axis("soft=0.70:0.76:0.04", SPEC)
    assert axis.values == (0.70, 0.74)
    assert axis.short == "--grid soft=0.70:0.76:0.04: steps of 0.04 from 0.70 end at 0.74, not at 0.76"
    assert not parse_axis("soft=0.70:0.78:0.04", SPEC).short


def test_whole_numbers_and_lists() -> None:
    """Options that are whole numbers take ranges and lists; a value given twice is one value."""
    assert parse_axis("offload=1000:4000:1500", SPEC).values == (1000, 2500, 4000)
    assert parse_axis("tail=4, 6,8,6", SPEC).values == (4, 6, 8)
    assert parse_axis("balanced_cuts=true,false", SPEC).values == (True, False)


def test_impossible_points_are_left_out_and_counted_and_equal_neighbours_are_possible() -> None:
    """Thresholds may be equal but not fall: of 3 x 3 the three with soft above full are left out."""
    made = grid("soft=0.70,0.80,0.90", "full=0.70,0.80,0.90")
    assert (len(made.points), made.impossible, made.of) == (6, 3, 9)
    assert (0.8, 0.8) in made.points
    assert (0.9, 0.8) not in made.points


def test_the_grid_of_the_benchmark_has_200_points() -> None:
    """20 values of soft and 10 of full, all of them possible."""
    made = grid("soft=0.60:0.79:0.01", "full=0.80:0.89:0.01")
    assert (len(made.points), made.impossible) == (200, 0)


@pytest.mark.parametrize(
    ("written", "told"),
    [
        ("soft", "write NAME=FIRST:LAST:STEP"),
        ("sofd=0.1,0.2", "Did you mean 'soft'?"),
        ("soft=0.8:0.6:0.1", "LAST must not be below FIRST"),
        ("soft=0.6:0.8:0", "STEP must be above 0"),
        ("soft=0.6:0.8", "a range is FIRST:LAST:STEP"),
        ("soft=0.6:high:0.1", "must be decimal numbers"),
        ("soft=nan:0.8:0.1", "LAST must not be below FIRST"),
        ("soft=0:1:0.00001", "take a larger STEP"),
        ("soft=0.5:1e5000:0.1", "a range ends below 1e13"),
        ("soft=0.5:1e999999999:0.1", "a range ends below 1e13"),
        ("soft=0.5:0.6:1e-9999", "in steps of 12 digits at most"),
        ("soft=0.6,x", "is not a number"),
        ("tail=0,6", "is not a whole number of at least 1"),
        ("balanced_cuts=0:1:1", "for options that are numbers"),
    ],
)
def test_a_grid_that_cannot_be_is_an_error_that_says_why(written: str, told: str) -> None:
    """A mistake in a grid is told before anything is replayed."""
    with pytest.raises(SettingsError) as error:
        parse_axis(written, SPEC)
    assert told in str(error.value)


def test_one_option_twice_is_an_error() -> None:
    """An option under its name and its short form is one option."""
    with pytest.raises(SettingsError, match="given twice"):
        parse_axes(["soft=0.6,0.7", "soft_threshold=0.8,0.9"], SPEC)


def test_a_grid_without_a_possible_point_is_an_error() -> None:
    """Where all points are impossible, it says what is wrong with one."""
    with pytest.raises(SettingsError, match="none of its 2 points is possible"):
        grid("soft=0.85,0.9")


@pytest.mark.parametrize(
    "axes", [["soft=0.60:0.79:0.01", "full=0.75:0.89:0.01"], ["offload=1:9000:1", "preview_bytes=1:9000:1"]]
)
def test_a_sample_follows_from_its_seed(axes: Sequence[str]) -> None:
    """The same seed gives the same points, another seed others; none twice and all possible, of large grids too."""
    parsed = parse_axes(axes, SPEC)
    one, again, other = (sampled_grid(parsed, SPEC, FIXED, 30, seed) for seed in (7, 7, 8))
    assert one == again
    assert one.points != other.points
    assert len(set(one.points)) == 30
    assert one.sampled
    for number in range(30):
        assert not list(SPEC.check({**FIXED, **one.options(number)}))


def test_more_trials_than_points_is_the_whole_grid() -> None:
    """A sample that could not be smaller is the full grid, in its order."""
    parsed = parse_axes(["soft=0.60:0.80:0.05"], SPEC)
    sample = sampled_grid(parsed, SPEC, FIXED, 1000, 1)
    assert sample.points == full_grid(parsed, SPEC, FIXED).points
    assert not sample.sampled


def test_trials_that_reach_all_possible_points_are_the_whole_grid() -> None:
    """Of 9 points 3 are impossible: 7 trials try all the others, and nothing is left out by chance."""
    axes = parse_axes(["soft=0.6,0.7,0.8", "full=0.6,0.7,0.8"], SPEC)
    found = sampled_grid(axes, SPEC, FIXED, 7, seed=0)
    assert found == full_grid(axes, SPEC, FIXED)
    assert not found.sampled
    assert sampled_grid(axes, SPEC, FIXED, 5, seed=0).sampled


def test_a_sample_of_a_huge_grid_comes_at_once() -> None:
    """Five parameters of 10,000 values have more points than 64 bits can number; three are drawn all the same."""
    fine = "=0.0001:1:0.0001"
    axes = parse_axes([*(name + fine for name in ("warn", "soft", "full", "emergency")), "offload=1:10000:1"], SPEC)
    made = sampled_grid(axes, SPEC, FIXED, 3, 0)
    assert len(set(made.points)) == 3
    assert made.of == 10**20


def test_no_point_of_a_large_grid_is_drawn_twice() -> None:
    """Of 160,000 points 2,000 are drawn: some come again, and are not tried again."""
    axes = parse_axes(["offload=1:400:1", "preview_bytes=1:400:1"], SPEC)
    assert len(set(sampled_grid(axes, SPEC, FIXED, 2000, 1).points)) == 2000


def test_what_was_not_drawn_is_not_said_to_be_impossible() -> None:
    """Of a huge grid 100 points a trial are drawn: where none of them is possible, the message speaks of these."""
    axes = parse_axes(["soft=0.7:0.99999:0.0001", "full=0.0001:0.701:0.0001"], SPEC)
    # 3,000 values by 7,010; possible are 0.7 <= soft <= full <= 0.701 alone, 11 * 12 / 2 = 66 points.
    with pytest.raises(SettingsError, match=r"none of 100 points drawn of its 21,030,000 is possible; draw more with"):
        sampled_grid(axes, SPEC, FIXED, 1, seed=0)


@pytest.mark.parametrize("limit", [2**64 + 1, 0, -1])
def test_dice_refuse_what_they_cannot_draw(limit: int) -> None:
    """A limit beyond the dice is an error and no endless search."""
    with pytest.raises(ValueError, match="is not a limit"):
        Dice(0).below(limit)
