"""What is said of a compactor's count, and what is advised about it, rests on what the session recorded."""

from __future__ import annotations

import re

import pytest

from compactctl.model import Message, Parts
from compactctl.ports import CompactorSpec
from compactctl.registry import plugin
from tests.findings.scenes import Scene, bytes_of, charged, growing


def chinese(scene: Scene, count: int = 30) -> list[Message]:
    """A session without usage whose characters are three bytes each, and one to dsh's meter."""
    body = "所有这些检查都没有任何问题地通过了" * 16
    return [scene.system(), scene.user(), *scene.steps(count, 0, body=body), scene.end()]


def test_without_recorded_usage_no_count_is_called_wrong(scene: Scene) -> None:
    """Bytes / 4 stand in for real tokens there, and an estimate does not convict a meter that may be the truer one."""
    judged = scene.judge(chinese(scene), meter="dsh", window=12_000)
    assert not {"estimate-off", "tier-disagreement", "early-compaction"} & judged.ids()


def test_without_recorded_usage_an_early_compaction_is_one_by_its_own_count(scene: Scene) -> None:
    """A threshold at 30 % is early by any count, and nothing is called real that nobody measured."""
    judged = scene.judge(chinese(scene), meter="dsh", window=4_000, warn_threshold=0.3, soft_threshold=0.3)
    early = judged.finding("early-compaction")
    assert "of the window by its own count (no usage was recorded)" in early.message
    assert "real" not in early.message
    assert "--meter" not in early.advice


def test_a_request_that_is_too_large_by_an_estimate_is_said_to_be(scene: Scene) -> None:
    """A user sees whether a provider's own count or bytes / 4 says that requests do not fit."""
    guessed = scene.judge(growing(scene, 40), "none").finding("window-exceeded")
    assert guessed.message.endswith("tokens by the estimate of bytes / 4 (no usage was recorded)")
    assert scene.judge(charged(scene, 2_000, 0.25), "none").finding("window-exceeded").message.endswith("real tokens")


@pytest.mark.parametrize("compactor", ["progressive", "dsh", "codex", "truncate", "none", "claude-code"])
def test_a_meter_that_needs_usage_is_advised_only_where_there_is_some(scene: Scene, compactor: str) -> None:
    """The calibrated meter refuses a session without recorded usage, so that nobody is sent to it with one."""
    picture = Message("user", "look", parts=Parts(texts=("look",), images=2, image_bytes=500_000))
    for messages in (growing(scene, 60), [picture, *growing(scene, 60)], chinese(scene)):
        judged = scene.judge(messages, compactor, meter="bytes4")
        assert not [finding for finding in judged.findings if "--meter calibrated" in finding.advice]


def test_images_are_counted_by_a_tokenizer_where_no_usage_was_recorded(scene: Scene) -> None:
    """There is a way out for who has images in a session without usage."""
    picture = Message("user", "look", parts=Parts(texts=("look",), images=2, image_bytes=500_000))
    found = scene.judge([scene.system(), picture, *scene.steps(2), scene.end()]).finding("uncounted-data")
    assert re.search(r"--meter o200k_base\)$", found.advice)


def flags(advice: str) -> dict[str, float]:
    """The options that an advice says how to set."""
    return {name: float(value) for name, value in re.findall(r"--set (\w+)=([\d.]+)", advice)}


@pytest.mark.parametrize("compactor", ["progressive", "progressive-safe", "harness9", "dsh", "truncate"])
def test_the_thresholds_that_are_advised_can_be_set_and_end_the_advice(scene: Scene, compactor: str) -> None:
    """Who pastes the flags is not refused for their order, and is not told to go lower still."""
    spec = plugin("compactctl.compactors", CompactorSpec, compactor, "compactor")
    messages = charged(scene, 40_000, 0.45, 30)
    told = scene.judge(messages, compactor, window=200_000, meter="bytes4").finding("estimate-off").advice
    named = {spec.option_names()[name].name: value for name, value in flags(told).items()}
    assert named
    settings = {option.name: option.default for option in spec.options} | named
    assert not list(spec.check(settings))
    assert "estimate-off" not in scene.judge(messages, compactor, window=200_000, meter="bytes4", **named).ids()


def test_a_threshold_that_acts_where_it_is_meant_to_is_lowered_no_further(scene: Scene) -> None:
    """A user who lowered some thresholds by hand is not sent after a share that nobody wants."""
    messages = charged(scene, 40_000, 0.4, 10)
    own = {"warn_threshold": 0.3, "soft_threshold": 0.33, "full_threshold": 0.37}
    assert "estimate-off" not in scene.judge(messages, window=200_000, **own).ids()
    # Too late still: the share to come to is that of the default, and not of what was set in vain.
    half = scene.judge(messages, window=200_000, **(own | {"full_threshold": 0.6})).finding("estimate-off")
    assert flags(half.advice)["full"] in (0.37, 0.38)


def test_thresholds_move_together_where_no_view_came_near_them(scene: Scene) -> None:
    """Full cannot go below Soft, so that alone it does not help a session whose count never came to Soft."""
    judged = scene.judge(charged(scene, 90_000, 0.5, 30), window=120_000)
    for name in ("window-exceeded", "request-failed"):
        advice = judged.finding(name).advice
        safer = "let a safer compactor count real tokens (--compactor progressive-safe --meter calibrated)"
        assert advice.startswith(f"{safer}, or lower the thresholds together (")
        assert "--set full=..." not in advice or "--set soft=..." in advice
    reserved = scene.judge(growing(scene, 24), reserve=2500).finding("window-exceeded")
    assert reserved.advice == "lower the thresholds together (--set warn=... --set soft=... --set full=...)"


def test_a_threshold_is_turned_with_those_that_stand_where_it_does(scene: Scene) -> None:
    """Lowering one of two equal thresholds alone would be refused."""
    equal = {"soft_threshold": 0.8, "full_threshold": 0.8}
    found = scene.judge(growing(scene), history="write-back", summary_tokens=1600, **equal).finding("summary-no-room")
    assert found.advice.startswith("summarise earlier (--set soft=... --set full=...)")
    apart = scene.judge(growing(scene), history="write-back", summary_tokens=1600).finding("summary-no-room")
    assert apart.advice.startswith("summarise earlier (--set full=...)")


def test_what_never_compacts_is_told_to_be_replaced(scene: Scene) -> None:
    """Neither a meter nor a threshold makes the compactor none act, and it did count the view as full."""
    for messages, meter, way in (
        (growing(scene, 40), "bytes4", "--compactor progressive-safe"),
        (charged(scene, 2_000, 0.25), "bytes4", "--compactor progressive-safe --meter calibrated"),
        (charged(scene, 2_000, 0.25), "calibrated", "--compactor progressive-safe"),
    ):
        judged = scene.judge(messages, "none", meter=meter)
        assert "since the compactor none never compacts" in judged.finding("request-failed").message
        for name in ("request-failed", "window-exceeded"):
            assert judged.finding(name).advice == f"take a compactor that acts ({way})"
        assert not {"estimate-off", "uncounted-data"} & judged.ids()


def test_a_compactor_that_goes_by_messages_is_sent_to_no_meter(scene: Scene) -> None:
    """A window of messages is full when its messages are, however they are counted."""
    failed = scene.judge(charged(scene, 2_000, 0.25), "sliding-window").finding("request-failed")
    assert "it did nothing, since sliding-window does not go by tokens" in failed.message
    assert failed.advice.startswith("compact earlier (--set max_messages=...), or take a compactor that acts")


def test_a_count_above_the_window_is_not_said_to_have_missed_it(scene: Scene) -> None:
    """A threshold beyond the window is the fault there, and no other count mends it."""
    late = {"warn_threshold": 2.0, "soft_threshold": 2.0, "full_threshold": 2.0, "emergency_threshold": 2.0}
    failed = scene.judge(growing(scene, 45), **late).finding("request-failed")
    assert "it did nothing although the view was above the window by its own count" in failed.message
    assert "take a compactor that acts (--compactor progressive-safe)" in failed.advice


def test_a_session_near_the_limit_is_sent_to_what_acts_in_it(scene: Scene) -> None:
    """Where bytes / 4 never come to a threshold, another compactor with the same count would not act either."""
    messages = charged(scene, 40_000, 0.4, 10)
    window = round((40_000 + bytes_of(messages) * 0.4) / 0.93)
    near = scene.judge(messages, window=window).finding("near-limit")
    safer = "let a safer compactor count real tokens (--compactor progressive-safe --meter calibrated)"
    assert near.advice.startswith(f"{safer}, or lower the thresholds together (")
    advised = scene.judge(messages, "progressive-safe", window=window, meter="calibrated")
    assert (advised.value("m8.compactions") or 0) > 0
    assert "near-limit" not in scene.judge(chinese(scene), "none", meter="dsh", window=6_600).ids()
