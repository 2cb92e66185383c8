"""Offloading the large results of a range of a view, shared by all replays of one session."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field

from msgspec import Struct

from compactctl.context.base import Base, Item, Kind
from compactctl.context.counting import MeterContext
from compactctl.context.lazy import LazyMessages
from compactctl.context.offload import SPILL_MARKER, NullOffloader, OffloaderBase
from compactctl.context.passing import Passing
from compactctl.context.view import View
from compactctl.errors import CompactctlError, OffloadError
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
    # The table that was asked for last and its base: a replay asks for one only, many times.
    _last: tuple[Base, NullOffloader, _Table] | None = field(default=None, init=False, repr=False)

    def apply(self, view: View, start: int, stop: int) -> Offloaded:
        """Put placeholders in place of the large results of a range."""
        if self.offloader is None:
            return Offloaded(view)
        quick = self._quick(self.offloader, view, start, stop) if isinstance(self.offloader, NullOffloader) else None
        return quick or self._one_by_one(self.offloader, view, start, stop)

    def _quick(self, offloader: NullOffloader, view: View, start: int, stop: int) -> Offloaded | None:
        """Take what is known of a whole range at once; None where something in it must be looked at by itself."""
        split = view.own_length
        if self.threshold < offloader.threshold:
            return None
        if start < split and view.large_results(self.threshold, start, min(stop, split)):
            return None
        if stop <= split:
            return Offloaded(view)
        table = self._table(offloader, view.base)
        shift = view.lo - split
        first = bisect_left(table.at, max(start, split) + shift)
        last = bisect_left(table.at, stop + shift, lo=first)
        if first == last:
            return None if table.has_hole(max(start, split) + shift, stop + shift) else Offloaded(view)
        if table.has_hole(max(start, split) + shift, stop + shift):
            return None
        offloader.recall(table.placed, first, last)
        return Offloaded(view, table.entries[first:last], table.grown[last] - table.grown[first], (table, first, last))

    def passing(self, base: Base, tail: int) -> Passing | None:
        """Give what offloading makes of results as they leave the tail; None where one must be looked at by itself."""
        if not isinstance(self.offloader, NullOffloader) or self.threshold < self.offloader.threshold:
            return None
        table = self._table(self.offloader, base)
        # A placeholder that is large itself would be offloaded again.
        if table.holes or table.is_large_again:
            return None
        if tail not in table.passing:
            items = [one.item for one in table.placed]
            threshold = self.threshold if len(table.at) == len(base.large_results(self.threshold)) else None
            table.passing[tail] = Passing(base, table.at, items, table.entries, tail, threshold)
        return table.passing[tail]

    def _table(self, offloader: NullOffloader, base: Base) -> _Table:
        if self._last is not None and self._last[0] is base and self._last[1] is offloader:
            return self._last[2]
        key = (offloader.shape, self.threshold, self.preview_bytes, self.protect)
        table = base.placeholders.get(key)
        if not isinstance(table, _Table):
            table = base.placeholders[key] = _Table(self, offloader, base)
        self._last = (base, offloader, table)
        return table

    def _one_by_one(self, offloader: Offloader, view: View, start: int, stop: int) -> Offloaded:
        changes: list[tuple[int, Item]] = []
        entries: list[OffloadEntry] = []
        grown = 0
        failed = False
        positions = view.large_results(self.threshold, start, stop)
        shared, floor = self._shared(offloader, view)
        for position, item in zip(positions, view.items_at(positions), strict=True):
            if self.protect and self._is_protected(view, position):
                continue
            done = shared.get(item)
            try:
                if done is not None and item.result_bytes > floor and isinstance(offloader, OffloaderBase):
                    offloader.keep(done.entry, item.message.content, done.text)
                else:
                    done = self._placeholder(offloader, view, item, shared)
            except OffloadError:
                failed = True
                continue
            if done is not None:
                entries.append(done.entry)
                changes.append((position, done.item))
                grown += done.item.weight - item.weight
        return Offloaded(view, entries, grown, changes, failed)

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
            tool = view.base.tool_name(item.index) if item.index >= 0 else ""
            # A result that is alone with its id has the plain name anyway.
            if item.index not in view.base.lone_results:
                offloader.names.owned = view.base.owned_names
            done = offloader.offload(item.message, text, self.preview_bytes or None, tool)
        else:
            done = _from_users(offloader, item.message, text)
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


def _from_users(offloader: Offloader, message: Message, text: str) -> tuple[OffloadEntry, str] | None:
    """Ask an offloader that is not the package's own; whatever it raises is a result that could not be stored."""
    try:
        return offloader.offload(message, text)
    except CompactctlError:
        raise
    except Exception as error:
        raise OffloadError(f"{type(error).__name__}: {error}") from error


class Offloaded:
    """What offloading made of a view: the entries, by how much its weight grew (< 0), and whether something failed.

    The view itself is put together when it is first asked for: a summary of the same range never needs it.
    """

    __slots__ = ("_changes", "_view", "before", "entries", "failed", "grown")

    def __init__(
        self,
        before: View,
        entries: list[OffloadEntry] | None = None,
        grown: int = 0,
        changes: list[tuple[int, Item]] | tuple[_Table, int, int] | None = None,
        failed: bool = False,
    ) -> None:
        self.before = before
        self.entries = entries or []
        self.grown = grown
        self.failed = failed
        self._changes = changes
        self._view: View | None = None if changes else before

    @property
    def view(self) -> View:
        """The view with its placeholders."""
        if self._view is None:
            changes = self._changes
            if isinstance(changes, tuple):
                table, first, last = changes
                back = self.before.own_length - self.before.lo
                places = [at + back for at in table.at[first:last]]
                changes = list(zip(places, [one.item for one in table.placed[first:last]], strict=True))
            self._view = self.before.swapped(changes or ())
        return self._view

    @property
    def weight(self) -> int:
        """The weight of the view."""
        return self.before.weight + self.grown

    @property
    def tokens(self) -> int:
        """The tokens of the view."""
        if self._view is not None:
            return self._view.tokens
        return self.before.base.meter.tokens(self.weight, MeterContext(self.before.turn, False))

    def span(self, start: int, stop: int) -> Sequence[Message]:
        """Give the messages of a range of the view; the list is made when it is first looked at."""
        return LazyMessages(stop - start, lambda: self.view.messages(start, stop))


class _Maker(NullOffloader):
    """Makes placeholders of recorded results, each once, and remembers none: whoever places one does that."""

    def keep(self, entry: OffloadEntry, text: str, placeholder: str) -> None:
        """Keep nothing."""


class _Table:
    """What offloading makes of every large result of a session, in order, for offloaders that keep nothing.

    ``at`` are their indices, ``grown`` the running sum of how their weights change. Results of one tool-call id have
    names that depend on which is met first: they are ``holes``, to be looked at by themselves.
    """

    __slots__ = ("at", "entries", "grown", "holes", "is_large_again", "passing", "placed")

    def __init__(self, rule: Offloading, offloader: NullOffloader, base: Base) -> None:
        maker = _Maker(offloader.session_id, offloader.threshold)
        view = View.before(base)
        self.at: list[int] = []
        self.entries: list[OffloadEntry] = []
        self.placed: list[_Placeholder] = []
        self.grown: list[int] = [0]
        self.holes: list[int] = []
        lone, items = base.lone_results, base.items
        for at in base.large_results(rule.threshold):
            if rule.protect and base.tool_name(at) in rule.protect:
                continue
            if at not in lone:
                self.holes.append(at)
                continue
            item = items[at]
            done = rule._placeholder(maker, view, item, {})
            if done is not None:
                self.at.append(at)
                self.entries.append(done.entry)
                self.placed.append(done)
                self.grown.append(self.grown[-1] + done.item.weight - item.weight)
        self.is_large_again = any(one.item.result_bytes > rule.threshold for one in self.placed)
        self.passing: dict[int, Passing] = {}
        base.placeholder_sets.append({one.item.index: one.item for one in self.placed})

    def has_hole(self, start: int, stop: int) -> bool:
        """Whether a range of indices has a result that must be looked at by itself."""
        return bisect_left(self.holes, start) < bisect_left(self.holes, stop)


class _Placeholder(Struct, frozen=True, gc=False, eq=False):
    """An offloaded result as all replays of a session share it."""

    entry: OffloadEntry
    item: Item
    text: str
