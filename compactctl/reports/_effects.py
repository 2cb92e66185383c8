"""What each means of a compaction took away: offloading, a summary, truncation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple


class Effects(NamedTuple):
    """Decision tokens of one compaction: what is left, and what went away by each means.

    ``after`` and the others add up to the tokens before, but where the view grew: then all are 0 and ``grown`` says by
    how much.
    """

    after: int
    offload: int
    summary: int
    truncation: int
    grown: int


def effects(row: Mapping[str, Any]) -> Effects:
    """Split what a compaction took away by what did it.

    The record holds the tokens after offloading alone where more was done after it; where it does not, all went away by
    the one means that the record names, a summary before truncation before offloading.

    >>> effects({"tokens_before": 100, "tokens_after_offload": 70, "tokens_after": 20, "summarized": 9, "dropped": 0})
    Effects(after=20, offload=30, summary=50, truncation=0, grown=0)
    """
    before, after, between = row["tokens_before"], row["tokens_after"], row["tokens_after_offload"]
    if after >= before:
        return Effects(before, 0, 0, 0, after - before)
    if row["summarized"]:
        middle = min(before, max(after, between)) if between is not None else before
        return Effects(after, before - middle, middle - after, 0, 0)
    if row["dropped"]:
        middle = min(before, max(after, between)) if between is not None else before
        return Effects(after, before - middle, 0, middle - after, 0)
    return Effects(after, before - after, 0, 0, 0)
