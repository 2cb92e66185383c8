"""Real recorded sessions, where a checkout has them beside it: every file is loaded or refused with a reason."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from compactctl.errors import InputError
from compactctl.transcripts import inspect_facts, load

SESSIONS = Path(__file__).parents[2].parent / "shared" / "sessions"
pytestmark = pytest.mark.skipif(not SESSIONS.is_dir(), reason="no real sessions beside this checkout")


def test_every_file_is_loaded_or_refused() -> None:
    """No file ends in a traceback; every line of those that load has its place, and the refusals say what to do."""
    loaded = 0
    refused: list[tuple[Path, str]] = []
    for path in sorted(path for path in SESSIONS.rglob("*") if path.is_file()):
        try:
            for session in load(path):
                facts = inspect_facts(session)
                kinds = ("used", "recovered", "ignored", "skipped", "blank")
                assert facts["lines"] == sum(facts[f"lines_{kind}"] for kind in kinds)
                loaded += 1
        except InputError as error:
            refused.append((path, str(error)))

    assert loaded > 200
    assert all(reason.startswith(f"{path}: ") and "; " in reason for path, reason in refused)


def test_claude_code_agrees_with_an_independent_count() -> None:
    """Calls, results, compactions and peak prompt are those that another program counted in the same files."""
    truths = [json.loads(line) for line in (SESSIONS / "claude-code-real.truth.jsonl").read_text().split("\n") if line]
    for truth in truths:
        (session,) = load(SESSIONS / "claude-code-real" / truth["file"])
        facts = inspect_facts(session)
        full = [item for item in facts["recorded_compactions"] if item["kind"] == "full"]

        for name in ("lines", "model_calls", "tool_calls", "tool_results", "peak_prompt_tokens"):
            assert facts[name] == truth[name], (truth["file"], name)
        assert facts["lines_recovered"] == truth["lines_with_several_objects"]
        assert facts["lines_skipped"] == truth["lines_not_whole"]
        assert len(facts["recorded_compactions"]) - len(full) == truth["microcompactions"]
        for mine, theirs in zip(full, truth["compactions"], strict=True):
            for name in ("before_model_call", "trigger", "tokens_before"):
                assert mine[name] == theirs[name]

    assert len(truths) == 12
