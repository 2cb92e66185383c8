"""What a loader is, and what it is given: the shapes that the plug-ins of this room share."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import PurePath
from typing import Any

from compactctl.errors import EmptyTranscriptError
from compactctl.model import Session
from compactctl.transcripts._lines import Row, Rows
from compactctl.transcripts._source import Source


class Layout(StrEnum):
    """How the content of an input is laid out."""

    LINES = "lines"
    DOCUMENT = "document"
    SQLITE = "sqlite"


class SideThreadError(EmptyTranscriptError):
    """The file holds the thread of a subagent only; ``--subagents`` loads it."""


@dataclass(frozen=True, slots=True)
class Head:
    """What a loader may sniff at: objects of JSON lines, a document, or a database's tables with their columns."""

    layout: Layout
    rows: tuple[Row, ...] = ()
    document: Any = None
    tables: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


class Input:
    """One input that a loader parses: its name, its objects and its hash.

    ``label`` names it in messages, ``path`` is empty for a stream. ``side_threads`` says that the threads of
    subagents are wanted as sessions of their own. ``torn`` says that the document ended in the middle.
    """

    def __init__(
        self,
        source: Source,
        head: Head,
        *,
        stem: str,
        side_threads: bool = False,
        torn: bool = False,
    ) -> None:
        self._source = source
        self.head = head
        self.stem = stem
        self.side_threads = side_threads
        self.torn = torn

    @property
    def label(self) -> str:
        """The name of the input in messages."""
        return self._source.label

    @property
    def path(self) -> str:
        """The path of the input, ``-`` for a stream."""
        return self._source.path or "-"

    @property
    def file(self) -> str:
        """The path to open, empty for a stream."""
        return self._source.path

    def rows(self) -> Rows:
        """Give the objects of a file of JSON lines, once."""
        return Rows(self._source)

    def sha256(self) -> str:
        """Give the hash of the input, hexadecimal."""
        return self._source.sha256()

    def session_id(self, number: int | None = None) -> str:
        """Make the id of a session that records none: file stem, 8 digits of the hash, and its number in the file.

        ``number`` counts from 1 and is given where a file holds many sessions.
        """
        made = f"{self.stem}-{self.sha256()[:8]}"
        return made if number is None else f"{made}-{number}"

    def damage(self) -> tuple[str, ...]:
        """Give the warnings about compressed data that broke; known once everything was read."""
        return (self._source.damage,) if self._source.damage else ()


@dataclass(frozen=True, slots=True)
class FormatSpec:
    """A transcript format.

    ``sniff(head)`` says from 0 (no) to 100 (certain) whether the content is of this format; ``parse(input)`` gives its
    sessions one after another and raises InputError where nothing in it is usable.
    """

    name: str
    help: str
    sniff: Callable[[Head], int]
    parse: Callable[[Input], Iterator[Session]]


def stem_of(path: str) -> str:
    """Give the name of a file without its suffixes: ``run.jsonl.gz`` is ``run``.

    >>> stem_of("/logs/run.v2.jsonl.gz"), stem_of("-"), stem_of("/x/.jsonl")
    ('run.v2', 'stdin', 'session')
    """
    if path in ("", "-"):
        return "stdin"
    name = PurePath(path).name
    for suffix in (".gz", ".zst", ".zstd", ".jsonl", ".json", ".ndjson", ".traj", ".db", ".txt"):
        if name.lower().endswith(suffix):
            name = name[: -len(suffix)]
    return name or "session"


@contextmanager
def collector_paused() -> Iterator[None]:
    """Keep the garbage collector from walking a growing session again and again; what it was is put back.

    Never around a ``yield``: the consumer of a generator must not run without its collector.
    """
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()
