"""What changes from one view of a replay to the next in the part that compactions made.

Every view is own items and then one range of the recorded messages. Measures that need to know what a view holds follow
the own items step by step, in pieces: a stretch of recorded messages is one, every made item is one. So a replay costs
what its compactions changed and not the length of its views.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from compactctl.context.prefix import shared_items
from compactctl.context.view import Item, Kind
from compactctl.measures._spec import Trace


class Piece(NamedTuple):
    """A stretch of recorded messages as they are, or one made item (a placeholder, a summary, ...).

    ``position`` is where it begins in the view, ``start`` and ``stop`` are indices of recorded messages; a made item
    that stands for no recorded message has -1 and 0.
    """

    position: int
    start: int
    stop: int
    item: Item | None

    @property
    def size(self) -> int:
        """How many messages it is in the view."""
        return 1 if self.item is not None else self.stop - self.start


@dataclass(frozen=True, slots=True)
class Change:
    """How the own part of a span's view differs from that before: ``keep`` items stay, the rest is replaced."""

    keep: int
    removed: list[Piece]
    added: list[Piece]


def own_changes(trace: Trace) -> list[Change | None]:
    """Give the change of each span, None where its own items are those of the span before; worked out once."""
    known = trace.cache.get("own changes")
    if not isinstance(known, list):
        known = trace.cache["own changes"] = list(_changes(trace))
    return known


def _changes(trace: Trace) -> Iterator[Change | None]:
    own: list[Item] = []
    length = 0
    pieces: list[Piece] = []
    for span in trace.spans:
        view = span.view
        now, size = view.own_buffer, view.own_length
        if now is own and size == length:
            yield None
            continue
        keep = min(length, size)
        if now is not own:
            keep = shared_items(own, now, keep)
        if keep == length == size:
            own = now
            yield None
            continue
        removed = cut_pieces(pieces, keep)
        added = list(_pieces_of(now[keep:size], keep))
        pieces += added
        own, length = now, size
        yield Change(keep, removed, added)


def cut_pieces(pieces: list[Piece], keep: int) -> list[Piece]:
    """Take away what stands at ``keep`` and behind it from a list of pieces, and give it."""
    removed: list[Piece] = []
    while pieces and pieces[-1].position >= keep:
        removed.append(pieces.pop())
    if pieces and (last := pieces[-1]).position + last.size > keep:
        at = last.start + keep - last.position
        pieces[-1] = Piece(last.position, last.start, at, None)
        removed.append(Piece(keep, at, last.stop, None))
    removed.reverse()
    return removed


def _pieces_of(items: Sequence[Item], position: int) -> Iterator[Piece]:
    recorded = Kind.RECORDED
    start = expected = -1
    begin = position
    for at, item in enumerate(items, position):
        index = item.index
        if item.kind is recorded and index >= 0:
            if index == expected:
                expected += 1
                continue
            if expected >= 0:
                yield Piece(begin, start, expected, None)
            begin, start, expected = at, index, index + 1
            continue
        if expected >= 0:
            yield Piece(begin, start, expected, None)
            expected = -1
        yield Piece(at, index, index + 1, item)
    if expected >= 0:
        yield Piece(begin, start, expected, None)
