"""From figures to a choice: the front, the gates, the flat region, and when nothing is recommended."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from hypothesis import given, strategies as st

from compactctl.measures._spec import Measured
from compactctl.ports import CompactorSpec
from compactctl.registry import plugin
from compactctl.settings import compactor_options
from compactctl.tuning.choice import Result, decide
from compactctl.tuning.dice import Dice
from compactctl.tuning.gates import Row
from compactctl.tuning.grid import full_grid, parse_axes
from compactctl.tuning.judging import Prefer
from compactctl.tuning.split import bootstrap, split

SPEC = plugin("compactctl.compactors", CompactorSpec, "progressive", "compactor")
FIXED = compactor_options(SPEC, {})
NAMES = [f"session-{number}" for number in range(12)]


def row(cost: float | None, recall: float | None = 0.9, peak: float = 0.8, faults: float = 0, failed: float = 0) -> Row:
    """Give the figures of one replay."""
    return {
        "m3.cost_usd": Measured(cost, "" if cost is not None else "no price"),
        "m6.recall_visible": Measured(recall, "" if recall is not None else "nothing to recall"),
        "tokens": Measured(1000.0),
        "real_peak_occupancy": Measured(peak),
        "m5.faults": Measured(faults),
        "failed_turns": Measured(failed),
    }


def decided(
    figures: Callable[[int, int], Row],
    *,
    points: int = 5,
    sessions: Sequence[str] = NAMES,
    present: int = 0,
    **more: object,
) -> Result:
    """Decide over points 0, 1, ... of one axis; ``figures`` gives those of a point in a session."""
    values = ",".join(f"{0.70 + number / 100:.2f}" for number in range(points))
    grid = full_grid(parse_axes([f"soft={values}"], SPEC), SPEC, FIXED)
    rows = [[figures(point, at) for at in range(len(sessions))] for point in range(points)]
    return decide(grid, rows, sessions, present, seed=1, **more)  # type: ignore[arg-type]  # keywords as they come


def test_the_known_best_is_found_and_holds_on_the_sessions_kept_back() -> None:
    """Cost falls up to point 3 with recall kept; point 4 is cheaper still, but forgets: 3 is recommended."""
    cost = [1.0, 0.9, 0.8, 0.6, 0.4]
    recall = [0.9, 0.9, 0.9, 0.9, 0.5]
    result = decided(lambda point, at: row(cost[point] * (1 + at), recall[point]))
    found = result.recommendation
    assert found.number == 3
    assert found.flat == (3,)
    assert found.tuning is not None
    assert found.held_out is not None
    # 0.6 / 1.0 - 1 = -40 % in every session, kept back or not.
    for part in (found.tuning, found.held_out):
        interval = part["cost"]
        assert interval is not None
        assert (interval.change, interval.low, interval.high) == pytest.approx((-0.4, -0.4, -0.4))
    assert [point.number for point in result.points if point.on_front] == [3, 4]


@pytest.mark.parametrize(
    ("recall", "peak", "sessions", "words"),
    [
        (0.9, 0.8, 12, "no worse in anything else"),
        # 0.896 / 0.9 and 0.004 points: less than the tolerance of 1 %, and not nothing.
        (0.896, 0.8, 12, "worse in nothing by more than 1%"),
        (0.9, 0.9, 12, "no worse in anything else; the window gets fuller, which is no loss while requests fit it"),
        (0.9, 0.8, 1, "no worse in anything else; on one session alone, which does not rule out chance"),
    ],
)
def test_a_recommendation_says_what_it_gives_up(recall: float, peak: float, sessions: int, words: str) -> None:
    """A loss within the tolerance, a fuller window and a single session are told beside the gain."""
    result = decided(
        lambda point, at: row(1.0 - point / 2, (0.9, recall)[point], (0.8, peak)[point]),
        points=2,
        sessions=NAMES[:sessions],
    )
    assert result.recommendation.number == 1
    assert result.recommendation.reason == f"better in cost than the present setting, and {words}"


def test_without_recall_where_it_counts_nothing_is_recommended() -> None:
    """Recall of the sessions kept back alone does not say what a cheaper setting forgets on those tuned on."""
    kept_back = set(decided(lambda point, at: row(1.0)).split.held_out)
    result = decided(lambda point, at: row(1.0 - point / 10, 0.9 - point / 10 if at in kept_back else None))
    assert result.recommendation.number is None
    assert result.recommendation.reason.startswith("recall was not measured on the sessions tuned on")


def test_a_choice_that_forgets_on_the_sessions_kept_back_is_not_recommended() -> None:
    """Cheaper everywhere, and without a loss where it was tuned; on the sessions kept back recall falls by half."""
    kept_back = set(decided(lambda point, at: row(1.0)).split.held_out)
    result = decided(lambda point, at: row(1.0 - point / 10, 0.45 if point and at in kept_back else 0.9))
    assert result.recommendation.number is None
    assert "loses recall on the sessions kept back; keep the present setting" in result.recommendation.reason


def test_what_matters_on_the_sessions_kept_back_alone_is_told() -> None:
    """It would be false to say that nothing matters, and wrong to choose by the sessions that shall test the choice."""
    kept_back = set(decided(lambda point, at: row(1.0)).split.held_out)
    result = decided(lambda point, at: row(1.0 + point if at in kept_back else 1.0))
    assert result.recommendation.number is None
    assert result.recommendation.reason.startswith("nothing matters on the sessions tuned on, but on those kept back")


def test_many_points_that_tie_are_judged_as_one() -> None:
    """Of thousands of settings with the same figures none dominates another: each is on the front."""
    result = decided(lambda point, at: row(1.0), points=4_000, sessions=NAMES[:1])
    assert all(point.on_front for point in result.points)


def test_one_setting_alone_is_no_choice() -> None:
    """A grid of the present setting alone does not show that nothing matters."""
    assert decided(lambda point, at: row(1.0), points=1).recommendation.reason.startswith("there is nothing to choose")


def test_where_nothing_matters_it_says_so() -> None:
    """Settings that give the same figures everywhere get no recommendation."""
    result = decided(lambda point, at: row(1.0 + at))
    assert result.recommendation.number is None
    assert "nothing here matters" in result.recommendation.reason


def test_a_gain_within_chance_is_not_recommended() -> None:
    """A point that halves one session and worsens the others by a little is no gain that one can rely on."""
    result = decided(lambda point, at: row(1.0 if point == 0 else 0.4 if at == 0 else 1.02), points=2)
    assert result.recommendation.number is None
    assert "chance" in result.recommendation.reason or "none that loses nothing" in result.recommendation.reason


def test_a_gain_that_the_sessions_kept_back_do_not_show_is_not_recommended() -> None:
    """A gain on the sessions tuned on that turns round on those kept back is told and not taken."""
    held = set(split(NAMES, 1).held_out)
    assert held
    result = decided(lambda point, at: row(1.0 if point == 0 else 1.3 if at in held else 0.7), points=2)
    assert result.recommendation.number is None
    assert "does not hold on the sessions kept back" in result.recommendation.reason


def test_the_present_setting_is_kept_where_the_rest_only_trades() -> None:
    """Cheaper settings that all forget more are on the front, and none is recommended."""
    result = decided(lambda point, at: row(1.0 - point / 10, 0.9 - point / 10))
    assert result.recommendation.number is None
    assert "none that loses nothing" in result.recommendation.reason
    assert all(point.on_front for point in result.points)


def test_points_that_fail_a_gate_are_never_on_the_front_nor_recommended() -> None:
    """The cheapest point introduces a fault and is out, however cheap; it also dominates nobody."""
    result = decided(lambda point, at: row(1.0 - point / 10, faults=1 if point == 4 else 0))
    assert result.points[4].broken == ("protocol faults",)
    assert not result.points[4].on_front
    assert result.recommendation.number == 3
    assert result.points[3].on_front


def test_where_no_point_is_free_of_a_fault_the_gate_is_the_least() -> None:
    """A gate that nobody passes would end every search: it becomes the least that any reaches, and is told."""
    result = decided(lambda point, at: row(1.0, faults=1 if point == 2 else 3))
    gate = next(gate for gate in result.gates if gate.key == "m5.faults")
    assert gate.limit == len(NAMES)
    assert [point.number for point in result.points if not point.broken] == [2]
    assert any("is free of protocol faults" in note for note in result.notes)
    assert result.recommendation.number == 2
    assert "fails a gate" in result.recommendation.reason


def test_the_middle_of_a_plateau_is_recommended_and_the_plateau_is_shown() -> None:
    """Where points 1 to 3 are as good as each other, the middle one is the least risky."""
    cost = [1.0, 0.5, 0.5, 0.5, 0.9]
    result = decided(lambda point, at: row(cost[point]))
    assert result.recommendation.number == 2
    assert result.recommendation.flat == (1, 2, 3)


def test_the_flat_region_is_connected() -> None:
    """A point that is as good by chance, but beyond a ridge, is not part of the flat region."""
    cost = [1.0, 0.5, 0.9, 0.5, 0.9]
    result = decided(lambda point, at: row(cost[point]))
    best = result.recommendation.number
    assert result.recommendation.flat == (best,)


def test_without_recall_nothing_is_recommended() -> None:
    """Cheaper and blind is no recommendation: without M6 nobody knows what was forgotten."""
    result = decided(lambda point, at: row(1.0 - point / 10, recall=None))
    assert result.recommendation.number is None
    assert "recall was not measured" in result.recommendation.reason
    assert any("nothing to recall" in note for note in result.notes)


def test_cost_falls_back_to_tokens_and_says_why() -> None:
    """Where no price is known, tokens are compared instead, loudly."""
    result = decided(lambda point, at: row(None))
    assert result.objectives[0].key == "tokens"
    assert any("no price" in note for note in result.notes)


def test_a_session_without_a_figure_is_left_out_of_it_everywhere() -> None:
    """A session that has nothing to recall at one point has no part in recall at any point."""
    result = decided(lambda point, at: row(1.0, recall=None if at == 0 and point == 2 else 0.1 if at == 0 else 0.9))
    assert all(point.tuning["recall"] == pytest.approx(0.9) for point in result.points)


def test_few_sessions_are_not_split_and_it_says_so() -> None:
    """With five sessions everything is tuned on, and the note says that the choice is checked on nothing."""
    result = decided(lambda point, at: row(1.0 - point / 10), sessions=NAMES[:5])
    assert result.split.held_out == ()
    assert any("too few to keep some back" in note for note in result.notes)
    assert result.recommendation.number == 4


def test_another_objective_can_be_preferred() -> None:
    """With --prefer recall the recommendation must better recall."""
    result = decided(lambda point, at: row(1.0, 0.5 + point / 10), prefer=Prefer.RECALL)
    assert result.recommendation.number == 4


def test_sensitivity_says_how_far_each_objective_moves() -> None:
    """Costs of 10 to 14 over one axis are 40 % of the smallest apart; recall that stays is 0 apart."""
    result = decided(lambda point, at: row(10.0 + point), sessions=NAMES[:1])
    (effect,) = result.effects
    assert effect.means["cost"] == (10, 11, 12, 13, 14)
    assert effect.spread["cost"] == pytest.approx(0.4)
    assert effect.spread["recall"] == 0


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4), st.integers(0, 1)), min_size=1, max_size=12))
def test_the_front_is_what_nobody_passing_dominates(figures: list[tuple[int, int, int]]) -> None:
    """Whatever the figures, the front is the points that pass and that no passing point betters without a loss."""
    result = decided(
        lambda point, at: row(figures[point][0] + 1.0, figures[point][1] / 4, faults=figures[point][2]),
        points=len(figures),
        sessions=["one"],
    )
    least = min(faults for _, _, faults in figures)
    for point in result.points:
        cost, recall, faults = figures[point.number]
        beaten = any(f == least and c <= cost and r >= recall and (c < cost or r > recall) for c, r, f in figures)
        assert point.on_front == (faults == least and not beaten)


@pytest.mark.parametrize(("count", "held"), [(6, 2), (7, 3), (12, 4), (60, 20)])
def test_a_third_is_kept_back_whatever_the_order(count: int, held: int) -> None:
    """It is a third, rounded up; the same sessions in another order are parted alike, with another seed not."""
    names = [f"s{number}" for number in range(count)]
    parts = split(names, 3)
    assert len(parts.held_out) == held
    assert sorted((*parts.held_out, *parts.tuning)) == list(range(count))
    back = split(names[::-1], 3)
    assert {names[::-1][at] for at in back.held_out} == {names[at] for at in parts.held_out}
    assert any(split(names, seed).held_out != parts.held_out for seed in range(4, 8))


def test_the_bootstrap_is_seeded_and_brackets_the_mean() -> None:
    """The interval is the same for the same seed, narrower for less spread, and holds the mean."""
    values = [0.0, 1.0] * 20
    pairs = [(value, 0.0) for value in values]

    def mean(some: Sequence[tuple[float, float]]) -> float:
        return sum(here - there for here, there in some) / len(some)

    one, again = bootstrap(pairs, mean, 5), bootstrap(pairs, mean, 5)
    assert one == again
    assert one is not None
    # The standard error of the mean is 0.5 / sqrt(40) = 0.079; 95 of 100 resamples are within about twice that.
    assert one.low == pytest.approx(0.5 - 0.155, abs=0.03)
    assert one.high == pytest.approx(0.5 + 0.155, abs=0.03)
    assert bootstrap([], mean, 5) is None


def test_a_change_is_that_of_the_totals_beside_it() -> None:
    """One large session that saves nothing outweighs five small ones that halve: the totals say so, and so does it."""
    sizes = [90.0, 2.0, 2.0, 2.0, 2.0, 2.0]
    result = decided(
        lambda point, at: row(sizes[at] if point == 0 or at == 0 else sizes[at] / 2), points=2, sessions=NAMES[:6]
    )
    found = result.recommendation
    assert found.tuning is not None
    assert found.held_out is not None
    for changes, field in ((found.tuning, "tuning"), (found.held_out, "held_out")):
        here, there = (getattr(result.points[number], field)["cost"] for number in (1, 0))
        assert changes["cost"] is not None
        assert changes["cost"].change == pytest.approx(here / there - 1)


def test_where_the_present_setting_wins_it_is_not_compared_with_itself() -> None:
    """The best is the present setting: keep it, without figures of it against itself."""
    found = decided(lambda point, at: row(1.0 + point)).recommendation
    assert (found.number, found.best) == (None, 0)
    assert found.reason.startswith("keep the present setting")
    assert found.tuning is None


@pytest.mark.parametrize(
    ("ratio", "advice"), [(1.5, "--meter calibrated"), (1.0, "try lower thresholds"), (673, "try lower thresholds")]
)
def test_what_no_setting_is_free_of_is_told_with_what_helps(ratio: float, advice: str) -> None:
    """Both points have a turn above the window: the gate is 1; what helps depends on why, and 673 is no ratio."""

    def figures(point: int, at: int) -> Row:
        over = {"m1.overshoot_turns": Measured(float(at == 0)), "m1.estimate_ratio": Measured(ratio)}
        return {**row(1.0 + point), **over}

    result = decided(figures, points=2)
    assert not any(point.broken for point in result.points)
    told = "no setting that passes the other gates is free of turns above the window: the least is 1; "
    assert any(note.startswith(told) and advice in note for note in result.notes)


def test_gates_that_exclude_each_other_leave_a_setting() -> None:
    """Point 0 has 12 faults, point 1 a turn above the window: that gate comes first, and point 0 is what is left."""

    def figures(point: int, at: int) -> Row:
        return {**row(1.0 + point, faults=1 - point), "m1.overshoot_turns": Measured(float(point == 1 and at == 0))}

    result = decided(figures, points=2, present=1)
    assert [point.broken for point in result.points] == [(), ("turns above the window",)]
    assert [(gate.name, gate.limit) for gate in result.gates if gate.limit] == [("protocol faults", 12)]
    assert result.recommendation.number == 0
    assert result.recommendation.reason.startswith("the present setting fails a gate: turns above the window")


@given(st.integers(0, 1000), st.integers(1, 50))
def test_dice_are_fair_enough_and_repeatable(seed: int, limit: int) -> None:
    """Numbers stay below the limit, follow from the seed, and a shuffle loses nothing."""
    one, other = Dice(seed), Dice(seed)
    assert [one.below(limit) for _ in range(20)] == [other.below(limit) for _ in range(20)]
    assert sorted(Dice(seed).shuffled(limit)) == list(range(limit))
