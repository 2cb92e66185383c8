"""Gives the lines of a stream, one by one or all that are at hand, each byte copied as seldom as can be."""

from __future__ import annotations

from io import BufferedReader

from compactctl.transcripts._source import CHUNK


class LineReader:
    """Splits a stream on the byte 10, holding no more than a chunk beyond the longest line that was asked for."""

    def __init__(self, stream: BufferedReader) -> None:
        self._read = stream.read1
        self._lines: list[bytes] = []  # whole lines without their newlines
        self._at = 0  # the next of them
        self._rest = b""  # the beginning of the line after them

    def at_hand(self, longest: int) -> list[bytes]:
        """Give the whole lines that need not be waited for, without their newlines; ``skip`` takes them.

        None are given at the end of the stream and where the next line is longer than ``longest`` bytes.
        """
        if self._at == len(self._lines):
            self._fill(longest)
        return self._lines[self._at :] if self._at else self._lines

    def skip(self, lines: int) -> int:
        """Take so many of the lines at hand; give how many bytes they and their newlines are."""
        taken = self._lines[self._at : self._at + lines]
        self._at += lines
        return sum(map(len, taken)) + len(taken)

    def readline(self, most: int) -> bytes:
        """Give the next line with its newline, or its first ``most`` bytes; nothing at the end of the stream."""
        if self._at == len(self._lines):
            self._fill(most)
        if self._at < len(self._lines):
            line = self._lines[self._at]
            if len(line) < most:
                self._at += 1
                return line + b"\n"
            self._lines[self._at] = line[most:]
            return line[:most]
        line, self._rest = self._rest[:most], self._rest[most:]
        return line

    def _fill(self, longest: int) -> None:
        """Read until there is a whole line, or the beginning of one that is longer, or the end."""
        pieces, held = [self._rest], len(self._rest)
        self._lines, self._at = [], 0
        while held <= longest and (block := self._read(CHUNK)):
            found = _lines_of(block)
            if len(found) > 1:
                found[0] = b"".join([*pieces, found[0]])
                self._rest = found.pop()
                self._lines = found
                return
            pieces.append(block)
            held += len(block)
        self._rest = b"".join(pieces)


def _lines_of(block: bytes) -> list[bytes]:
    # What split(b"\n") gives. That looks at every byte by itself, which is most of the time where lines are long.
    found, start, find = [], 0, block.find
    while (end := find(b"\n", start)) >= 0:
        found.append(block[start:end])
        start = end + 1
    found.append(block[start:])
    return found
