"""What a harness itself did to a session's history while it was recorded, done to a view of it."""

from __future__ import annotations

from compactctl.context.base import Item, Kind
from compactctl.context.view import View
from compactctl.model import Message, RecordedCompaction

CLEARED_TEXT = "[cleared]"


def as_cleared(view: View, compaction: RecordedCompaction) -> View:
    """Clear the results that a recorded micro compaction cleared; what was sent then is still what was sent."""
    ids = frozenset(compaction.cleared)
    changes: list[tuple[int, Item]] = []
    for position, item in enumerate(view.items()):
        m = item.message
        if m.tool_call_id in ids and item.kind is not Kind.CLEARED:
            message = Message(m.role, CLEARED_TEXT, m.tool_calls, m.tool_call_id, m.name, m.is_error, m.timestamp)
            changes.append((position, view.made(message, Kind.CLEARED, item.index)))
    after = view.swapped(changes)
    after.pristine = view.pristine
    return after
