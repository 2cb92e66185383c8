"""What two views have in common from their first message on: the part that a provider's prompt cache can reuse."""

from __future__ import annotations

from collections.abc import Sequence

from compactctl.context.view import View


def shared_items(old: Sequence[object], new: Sequence[object], limit: int) -> int:
    """Give how many of the first ``limit`` things of two lists are the very same objects, by halving.

    >>> shared_items("abcd", "abxd", 4)
    2
    """
    low, high = 0, limit
    if old[:high] == new[:high]:
        return high
    while high - low > 1:
        middle = (low + high) // 2
        if old[low:middle] == new[low:middle]:
            low = middle
        else:
            high = middle
    return low


def shared_last_items(old: Sequence[object], new: Sequence[object], end: int, new_end: int, limit: int) -> int:
    """Give how many of the last ``limit`` things of two lists are the very same objects.

    The lists are looked at up to ``end`` and ``new_end``.

    >>> shared_last_items("abcd", "xbcd!", 4, 4, 3), shared_last_items("abcd", "bcd", 4, 3, 0)
    (3, 0)
    """
    low, high = 0, limit
    if old[end - high : end] == new[new_end - high : new_end]:
        return high
    while high - low > 1:
        middle = (low + high) // 2
        if old[end - middle : end - low] == new[new_end - middle : new_end - low]:
            low = middle
        else:
            high = middle
    return low


def shared_messages(old: View, new: View, known: int = 0) -> int:
    """Give how many first messages two views of one base share; equal text counts as shared, whoever made it.

    Costs what the own items of the two views cost to compare, whatever the length of their recorded ranges. ``known``
    is how many are known to be shared.
    """
    limit = min(len(old), len(new))
    old_own, new_own = old.own_length, new.own_length
    at = known
    both = min(old_own, new_own, limit)
    if old.own_buffer is new.own_buffer:
        at = max(at, both)
    while at < both:
        if old.own_buffer[at] is not new.own_buffer[at] and old.message(at) != new.message(at):
            return at
        at += 1
        if at < both:
            at += shared_items(old.own_buffer[at:both], new.own_buffer[at:both], both - at)
    reach = min(max(old_own, new_own), limit)
    while at < reach:
        one, two = old.message(at), new.message(at)
        if one is not two and one != two:
            return at
        at += 1
    if at < limit and old.lo - old_own != new.lo - new_own:
        while at < limit and old.message(at) == new.message(at):
            at += 1
        return at
    return limit
