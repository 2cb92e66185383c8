"""The fence between foreign text and a model: what is sent cannot forge a heading or marker, nor what comes back.

Text from a transcript is hostile (trust.md 2f, L1): a tool result may quote our own headings and markers. So the copy
that is sent is put between marks with a fresh nonce, lines in it that look like ours are made harmless, and of the
answer only the first well-formed block inside the fence is read. Pure: the nonce is handed in.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from compactctl.context.anchors import HEADERS, SUMMARY_HEADING, anchor_blocks
from compactctl.model import Anchor, AnchorType, Message

ANCHORS_HEADING = "## Anchors"
ALTERED = "| "  # stands before a line that would otherwise look like a heading or a label

_TITLES = (
    *HEADERS.values(),
    "Anchors",
    "Summary",
    "Active Tasks",
    "Offloaded References",
    "Primary Request and Intent",
    "Key Technical Concepts",
    "Files and Code",
    "Errors and Fixes",
    "Pending Jobs",
    "Current Work",
    "Next Step",
    "Critical Context",
)
_TITLE = "|".join(re.escape(title).replace(r"\ ", r"\s+") for title in sorted(_TITLES, key=len, reverse=True))
# A heading of ours at any level, also quoted, listed or in bold, or any heading of the level that opens a section.
_HEADING = re.compile(rf"[>*_+\-\s\d.]*#{{1,6}}[\s*_]*(?:{_TITLE})\b|[>*_+\-\s]*###(?:\s|$)", re.IGNORECASE)
_LABEL = re.compile(
    r"[>*_\s]*\[\s*(?:system|user|assistant|tool|tool_result\b[^\]]*|tool_call\b[^\]]*)\]\s*:", re.IGNORECASE
)
_MARKERS = re.compile(
    r"[\[<](?=(?:\[\s*)?(?:"
    r"context\s+compaction\]|offloaded\s*:|output\s+saved\s+to\b"
    r"|/?\s*compacted-summary\b|/?\s*previous-compaction\b|/?\s*conversation\s*>"
    r"|<<\s*(?:end\s+)?[a-z]))",
    re.IGNORECASE,
)
_OPENING = {"[": "(", "<": "("}
# Everything that a reader, human or model, takes for the end of a line; the parsers of this package know only "\n".
_BREAKS = re.compile("([\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029])")
_QUICK = re.compile(r"[#\[<]|[^\x00-\x7f]|[\x00-\x08\x0e-\x1f]")


def neutralise(text: str) -> str:
    """Make lines that look like our headings, labels and markers harmless; other text stays as it is.

    A heading or a speaker's label gets ``| `` in front, a marker loses its first bracket. Full-width forms and
    invisible characters do not hide one. Applying it twice changes nothing more.

    >>> neutralise("ok\\n### User Intent\\nsee [offloaded: x]")
    'ok\\n| ### User Intent\\nsee (offloaded: x]'
    """
    if not _QUICK.search(text):
        return text
    parts = _BREAKS.split(text)
    parts[::2] = map(_harmless, parts[::2])
    return "".join(parts)


def one_line(text: str) -> str:
    """Give a text as one harmless line: every run of white space is one space, markers are broken.

    >>> one_line(" a\\n\\n### Next Steps ")
    'a ### Next Steps'
    """
    return _MARKERS.sub(_broken, " ".join(text.split()))


def _harmless(line: str) -> str:
    if not _QUICK.search(line):
        return line
    plain = line if line.isascii() and line.isprintable() else _plain(line)
    if _HEADING.match(plain) or _LABEL.match(plain):
        line = ALTERED + line
    if plain is not line and _MARKERS.search(plain) and not _MARKERS.search(line):
        return _MARKERS.sub(_broken, plain)
    return _MARKERS.sub(_broken, line)


def _broken(match: re.Match[str]) -> str:
    return _OPENING[match.group()]


def _plain(line: str) -> str:
    """Give a line as it looks: compatibility forms resolved, invisible and control characters taken out."""
    shown = unicodedata.normalize("NFKC", line)
    return "".join(c for c in shown if c == "\t" or unicodedata.category(c) not in ("Cf", "Cc", "Cs"))
