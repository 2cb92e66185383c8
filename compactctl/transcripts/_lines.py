"""Reads JSON lines: bounded, split on the byte 10 only, and with an account of every line."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import orjson

from compactctl.errors import UnreadableError
from compactctl.model import ASSISTANT, TOOL, USER, LineCounts, Message, SkippedLine
from compactctl.transcripts._damaged import BOM, deeper_than, recover
from compactctl.transcripts._reader import LineReader
from compactctl.transcripts._source import CHUNK, Source

Row = dict[str, Any]
# Makes a message of each of the lines with which a buffer begins, up to an end; None where it does not know all of each
# line's form.
Quick = Callable[[bytearray, int], list[Message] | None]
_NEWLINE = 10
_MANY_BLANK = 64  # blank lines in a row from which on they are counted together


def _holds_message(row: Row) -> bool:
    """Whether a row is a message as some other format writes it: by itself, or under the key that it wraps it with.

    >>> _holds_message({"role": "user", "content": "hi"}), _holds_message({"type": "progress", "content": "hi"})
    (True, False)
    """
    inner = (row, row.get("message"), row.get("payload"))
    return any(
        isinstance(one, dict)
        and one.get("role") in (USER, ASSISTANT, TOOL)
        and ("content" in one or "tool_calls" in one)
        for one in inner
    )


class Rows:
    """The objects of a file of JSON lines, in file order.

    A line counts as used unless the loader says otherwise while it holds the line's object: ``ignore(kind)`` for a
    line that carries no message, ``skip(reason)`` for one that cannot be used, ``leave(kind, row)`` for one that its
    format knows nothing of, ``hand_over()`` for one that it counts itself, for another session. ``line`` is the number
    of the line that the last object came from. ``counts()`` gives the account since it was last asked, so that the
    accounts of the sessions of one file add up to the file.
    """

    def __init__(self, source: Source) -> None:
        self._source = source
        self._limits = source.limits
        self.line = 0
        self._offset = 0  # of the line in work
        self._counted = 0
        self._told = 0  # the last line that has its place in the account
        self._blank = 0
        self._recovered = 0
        self._handed_over = 0
        self._ignored: dict[str, int] = {}
        self._skipped: list[SkippedLine] = []
        self._damaged_line = 0  # the last line out of which something was recovered

    def ignore(self, kind: str, lines: int = 1) -> None:
        """Count the line in work as one that carries no message; ``kind`` is the transcript's word for it.

        ``lines`` counts so many lines that end with it.
        """
        if self._told != self.line:
            self._told = self.line
            self._ignored[kind] = self._ignored.get(kind, 0) + lines

    def leave(self, kind: str, row: Row) -> None:
        """Count the line in work, which this format knows nothing of: skipped where another one's message is in it."""
        if _holds_message(row):
            self.skip("other_format")
        else:
            self.ignore(kind)

    def hand_over(self) -> int:
        """Leave the line in work out of the account; give how many lines that are: 0 where it has its place already."""
        if self._told == self.line:
            return 0
        self._told = self.line
        self._handed_over += 1
        return 1

    def skip(self, reason: str) -> None:
        """Count the line in work as one that could not be used."""
        if self._told != self.line:
            self._told = self.line
            self._skipped.append(SkippedLine(self.line, self._offset, reason))
            if len(self._skipped) > self._limits.skipped:
                raise UnreadableError(
                    f"{self._source.label}: more than {self._limits.skipped:,} lines cannot be used "
                    f"(line {self.line}: {reason}); this is no transcript, or a badly damaged one"
                )

    def counts(self, *, before: bool = False) -> LineCounts:
        """Give the account of the lines since the last call; ``before`` leaves the line in work to the next one."""
        total = self.line - self._counted - before - self._handed_over
        skipped = tuple(self._skipped)
        later = int(before and self._damaged_line == self.line)
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
        self._blank, self._recovered, self._handed_over = 0, later, 0
        self._ignored, self._skipped = {}, []
        return counts

    def __iter__(self) -> Iterator[Row]:
        return self._each(None)

    def through(self, quick: Quick) -> Iterator[Row | list[Message]]:
        """Give the objects, and for lines in a row of which ``quick`` knows all what it makes of them together."""
        return self._each(quick)

    def _each(self, quick: Quick | None) -> Iterator[Any]:
        loads, depth, limit = orjson.loads, self._limits.depth, self._limits.line
        reader = LineReader(self._source.open())
        readline = reader.readline
        number = end = singly = blank = last = 0  # last: the last blank line, blank: how many of them in a row
        while True:
            if quick is not None and not singly:
                # All whole lines that are at hand, looked at together: one by one costs as much as decoding them.
                block, whole = reader.block(limit)
                if 0 < whole <= limit and (made := quick(block, whole)) is not None:
                    reader.skip_block()
                    end += whole
                    self.line = number = number + len(made)
                    yield made
                    continue
                singly = max(len(reader.at_hand(limit)), 1)
            singly -= 1
            line = readline(limit + 1)
            if not line:
                return
            self.line = number = number + 1
            self._offset = end
            size = len(line)
            end += size
            if size > limit and line[-1] != _NEWLINE:
                end += self._drop_rest(readline)
                continue
            if line.isspace():
                self._blank_line()
                blank = blank + 1 if number == last + 1 else 1
                if blank >= _MANY_BLANK and (passed := _leading_blank(reader.at_hand(limit))):
                    end += reader.skip(passed)
                    self.line = number = number + passed
                    self._blank_line(passed)
                    singly = max(singly - passed, 0)
                last = number
                continue
            try:
                row = loads(line)
            except ValueError:
                yield from self._damaged(line)
                continue
            if row.__class__ is not dict:
                self.skip("not_object")
            elif _within(row, depth):
                yield row
            else:
                self.skip("too_deep")

    def _blank_line(self, lines: int = 1) -> None:
        self._told = self.line
        self._blank += lines

    def _drop_rest(self, readline: Callable[[int], bytes]) -> int:
        """Go to the end of a line that is too long, without holding it; give the length of what was dropped."""
        dropped = 0
        while rest := readline(CHUNK):
            dropped += len(rest)
            if rest[-1] == _NEWLINE:
                break
        self.skip("line_too_long")
        return dropped

    def _damaged(self, line: bytes) -> Iterator[Row]:
        try:  # a mark of byte order may stand before any line where files were joined
            whole = orjson.loads(line.lstrip(BOM)) if line.startswith(BOM) else None
        except ValueError:
            whole = None
        if isinstance(whole, dict) and not deeper_than(whole, self._limits.depth):
            found, reason = [whole], ""
        elif line.strip() == BOM:
            self._blank_line()
            return
        else:
            found, reason = recover(line, torn=line[-1] != _NEWLINE, depth=self._limits.depth)
        if not found:
            self.skip(reason)
            return
        self._told = self.line
        self._damaged_line = self.line
        self._recovered += 1
        yield from found


def _leading_blank(lines: list[bytes]) -> int:
    """Count the blank lines with which some lines begin."""
    return next((i for i, line in enumerate(lines) if line and not line.isspace()), len(lines))


def _within(row: Row, depth: int) -> bool:
    """Say whether an object is nested no deeper than ``depth``; most rows hold little beside their texts."""
    for value in row.values():
        kind = value.__class__
        if (kind is dict or kind is list) and value and deeper_than(value, depth - 1):
            return False
    return True
