"""What changes from one view of a replay to the next in the part that compactions made.

Every view is own items and then one range of the recorded messages. Measures that need to know what a view holds follow
the own items step by step, so that a replay costs what its compactions changed and not the length of its views.
"""

from __future__ import annotations

from dataclasses import dataclass

from compactctl.context.prefix import shared_items
from compactctl.context.view import Item
from compactctl.measures._spec import Trace


@dataclass(frozen=True, slots=True)
class Change:
    """How the own items of a span's view differ from those before: ``keep`` stay, then come other ones."""

    keep: int
    removed: list[Item]
    added: list[Item]


def own_changes(trace: Trace) -> list[Change | None]:
    """Give the change of each span, None where its own items are those of the span before; worked out once."""
    known = trace.cache.get("own changes")
    if not isinstance(known, list):
        known = trace.cache["own changes"] = _changes(trace)
    return known


def _changes(trace: Trace) -> list[Change | None]:
    found: list[Change | None] = []
    own: list[Item] = []
    length = 0
    for span in trace.spans:
        view = span.view
        now, size = view.own_buffer, view.own_length
        if now is own and size == length:
            found.append(None)
            continue
        keep = min(length, size)
        if now is not own:
            keep = shared_items(own, now, keep)
        change = Change(keep, own[keep:length], now[keep:size])
        found.append(change if change.removed or change.added else None)
        own, length = now, size
    return found
