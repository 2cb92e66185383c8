"""Offloading of large tool results: the placeholder text, the decision, and the offloader that keeps files in memory.

Texts: conformance/README.md. Rules: harness9.md 1.8. A file offloader differs in ``put`` only.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from compactctl.context.naming import ResultNames
from compactctl.model import Message, OffloadEntry, byte_length

SPILL_MARKER = "[output saved to"
PLACEHOLDER_MARKER = "[offloaded:"
FULL_RESULT = "... (full result saved to the file; read it back with read_file)"
DEFAULT_THRESHOLD = 4000
DEFAULT_PREVIEW_LINES = 10


def line_count(text: str) -> int:
    """Count lines as the placeholder states them: newlines + 1."""
    return text.count("\n") + 1


def first_lines(text: str, count: int) -> str:
    """Give the first ``count`` lines without the newline behind them; costs no more than they are long.

    >>> first_lines("one\\ntwo\\nthree", 2), first_lines("one\\ntwo", 2), first_lines("one\\ntwo", 0)
    ('one\\ntwo', 'one\\ntwo', '')
    """
    lines = text[: 200 * count].split("\n", count)
    if len(lines) > count:  # as nearly always; what follows is for very long lines
        return "\n".join(lines[:count])
    at = -1
    for _ in range(count):
        at = text.find("\n", at + 1)
        if at < 0:
            return text
    return text[:at]


def placeholder_text(entry: OffloadEntry, text: str, preview_lines: int, preview_bytes: int | None = None) -> str:
    """Give the text that stays in the view for an offloaded result; ``preview_bytes`` caps the preview.

    >>> print(placeholder_text(OffloadEntry("c1", "", "tool_results/s/c1.txt", 7, 2), "one\\ntwo", 10))
    [offloaded: tool_results/s/c1.txt | 2 lines / 7 bytes]
    Preview (first 2 lines):
    one
    two
    ... (full result saved to the file; read it back with read_file)
    """
    shown = min(preview_lines, entry.lines)
    preview = first_lines(text, shown)
    if preview_bytes is not None and byte_length(preview) > preview_bytes:
        preview = preview.encode("utf-8", "surrogatepass")[:preview_bytes].decode("utf-8", "ignore")
    head = f"{PLACEHOLDER_MARKER} {entry.file_path} | {entry.lines} lines / {entry.bytes} bytes]"
    return f"{head}\nPreview (first {shown} lines):\n{preview}\n{FULL_RESULT}"


class Placed(Protocol):
    """A result that was offloaded before: its entry, and the placeholder's text."""

    @property
    def entry(self) -> OffloadEntry:
        """The file."""

    @property
    def text(self) -> str:
        """What stays in the view."""


class OffloaderBase:
    """Decides whether a result is offloaded, under which name, and what stays in its place.

    ``threshold`` is in bytes and must be exceeded. Two contents under one tool-call id are both kept: the first keeps
    the plain name, another gets a name with its hash. ``first`` may hand in the content that owns each id's plain
    name, so that names do not depend on which result a compactor meets first.
    """

    def __init__(
        self,
        session_id: str,
        threshold: int = DEFAULT_THRESHOLD,
        preview_lines: int = DEFAULT_PREVIEW_LINES,
        preview_bytes: int | None = None,
    ) -> None:
        self.session_id = session_id
        self.threshold = threshold
        self.preview_lines = preview_lines
        self.preview_bytes = preview_bytes
        self.names = ResultNames(session_id)
        self._stored: set[str] = set()
        self._placeholders: dict[str, str] = {}

    @property
    def shape(self) -> tuple[str, int, int | None]:
        """What the entries and placeholders depend on beside the text; replays of one session share them under it."""
        return (self.session_id, self.preview_lines, self.preview_bytes)

    def wants(self, message: Message, text: str) -> bool:
        """Whether a result is to be offloaded: it has an id, is long enough and was not spilled when it was written."""
        return bool(message.tool_call_id and byte_length(text) > self.threshold and not text.startswith(SPILL_MARKER))

    def offload(
        self, message: Message, text: str, preview_bytes: int | None = None, tool: str = ""
    ) -> tuple[OffloadEntry, str] | None:
        """Store a result and give its entry and placeholder; None where it is not to be offloaded.

        ``tool`` is whose result it is where the message does not say. ``preview_bytes`` bounds the preview of this
        one; with it, a result whose placeholder would not be smaller is not offloaded. Raises OffloadError where the
        file could not be written.
        """
        if not self.wants(message, text):
            return None
        # A placeholder may be long enough to be offloaded again; its file holds the result itself and stays as it is.
        known = self._placeholders.get(text) if text.startswith(PLACEHOLDER_MARKER) else None
        path = known or self.names.path(message.tool_call_id, text)
        named = message.name or tool
        entry = OffloadEntry(
            message.tool_call_id, named, path, byte_length(text), line_count(text), text=None if known else text
        )
        cap = self.preview_bytes if preview_bytes is None else preview_bytes
        placeholder = placeholder_text(entry, text, self.preview_lines, cap)
        if preview_bytes is not None and byte_length(placeholder) >= entry.bytes:
            return None
        if known is None:
            self.keep(entry, text, placeholder)
        else:
            self._placeholders[placeholder] = known
        return entry, placeholder

    def keep(self, entry: OffloadEntry, text: str, placeholder: str) -> None:
        """Store a result once and remember its placeholder; raises OffloadError where it could not be written."""
        if entry.file_path not in self._stored:
            self.put(entry, text)
            self._stored.add(entry.file_path)
        self._placeholders[placeholder] = entry.file_path

    def put(self, entry: OffloadEntry, text: str) -> None:
        """Write one result; raises OffloadError."""
        raise NotImplementedError


class MemoryOffloader(OffloaderBase):
    """An offloader that keeps its files in memory: ``files`` maps each path to its text."""

    def __init__(
        self,
        session_id: str,
        threshold: int = DEFAULT_THRESHOLD,
        preview_lines: int = DEFAULT_PREVIEW_LINES,
        preview_bytes: int | None = None,
    ) -> None:
        super().__init__(session_id, threshold, preview_lines, preview_bytes)
        self.files: dict[str, str] = {}

    def put(self, entry: OffloadEntry, text: str) -> None:
        """Keep the text under the entry's path."""
        self.files[entry.file_path] = text


class NullOffloader(OffloaderBase):
    """An offloader that names and replaces but keeps nothing: for dry runs and sweeps."""

    def __init__(self, session_id: str, threshold: int = DEFAULT_THRESHOLD) -> None:
        super().__init__(session_id, threshold)
        self._recalled: list[tuple[Sequence[Placed], int, int]] = []

    def recall(self, placed: Sequence[Placed], first: int, last: int) -> None:
        """Remember placeholders that another replay made; they are only looked at when something new comes."""
        self._recalled.append((placed, first, last))

    def offload(
        self, message: Message, text: str, preview_bytes: int | None = None, tool: str = ""
    ) -> tuple[OffloadEntry, str] | None:
        """Give the entry and the placeholder of a result; see OffloaderBase."""
        for placed, first, last in self._recalled:
            self._placeholders.update((one.text, one.entry.file_path) for one in placed[first:last])
        self._recalled.clear()
        return super().offload(message, text, preview_bytes, tool)

    def put(self, entry: OffloadEntry, text: str) -> None:
        """Keep nothing."""
