"""A summary of a fixed size that says nothing: the lower bound beside the stub, and the quickest for sweeps."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from compactctl.context.anchors import MISSING, SUMMARY_HEADING, anchor_blocks
from compactctl.context.sections import DSH_HEADINGS, DSH_NOTHING
from compactctl.model import Anchor, AnchorType
from compactctl.ports import BlobStore, SummarizerSpec, SummaryFormat, SummaryReply, SummaryRequest

BYTES_PER_TOKEN = 4
_FILLER = "This summary is opaque. "


class OpaqueSummarizer:
    """Answers every request with one constant text of exactly the asked size.

    The size is ``budget`` tokens of four bytes, but never less than the bare form takes. Requests of one format and
    budget share one string object, so a sweep over thousands of compactions pays for it once.
    """

    def summarize(self, request: SummaryRequest) -> SummaryReply:
        """Give the constant; looks at nothing but the format and the budget."""
        return _reply(request.format, request.budget)


@lru_cache(maxsize=64)
def _reply(form: SummaryFormat, budget: int) -> SummaryReply:
    if form is SummaryFormat.ANCHORS:
        skeleton = f"## Anchors\n\n{anchor_blocks(Anchor(kind, MISSING) for kind in AnchorType)}\n\n{SUMMARY_HEADING}\n"
    elif form is SummaryFormat.DSH:
        skeleton = "\n\n".join(f"## {heading}\n{DSH_NOTHING}" for heading in DSH_HEADINGS) + "\n\n"
    else:
        skeleton = ""
    room = max(budget * BYTES_PER_TOKEN - len(skeleton), 1)
    filler = (_FILLER * (room // len(_FILLER) + 1))[:room]
    # Readers trim a summary: a space at the end would make the size depend on who reads it.
    return SummaryReply(skeleton + filler[:-1] + ".")


def _make(options: Mapping[str, Any], blobs: BlobStore | None) -> OpaqueSummarizer:
    return OpaqueSummarizer()


SUMMARIZER = SummarizerSpec(
    name="opaque",
    help="a fixed-size summary without content: the lower bound, and the quickest for large sweeps",
    make=_make,
)
