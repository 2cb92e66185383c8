"""The five anchors of a summary: their text form, the parser and the merge (seed section 4, conformance/README.md)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache

from compactctl.model import Anchor, AnchorType, OffloadEntry

MISSING = "N/A"
HEADERS: dict[AnchorType, str] = {
    AnchorType.USER_INTENT: "User Intent",
    AnchorType.EXECUTION_PROGRESS: "Execution Progress",
    AnchorType.KEY_DECISION: "Key Decisions",
    AnchorType.TRIED_SOLUTION: "Tried Solutions",
    AnchorType.NEXT_STEP: "Next Steps",
}
SUMMARY_HEADING = "## Summary"
COMPACTION_MARKER = "[Context Compaction]"

_KINDS = tuple(AnchorType)
_NOTHING = {kind: Anchor(kind, MISSING) for kind in _KINDS}
_BY_HEADING = {f"### {header}": kind for kind, header in HEADERS.items()}
# Unicode's White_Space property, which the reference trims; str.strip() alone would also take U+001C to U+001F.
_SPACE = "\t\n\v\f\r \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(map(chr, range(0x2000, 0x200B)))
_SAYS_NOTHING = re.compile(r"(?:[-*+\u2022]\s*)?n/a\.?", re.IGNORECASE)


@lru_cache(maxsize=16)
def parse_anchors_and_summary(text: str) -> tuple[tuple[Anchor, ...], str]:
    """Take the five anchors and the prose out of a summarizer's answer; what is missing is ``N/A``. Never fails.

    A line ``### <Header>`` opens a section, another ``### `` line closes it, ``## Summary`` begins the prose, which
    lasts to the end. The last of two equal headers wins (harness9.md 1.9).

    >>> anchors, prose = parse_anchors_and_summary("### User Intent\\nfix the build\\n## Summary\\nDone.")
    >>> anchors[0].content, anchors[1].content, prose
    ('fix the build', 'N/A', 'Done.')
    """
    found: dict[AnchorType, str] = {}
    current: AnchorType | None = None
    lines: list[str] = []
    summary = ""

    def close() -> None:
        if current is not None:
            found[current] = "\n".join(lines).strip(_SPACE)

    rows = text.split("\n")
    for number, row in enumerate(rows):
        heading = row.strip(_SPACE)
        if heading == SUMMARY_HEADING:
            prose = [line for line in rows[number + 1 :] if line.strip(_SPACE) != SUMMARY_HEADING]
            summary = "\n".join(prose).strip(_SPACE)
            break
        if heading.startswith("### "):
            close()
            current, lines = _BY_HEADING.get(heading), []
        elif current is not None:
            lines.append(row)
    close()
    return tuple(Anchor(kind, _content(found.get(kind, ""))) for kind in AnchorType), summary


def merge_anchors(old: Sequence[Anchor] | None, new: Sequence[Anchor]) -> tuple[Anchor, ...]:
    """Give the new anchors, with the old ones where the new say nothing (seed section 4.5).

    >>> merge_anchors([Anchor(AnchorType.NEXT_STEP, "test")], [])[4].content
    'test'
    """
    before = {anchor.type: anchor for anchor in old or ()}
    after = {anchor.type: anchor for anchor in new}
    merged: list[Anchor] = []
    for kind in _KINDS:
        fresh, known = after.get(kind), before.get(kind)
        if fresh is not None and not is_missing(fresh):
            merged.append(fresh)
        elif known is not None and known.content:
            merged.append(known)
        else:
            merged.append(_NOTHING[kind])
    return tuple(merged)


def is_missing(anchor: Anchor) -> bool:
    """Whether an anchor says nothing: it is empty or only ``N/A``, whatever its bullet, case or final dot."""
    return anchor.content == MISSING or not anchor.content or _SAYS_NOTHING.fullmatch(anchor.content) is not None


def anchor_blocks(anchors: Iterable[Anchor]) -> str:
    """Give anchors as ``### <Header>`` blocks with a blank line between them."""
    return "\n\n".join([f"### {HEADERS[anchor.type]}\n{anchor.content}" for anchor in anchors])


def previous_text(anchors: Iterable[Anchor], summary: str) -> str:
    """Give the last compaction as the text that an incremental summary is merged with."""
    return f"{anchor_blocks(anchors)}\n\n{SUMMARY_HEADING}\n{summary}"


def compaction_text(
    anchors: Iterable[Anchor], summary: str, offloaded: Sequence[OffloadEntry] = (), tasks: str = ""
) -> str:
    """Give the content of the message that takes the place of a summarised span.

    ``tasks`` adds a section ``## Active Tasks`` (the seed's todo injector).
    """
    text = f"{COMPACTION_MARKER}\n## Anchors\n\n{anchor_blocks(anchors)}\n\n{SUMMARY_HEADING}\n{summary}"
    if tasks:
        text += f"\n\n## Active Tasks\n{tasks}"
    if offloaded:
        text += "\n\n" + references_text(offloaded)
    return text


def references_text(offloaded: Iterable[OffloadEntry]) -> str:
    """Give the section that lists offloaded results, each line ended by a newline."""
    return "## Offloaded References\n" + "".join(
        [f"- {entry.file_path} ({entry.lines} lines) - offloaded tool result\n" for entry in offloaded]
    )


def _content(text: str) -> str:
    return MISSING if not text or text == MISSING or _SAYS_NOTHING.fullmatch(text) else text
