"""Truncation to a token budget: the fallback and the Emergency of the seed's compactors (harness9.md 1.7)."""

from __future__ import annotations

from compactctl.context.base import Kind
from compactctl.context.counting import MeterContext
from compactctl.context.cuts import balanced_cut, balanced_ranges
from compactctl.context.view import View
from compactctl.model import USER

DEFAULT_MIN_TAIL = 6
DEFAULT_MAX_TOKENS = 160_000


def truncated(view: View, max_tokens: int, min_tail: int = DEFAULT_MIN_TAIL, *, balanced: bool = False) -> View:
    """Drop the newest messages before the tail until the view fits: system, oldest head, tail.

    Unchanged where it fits, where there is no system message, or where there is nothing but the tail. The budget is in
    tokens of the view's meter; 0 or less means 160,000, as the reference has it. ``balanced`` lets the tail begin and
    the head end only where no tool call is torn from its result.
    """
    budget = max_tokens if max_tokens > 0 else DEFAULT_MAX_TOKENS
    rest = len(view) - 1
    if rest < 0 or not view.has_system or rest <= min_tail or view.tokens <= budget:
        return view
    meter, context = view.base.meter, MeterContext(view.turn, False)
    total, tail_start = view.weight, len(view) - min_tail
    if balanced:
        tail_start = balanced_cut(view, 1, tail_start)
    # What is kept only grows with the head, so the longest head that fits is found by halving.
    low, high = 0, tail_start - 1
    while low < high:
        middle = (low + high + 1) // 2
        weight = total - view.weight_between(1 + middle, tail_start)
        if meter.tokens(weight, context) <= budget:
            low = middle
        else:
            high = middle - 1
    if low == tail_start - 1:
        return view.repaired()
    if balanced:
        low = balanced_cut(view, 1, 1 + low) - 1
    return view.replaced(1 + low, tail_start, ()).repaired()


def last_message_only(view: View, *, keep_summaries: bool = False) -> View:
    """Keep the system message and the last one: the seed's Emergency. In an agent loop the last is often an orphan.

    ``keep_summaries`` keeps compaction messages too.
    """
    if not view.has_system or len(view) <= 2:
        return view
    last = len(view) - 1
    kept = [view.item(i) for i in _summaries(view) if i < last] if keep_summaries else []
    return view.replaced(1, last, kept).repaired()


def task_and_newest(view: View, max_tokens: int, *, keep_summaries: bool = False, balanced: bool = False) -> View:
    """Keep the system message, the first task message, and as many of the newest as fit; skip what does not fit.

    harness9's Emergency since its issue 117 (harness9.md 1.7). ``keep_summaries`` keeps compaction messages too, which
    are then not taken for a task. ``balanced`` takes or skips a call together with its results.
    """
    if not view.has_system or len(view) <= 2:
        return view
    summaries = _summaries(view) if keep_summaries else []
    first_task = next((i for i in range(1, len(view)) if i not in summaries and _is_task(view, i)), None)
    meter, context = view.base.meter, MeterContext(view.turn, False)
    fixed = {0, *summaries} if first_task is None else {0, *summaries, first_task}
    weight = sum(view.item(i).weight for i in fixed)
    kept: list[int] = []
    for unit in reversed(balanced_ranges(view, 1) if balanced else [range(i, i + 1) for i in range(1, len(view))]):
        wanted = [position for position in unit if position not in fixed]
        heavier = weight + sum(view.item(position).weight for position in wanted)
        if meter.tokens(heavier, context) <= max_tokens:
            kept += wanted
            weight = heavier
    return view.selected(sorted([*fixed, *kept])).repaired()


def _is_task(view: View, position: int) -> bool:
    message = view.message(position)
    return message.role == USER and not message.tool_call_id and bool(message.content)


def _summaries(view: View) -> list[int]:
    return [i for i in range(1, view.own_length) if view.item(i).kind is Kind.SUMMARY]
