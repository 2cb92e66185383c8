"""What is said of a compactor's count, and what is advised about it, rests on what the session recorded."""

from __future__ import annotations

import re

import pytest

from compactctl.model import Message, Parts
from tests.findings.scenes import Scene, charged, growing


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
