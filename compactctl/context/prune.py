"""Pruning: a long tool result is shortened in place to its head and tail (dsh.md 2.7)."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from compactctl.context.base import Item, Kind
from compactctl.context.view import View
from compactctl.errors import SettingsError
from compactctl.model import Message, changed

MARKER = "\n\n[... middle of tool result pruned ...]\n\n"


@dataclass(frozen=True, slots=True)
class ToolResultPruner:
    """Keeps the first ``head_chars`` and last ``tail_chars`` of every tool result longer than ``threshold_chars``.

    All in Unicode code points over the text of the result. Recent, unread and failed results are pruned like all
    others. Raises SettingsError where a pruned result could be longer than the threshold.
    """

    threshold_chars: int = 8192
    head_chars: int = 4096
    tail_chars: int = 1024

    def __post_init__(self) -> None:
        if min(self.threshold_chars, self.head_chars, self.tail_chars) < 0:
            raise SettingsError("prune threshold, head and tail must not be negative")
        kept = self.head_chars + len(MARKER) + self.tail_chars
        if kept > self.threshold_chars:
            raise SettingsError(
                f"a pruned result would have {kept} characters, more than the threshold of {self.threshold_chars}: "
                "raise the prune threshold or keep less"
            )

    def pruned(self, message: Message) -> Message | None:
        """Give the shortened result; None where it is short enough."""
        blocks = message.parts.texts if message.parts and message.parts.texts else (message.content,)
        total = sum(map(len, blocks))
        if total <= self.threshold_chars:
            return None
        kept = self._blocks(blocks, total)
        if message.parts is None or not message.parts.texts:
            return changed(message, content="".join(kept))
        joint = "" if "".join(blocks) == message.content else "\n"
        return changed(message, content=joint.join(kept), parts=changed(message.parts, texts=tuple(kept)))

    def apply(self, view: View, protect: Collection[str] = ()) -> View:
        """Give the view with every long result shortened, but for those of protected tools."""
        changes: list[tuple[int, Item]] = []
        for position in view.large_results(self.threshold_chars, 0, len(view)):
            if protect and view.tool_name(position) in protect:
                continue
            shorter = self._item(view, view.item(position))
            if shorter is not None:
                changes.append((position, shorter))
        return view.swapped(changes)

    def _item(self, view: View, item: Item) -> Item | None:
        # What a recorded result is pruned to is the same in every replay of the session.
        shared = item.kind is Kind.RECORDED and item.index >= 0
        key = (self, item.index)
        known = view.base.placeholders.get(key) if shared else None
        if isinstance(known, Item):
            return known
        message = self.pruned(item.message)
        if message is None:
            return None
        made = view.made(message, Kind.PRUNED, item.index)
        if shared:
            view.base.placeholders[key] = made
        return made

    def _blocks(self, blocks: Sequence[str], total: int) -> list[str]:
        """Cut the middle out of the blocks; the marker stands in the first block that the removed span touches."""
        head, tail_start = self.head_chars, total - self.tail_chars
        kept: list[str] = []
        start = 0
        marked = False
        for block in blocks:
            stop = start + len(block)
            text = block[: max(head - start, 0)]
            if not marked and stop > head:
                text += MARKER
                marked = True
            text += block[max(tail_start - start, 0) :]
            if text:
                kept.append(text)
            start = stop
        return kept
