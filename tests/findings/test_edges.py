"""Rules at their edges: just at one nothing is said, just beside it the finding is there."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import pytest

from compactctl.measures import Prices
from compactctl.measures._load import load_of
from compactctl.measures.m3 import unpaid
from compactctl.measures.m8 import compactions_of
from compactctl.model import Message, RecordedCompaction, Usage
from tests.findings.scenes import GOOD, Scene, Told, growing


@pytest.mark.parametrize(("uncached", "found"), [(0, False), (66, False), (67, True)])
def test_a_session_that_cost_a_little_more_than_its_model_is_not_told_of(
    scene: Scene, uncached: int, found: bool
) -> None:
    """Up to 5 % the recorded cost may be above the modelled one: no model is closer than that."""
    # 1,000 written at 12 and 1,000 read at 1 and 100 written at 12 and two replies of 5 at 50: 14,700 millionths.
    # Each token that was written again instead of read costs 11 more, and 5 % are 735: 66 of them are not so much.
    messages = [
        scene.user(),
        Message("assistant", "So.", usage=Usage(1000, 5, 0, 1000)),
        scene.user(),
        Message("assistant", "So.", usage=Usage(1100, 5, 1000 - uncached, 100 + uncached)),
    ]

    judged = scene.judge(messages, "none", prices=Prices(10.0, 50.0, 1.0, 12.0))

    assert judged.value("m3.uncompacted_cost_usd") == pytest.approx(0.0147)
    assert judged.value("m3.recorded_cost_usd") == pytest.approx((14_700 + 11 * uncached) / 1_000_000)
    assert ("cost-below-recorded" in judged.ids()) is found


class Changes:
    """A user's compactor whose user says something new from each of some calls on."""

    def __init__(self, calls: Collection[int]) -> None:
        self.calls = calls
        self.call = self.told = 0

    def compact(self, messages: Sequence[Message]) -> list[Message]:
        """Change what the user says where this is one of the calls."""
        self.told += self.call in self.calls
        self.call += 1
        return [messages[0], Message("user", f"told {self.told}"), *messages[2:]]


@pytest.mark.parametrize(
    ("system", "calls", "rewrites", "warm", "found"),
    [
        # Behind a large system message half of the calls begin otherwise, though most of what is sent is cached.
        (40_000, (1, 3, 5, 7, 9), 50, True, True),
        (40_000, (1, 3, 5, 7), 40, True, False),
        # Behind a small one what is sent is mostly not cached, though fewer than half of the calls begin otherwise.
        (40, (2, 4, 6, 8), 40, False, True),
        (40, (2, 5, 8), 30, True, False),
    ],
)
def test_either_half_of_the_calls_or_half_of_the_tokens_is_enough(
    scene: Scene, system: int, calls: tuple[int, ...], rewrites: int, warm: bool, found: bool
) -> None:
    """A prompt cache is told of where half of the calls break it, and where half of what is sent is not in it."""
    messages = [scene.system(system), scene.user(), *scene.steps(9), scene.end()]

    judged = scene.judge(messages, Changes(calls), history="view", window=200_000)

    assert judged.value("m3.rewrites_per_100") == rewrites
    assert (judged.known("m3.cache_hit_ratio") >= 0.5) is warm
    assert ("cache-thrash" in judged.ids()) is found


def test_what_the_recorded_harness_cleared_early_is_not_laid_to_a_threshold(scene: Scene) -> None:
    """Claude Code cleared at 6 % of the window by itself, and no option moves that; a compaction of the replay is."""
    read = scene.step(4000, name="Read", prompt=10_000)
    rest = [m for prompt in (12_000, 11_500, 11_700) for m in scene.step(prompt=prompt)]
    messages = [scene.user(), *read, *rest, scene.end(11_900)]
    cleared = RecordedCompaction("micro", "auto", 5, 2, cleared=(read[1].tool_call_id,))

    own = scene.judge(messages, "claude-code", window=200_000, harness="claude-code", compactions=[cleared])
    both = scene.judge(
        messages, "claude-code", window=200_000, harness="claude-code", compactions=[cleared], compact_at=[3]
    )

    assert [c.turn for c in compactions_of(own.trace)] == [2]
    assert "early-compaction" not in own.ids()
    assert [c.turn for c in compactions_of(both.trace)] == [2, 3]
    assert both.finding("early-compaction").turns == (3,)


def test_a_compaction_that_freed_nothing_did_not_end_just_below_its_threshold(scene: Scene) -> None:
    """A summary as long as what it replaces is told of as such; one token shorter, and it is the room that is short."""
    messages = growing(scene, 28)
    first, *_ = compactions_of(scene.judge(messages, summarizer=Told(GOOD)).trace)
    freed = first.before - first.after

    for kept, tight in ((freed, False), (freed - 1, True)):
        # Four bytes are a token.
        judged = scene.judge(messages, summarizer=Told(GOOD + "x" * 4 * kept))
        again, *_ = compactions_of(judged.trace)
        assert (again.turn, again.before, again.after) == (first.turn, first.before, first.after + kept)
        assert (first.turn in judged.finding("no-headroom").turns) is tight
        assert ("compaction-grew" in judged.ids()) is not tight


def test_a_compaction_saves_as_long_as_it_lasts(scene: Scene) -> None:
    """In view mode the history is compacted afresh at the next turn: what one compaction made new pays for one turn.

    The first one is the same in both modes: 1,693 tokens are sent instead of 2,851, of which 10 are in the cache. At
    3.75 to write and 0.3 to read it pays back after 1,683 / 1,158 * 11.5 = 16.7 turns: the written-back view has 34.
    """
    views, written = (
        scene.judge(growing(Scene(), 60), history=history, summarizer=Told(GOOD)).trace
        for history in ("view", "write-back")
    )
    (first, following, *_), (alone, *_) = load_of(views).cuts, load_of(written).cuts

    assert (first.turn, following.turn) == (26, 27)
    assert first == alone
    assert first.turn in (unpaid(views) or ())
    assert first.turn not in (unpaid(written) or ())
