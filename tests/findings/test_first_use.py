"""What a newcomer to the tool must not be told wrongly: estimates, cuts without a record, costs, names of tools."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from compactctl.measures import Prices
from compactctl.measures._cost import recorded_cost
from compactctl.model import Message, Usage
from tests.findings.scenes import Scene


def charged(scene: Scene, overhead: int, rate: float, steps: int, size: int = 4000) -> list[Message]:
    """A session whose prompts are ``overhead`` + bytes x ``rate``."""
    messages = [scene.user("x" * 60)]
    seen = 60
    for _ in range(steps):
        step = scene.step(size, prompt=round(overhead + seen * rate))
        seen += sum(
            len(m.content) + len(m.tool_call_id) + sum(len(c.id + c.name + c.arguments) for c in m.tool_calls)
            for m in step
        )
        messages += step
    return [*messages, scene.end(round(overhead + seen * rate))]


def test_a_fixed_part_is_judged_where_the_thresholds_are(scene: Scene) -> None:
    """15,000 tokens of a system prompt are 50 times a short session, and 9 % of a threshold at 160,000."""
    short = scene.judge(charged(scene, 15_000, 0.25, 4, 100), window=200_000)
    assert short.known("m1.estimate_ratio") > 50
    assert "estimate-off" not in [finding.id for finding in short.findings if finding.severity == "error"]

    # 60,000 + 160,000 is more than the window: full comes too late, and that is said of both parts.
    late = scene.judge(charged(scene, 60_000, 0.25, 10), window=200_000).finding("estimate-off")
    assert late.severity == "error"
    assert late.figures["unseen_tokens"] == 60_000
    assert late.figures["slope"] == pytest.approx(1.0, abs=0.01)
    assert late.figures["ratio_at_threshold"] == pytest.approx(1 + 60_000 / 160_000, abs=0.01)
    assert "--overhead 60" in late.advice

    # 20,000 + 160,000 fits.
    assert scene.judge(charged(scene, 20_000, 0.25, 10), window=200_000).finding("estimate-off").severity == "warn"


def test_a_short_session_does_not_convict_thresholds_that_it_never_came_near(scene: Scene) -> None:
    """A rate that was measured on less than a twentieth of a threshold is told as a warning."""
    short = scene.judge(charged(scene, 0, 0.4, 4, 400), window=200_000).finding("estimate-off")
    assert short.severity == "warn"
    assert re.search(
        r"of the real window, if that holds beyond the \d+ tokens of text that the session has$", short.message
    )
    assert scene.judge(charged(scene, 0, 0.4, 9), window=200_000).finding("estimate-off").severity == "error"


def test_a_fall_of_the_prompt_that_nobody_recorded_is_told(scene: Scene) -> None:
    """From 3,700 to 3,000 tokens while the history grew: somebody cut it. Where it only grows, nothing is said."""
    prompts = [1000, 3700, 3000, 3500]
    messages = [scene.user(), *[m for prompt in prompts for m in scene.step(prompt=prompt)]]
    found = scene.judge(messages, "none").finding("unrecorded-cut")
    assert found.turns == (2,)
    assert "fell by 700 at turn 2 (3,700 to 3,000)" in found.message
    growing = [scene.user(), *[m for prompt in sorted(prompts) for m in scene.step(prompt=prompt)]]
    assert "unrecorded-cut" not in scene.judge(growing, "none").ids()


def test_the_session_is_not_said_to_come_where_only_the_replay_came(scene: Scene) -> None:
    """With cuts of the harness the recorded prompts stay at 70 % of a window that the uncut history fills to 90 %."""
    messages, size = [scene.user("x" * 60)], 60
    for turn in range(10):
        cut = 1000 if turn >= 6 else 0
        step = scene.step(1600, prompt=1000 + size // 4 - cut)
        size += sum(
            len(m.content) + len(m.tool_call_id) + sum(len(c.id + c.name + c.arguments) for c in m.tool_calls)
            for m in step
        )
        messages += step
    peak = max(m.usage.prompt for m in messages if m.usage is not None) + 1000
    judged = scene.judge(messages, "none", window=round(peak / 0.95))
    told = judged.finding("near-limit")
    assert told.message.startswith("with nothing that the harness itself cut, the session would come to")


def test_a_protected_tool_that_is_none_is_told_with_the_nearest(scene: Scene) -> None:
    """A typing error in --protect protects nothing, and says so."""
    messages = [scene.user(), *scene.steps(2), scene.end()]
    assert "'bassh'" in scene.judge(messages, protect=["bassh"]).finding("protect-unknown").message
    assert scene.judge(messages, protect=["bassh"]).finding("protect-unknown").advice.endswith("bash")
    assert "protect-unknown" not in scene.judge(messages, protect=["bash"]).ids()


def test_what_the_session_cost_stands_beside_the_model(scene: Scene) -> None:
    """Recorded usage at the same prices: 600 plain, 300 read, 100 written and 50 of reply."""
    prices = Prices(10.0, 50.0, 1.0, 12.0, "own prices", "2026-01-01")
    messages = [scene.user(), Message("assistant", "Done.", usage=Usage(1000, 50, 300, 100))]
    # 600 x 10 + 300 x 1 + 100 x 12 + 50 x 50 = 10,000
    assert scene.judge(messages, "none", prices=prices).value("m3.recorded_cost_usd") == pytest.approx(0.01)
    lacking = scene.judge([*messages, scene.user(), scene.end()], "none", prices=prices)
    assert lacking.measured["m3.recorded_cost_usd"].reason == "1 of 2 model calls recorded no usage"
    silent = scene.judge([scene.user(), scene.end(1000)], "none", prices=prices)
    assert silent.measured["m3.recorded_cost_usd"].reason == "the recorded usage does not say what was cached"

    # Nothing was cached though each prompt begins like the one before: a pause was too long, and the model says less.
    uncached = [scene.user()]
    for prompt in (1000, 1100):
        uncached.append(Message("assistant", "So.", usage=Usage(prompt, 5, 0, prompt)))
        uncached.append(scene.user())
    told = scene.judge(uncached, "none", prices=prices).finding("cost-below-recorded")
    assert "(own prices, 2026-01-01)" in told.message
    assert "never expires" in told.advice


def test_each_recorded_call_costs_what_its_own_model_does(scene: Scene) -> None:
    """A session that changed its model is priced call by call, and has no figure where a model has no price."""
    usage = Usage(1000, 50, 300, 100)
    calls = [Message("assistant", "So.", usage=usage, model=model) for model in ("some-model", "dear-model")]
    trace = scene.judge([scene.user(), *calls], "none", prices=Prices(10.0, 50.0, 1.0, 12.0)).trace
    priced = replace(trace, prices_of={"dear-model": Prices(20.0, 100.0, 2.0, 24.0)}.get)
    # 10,000 and twice as much, in millionths.
    assert recorded_cost(priced, Prices(10.0, 50.0, 1.0, 12.0)).value == pytest.approx(0.03)
    unknown = recorded_cost(trace, Prices(10.0, 50.0, 1.0, 12.0))
    assert unknown.value is None
    assert unknown.reason == "several models, and no price is known for 'dear-model', which made 1 of the calls"


def test_a_key_selects_its_measure(scene: Scene) -> None:
    """--measures takes what budgets and columns are called by."""
    messages = [scene.user(), *scene.steps(2), scene.end()]
    chosen = scene.judge(messages, names=["m3.cost_usd", "m3"]).measured
    assert {key.partition(".")[0] for key in chosen} == {"m3"}


def test_the_lower_threshold_that_is_advised_leaves_the_fixed_part_as_it_is(scene: Scene) -> None:
    """40,000 + bytes x 0.4 is 40,000 + 1.6 x tokens of 4 bytes: 160,000 of them stand at (160,000 - 40,000) / 1.6."""
    found = scene.judge(charged(scene, 40_000, 0.4, 10), window=200_000).finding("estimate-off")

    # (share x 200,000 - 40,000) / 1.6 / 200,000; that of full, 0.375, is rounded as the recorded counts were.
    assert re.search(
        r"lower the thresholds together \(--set warn=0.25 --set soft=0.31 --set full=0.3[78] --set emergency=0.47 "
        r"--history write-back\), "
        r"so that they act at 0.60, 0.70, 0.80 and 0.95 of the real window$",
        found.advice,
    )
