"""Gives the lines of a stream, one by one or all that are at hand, each byte copied as seldom as can be."""

from __future__ import annotations

from io import BufferedReader

from compactctl.transcripts._source import CHUNK


class LineReader:
    """Splits a stream on the byte 10, holding no more than two chunks beyond the longest line that was asked for.

    Everything is read into one buffer, in which whole lines stand first and the beginning of the next one behind them.
    """

    def __init__(self, stream: BufferedReader) -> None:
        self._read = stream.readinto1
        self._buffer = bytearray(2 * CHUNK)
        self._whole = 0  # where the whole lines in the buffer that nobody has asked for end
        self._rest = 0  # where the beginning of the next line stands
        self._end = 0  # where what was read ends
        self._lines: list[bytes] = []  # whole lines that were taken out of the buffer, without their newlines
        self._at = 0  # the next of them

    def block(self, longest: int) -> tuple[bytearray, int]:
        """Give a buffer and how many bytes at its beginning are whole lines; ``skip_block`` takes them.

        None are where some of the lines were asked for one by one, at the end of the stream, and where the next line is
        longer than ``longest`` bytes. The buffer is valid until something else is asked for.
        """
        if self._at == len(self._lines) and not self._whole:
            self._fill(longest)
        return self._buffer, self._whole

    def skip_block(self) -> None:
        """Take the lines of the block."""
        self._whole = 0

    def at_hand(self, longest: int) -> list[bytes]:
        """Give the whole lines that need not be waited for, without their newlines; ``skip`` takes them.

        None are given at the end of the stream and where the next line is longer than ``longest`` bytes.
        """
        self._split(longest)
        return self._lines[self._at :] if self._at else self._lines

    def skip(self, lines: int) -> int:
        """Take so many of the lines at hand; give how many bytes they and their newlines are."""
        taken = self._lines[self._at : self._at + lines]
        self._at += lines
        return sum(map(len, taken)) + len(taken)

    def readline(self, most: int) -> bytes:
        """Give the next line with its newline, or its first ``most`` bytes; nothing at the end of the stream."""
        self._split(most)
        if self._at < len(self._lines):
            line = self._lines[self._at]
            if len(line) < most:
                self._at += 1
                return line + b"\n"
            self._lines[self._at] = line[most:]
            return line[:most]
        line = bytes(self._buffer[self._rest : min(self._rest + most, self._end)])
        self._rest += len(line)
        return line

    def _split(self, longest: int) -> None:
        """Take whole lines out of the buffer where none are at hand."""
        if self._at == len(self._lines):
            buffer, end = self.block(longest)
            with memoryview(buffer) as whole:
                self._lines, self._at = _lines_of(bytes(whole[:end])), 0
            self._lines.pop()
            self.skip_block()

    def _fill(self, longest: int) -> None:
        """Read until there is a whole line, or the beginning of one that is longer, or the end."""
        held = self._end - self._rest
        if held > longest:
            return
        buffer = self._buffer
        buffer[:held] = buffer[self._rest : self._end]
        self._rest = 0
        while held <= longest:
            if len(buffer) - held <= CHUNK:
                buffer += bytes(len(buffer))
            with memoryview(buffer) as whole, whole[held:] as room:
                taken = self._read(room)
            if not taken:
                break
            last = buffer.rfind(b"\n", held, held + taken) + 1
            held += taken
            if last:
                self._whole = self._rest = last
                break
        self._end = held


def _lines_of(block: bytes) -> list[bytes]:
    # What split(b"\n") gives. That looks at every byte by itself, which is most of the time where lines are long.
    found, start, find = [], 0, block.find
    while (end := find(b"\n", start)) >= 0:
        found.append(block[start:end])
        start = end + 1
    found.append(block[start:])
    return found
