"""The measures worked out the slow way, from whole views: what the quick ways are held against."""

from __future__ import annotations

from collections import Counter
from functools import cache

from compactctl.context.base import Kind
from compactctl.context.counting import MeterContext
from compactctl.context.naming import RESULTS
from compactctl.context.scale import Scale
from compactctl.context.view import View
from compactctl.measures import Trace
from compactctl.measures._facts import facts_of
from compactctl.measures.m6 import DISTANCE
from compactctl.model import ASSISTANT, SYSTEM, TOOL, USER, Message, sha256_text


def views(trace: Trace) -> list[View]:
    """Give the view of every turn."""
    return [span.view_at(turn) for span in trace.spans for turn in range(span.turn, span.until)]


def cached(trace: Trace) -> int:
    """Count the tokens that each view shares with the one before, message by message."""
    total = 0
    last: list[Message] = []
    for view in views(trace):
        now = list(view)
        common = 0
        while common < min(len(last), len(now)) and last[common] == now[common]:
            common += 1
        if last:
            total += sum(trace.scale.meter.weigh(m) for m in now[:common])
        last = now
    return total


def faults_in(messages: list[Message]) -> set[tuple[str, str]]:
    """Give the faults of some messages, each with the id that it concerns."""
    called = {call.id for m in messages if m.role == ASSISTANT for call in m.tool_calls}
    results = [m.tool_call_id for m in messages if m.tool_call_id]
    found = {("orphan_result", ident) for ident in results if ident not in called}
    found |= {("unanswered_call", ident) for ident in called - set(results)}
    found |= {("duplicate_id", ident) for ident, count in Counter(results).items() if count > 1}
    body = [m for m in messages if m.role != SYSTEM]
    if not body:
        found.add(("system_only", ""))
    elif body[0].role != USER:
        found.add(("first_not_user", ""))
    if not any(m.role == USER for m in messages):
        found.add(("no_user", ""))
    return found


def faults(trace: Trace) -> Counter[str]:
    """Count what every view has and its history has not."""
    total: Counter[str] = Counter()
    for view in views(trace):
        new = faults_in(list(view)) - faults_in(list(trace.base.messages[: view.hi]))
        total.update(kind for kind, _ in new)
    return total


def recall(trace: Trace) -> list[int]:
    """Count visible, reachable, orphaned and lost references by looking through every view."""
    facts = facts_of(trace)
    base, scale = trace.base, trace.scale
    counts = [0, 0, 0, 0]
    refs_of = cache(facts.references.of)
    stored: dict[str, int] = {}
    by_turn = {turn: span for span in trace.spans for turn in range(span.turn, span.until)}
    for turn, view in enumerate(views(trace)):
        span = by_turn[turn]
        for record in span.records if turn == span.turn else ():
            for entry in record.offloaded:
                under = [i for i in range(view.hi) if base.messages[i].tool_call_id == entry.tool_call_id]
                same = [i for i in under if sha256_text(base.messages[i].content) == entry.sha256]
                if under:  # a stand-in for a result that never came holds nothing
                    stored[entry.file_path] = same[0] if same else under[-1]
        texts = [m.content + "\n" + "\n".join(c.arguments for c in m.tool_calls) for m in view]
        seen = {ref for text in texts for ref in refs_of(text)}
        named: set[int] = set()
        for item in view.items():
            if item.kind is Kind.OFFLOADED:
                named |= set(facts.of[item.index])
            elif item.kind is not Kind.RECORDED and RESULTS in item.message.content:
                named |= {r for path, i in stored.items() if path in item.message.content for r in facts.of[i]}
        on_disk = {ref for i in stored.values() for ref in facts.of[i]}
        call = base.calls[turn]
        for ref in facts.of[call]:
            before = [i for i in range(call) if ref in facts.of[i]]
            if not before or _tokens(scale, before[-1] + 1, call) <= DISTANCE:
                continue
            counts[0 if ref in seen else 1 if ref in named else 2 if ref in on_disk else 3] += 1
    return counts


def _tokens(scale: Scale, start: int, stop: int) -> int:
    context = MeterContext(0, False)
    return int(scale.meter.tokens(scale.prefix[stop], context) - scale.meter.tokens(scale.prefix[start], context))


def unread(trace: Trace) -> int:
    """Count the results that came since the last call and are not whole in the view."""
    total = 0
    base = trace.base
    for turn, view in enumerate(views(trace)):
        if view.pristine:
            continue
        start = base.calls[turn - 1] + 1 if turn else 0
        whole = {item.index for item in view.items() if item.kind is Kind.RECORDED}
        total += sum(1 for i in range(start, base.calls[turn]) if base.messages[i].role == TOOL and i not in whole)
    return total
