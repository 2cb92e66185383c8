"""Each weakness of both designs (W1 to W16) is found where it happens, and not in a healthy twin."""

from __future__ import annotations

from collections.abc import Sequence

from compactctl.model import Message
from tests.findings.scenes import Scene, Told, lines

GOOD = "### User Intent\nPlease fix the parser.\n### Next Steps\nrun make\n## Summary\nThe parser is being fixed."


def growing(scene: Scene, count: int = 40) -> list[Message]:
    """A session that grows by about 110 decision tokens a turn, 4,500 in all."""
    return [scene.system(), scene.user(), *scene.steps(count, 400), scene.end()]


def test_w1_permanent_emergency_is_found_and_write_back_clears_it(scene: Scene) -> None:
    """A history that only grows ends in Emergency for good; the same one written back does not."""
    ill = scene.judge(growing(scene), history="view")
    finding = ill.finding("permanent-emergency")
    assert finding.figures["from_turn"] == finding.turns[0]
    assert finding.turns[-1] == ill.trace.turns - 1
    assert "--history write-back" in finding.advice
    assert ill.value("m8.emergency_run") == len(finding.turns) > 3
    healthy = scene.judge(growing(Scene()), history="write-back")
    assert not {"permanent-emergency", "emergency-run"} & healthy.ids()
    assert healthy.value("m8.emergency_run") == 0


def test_w2_a_summary_at_every_turn_is_found(scene: Scene) -> None:
    """In view mode every turn above the threshold asks for its own summary of the same messages."""
    ill = scene.judge(growing(scene, 33), history="view")
    assert {"summary-every-turn", "summarised-again"} <= ill.ids()
    assert ill.known("m4.resummarized_messages") > 0
    healthy = scene.judge(growing(Scene(), 33), history="write-back")
    assert not {"summary-every-turn", "summarised-again"} & healthy.ids()
    assert healthy.value("m4.resummarized_messages") == 0


def test_w3_the_task_is_gone_after_an_emergency(scene: Scene) -> None:
    """The seed's Emergency keeps the last message only; harness9 of today keeps the task."""
    ill = scene.judge(growing(scene), history="view")
    assert {"task-gone", "system-only-view"} <= ill.ids()
    assert ill.finding("task-gone").severity == "error"
    assert ill.value("m7.first_user_kept") == 0
    batch = [scene.system(), scene.user(), *scene.steps(6, 400), *scene.batch(6, 3000), scene.end()]
    healthy = scene.judge(batch, "harness9")
    assert healthy.value("m8.turns_emergency") == 1
    assert not {"task-gone", "system-only-view"} & healthy.ids()
    assert healthy.value("m7.first_user_kept") == 1


def test_w4_a_batch_that_jumps_past_all_tiers_is_found_with_what_offloading_would_have_done(scene: Scene) -> None:
    """One large batch takes the view from None to Emergency although placeholders alone would have been enough."""
    # Four of the ten results of 5,000 bytes stand before the tail; their placeholders are a tenth as long.
    ill = scene.judge([scene.system(), scene.user(), *scene.batch(10, 5000), scene.end()], window=10_000)
    assert ill.finding("jump-to-emergency").figures == {"jumps": 1, "offload_enough": 1}
    # With all six in the tail nothing can be offloaded.
    full = scene.judge([scene.system(), scene.user(), *scene.batch(6, 7000), scene.end()], window=10_000)
    assert full.finding("jump-to-emergency").figures == {"jumps": 1, "offload_enough": 0}
    healthy = scene.judge([scene.system(), scene.user(), *scene.batch(10, 500), scene.end()], window=10_000)
    assert "jump-to-emergency" not in healthy.ids()


def test_w5_a_giant_tail_makes_the_tiers_blind(scene: Scene) -> None:
    """The tail counts messages: when they are giant, Warn finds nothing to offload. A small tail lets it."""
    messages = [scene.system(), scene.user(), *scene.batch(5, 2100), scene.end()]
    ill = scene.judge(messages)
    assert ill.value("m8.noop_turns") == 1  # 5 * 2,100 bytes are 0.66 of 4,000 tokens; no result is above 4,000 bytes
    assert {"tail-blind", "unreachable-threshold"} <= ill.ids()
    small = scene.judge([scene.system(), scene.user(), *scene.steps(5, 2100), scene.end()], min_tail_messages=2)
    assert "tail-blind" not in scene.judge([scene.system(), scene.user(), *scene.steps(5, 400), scene.end()]).ids()
    assert "unreachable-threshold" not in small.ids()


def test_w6_results_that_a_cut_tears_from_their_calls_are_counted(scene: Scene) -> None:
    """Eight parallel calls and a tail of six: the six newest results, which nobody has read, are dropped."""
    messages = [scene.system(), scene.user(), *scene.steps(4, 100), *scene.batch(8, 1500), scene.end()]
    ill = scene.judge(messages)
    assert {"messages-dropped", "unread-results-lost"} <= ill.ids()
    assert ill.value("m5.unread_results_lost") == 8  # six dropped, two summarised before they were read
    assert ill.finding("messages-dropped").figures["messages"] == 6
    healthy = scene.judge(messages, min_tail_messages=9)
    assert not {"messages-dropped", "unread-results-lost"} & healthy.ids()
    assert healthy.value("m5.unread_results_lost") == 0


def test_w7_a_placeholder_that_is_no_smaller_is_found(scene: Scene) -> None:
    """Previews count lines: a result of one long line has a placeholder that is longer than itself."""

    def session(body: str) -> Sequence[Message]:
        return [scene.system(), scene.user(), *scene.step(body=body), *scene.steps(4, 100), scene.end()]

    ill = scene.judge(session("x" * 9000), window=4000)
    assert "offload-grew" in ill.ids()
    assert ill.finding("offload-grew").figures["placeholders"] == 1
    assert "offload-grew" not in scene.judge(session(lines(9000)), window=4000).ids()


def test_w8_an_estimate_that_is_off_is_a_headline(scene: Scene) -> None:
    """Recorded prompts far above bytes / 4 are an error, since the thresholds then lie beyond the window."""

    def session(overhead: int, rate: float) -> list[Message]:
        messages = [scene.system(40), scene.user("x" * 60)]
        size = 100
        for _ in range(8):
            step = scene.step(4000, prompt=round(overhead + size * rate))
            size += sum(
                len(m.content) + len(m.tool_call_id) + sum(len(c.id + c.name + c.arguments) for c in m.tool_calls)
                for m in step
            )
            messages += step
        return [*messages, scene.end(round(overhead + size * rate))]

    ill = scene.judge(session(20_000, 0.4), window=200_000)
    assert ill.findings[0].id == "estimate-off"
    assert ill.findings[0].severity == "error"
    assert ill.known("m1.estimate_ratio") > 3
    healthy = scene.judge(session(0, 0.25), window=200_000)
    assert "estimate-off" not in healthy.ids()
    assert healthy.value("m1.estimate_ratio") == 1.0


def test_w9_a_cache_that_is_broken_at_every_call_is_found(scene: Scene) -> None:
    """A trigger without a least amount clears one result at each call and makes the rest new in the cache."""
    messages = [scene.system(), scene.user(), *scene.steps(30, 2000), scene.end()]
    ill = scene.judge(messages, "clear-tool-uses", trigger=2000, keep=3)
    assert {"cache-thrash", "dearer-than-none"} & ill.ids() == {"cache-thrash"}
    assert ill.known("m3.rewrites_per_100") > 50
    healthy = scene.judge(messages, "none")
    assert "cache-thrash" not in healthy.ids()
    assert healthy.value("m3.rewrites_per_100") == 0


def test_w10_a_compaction_that_ends_just_below_its_threshold_is_found(scene: Scene) -> None:
    """A failed summary falls back to 80 % of the window, so that the next turn is above the threshold again."""
    ill = scene.judge(growing(scene, 40), history="write-back", summarizer=Told(None))
    assert {"no-headroom", "summary-failed"} <= ill.ids()
    healthy = scene.judge(growing(Scene(), 40), history="write-back", summarizer=Told(GOOD))
    assert not {"no-headroom", "summary-failed"} & healthy.ids()


def test_w11_a_summarizer_without_room_is_found(scene: Scene) -> None:
    """Reading 0.7 of the window and writing up to 0.4 of it cannot both fit."""
    ill = scene.judge(growing(scene), history="write-back", summary_tokens=1600)
    assert "summary-no-room" in ill.ids()
    assert "summary-no-room" not in scene.judge(growing(Scene()), history="write-back").ids()


def test_w12_names_that_summaries_lose_are_counted(scene: Scene) -> None:
    """A second summary without the names of the first is drift; one that keeps them is not."""
    names = "### Execution Progress\nchanged src/app/main.py and parse_line, see error_table\n## Summary\nWork."
    messages = growing(scene, 60)
    healthy = scene.judge(messages, history="write-back", summarizer=Told(names))
    assert healthy.known("m4.summarizer_calls") >= 2
    assert healthy.value("m7.drift") == 0
    assert "anchors-drift" not in healthy.ids()
    others = names.replace("parse_line, see error_table", "token_class, see grammar_rules")
    ill = scene.judge(messages, history="write-back", summarizer=Told(*[names, others] * 9))
    # Two of the three names are others each time.
    assert abs(ill.known("m7.drift") - 2 / 3) < 1e-9
    assert "anchors-drift" in ill.ids()


def test_w13_results_that_are_pruned_unread_are_found(scene: Scene) -> None:
    """dsh's pruner spares nothing: a result is cut before any call has seen it."""
    messages = [scene.system(), scene.user(), *scene.steps(3, 1000), *scene.step(20_000), scene.end()]
    ill = scene.judge(messages, "dsh", window=6000)
    assert "unread-results-cut" in ill.ids()
    assert ill.value("m5.unread_results_cut") == 1
    healthy = scene.judge([scene.system(), scene.user(), *scene.steps(20, 1000), scene.end()], "dsh", window=6000)
    assert healthy.value("m5.unread_results_cut") == 0
    assert "unread-results-cut" not in healthy.ids()


def test_w14_a_fallback_that_did_nothing_and_an_empty_summary_are_found(scene: Scene) -> None:
    """At Soft the fallback's budget is not reached, so that a failed summary changes nothing; an empty one is taken."""
    silent = scene.judge(growing(scene, 28), summarizer=Told(None))
    assert "fallback-did-nothing" in silent.ids()
    empty = scene.judge(growing(scene, 28), summarizer=Told(""))
    assert {"summary-empty", "anchors-empty"} <= empty.ids()
    healthy = scene.judge(growing(scene, 28), summarizer=Told(GOOD))
    assert not {"fallback-did-nothing", "summary-empty", "anchors-empty", "summary-failed"} & healthy.ids()


def test_w15_what_the_summarizer_reads_is_on_the_bill(scene: Scene) -> None:
    """Tokens of summarizer calls are counted and priced, and a dear summarizer is told of."""
    ill = scene.judge(growing(scene, 33), history="view")
    assert ill.known("m4.summary_input_tokens") > 0
    assert "summarizer-dear" in ill.ids()
    healthy = scene.judge(growing(scene, 20))
    assert healthy.value("m4.summary_input_tokens") == 0
    assert "summarizer-dear" not in healthy.ids()


def test_w16_one_session_says_nothing_about_another(scene: Scene) -> None:
    """Judging another session in between changes no figure: nothing is carried over."""
    messages = growing(scene, 33)
    first = scene.judge(messages)
    scene.judge([Message("user", "other"), *scene.steps(30, 900, text="src/other/file.py"), scene.end()])
    assert scene.judge(messages).measured == first.measured
