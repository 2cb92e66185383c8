"""Where a view may be cut without tearing a tool call from its result (dsh.md 2.4)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise

from compactctl.context.view import View
from compactctl.model import ASSISTANT, TOOL, Message


def balanced_cut(view: View, start: int, cut: int) -> int:
    """Give the latest position from ``start`` to ``cut`` that no tool call crosses; ``start`` where there is none.

    A cut at a position keeps what is from there on. A call that has no result in the view crosses nothing: dsh, whose
    calls always get one, would find no cut behind it.
    """
    if view.is_closed:
        position = min(cut, len(view))
        while start < position < len(view) and view.message(position).role == TOOL:
            position -= 1
        return max(position, start)
    crossed = crossings(view.messages())
    return next((at for at in range(min(cut, len(view)), start, -1) if not crossed[at]), start)


def crossings(messages: Sequence[Message]) -> list[int]:
    """Count for each position, the one behind the last included, how many results are torn from their call by a cut.

    A result belongs to the nearest call with its id before it, or else to the first one behind it. Results without any
    call are in nobody's way.

    >>> from compactctl.model import ToolCall
    >>> call = Message("assistant", "", (ToolCall("c1", "ls"),))
    >>> crossings([Message("user", "hi"), call, Message("tool", "ok", tool_call_id="c1")])
    [0, 0, 1, 0]
    """
    steps = [0] * (len(messages) + 2)
    latest: dict[str, int] = {}
    early: dict[str, list[int]] = {}
    for at, message in enumerate(messages):
        if message.tool_call_id:
            caller = latest.get(message.tool_call_id)
            if caller is None:
                early.setdefault(message.tool_call_id, []).append(at)
            else:
                steps[caller + 1] += 1
                steps[at + 1] -= 1
        elif message.role == ASSISTANT:
            for call in message.tool_calls:
                latest[call.id] = at
                for waiting in early.pop(call.id, ()):
                    steps[waiting + 1] += 1
                    steps[at + 1] -= 1
    return list(accumulate(steps))[: len(messages) + 1]


def balanced_cut_after(view: View, cut: int) -> int | None:
    """Give the earliest position from ``cut`` on, before the end, that no tool call crosses; None where there is none.

    A cut there keeps at least the last message.
    """
    stop = len(view)
    if view.is_closed:
        return next((at for at in range(cut, stop) if view.message(at).role != TOOL), None)
    crossed = crossings(view.messages())
    return next((at for at in range(cut, stop) if not crossed[at]), None)


def balanced_ranges(view: View, start: int) -> list[range]:
    """Give the shortest ranges from ``start`` to the end that no tool call leaves: a call and its results are one."""
    crossed = crossings(view.messages())
    edges = [start, *(at for at in range(start + 1, len(view)) if not crossed[at]), len(view)]
    return [range(lower, upper) for lower, upper in pairwise(edges) if lower < upper]
