"""Reads JSON lines: bounded, split on the byte 10 only, and with an account of every line."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import orjson

from compactctl.errors import UnreadableError
from compactctl.model import LineCounts, SkippedLine
from compactctl.transcripts._damaged import BOM, deeper_than, recover
from compactctl.transcripts._source import Source

Row = dict[str, Any]


class Rows:
    """The objects of a file of JSON lines, in file order.

    A line counts as used unless the loader says otherwise while it holds the line's object: ``ignore(kind)`` for a
    line that carries no message, ``skip(reason)`` for one that cannot be used. ``line`` is the number of the line that
    the last object came from. ``counts()`` gives the account since it was last asked, so that the accounts of the
    sessions of one file add up to the file.
    """

    def __init__(self, source: Source) -> None:
        self._source = source
        self._limits = source.limits
        self.line = 0
        self._offset = 0  # of the line in work
        self._next = 0  # of the line after it
        self._counted = 0
        self._told = False  # whether the line in work has its place in the account
        self._blank = 0
        self._recovered = 0
        self._ignored: dict[str, int] = {}
        self._skipped: list[SkippedLine] = []
        self._in_recovered = False
        self._open_end = False

    def ignore(self, kind: str) -> None:
        """Count the line in work as one that carries no message; ``kind`` is the transcript's word for it."""
        if not self._told:
            self._told = True
            self._ignored[kind] = self._ignored.get(kind, 0) + 1

    def skip(self, reason: str) -> None:
        """Count the line in work as one that could not be used."""
        if not self._told:
            self._told = True
            self._skipped.append(SkippedLine(self.line, self._offset, reason))
            if len(self._skipped) > self._limits.skipped:
                raise UnreadableError(
                    f"{self._source.label}: more than {self._limits.skipped:,} lines cannot be used "
                    f"(line {self.line}: {reason}); this is no transcript, or a badly damaged one"
                )

    def counts(self, *, before: bool = False) -> LineCounts:
        """Give the account of the lines since the last call; ``before`` leaves the line in work to the next one."""
        total = self.line - self._counted - before
        skipped = tuple(self._skipped)
        later = int(before and self._in_recovered)
        recovered = self._recovered - later
        counts = LineCounts(
            total=total,
            used=total - self._blank - recovered - sum(self._ignored.values()) - len(skipped),
            recovered=recovered,
            blank=self._blank,
            ignored=dict(sorted(self._ignored.items())),
            skipped=skipped,
        )
        self._counted = self.line - before
        self._blank, self._recovered = 0, later
        self._ignored, self._skipped = {}, []
        return counts

    def __iter__(self) -> Iterator[Row]:
        loads, depth, limit = orjson.loads, self._limits.depth, self._limits.line
        for batch in self._batches():
            for line in batch:
                self.line += 1
                self._offset = self._next
                self._told = self._in_recovered = False
                size = len(line)
                self._next += size + 1
                if size > limit:
                    self.skip("line_too_long")
                    continue
                try:
                    row = loads(line)
                except ValueError:
                    yield from self._damaged(line)
                    continue
                if row.__class__ is not dict:
                    self.skip("not_object")
                    continue
                for value in row.values():
                    kind = value.__class__
                    if (kind is dict or kind is list) and value and deeper_than(value, depth - 1):
                        self.skip("too_deep")
                        break
                else:
                    yield row

    def _batches(self) -> Iterator[list[bytes]]:
        """Give the lines in lists; a line that is too long is counted here and never held."""
        limit = self._limits.line
        pending: list[bytes] = []
        held = dropped = 0
        for chunk in self._source.chunks():
            first, *lines = chunk.split(b"\n")
            if dropped:
                dropped += len(first)
            else:
                pending.append(first)
                held += len(first)
                if held > limit:
                    dropped, held = held, 0
                    pending.clear()
            if not lines:
                continue
            tail = lines.pop()
            if dropped:
                self._too_long(dropped)
            else:
                lines.insert(0, b"".join(pending))
            pending, held, dropped = [tail], len(tail), 0
            yield lines
        last = b"".join(pending)
        if dropped:
            self._too_long(dropped)
        elif last:
            self._open_end = True
            yield [last]

    def _too_long(self, size: int) -> None:
        self.line += 1
        self._offset = self._next
        self._next += size + 1
        self._told = False
        self.skip("line_too_long")

    def _damaged(self, line: bytes) -> Iterator[Row]:
        if not line.strip():
            self._told = True
            self._blank += 1
            return
        try:  # a mark of byte order may stand before any line where files were joined
            whole = orjson.loads(line.lstrip(BOM)) if line.startswith(BOM) else None
        except ValueError:
            whole = None
        if isinstance(whole, dict) and not deeper_than(whole, self._limits.depth):
            found, reason = [whole], ""
        elif line == BOM:
            self._told = True
            self._blank += 1
            return
        else:
            found, reason = recover(line, torn=self._open_end, depth=self._limits.depth)
        if not found:
            self.skip(reason)
            return
        self._told = True
        self._in_recovered = True
        self._recovered += 1
        yield from found
