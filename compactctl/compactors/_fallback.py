"""What takes over from a tiered compactor where there is no summary, or no room for one (seed section 6)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from compactctl.context.budget import DEFAULT_MIN_TAIL, last_message_only, task_and_newest, truncated
from compactctl.context.view import View
from compactctl.model import Message
from compactctl.ports import Compactor, ForceCompactor


class Fallback(Protocol):
    """What takes over when there is no summary: ``shrink`` gently, ``force`` to the minimum."""

    def shrink(self, view: View) -> View:
        """Bring the view under its budget where that is possible."""

    def force(self, view: View) -> View:
        """Cut the view down whatever its size."""


@dataclass(frozen=True, slots=True)
class BudgetFallback:
    """The seed's TokenBudgetCompactor: a budget in tokens, the tail kept, the middle dropped."""

    max_tokens: int
    min_tail: int = DEFAULT_MIN_TAIL
    keeps_task: bool = False
    keeps_summaries: bool = False
    balanced: bool = False

    def shrink(self, view: View) -> View:
        """Drop the middle until the view fits."""
        return truncated(view, self.max_tokens, self.min_tail, balanced=self.balanced)

    def force(self, view: View) -> View:
        """Keep the system message and the last one, or the task and the newest that fit."""
        if self.keeps_task:
            return task_and_newest(view, self.max_tokens, keep_summaries=self.keeps_summaries, balanced=self.balanced)
        return last_message_only(view, keep_summaries=self.keeps_summaries)


@dataclass(frozen=True, slots=True)
class ListFallback:
    """A user's fallback that works on lists of messages."""

    inner: Compactor | ForceCompactor

    def shrink(self, view: View) -> View:
        """Hand it the messages; an object that can only force is forced."""
        run = self.inner.compact if isinstance(self.inner, Compactor) else self.inner.compact_force
        return self._apply(view, run)

    def force(self, view: View) -> View:
        """Force it where it can be forced, otherwise compact (seed section 6.2)."""
        run = self.inner.compact_force if isinstance(self.inner, ForceCompactor) else self.inner.compact
        return self._apply(view, run)

    @staticmethod
    def _apply(view: View, run: Callable[[Sequence[Message]], list[Message]]) -> View:
        return view.rebuilt(run(list(view)))
