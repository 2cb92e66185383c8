"""The bundled samples show what their names say, by exact counts, and known orderings of the measures hold on them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import compactctl
from compactctl.bound import uncompacted
from compactctl.context.offload import MemoryOffloader
from compactctl.context.scale import Scale
from compactctl.findings import Finding, Situation, find
from compactctl.measures import Measured, Prices, Trace, all_keys, measure_all
from compactctl.measures._spec import Pool
from compactctl.meters import best_meter
from compactctl.model import Session
from compactctl.ports import CompactorSpec, HistoryMode, Ports, Summarizer
from compactctl.registry import plugin
from compactctl.replay import Plan, base_of, walk
from compactctl.summarizers.opaque import OpaqueSummarizer
from compactctl.summarizers.stub import StubSummarizer
from compactctl.transcripts import load
from tests.figures import known

SAMPLES = Path(compactctl.__file__).parents[1] / "sample_sessions"
LONG = "long-migration-permanent-emergency.jsonl"
CLAUDE_CODE = "claude-code-automatic-compaction.jsonl"
CODEX = "codex-compacted-at-its-window.jsonl"
SEED = (0.60, 0.70, 0.80, 0.95)
LATER = (0.70, 0.80, 0.90, 0.97)
NAMES = ("warn_threshold", "soft_threshold", "full_threshold", "emergency_threshold")

Figures = dict[str, Measured]


def judged(
    session: Session,
    window: int,
    history: str,
    *,
    summarizer: Summarizer | None = None,
    thresholds: tuple[float, ...] = SEED,
) -> tuple[Figures, tuple[Finding, ...]]:
    """Replay a session through progressive and judge it."""
    spec = plugin("compactctl.compactors", CompactorSpec, "progressive", "compactor")
    options: dict[str, Any] = {option.name: option.default for option in spec.options}
    options |= dict(zip(NAMES, thresholds, strict=True))
    ports = Ports(
        summarizer or OpaqueSummarizer(), MemoryOffloader(session.id), context_window=window, summary_tokens=2000
    )
    driver = spec.make(options, session, ports)
    real, told = best_meter(session)
    base, _ = base_of(session, driver.meter)  # type: ignore[attr-defined]  # an attribute of this driver alone
    spans = tuple(walk(base, driver, Plan(HistoryMode(history))))
    prices = Prices(3.0, 15.0, 0.3, 3.75)
    scale = Scale(base, real)
    bound = Trace(session, base, uncompacted(base, scale, window), scale, window)
    trace = Trace(session, base, spans, scale, window, prices=prices, options=options, bound=bound)
    measured = measure_all(trace)
    return measured, find(trace, measured, Situation("progressive", history, "bytes4", "flag", False, told))


def sample(name: str) -> Session:
    """Load one sample; skips where the samples are not beside the package."""
    path = SAMPLES / name
    if not path.exists():
        pytest.skip("the samples are not beside an installed package")
    return next(iter(load(str(path))))


def test_a_share_says_what_it_is_made_of() -> None:
    """Each figure that is a share over sessions brings its part and whole along, by itself."""
    measured, _ = judged(sample(LONG), 64_000, "view")
    shares = [key.key for key in all_keys().values() if key.pool is Pool.SHARE]
    assert {"m3.cache_hit_ratio", "m4.cost_share", "m6.recall_visible"} <= set(shares)
    for key in shares:
        amounts = measured[key].amounts
        assert amounts is not None, key
        assert measured[key].value == amounts[0] / amounts[1], key


def test_view_mode_reproduces_the_permanent_emergency_that_users_met() -> None:
    """harness9 issue 117: Emergency for good, views of the system message alone, a summary at every turn."""
    measured, findings = judged(sample(LONG), 64_000, "view")
    tiers = [measured[f"m8.turns_{tier}"].value for tier in ("none", "warn", "soft", "full", "emergency")]
    assert tiers == [52, 6, 6, 15, 36]
    assert measured["m8.emergency_run"].value == 36
    assert measured["m5.system_only"].value == 33
    assert measured["m4.summarizer_calls"].value == 21
    found = {finding.id: finding for finding in findings}
    assert found["permanent-emergency"].figures == {"from_turn": 79, "turns": 36}
    assert found["system-only-view"].figures == {"turns": 33}
    assert found["summary-every-turn"].figures == {"calls": 21, "longest_run": 21}
    assert found["summary-every-turn"].turns == tuple(range(58, 79))
    assert findings[0].id == "permanent-emergency"


def test_write_back_clears_all_of_them() -> None:
    """The same session with the history written back is never in Emergency and needs no summary at all."""
    measured, findings = judged(sample(LONG), 64_000, "write-back")
    tiers = [measured[f"m8.turns_{tier}"].value for tier in ("none", "warn", "soft", "full", "emergency")]
    assert tiers == [111, 4, 0, 0, 0]
    assert measured["m5.system_only"].value == measured["m4.summarizer_calls"].value == 0
    errors = [finding.id for finding in findings if finding.severity == "error"]
    assert errors == []


def test_a_short_healthy_session_has_no_error_and_no_warning() -> None:
    """What never comes near a threshold is left in peace."""
    _, findings = judged(sample("short-healthy-fix.jsonl"), 128_000, "view")
    assert [finding.id for finding in findings] == ["thresholds-unreached"]


@pytest.mark.parametrize(("name", "window"), [(LONG, 24_000), (CLAUDE_CODE, 32_000), (CODEX, 30_000)])
def test_a_summary_that_lists_identifiers_keeps_more_than_an_opaque_one_of_equal_size(name: str, window: int) -> None:
    """The stub's visible recall is above that of a summary without content under the same budget."""
    session = sample(name)
    stub, _ = judged(session, window, "write-back", summarizer=StubSummarizer())
    opaque, _ = judged(session, window, "write-back", summarizer=OpaqueSummarizer())
    assert known(stub, "m6.recall_visible") > known(opaque, "m6.recall_visible") + 0.2


def test_higher_thresholds_keep_more_and_cost_more() -> None:
    """From 60/70/80/95 to 70/80/90/97 visible recall and cost both rise."""
    session = sample(LONG)
    seed, _ = judged(session, 24_000, "write-back", summarizer=StubSummarizer())
    later, _ = judged(session, 24_000, "write-back", summarizer=StubSummarizer(), thresholds=LATER)
    for key in ("m6.recall_visible", "m6.recall_reachable", "m3.cost_usd", "m2.tokens_sent"):
        assert known(later, key) > known(seed, key), key


def test_the_headline_of_a_real_harness_is_that_bytes_by_four_count_half() -> None:
    """On a session with recorded usage the estimate ratio is near two, and this is the first thing said."""
    measured, findings = judged(sample(CLAUDE_CODE), 200_000, "write-back")
    assert 1.8 < known(measured, "m1.estimate_ratio") < 2.4
    assert findings[0].id == "estimate-off"
    assert findings[0].severity == "error"


def test_what_an_emergency_lost_is_not_laid_to_the_tail() -> None:
    """A truncation keeps no tail and no user's message: what helps is another Emergency or one compaction for all."""
    session = next(load(SAMPLES / LONG))
    figures, findings = judged(session, 64_000, "view")
    advice = {finding.id: finding.advice for finding in findings}

    assert (figures["m5.unread_results_lost"].value or 0) > 0
    keeps = "keep the task in an Emergency (--set emergency_keeps_task=true)"
    assert advice["unread-results-lost"] == f"{keeps}, or compact once for all (--history write-back)"
    assert advice["task-gone"] == f"{keeps}, or keep user messages (--compactor codex)"
    assert advice["files-orphaned"].startswith(keeps)
    assert "--set full=..." in advice["summarised-again"]
