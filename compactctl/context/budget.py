"""Truncation to a token budget: the fallback and the Emergency of the seed's compactors (harness9.md 1.7)."""

from __future__ import annotations

from compactctl.context.view import MeterContext, View
from compactctl.model import USER

DEFAULT_MIN_TAIL = 6
DEFAULT_MAX_TOKENS = 160_000


def truncated(view: View, max_tokens: int, min_tail: int = DEFAULT_MIN_TAIL) -> View:
    """Drop the newest messages before the tail until the view fits: system, oldest head, tail.

    Unchanged where it fits, where there is no system message, or where there is nothing but the tail. The budget is in
    tokens of the view's meter; 0 or less means 160,000, as the reference has it.
    """
    budget = max_tokens if max_tokens > 0 else DEFAULT_MAX_TOKENS
    rest = len(view) - 1
    if rest < 0 or not view.has_system or rest <= min_tail or view.tokens <= budget:
        return view
    meter, context = view.base.meter, MeterContext(view.turn, False)
    total, tail_start = view.weight, len(view) - min_tail
    # What is kept only grows with the head, so the longest head that fits is found by halving.
    low, high = 0, rest - min_tail
    while low < high:
        middle = (low + high + 1) // 2
        weight = total - view.weight_between(1 + middle, tail_start)
        if meter.tokens(weight, context) <= budget:
            low = middle
        else:
            high = middle - 1
    if low == rest - min_tail:
        return view.repaired()
    return view.replaced(1 + low, tail_start, ()).repaired()


def last_message_only(view: View) -> View:
    """Keep the system message and the last one: the seed's Emergency. In an agent loop the last is often an orphan."""
    if not view.has_system or len(view) <= 2:
        return view
    return view.replaced(1, len(view) - 1, ()).repaired()


def task_and_newest(view: View, max_tokens: int) -> View:
    """Keep the system message, the first task message, and as many of the newest as fit; skip what does not fit.

    harness9's Emergency since its issue 117 (harness9.md 1.7).
    """
    if not view.has_system or len(view) <= 2:
        return view
    first_task = next((i for i in range(1, len(view)) if _is_task(view, i)), None)
    meter, context = view.base.meter, MeterContext(view.turn, False)
    fixed = [0] if first_task is None else [0, first_task]
    weight = sum(view.item(i).weight for i in fixed)
    kept: list[int] = []
    for position in range(len(view) - 1, 0, -1):
        if position == first_task:
            continue
        heavier = weight + view.item(position).weight
        if meter.tokens(heavier, context) <= max_tokens:
            kept.append(position)
            weight = heavier
    return view.selected(sorted(fixed + kept)).repaired()


def _is_task(view: View, position: int) -> bool:
    message = view.message(position)
    return message.role == USER and not message.tool_call_id and bool(message.content)
