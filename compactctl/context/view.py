"""Views: what a model would be sent, as an immutable sequence that is cheap to grow and to cut.

A replay knows all recorded messages before it begins. So a view is two parts: ``own`` items (what compactions left:
the system message, a checkpoint, placeholders, ...) and then one contiguous range of the recorded messages, the
``base``. Joining the next messages moves one index; totals come from prefix sums; a compaction costs what it changes.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from typing import overload

from compactctl.context.base import Base, Item, Kind
from compactctl.context.counting import Meter, MeterContext, Standing
from compactctl.context.lazy import LazyMessages
from compactctl.context.pairing import stand_in, walk_pairs
from compactctl.model import ASSISTANT, SYSTEM, TOOL, Message, byte_length


class View(Sequence[Message]):
    """An immutable sequence of messages with their weights; compactors derive new views from it.

    ``turn`` is the number of model calls made before it, ``weight`` its total, ``length`` the number of messages.
    ``generation`` grows with each change that is not just more recorded messages. ``pristine`` is its Standing: false
    once a compactor changed what was recorded. The recorded range goes from ``lo`` to ``hi``, which is where the turn's
    own call stands and never before ``lo``.
    """

    __slots__ = (
        "_between",
        "_own",
        "_own_length",
        "_own_weight",
        "_repaired",
        "_run",
        "_seam",
        "_tidy",
        "_tokens",
        "base",
        "generation",
        "hi",
        "length",
        "lo",
        "pristine",
        "turn",
        "weight",
    )

    def __init__(
        self,
        base: Base,
        own: list[Item],
        own_length: int,
        own_weight: int,
        lo: int,
        hi: int,
        turn: int,
        generation: int = 0,
        pristine: Standing = Standing.RECORDED,
        tidy: bool = True,
        seam: tuple[int, int] | None = None,
        run: tuple[Sequence[int], int, int] | None = None,
    ) -> None:
        self.base = base
        self._own = own
        self._own_length = own_length
        self._own_weight = own_weight
        self.lo = lo
        self.hi = hi
        self.turn = turn
        self.generation = generation
        self.pristine = pristine
        # Where the one cut that was not repaired yet is: what is before the first position and what is from the second
        # on are each closed. A view of which no more than that is known is not tidy, and repaired as a whole.
        self._seam = seam
        self._tidy = tidy
        # Running weights of the last own items: they begin at ``run[1]``, and the item at i weighs as much as the
        # running weights ``run[0]`` grow from i + ``run[2]`` to the next.
        self._run = run
        # Asked for many times in a step, so worked out once.
        prefix = base.prefix
        self.length = own_length + hi - lo
        self.weight = own_weight + prefix[hi] - prefix[lo]
        self._tokens: int | None = None
        self._between: tuple[int, int, int] | None = None
        self._repaired: View | None = None

    @classmethod
    def of(cls, messages: Sequence[Message], meter: Meter) -> View:
        """Make the view that holds exactly these messages."""
        return cls.before(Base(messages, meter))

    @classmethod
    def before(cls, base: Base, turn: int | None = None) -> View:
        """Make the view of the whole history before a turn; None for all messages (the turn after the last)."""
        now = len(base.calls) if turn is None else turn
        hi = base.calls[now] if now < len(base.calls) else len(base.messages)
        return cls(base, [], 0, 0, 0, hi, now, pristine=Standing.CHANGED if base.altered else Standing.RECORDED)

    # -- reading -------------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return self.length

    @overload
    def __getitem__(self, at: int) -> Message: ...

    @overload
    def __getitem__(self, at: slice) -> list[Message]: ...

    def __getitem__(self, at: int | slice) -> Message | list[Message]:
        if isinstance(at, slice):
            start, stop, stride = at.indices(self.length)
            if stride == 1:
                return self.messages(start, stop)
            return [self[i] for i in range(start, stop, stride)]
        length = self.length
        position = at + length if at < 0 else at
        if not 0 <= position < length:
            raise IndexError(f"a view of {length} messages has no message {at}")
        return self.message(position)

    def __iter__(self) -> Iterator[Message]:
        for item in self._own[: self._own_length]:
            yield item.message
        yield from self.base.messages[self.lo : self.hi]

    @property
    def tokens(self) -> int:
        """The total in tokens of the base's meter."""
        if self._tokens is None:
            self._tokens = self.base.meter.tokens(self.weight, MeterContext(self.turn, self.pristine))
        return self._tokens

    @property
    def own(self) -> list[Item]:
        """The items before the recorded range, as a new list."""
        return self._own[: self._own_length]

    @property
    def own_buffer(self) -> list[Item]:
        """The list behind ``own``, to be read only: it may go on behind this view's items, and only ever grows."""
        return self._own

    @property
    def own_length(self) -> int:
        """How many items stand before the recorded range."""
        return self._own_length

    def is_grown_from(self, other: View) -> bool:
        """Whether this view is another one that recorded messages have joined, and nothing else."""
        return (
            self.base is other.base
            and self._own is other._own
            and (self._own_length, self.lo, self.generation) == (other._own_length, other.lo, other.generation)
            and self.hi >= other.hi
        )

    @property
    def is_closed(self) -> bool:
        """Whether every run of results is known to stand directly behind the message that made all of its calls."""
        return self._tidy and self._seam is None and self.base.pairs.closed

    @property
    def has_system(self) -> bool:
        """Whether the first message is a system message."""
        return self.length > 0 and self.message(0).role == SYSTEM

    def message(self, position: int) -> Message:
        """Give the message at a position that is not negative."""
        if position < self._own_length:
            return self._own[position].message
        return self.base.messages[self.lo + position - self._own_length]

    def item(self, position: int) -> Item:
        """Give the item at a position that is not negative."""
        if position < self._own_length:
            return self._own[position]
        return self.base.items[self.lo + position - self._own_length]

    def tool_name(self, position: int) -> str:
        """Give the tool that the message at a position is a result of; empty where it is none or that is not known."""
        item = self.item(position)
        return self.base.tool_name(item.index) if item.index >= 0 else item.message.name

    def items_at(self, positions: Sequence[int]) -> list[Item]:
        """Give the items at positions that are in rising order."""
        split = self._own_length
        known = bisect_left(positions, split)
        own, items, shift = self._own, self.base.items, self.lo - split
        return [own[i] for i in positions[:known]] + [items[i + shift] for i in positions[known:]]

    def items(self, start: int = 0, stop: int | None = None) -> list[Item]:
        """Give the items of a range as a new list."""
        end = self.length if stop is None else stop
        split = self._own_length
        shift = self.lo - split
        own = self._own[start : min(end, split)]
        if end <= split:
            return own
        return own + self.base.items[max(start, split) + shift : end + shift]

    def messages(self, start: int = 0, stop: int | None = None) -> list[Message]:
        """Give the messages of a range as a new list."""
        end = self.length if stop is None else stop
        split = self._own_length
        shift = self.lo - split
        own = [item.message for item in self._own[start : min(end, split)]]
        if end <= split:
            return own
        return own + list(self.base.messages[max(start, split) + shift : end + shift])

    def span(self, start: int, stop: int) -> Sequence[Message]:
        """Give the messages of a range; the list is made when it is first looked at."""
        return LazyMessages(stop - start, lambda: self.messages(start, stop))

    def weight_between(self, start: int, stop: int) -> int:
        """Give the weight of a range of positions; O(1) within the recorded range."""
        split = self._own_length
        if stop < split:
            # The same range is mostly asked for twice: for its price, and when something takes its place.
            if self._between is None or self._between[:2] != (start, stop):
                self._between = (start, stop, self._own_between(start, stop))
            return self._between[2]
        own = 0
        if start < split:
            # Ranges mostly begin behind the system message: what is left out is less than what is in.
            own = self._own_weight - sum([item.weight for item in self._own[:start]])
        if stop == split:
            return own
        shift = self.lo - split
        prefix = self.base.prefix
        return own + prefix[stop + shift] - prefix[max(start, split) + shift]

    def _own_between(self, start: int, stop: int) -> int:
        """Add up own items; only those that have no running weights are looked at."""
        weight, known = 0, stop
        if self._run is not None and self._run[1] < stop:
            sums, first, shift = self._run
            known = max(start, first)
            weight = sums[stop + shift] - sums[known + shift]
        return weight + sum([item.weight for item in self._own[start:known]])

    def large_results(self, threshold: int, start: int, stop: int) -> list[int]:
        """List the positions in a range whose tool results are longer than ``threshold`` bytes."""
        split = self._own_length
        found = self.base.large_own(threshold, self._own, split, start, stop) if start < split else []
        if stop > split:
            shift = self.lo - split
            found += [i - shift for i in self.base.large_between(threshold, max(start, split) + shift, stop + shift)]
        return found

    # -- deriving ------------------------------------------------------------------------------------------------

    def advanced(self, turn: int) -> View:
        """Give the view that the recorded messages up to ``turn`` have joined."""
        calls = self.base.calls
        hi = calls[turn] if turn < len(calls) else len(self.base.messages)
        return View(
            self.base,
            self._own,
            self._own_length,
            self._own_weight,
            self.lo,
            hi,
            turn,
            self.generation,
            self.pristine,
            self._tidy,
            self._seam,
            self._run,
        )

    def standing(self, standing: Standing) -> View:
        """Give the same view with another Standing."""
        view = self.advanced(self.turn)
        view.pristine = standing
        return view

    def made(self, message: Message, kind: Kind, index: int = -1) -> Item:
        """Weigh a new message and give it as an item of this view's base."""
        result_bytes = byte_length(message.content) if message.tool_call_id else -1
        if index < 0 and message.tool_calls:
            self.base.made_calls.update([call.id for call in message.tool_calls])
        return Item(message, self.base.meter.weigh(message), index, kind, result_bytes)

    def replaced(self, start: int, stop: int, items: Sequence[Item]) -> View:
        """Give the view in which the positions ``start`` to ``stop`` are these items instead."""
        # Items that bring calls or results of their own open more than the cut.
        plain = not any(item.message.tool_calls or item.message.tool_call_id for item in items)
        return self._put(start, stop, items, plain and self._tidy and self._seam is None, (start, start + len(items)))

    def swapped(self, changes: Sequence[tuple[int, Item]]) -> View:
        """Give the view in which single positions, in rising order, hold other items with the same tool-call ids."""
        if not changes:
            return self
        first, last = changes[0][0], changes[-1][0]
        items = self.items(first, last + 1)
        weight = self.weight_between(first, last + 1)
        for position, item in changes:
            weight += item.weight - items[position - first].weight
            items[position - first] = item
        return self._put(first, last + 1, items, self._tidy, self._seam, weight)

    def taken_over(self, until: int, items: list[Item], sums: Sequence[int]) -> View:
        """Give the view whose recorded messages before the index ``until`` are these items instead.

        The items must have the tool-call ids of those messages. ``sums`` are running weights over all recorded messages
        as such items: at each index the weight of those before it.
        """
        split, lo = self._own_length, self.lo
        view = self._put(split, split + until - lo, items, self._tidy, self._seam, sums[until] - sums[lo])
        run, shift = self._run, lo - split
        view._run = run if run is not None and run[0] is sums and run[2] == shift else (sums, split, shift)
        return view

    def selected(self, positions: Iterable[int]) -> View:
        """Give the view that holds only these positions, in the order given."""
        return self._only([self.item(i) for i in positions])

    def rebuilt(self, messages: Sequence[Message], kind: Kind = Kind.SUMMARY) -> View:
        """Give the view that holds exactly these messages; those of this view keep what is known of them."""
        known = {id(item.message): item for item in self.items()}
        return self._only([known.get(id(m)) or self.made(m, kind) for m in messages])

    def repaired(self) -> View:
        """Give the view without results that have no call and with stand-ins for calls that have no result.

        Sets over the whole view, as harness9 does it (harness9.md 1.6): order and adjacency are not checked.
        """
        if self._tidy and self.base.pairs.closed:
            if self._seam is None:
                return self
            if self._repaired is not None:
                return self._repaired
            repaired = self._repaired_at(*self._seam)
            # Kept in itself a view would never be given back: no collector runs.
            self._repaired = None if repaired is self else repaired
            return repaired
        items = self.items()
        kept = walk_pairs(items, lambda item: item.message, self._stand_in)
        if len(kept) == len(items) and all(a is b for a, b in zip(kept, items, strict=True)):
            return self
        return self._only(kept)

    # -- inside --------------------------------------------------------------------------------------------------

    def _put(
        self,
        start: int,
        stop: int,
        items: Sequence[Item],
        tidy: bool,
        seam: tuple[int, int] | None,
        weight: int | None = None,
    ) -> View:
        """Put ``items``, of the total ``weight`` where that is known, in place of a range."""
        split = self._own_length
        if stop < split:
            own = [*self._own[:start], *items, *self._own[stop:split]]
            total = self._own_weight - self.weight_between(start, stop)
            total += sum([item.weight for item in items]) if weight is None else weight
            self.base.keep_scan(self._own, split, own, items)
            view = self._derived(own, total, self.lo, tidy, seam)
            if self._run is not None and self._run[1] <= stop:
                sums, _, shift = self._run
                view._run = (sums, start + len(items), shift + stop - start - len(items))
            return view
        shift = self.lo - split
        total = sum([item.weight for item in items]) if weight is None else weight
        if start >= split:
            # A list that ends where this view's own items end may be grown in place: no other view sees what is behind.
            own = self._own if split == len(self._own) else self._own[:split]
            own += self.base.items[self.lo : start + shift]
            total += self._own_weight + self.base.prefix[start + shift] - self.base.prefix[self.lo]
        else:
            own = self._own[:start]
            total += sum([item.weight for item in own])
        own += items
        return self._derived(own, total, stop + shift, tidy, seam)

    def _only(self, own: list[Item]) -> View:
        return self._derived(own, sum(item.weight for item in own), self.hi, False, None)

    def _derived(self, own: list[Item], weight: int, lo: int, tidy: bool, seam: tuple[int, int] | None) -> View:
        generation = self.generation + 1
        return View(self.base, own, len(own), weight, lo, self.hi, self.turn, generation, Standing.CHANGED, tidy, seam)

    def _stand_in(self, call_id: str) -> Item:
        self.base.has_stand_ins = True
        return self.made(stand_in(call_id), Kind.STAND_IN)

    def _repaired_at(self, left: int, right: int) -> View:
        """Repair a view that was cut in one place: before ``left`` and from ``right`` on it is closed by itself."""
        length = self.length
        lead = right
        while lead < length and self.message(lead).role == TOOL:
            lead += 1
        start = left
        while start > 0 and self.message(start - 1).role == TOOL:
            start -= 1
        caller = self.message(start - 1) if start > 0 else None
        open_calls = caller.tool_calls if caller is not None and caller.role == ASSISTANT else ()
        if lead == right and not open_calls:  # the cut went between messages that have nothing to do with each other
            self._seam, self._tidy = None, True
            return self
        made = {call.id for call in open_calls}
        orphans = {i for i in range(right, lead) if not self._is_called(self.message(i).tool_call_id, made)}
        answered = {self.message(i).tool_call_id for i in range(start, left)}
        missing = [c.id for c in open_calls if c.id not in answered and not self._is_answered(c.id)]
        # A result that is kept though it does not stand directly behind its call, which a later cut may take away
        # without touching the result, or a call that is answered elsewhere: then the place tells no longer.
        behind = {self.message(i).tool_call_id for i in range(right, lead) if i not in orphans}
        whole = behind <= made and (left == right or not behind) and made <= answered | behind | {*missing}
        # Whatever the cut tore is mended below, and where it tore nothing the view is whole as it is.
        view = self.advanced(self.turn)
        view._seam, view._tidy = None, whole
        if orphans:
            view = view._put(right, lead, [self.item(i) for i in range(right, lead) if i not in orphans], whole, None)
        if missing:
            view = view._put(start, start, [self._stand_in(call_id) for call_id in missing], whole, None)
        return view

    def _is_called(self, call_id: str, made: set[str]) -> bool:
        """Whether a call is made in the view; ``made`` are those of the message whose results the cut went through."""
        pairs = self.base.pairs
        if call_id in made or pairs.called_between(call_id, self.lo, self.hi):
            return True
        own, callers = self._own[: self._own_length], pairs.callers(call_id)
        # A result stands behind its own caller, which was looked at: only another one with its id may be elsewhere.
        if len(callers) > 1 and not set(callers).isdisjoint([item.index for item in own]):
            return True
        if call_id not in self.base.made_calls:
            return False
        return any(call.id == call_id for item in own if item.index < 0 for call in item.message.tool_calls)

    def _is_answered(self, call_id: str) -> bool:
        return self.base.pairs.answered_between(call_id, self.lo, self.hi) or any(
            item.message.tool_call_id == call_id for item in self._own[: self._own_length]
        )
