"""Who wrote a message that has the role of a user: the user, the harness, or a compaction before.

What a harness puts in between (reminders, environments, continuations) and what a summary says are no words of the
user, although a model gets them in their role. Where a transcript does not tell, a summary is known by its beginning.
"""

from __future__ import annotations

from compactctl.context.anchors import COMPACTION_MARKER
from compactctl.context.sections import DSH_PREAMBLE, DSH_TAG
from compactctl.model import USER, Message, Origin

HARNESS_LABEL, SUMMARY_LABEL = "harness", "earlier summary"
# Not anywhere in a text: a user may write about a marker and go on to say what must be kept.
_BEGINNINGS = (COMPACTION_MARKER, DSH_TAG, DSH_PREAMBLE)


def is_summary(message: Message) -> bool:
    """Whether a message is what an earlier compaction left.

    >>> is_summary(Message("user", "[Context Compaction]\\n## Anchors")), is_summary(Message("user", "go on"))
    (True, False)
    """
    if message.origin is not None:
        return message.origin is Origin.RECORDED_SUMMARY
    return message.role == USER and not message.tool_call_id and message.content.startswith(_BEGINNINGS)


def is_human(message: Message) -> bool:
    """Whether a message is a user's own: of their role, no result, not the harness's and no summary.

    >>> is_human(Message("user", "go on")), is_human(Message("user", "a reminder", origin=Origin.HARNESS))
    (True, False)
    """
    if message.role != USER or message.tool_call_id:
        return False
    return message.origin is Origin.HUMAN or (message.origin is None and not is_summary(message))


def label(message: Message) -> str:
    """Give the word for whoever wrote a message that is no result.

    >>> label(Message("user", "a reminder", origin=Origin.HARNESS))
    'harness'
    """
    if message.role != USER:
        return message.role
    if is_summary(message):
        return SUMMARY_LABEL
    return HARNESS_LABEL if message.origin is Origin.HARNESS else message.role
