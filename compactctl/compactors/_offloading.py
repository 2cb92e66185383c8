"""Offloading the large results of a range of a view, shared by all replays of one session."""

from __future__ import annotations

from dataclasses import dataclass, field

from compactctl.context.offload import SPILL_MARKER, NullOffloader, OffloaderBase
from compactctl.context.view import Item, Kind, View
from compactctl.errors import OffloadError
from compactctl.model import Message, OffloadEntry
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
        positions = view.large_results(self.threshold, start, stop)
        items = view.items_at(positions)
        shared, floor = self._shared(self.offloader, view)
        if isinstance(self.offloader, NullOffloader) and not self.protect and self.threshold >= floor:
            placed = [shared[item] for item in items if item in shared]
            if len(placed) == len(items):
                self.offloader.recall(placed)
                changes = [(position, one.item) for position, one in zip(positions, placed, strict=True)]
                return view.swapped(changes), [one.entry for one in placed], False
        for position, item in zip(positions, items, strict=True):
            if self.protect and self._is_protected(view, position):
                continue
            done = shared.get(item)
            try:
                if done is not None and item.result_bytes > floor:
                    self.offloader.keep(done.entry, item.message.content, done.text)  # type: ignore[attr-defined]
                else:
                    done = self._placeholder(self.offloader, view, item, shared)
            except OffloadError:
                failed = True
                continue
            if done is not None:
                entries.append(done.entry)
                changes.append((position, done.item))
        return view.swapped(changes), entries, failed

    def is_settled(self, view: View, start: int, stop: int) -> bool:
        """Whether another ``apply`` over the range would certainly change nothing."""
        if self.offloader is None:
            return True
        large = view.large_results(self.threshold, start, stop)
        return not large or all(
            self._is_protected(view, position) or view.message(position).content.startswith(SPILL_MARKER)
            for position in large
        )

    def _is_protected(self, view: View, position: int) -> bool:
        return bool(self.protect) and view.tool_name(position) in self.protect

    def _shared(self, offloader: Offloader, view: View) -> tuple[dict[Item, _Placeholder], int]:
        """Give the placeholders of recorded results that all replays share, and above how many bytes they hold."""
        if not isinstance(offloader, OffloaderBase):
            return {}, 0
        return view.base.placeholders.setdefault((offloader.shape, self.preview_bytes), {}), offloader.threshold

    def _placeholder(
        self, offloader: Offloader, view: View, item: Item, shared: dict[Item, _Placeholder]
    ) -> _Placeholder | None:
        text = item.message.content
        if isinstance(offloader, OffloaderBase):
            done = offloader.offload(item.message, text, self.preview_bytes or None)
        else:
            done = offloader.offload(item.message, text)
        if done is None:
            return None
        made = self._made(view, item, *done)
        # Where two results have one id, who gets the plain name depends on the replay: those are not shared.
        if isinstance(offloader, OffloaderBase) and item.kind is Kind.RECORDED and item.index in view.base.lone_results:
            shared[item] = made
        return made

    @staticmethod
    def _made(view: View, item: Item, entry: OffloadEntry, text: str) -> _Placeholder:
        m = item.message
        message = Message(
            m.role,
            text,
            m.tool_calls,
            m.tool_call_id,
            m.name,
            m.is_error,
            m.timestamp,
            m.model,
            m.usage,
            None,
            m.origin,
        )
        return _Placeholder(entry, view.made(message, Kind.OFFLOADED, item.index), text)


@dataclass(frozen=True, slots=True, eq=False)
class _Placeholder:
    """An offloaded result as all replays of a session share it."""

    entry: OffloadEntry
    item: Item
    text: str
