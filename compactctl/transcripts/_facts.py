"""What ``inspect`` says about a session, as plain data."""

from __future__ import annotations

from collections import Counter
from itertools import chain
from typing import Any

from compactctl.model import ASSISTANT, TOOL, Session


def inspect_facts(session: Session) -> dict[str, Any]:
    """Give the facts of one session under the names of ``inspect --format json``.

    ``window`` and ``window_source`` are added by the command, which knows the flags and the model table. A count of
    tokens that the transcript does not hold is None. ``tool_results`` counts distinct ids before any pairing; results
    without an id count each.
    """
    messages, lines = session.messages, session.lines
    made = chain.from_iterable([message.tool_calls for message in messages])
    answered = [message.tool_call_id for message in messages if message.role == TOOL]
    prompts = [message.usage.prompt for message in messages if message.usage is not None]
    return {
        "path": session.path,
        "format": session.format,
        "session_id": session.id,
        "model": session.model or None,
        "calls_by_model": dict(Counter(m.model for m in messages if m.role == ASSISTANT and m.model)),
        "harness": session.harness or None,
        "harness_version": session.harness_version or None,
        "input_sha256": session.input_sha256,
        "messages": len(messages),
        "model_calls": session.model_calls,
        "tool_calls": _distinct([call.id for call in made]),
        "tool_results": _distinct(answered),
        "recorded_compactions": [
            {
                "kind": compaction.kind,
                "trigger": compaction.trigger or None,
                "tokens_before": compaction.tokens_before,
                "tokens_after": compaction.tokens_after,
                "before_model_call": compaction.before_model_call,
            }
            for compaction in session.compactions
        ],
        "peak_prompt_tokens": max(prompts, default=None),
        "lines": lines.total,
        "lines_used": lines.used,
        "lines_recovered": lines.recovered,
        "lines_ignored": sum(lines.ignored.values()),
        "lines_skipped": len(lines.skipped),
        "lines_blank": lines.blank,
        "ignored_by_kind": dict(lines.ignored),
        "skipped_by_reason": lines.skipped_by_reason(),
        "skipped_lines": [{"line": skip.line, "offset": skip.offset, "reason": skip.reason} for skip in lines.skipped],
        "warnings": list(session.warnings),
    }


def _distinct(ids: list[str]) -> int:
    nameless = ids.count("")
    return len(set(ids)) - bool(nameless) + nameless
