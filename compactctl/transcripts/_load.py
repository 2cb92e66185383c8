"""Loads one input: opens it, finds its loader, and closes it again."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from os import PathLike, fsdecode
from typing import BinaryIO

from compactctl.errors import UnreadableError
from compactctl.model import Session
from compactctl.transcripts._sniff import choose
from compactctl.transcripts._source import Limits, Source


def load(
    source: str | PathLike[str] | BinaryIO,
    *,
    side_threads: bool = False,
    label: str = "",
    limits: Limits | None = None,
) -> Iterator[Session]:
    """Give the sessions of a file or stream one after another, whatever its format.

    ``source`` is a path, ``-`` for standard input, or a binary stream; gzip and zstd data are unpacked. ``label`` names
    the input in messages (default: its path). ``side_threads`` also loads the threads of subagents. Nothing is opened
    before the first session is asked for.

    Raises MissingPathError where the path does not exist, UnreadableError where it cannot be read (not a regular file,
    no permission, too large, damaged), UnknownFormatError where no loader knows the content, EmptyTranscriptError where
    it holds no message, and its SideThreadError where it holds a subagent's only. Each message names the input and
    says what to do. Errors may come after some sessions were given.
    """
    where: str | BinaryIO
    if isinstance(source, (str, PathLike)):
        where = fsdecode(source)
        if where == "-":
            where = sys.stdin.buffer
    else:
        where = source
    try:
        opened = Source(where, limits or Limits(), label=label)
        try:
            spec, given = choose(opened, side_threads=side_threads)
            yield from spec.parse(given)
        finally:
            opened.close()
    except OSError as error:  # a disk, a network file system or a pipe that breaks while it is read
        name = label or (where if isinstance(where, str) else "standard input")
        raise UnreadableError(f"{name}: reading failed ({error.strerror or error}); copy it to a sound disk") from error
