"""Offloading the large results of a range of a view, shared by all replays of one session."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from compactctl.context.offload import SPILL_MARKER, OffloaderBase
from compactctl.context.view import Item, Kind, View
from compactctl.errors import OffloadError
from compactctl.model import OffloadEntry, byte_length
from compactctl.ports import Offloader


@dataclass(slots=True)
class Offloading:
    """What is offloaded: results longer than ``threshold`` bytes, but for those of the tools that ``protect`` names.

    ``preview_bytes`` bounds the previews (0 for no bound); with a bound, a result whose placeholder would not be
    smaller stays. An offloader that is not the package's own has its own bounds.
    """

    offloader: Offloader | None
    threshold: int
    preview_bytes: int = 0
    protect: frozenset[str] = field(default_factory=frozenset)

    def apply(self, view: View, start: int, stop: int) -> tuple[View, list[OffloadEntry], bool]:
        """Put placeholders in place of the large results of a range; say also whether one could not be stored."""
        if self.offloader is None:
            return view, [], False
        changes: list[tuple[int, Item]] = []
        entries: list[OffloadEntry] = []
        failed = False
        for position in view.large_results(self.threshold, start, stop):
            if self._is_protected(view, position):
                continue
            try:
                done = self._placeholder(self.offloader, view, view.item(position))
            except OffloadError:
                failed = True
                continue
            if done is not None:
                entries.append(done.entry)
                changes.append((position, done.item))
        return view.swapped(changes), entries, failed

    def is_settled(self, view: View, start: int, stop: int) -> bool:
        """Whether another ``apply`` over the range would certainly change nothing."""
        return self.offloader is None or all(
            self._is_protected(view, position) or view.message(position).content.startswith(SPILL_MARKER)
            for position in view.large_results(self.threshold, start, stop)
        )

    def _is_protected(self, view: View, position: int) -> bool:
        return bool(self.protect) and view.tool_name(position) in self.protect

    def _placeholder(self, offloader: Offloader, view: View, item: Item) -> _Placeholder | None:
        text = item.message.content
        if not isinstance(offloader, OffloaderBase):
            done = offloader.offload(item.message, text)
            return self._made(view, item, *done) if done else None
        shared = item.index >= 0 and item.kind is Kind.RECORDED
        key = (item.index, offloader.shape, self.preview_bytes)
        known = view.base.placeholders.get(key) if shared else None
        if isinstance(known, _Placeholder) and byte_length(text) > offloader.threshold:
            offloader.keep(known.entry, text, known.item.message.content)
            return known
        done = offloader.offload(item.message, text, self.preview_bytes or None)
        if done is None:
            return None
        made = self._made(view, item, *done)
        if shared:
            view.base.placeholders[key] = made
        return made

    @staticmethod
    def _made(view: View, item: Item, entry: OffloadEntry, text: str) -> _Placeholder:
        message = replace(item.message, content=text, parts=None)
        return _Placeholder(entry, view.made(message, Kind.OFFLOADED, item.index))


@dataclass(frozen=True, slots=True)
class _Placeholder:
    """An offloaded result as all replays of a session share it."""

    entry: OffloadEntry
    item: Item
