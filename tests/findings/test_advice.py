"""An advice fits the run: it names nothing that is in use, nothing that the compactor has not, and nothing in vain."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import compactctl.findings
from compactctl.context.offload import SPILL_MARKER
from compactctl.findings._kinds import NOT_OURS
from compactctl.model import Message, RecordedCompaction
from compactctl.ports import CompactorSpec
from compactctl.registry import plugins
from tests.findings.scenes import Judged, KeepsTheLast, Scene, Told, charged, growing, lines


def advised(judged: Judged) -> str:
    """Everything that a run is advised, in one text."""
    return "\n".join(finding.advice for finding in judged.findings)


def ruled(scene: Scene) -> list[Message]:
    """A session with a rule of the user, which grows beyond any compaction."""
    rule = scene.user("Please fix the parser. You must never touch the generated tables in src/tables.py.")
    return [scene.system(), rule, *scene.steps(40, 400), scene.end()]


@pytest.mark.parametrize("compactor", ["progressive", "progressive-safe", "harness9", "dsh", "codex", "truncate"])
@pytest.mark.parametrize("history", ["view", "write-back"])
@pytest.mark.parametrize("meter", ["bytes4", "calibrated"])
def test_nothing_is_advised_that_is_in_use(scene: Scene, compactor: str, history: str, meter: str) -> None:
    """No finding names the compactor, the history, the meter or the summarizer that the run has already."""
    uncharged = [] if meter == "calibrated" else [ruled(scene), growing(scene, 40)]
    for messages in (charged(scene, 2_000, 0.25), *uncharged):
        told = advised(scene.judge(messages, compactor, history=history, meter=meter))
        used = (f"--compactor {compactor}", f"--history {history}", f"--meter {meter}", "--summarizer stub")
        assert not [one for one in used if re.search(rf"{one}(?![\w-])", told)]
        assert not re.search("--(safer|raise|lower)", told)


def test_a_summarizer_is_advised_where_another_one_ran(scene: Scene) -> None:
    """The stub quotes the user's rules: that helps who asked a model, and nobody who ran the stub."""
    gone = scene.judge(ruled(scene), history="view", summarizer=Told("### User Intent\nWork.\n## Summary\nWork."))
    assert "--summarizer stub" in gone.finding("rules-gone").advice
    assert scene.judge(ruled(scene), history="view").finding("rules-gone").advice == (
        "keep user messages as they are (--compactor codex)"
    )


def test_what_the_recorded_harness_did_is_not_laid_to_the_compactor(scene: Scene) -> None:
    """A recorded compaction took the task: no compactor brings it back while the recording is followed."""
    messages = [scene.system(), scene.user(), *scene.steps(12, 400), scene.end()]
    own = RecordedCompaction("full", "auto", 14, 6, replacement=(Message("user", "So far: nothing."),))
    followed = scene.judge(messages, recorded="follow", compactions=[own], window=40_000)
    assert followed.finding("task-gone").advice == NOT_OURS
    assert "task-gone" not in scene.judge(messages, compactions=[own], window=40_000).ids()


def test_safer_choices_are_options_where_the_compactor_has_them(scene: Scene) -> None:
    """progressive is told the option, another compactor the one that has it, and who has it on is told neither."""
    messages = growing(scene)
    assert "--set emergency_keeps_task=true" in scene.judge(messages, history="view").finding("task-gone").advice
    assert "--compactor progressive-safe" in scene.judge(messages, "truncate").finding("task-gone").advice
    on = scene.judge(messages, history="view", balanced_cuts=True, emergency_keeps_task=True)
    assert "balanced_cuts" not in advised(on)
    assert "emergency_keeps_task" not in advised(on)


def test_a_compactor_that_waits_for_the_user_is_told_to_compact_by_itself(scene: Scene) -> None:
    """Where it said that only the user may compact, neither its count nor a lower threshold is the cure."""
    messages = [scene.system(), scene.user(), *scene.steps(120, 3600), scene.end()]
    full = scene.judge(messages, "claude-code", window=60_000, meter="bytes4", auto=False, reserve=10_000)
    failed = full.finding("request-failed")
    assert "automatic compaction is off and the window is full" in failed.message
    assert "idle_turns" not in failed.figures
    for name in ("request-failed", "gave-up", "window-exceeded"):
        assert full.finding(name).advice == "let it compact by itself (--set auto=true)"


def test_a_manual_compaction_is_no_jump(scene: Scene) -> None:
    """The user's own /compact goes to Emergency at once, and nothing took the view there."""
    messages = growing(scene, 12)
    manual = scene.judge(messages, compact_at=[6], window=40_000)
    assert manual.value("m8.turns_emergency") == 1
    assert "jump-to-emergency" not in manual.ids()


def test_what_offloading_would_have_done_is_what_the_compactor_offloads(scene: Scene) -> None:
    """Results of a protected tool stay, so that offloading them alone could not have been enough."""
    batch = [scene.system(), scene.user(), *scene.batch(10, 5000), scene.end()]
    assert scene.judge(batch, window=10_000).finding("jump-to-emergency").figures["offload_enough"] == 1
    spared = scene.judge(batch, window=10_000, protect=["bash"])
    assert spared.finding("jump-to-emergency").figures["offload_enough"] == 0


@pytest.mark.parametrize("compactor", ["truncate", "token-budget", KeepsTheLast(2, 8)])
def test_a_compactor_without_tiers_has_no_findings_of_tiers(scene: Scene, compactor: object) -> None:
    """A compactor that only truncates reports Emergency each time it works: that is no alarm."""
    ids = scene.judge(growing(scene), compactor).ids()
    assert not {"permanent-emergency", "emergency-run", "jump-to-emergency"} & ids


def test_an_override_is_judged_by_the_reserve_of_the_run(scene: Scene) -> None:
    """With 50,000 tokens kept for the reply the threshold is 37,000 of 100,000, which 0.74 of 50,000 does not lower."""
    messages = [scene.user(), *scene.steps(3), scene.end()]
    for percent, idle in ((0.8, True), (0.7, False)):
        judged = scene.judge(messages, "claude-code", window=100_000, output_reserve=50_000, pct_override=percent)
        assert ("option-without-effect" in judged.ids()) is idle


def test_the_longest_run_of_summaries_is_found_among_several(scene: Scene) -> None:
    """The turns of a finding are those of the longest run, first to last."""
    found = scene.judge(growing(scene, 33), history="view").finding("summary-every-turn")
    assert found.turns == tuple(range(found.turns[0], found.turns[-1] + 1))
    assert found.figures["longest_run"] == len(found.turns)
    assert f"from turn {found.turns[0]} to {found.turns[-1]} " in found.message


def test_results_that_were_spilled_are_not_offloaded_again(scene: Scene) -> None:
    """What went to a file when it was written is a placeholder already, however long its preview is."""
    spilled = SPILL_MARKER + lines(5000)
    batch = [scene.system(), scene.user(), *scene.batch(10, 0, body=spilled), scene.end()]
    jump = scene.judge(batch, window=10_000).finding("jump-to-emergency")
    assert jump.figures["offload_enough"] == 0


@pytest.mark.parametrize(("window", "size"), [(12_000, 400), (20_000, 400), (40_000, 1700)])
def test_claude_code_is_not_advised_to_put_off_what_it_can_only_bring_forward(
    scene: Scene, window: int, size: int
) -> None:
    """Its override only lowers the threshold, and its option of results to keep belongs to another mechanism."""
    judged = scene.judge(growing(scene, 60, size), "claude-code", window=window, output_reserve=2_000)
    for finding in judged.findings:
        assert not re.search(r"(later|less|raise)[^,]*pct_override", finding.advice), finding.advice
        assert "keep_results" not in finding.advice

    # The rules that found them know both ways out.
    ways = "".join(way for finding in judged.findings for way in judged.ways(finding.id))
    assert re.search("--raise (warn|soft)", ways)
    assert re.search("--(raise|lower) tail", ways)


def test_an_advice_names_an_option_once(scene: Scene) -> None:
    """Two thresholds of the tiered compactors are one of dsh: what to do with it is said once."""
    folded = set()
    for name in ("dsh", "codex", "claude-code", "progressive"):
        for history in ("view", "write-back"):
            judged = scene.judge(growing(scene, 60), name, history=history)
            for finding in judged.findings:
                named = re.findall(r"--set (\w+)=\.\.\.", finding.advice)
                assert len(named) == len(set(named)), finding.advice
                turned = re.findall("--raise (warn|soft)", "".join(judged.ways(finding.id)))
                if len(turned) > len(named) == 1:
                    folded.add(name)

    assert "dsh" in folded


def test_every_way_turns_an_option_that_some_compactor_has() -> None:
    """A way that nobody can go would be left out without a word: a name that is mistyped is seen here."""
    sources = [path.read_text(encoding="utf-8") for path in Path(compactctl.findings.__file__).parent.glob("*.py")]
    turned = {name for text in sources for name in re.findall(r"\(--(?:raise|lower|safer) (\w+)\)", text)}
    specs = plugins("compactctl.compactors", CompactorSpec).values()
    known = {name for spec in specs for name in spec.option_names()}

    assert {"full", "tail", "offload", "target", "share"} <= turned
    assert turned <= known


def test_what_codex_keeps_are_messages_of_the_user_and_no_tail(scene: Scene) -> None:
    """A task that its budget did not hold is kept by a larger one, and results that went by nothing that it budgets."""
    task = scene.user("Please fix the parser. " * 60)
    messages = [scene.system(), task, *scene.steps(40, 1600), scene.user("Go on. " * 40), *scene.steps(40, 1600)]
    findings = {
        f.id: f.advice for f in scene.judge([*messages, scene.end()], "codex", window=12_000, user_tokens=100).findings
    }

    assert findings["task-gone"].startswith("keep more of what the user wrote (--set user_tokens=...)")
    assert "user_tokens" not in findings.get("unread-results-lost", "")
