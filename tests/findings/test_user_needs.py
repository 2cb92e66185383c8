"""Each numbered case of the users' threads that names a measure: the finding appears, and not in a healthy twin."""

from __future__ import annotations

from collections.abc import Sequence

from compactctl.model import Message, Parts, ToolCall
from tests.findings.scenes import GOOD, KeepsTheLast, Scene, Summarises, Told, bytes_of, charged, growing, lines


def test_01_an_override_that_can_only_lower_says_when_it_does_nothing(scene: Scene) -> None:
    """Claude Code takes the smaller of its two thresholds, so that a high override changes nothing."""
    messages = growing(scene, 5)
    assert "option-without-effect" in scene.judge(messages, "claude-code", window=200_000, pct_override=0.95).ids()
    assert "option-without-effect" not in scene.judge(messages, "claude-code", window=200_000, pct_override=0.5).ids()
    assert "option-without-effect" in scene.judge(messages, full_threshold=0.8, emergency_threshold=0.8).ids()
    assert "option-without-effect" not in scene.judge(messages).ids()


def test_02_compaction_with_most_of_the_window_free_is_found(scene: Scene) -> None:
    """An estimate that counts far too much compacts at a third of the real window."""
    ill = scene.judge(charged(scene, 100, 0.1, 30), window=40_000)
    assert "early-compaction" in ill.ids()
    assert (ill.finding("early-compaction").figures["least_occupancy"] or 1) < 0.5  # type: ignore[operator]  # a number here
    healthy = scene.judge(charged(scene, 0, 0.25, 30), window=40_000)
    assert healthy.known("m8.compactions") > 0
    assert "early-compaction" not in healthy.ids()


def test_04_a_threshold_below_the_fixed_part_is_unreachable(scene: Scene) -> None:
    """29,000 tokens of tools and a threshold of 24,000: every turn would compact, and none would help."""
    ill = scene.judge(charged(scene, 29_000, 0.25), window=40_000, meter="calibrated")
    assert ill.finding("unreachable-threshold").figures["fixed_tokens"] == 29_000
    fits = scene.judge(charged(scene, 2_000, 0.25), window=40_000, meter="calibrated")
    assert "unreachable-threshold" not in fits.ids()
    # A compactor that does not see the fixed part is never driven by it: its threshold is in its own tokens.
    assert "unreachable-threshold" not in scene.judge(charged(scene, 29_000, 0.25), window=40_000).ids()


def test_05_a_spiral_names_the_tool_that_refills_the_view(scene: Scene) -> None:
    """Large results fill the window again within three turns, three times."""
    ill = scene.judge(
        [scene.system(), scene.user(), *scene.steps(20, 3600, name="Read"), scene.end()], history="write-back"
    )
    assert ill.finding("spiral").figures["refilled_by"] == "Read"
    assert ill.known("m8.spiral") >= 3
    healthy = scene.judge(growing(Scene()), history="write-back")
    assert "spiral" not in healthy.ids()


def test_06_a_tail_above_the_threshold_cannot_be_compacted(scene: Scene) -> None:
    """The kept tail alone is above the first threshold at some turns, which are named."""
    messages = [scene.system(), scene.user(), *scene.steps(3, 200), *scene.batch(6, 1900), scene.end()]
    ill = scene.judge(messages)
    assert ill.finding("unreachable-threshold").turns == (4,)
    assert "unreachable-threshold" not in scene.judge(messages, min_tail_messages=2).ids()


def test_07_summaries_that_fail_again_and_again_are_counted(scene: Scene) -> None:
    """A summarizer that never answers is a finding with the number of attempts, and a breaker that trips is one too."""
    ill = scene.judge(growing(scene), summarizer=Told(None), history="view")
    assert ill.finding("summary-failed").figures["failures"] == ill.known("m8.turns_soft") + ill.known("m8.turns_full")
    assert ill.measured["m4.largest_input"].reason == "every summary that was asked for failed"
    assert scene.judge(growing(scene), "none").measured["m4.largest_input"].reason == "the summarizer was never asked"
    breaker = scene.judge(growing(scene, 60, 1600), "claude-code", window=40_000, reserve=0, summarizer=Told(None))
    assert {"summary-failed", "fallback-did-nothing", "gave-up"} <= breaker.ids()
    assert "summary-failed" not in scene.judge(growing(scene), history="view", summarizer=Told(GOOD)).ids()


def test_08_the_reserve_for_the_reply_counts_against_the_window(scene: Scene) -> None:
    """A view that fits by itself does not fit with the reserve."""
    messages = growing(scene, 20)
    ill = scene.judge(messages, "none", reserve=2500)
    assert "window-exceeded" in ill.ids()
    assert ill.value("m1.overshoot_turns") == len(ill.finding("window-exceeded").turns) > 0
    assert "window-exceeded" not in scene.judge(messages, "none").ids()


def test_09_a_compaction_that_grows_the_view_is_an_error(scene: Scene) -> None:
    """A summary longer than what it replaces leaves more tokens than before."""
    ill = scene.judge(growing(scene, 28), summarizer=Told(GOOD + "\n" + lines(9000)))
    assert ill.finding("compaction-grew").severity == "error"
    assert ill.known("m8.grown") > 0
    assert "compaction-grew" not in scene.judge(growing(scene, 28), summarizer=Told(GOOD)).ids()


def test_10_and_11_clearing_a_little_at_every_call_breaks_the_cache(scene: Scene) -> None:
    """Trigger and target are one: each call clears one result; a least amount mends it."""
    messages = [scene.system(), scene.user(), *scene.steps(40, 2000), scene.end()]
    ill = scene.judge(messages, "clear-tool-uses", trigger=4000, keep=3)
    assert "cache-thrash" in ill.ids()
    healthy = scene.judge(messages, "clear-tool-uses", trigger=4000, keep=3, clear_at_least=2000, history="write-back")
    assert healthy.known("m3.rewrites_per_100") < ill.known("m3.rewrites_per_100") / 2
    assert "cache-thrash" not in healthy.ids()


def test_12_a_summary_request_is_priced_with_and_without_the_cache(scene: Scene) -> None:
    """The finding says what the requests cost and what they would if they began like the conversation."""
    figures = scene.judge(growing(scene, 33), history="view").finding("summarizer-dear").figures
    assert isinstance(figures["cost_usd"], float)
    assert isinstance(figures["cost_usd_if_cached"], float)
    assert figures["cost_usd_if_cached"] < figures["cost_usd"]


def test_13_tokens_that_no_cache_holds_are_a_low_hit_ratio(scene: Scene) -> None:
    """A compactor that changes the first message at each call finds nothing in the cache but the system message."""

    class Restless:
        calls = 0

        def compact(self, messages: Sequence[Message]) -> list[Message]:
            self.calls += 1
            return [messages[0], Message("user", f"call {self.calls}"), *messages[2:]]

    messages = growing(scene, 20)
    ill = scene.judge(messages, Restless(), history="view")
    assert ill.known("m3.cache_hit_ratio") < 0.05
    assert "cache-thrash" in ill.ids()
    assert scene.judge(messages, "none").known("m3.cache_hit_ratio") > 0.8


def test_14_rules_that_a_summary_forgets_are_found_with_their_round(scene: Scene) -> None:
    """What the user forbade is looked for after each compaction, verbatim or by four fifths of its words."""
    rules = "Fix the parser. Never touch the schema files. You must always run the whole test suite."
    messages = [scene.system(), scene.user(rules), *scene.steps(40, 400), scene.end()]
    ill = scene.judge(messages, history="write-back", summarizer=Told(GOOD))
    assert "rules-gone" in ill.ids()
    assert ill.value("m7.cliff_round") == 1
    kept = f"### User Intent\n{rules}\n## Summary\nOn it."
    healthy = scene.judge(messages, history="write-back", summarizer=Told(kept))
    assert healthy.value("m7.constraints_kept") == 1.0
    assert healthy.measured["m7.cliff_round"].value is None
    assert "rules-gone" not in healthy.ids()


def test_15_names_that_the_model_takes_up_again_are_lost_or_visible(scene: Scene) -> None:
    """A file read long ago and named again counts as lost where the compaction forgot it, visible where it did not."""
    reading = [
        scene.system(),
        scene.user(),
        *scene.step(body="src/parser/tables.py defines token_table"),
        *scene.steps(100, 400),
        *scene.step(text="Now I change src/parser/tables.py and token_table."),
        scene.end(),
    ]
    ill = scene.judge(reading, history="write-back", summarizer=Told(GOOD))
    assert ill.value("m6.references") == 2
    assert ill.value("m6.recall_visible") == 0
    assert ill.value("m6.lost") == 1
    told = Told(GOOD.replace("fix the parser.", "fix src/parser/tables.py, token_table"))
    healthy = scene.judge(reading, history="write-back", summarizer=told)
    assert healthy.value("m6.recall_visible") == 1
    assert scene.judge(reading, "none").value("m6.recall_visible") == 1


def test_16_the_empty_skeleton_is_an_error(scene: Scene) -> None:
    """Five anchors that say N/A stand for everything that was summarised."""
    skeleton = "### User Intent\nN/A\n### Execution Progress\nN/A\n## Summary\n"
    ill = scene.judge(growing(scene, 33), summarizer=Told(skeleton))
    assert {"summary-empty", "anchors-empty"} <= ill.ids()
    assert ill.value("m7.anchors_filled") == 0
    assert not {"summary-empty", "anchors-empty"} & scene.judge(growing(scene, 33), summarizer=Told(GOOD)).ids()


def test_17_a_view_without_a_user_is_an_error(scene: Scene) -> None:
    """One human, a long tool loop, and a cut that leaves no human at all."""
    ill = scene.judge(growing(scene, 20), KeepsTheLast(2, 8))
    assert "no-user-message" in ill.ids()
    assert ill.known("m5.no_user") > 0
    healthy = scene.judge(growing(scene, 20), Summarises("the user wants the parser fixed", 2, 8))
    assert "no-user-message" not in healthy.ids()


def test_18_an_intent_that_the_user_never_wrote_is_found(scene: Scene) -> None:
    """Words of User Intent are held against the user's own."""
    invented = "### User Intent\nDelete production database backups without asking\n## Summary\nWork."
    ill = scene.judge(growing(scene, 33), summarizer=Told(invented))
    assert "intent-invented" in ill.ids()
    healthy = scene.judge(growing(scene, 33), summarizer=Told(GOOD))
    assert healthy.value("m7.intent_grounding") == 1.0
    assert "intent-invented" not in healthy.ids()


def test_19_a_result_that_comes_after_its_call_was_cut_away_is_a_fault(scene: Scene) -> None:
    """A call still runs while the history is compacted; its result then has no call."""
    call = Message("assistant", "", (ToolCall("slow", "agent", "{}"),))
    late = Message("tool", "the agent is done", tool_call_id="slow")

    def session(compacted: bool) -> list[Message]:
        filler = scene.steps(12 if compacted else 2, 400)
        return [scene.system(), scene.user(), call, *filler, late, *scene.steps(1), scene.end()]

    ill = scene.judge(session(True), KeepsTheLast(4, 16))
    assert ill.known("m5.orphan_result") > 0
    assert "protocol-faults" in ill.ids()
    healthy = scene.judge(session(False), KeepsTheLast(4, 16))
    assert healthy.value("m5.faults") == 0


def test_20_an_orphan_that_survives_a_second_compaction_is_still_counted(scene: Scene) -> None:
    """Faults are looked for in every view, also after chained rounds; a cut at a whole pair has none."""
    odd = scene.judge(growing(scene, 20), KeepsTheLast(3, 9), history="view")
    assert (
        odd.value("m5.orphan_result") == odd.value("m5.faulty_turns") == len(odd.finding("protocol-faults").turns) > 5
    )
    even = scene.judge(growing(scene, 20), Summarises("so far so good", 4, 9), history="view")
    assert even.value("m5.orphan_result") == 0
    assert "protocol-faults" not in even.ids()


def test_21_parallel_calls_that_the_cut_splits_are_found(scene: Scene) -> None:
    """A cut inside a batch leaves results without their call; out-of-order results are the session's own."""
    messages = [scene.system(), scene.user(), *scene.steps(3), *scene.batch(4, 300), scene.end()]
    ill = scene.judge(messages, KeepsTheLast(2, 8))
    assert ill.value("m5.orphan_result") == 2
    first, second = Message("tool", "one", tool_call_id="a"), Message("tool", "two", tool_call_id="b")
    own = Message("assistant", "", (ToolCall("a", "x"), ToolCall("b", "y")))
    out_of_order = [scene.system(), scene.user(), own, second, scene.user("meanwhile"), first, scene.end()]
    assert scene.judge(out_of_order, "none").value("m5.faults") == 0


def test_23_half_an_emoji_is_a_fault_that_only_a_compactor_can_introduce(scene: Scene) -> None:
    """Text cut inside a surrogate pair fails for ever; what the session held already is its own fault."""
    ill = scene.judge(growing(scene, 6), Summarises("cut here \ud83d", 2, 6))
    assert ill.known("m5.ill_formed") > 0
    assert "protocol-faults" in ill.ids()
    healthy = scene.judge([scene.system(), scene.user("broken \ud83d"), *scene.steps(6), scene.end()], "none")
    assert healthy.value("m5.ill_formed") == 0


def test_24_chinese_text_at_four_bytes_a_token_is_off(scene: Scene) -> None:
    """0.9 real tokens a character against 0.75 by bytes / 4: the ratio says so; ASCII at its true rate does not."""

    def chinese(rate: float) -> list[Message]:
        text = "测试结果全部通过没有任何错误" * 100
        messages = [scene.system(), scene.user()]
        for _ in range(6):
            messages += scene.step(body=text, prompt=round(bytes_of(messages) * rate))
        return [*messages, scene.end(round(bytes_of(messages) * rate))]

    ill = scene.judge(chinese(0.3), window=60_000)
    assert 1.15 < ill.known("m1.estimate_ratio") < 1.25
    assert "estimate-off" in ill.ids()
    assert "estimate-off" not in scene.judge(chinese(0.25), window=60_000).ids()


def test_25_images_and_base64_are_told_where_the_meter_is_blind_to_them(scene: Scene) -> None:
    """bytes4 counts an image as nothing and base64 as a quarter of a token a character; dsh prices images."""
    picture = Message("user", "look", parts=Parts(texts=("look",), images=2, image_bytes=500_000))
    url = scene.user("see data:image/png;base64," + "iVBORw0K" * 100)
    messages = [scene.system(), scene.user(), picture, url, *scene.steps(2), scene.end()]
    figures = scene.judge(messages).finding("uncounted-data").figures
    assert figures == {"images": 2, "base64_characters": 800}
    assert "uncounted-data" not in scene.judge(messages, "dsh").ids()
    assert "uncounted-data" not in scene.judge(growing(scene, 3)).ids()
