"""Lines of the store's files: JSON objects that carry a hash of themselves.

A line that compactctl wrote ends in ``,"sha":"<64 hex digits>"}``, the hash of all bytes before that. Every flipped bit
breaks the hash or the form. Lines of harness9 carry neither ``run`` nor ``sha`` and are taken as they are.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec
import orjson

from compactctl.store.fs import Fs, chunks

_SEAL = b',"sha":"'
_TAIL = len(_SEAL) + 64 + len(b'"}')

# Summaries of 10 MB exist; a line beyond this is not a record but an accident, and is counted, not loaded.
LONGEST = 256 << 20


class BadLineError(ValueError):
    """A line that cannot be used; the text is the reason, one word or two."""


def seal(row: Mapping[str, Any]) -> bytes:
    """Give the line for an object: JSON, its hash, a newline.

    Raises ValueError for numbers that JSON does not have.

    >>> seal({"a": 1})
    b'{"a":1,"sha":"8b0f0d75aabe01bbfba9341752c2cf7626f154e676aa791427b31aebfabc2592"}\\n'
    """
    try:
        body = json.dumps(row, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()[:-1]
    except UnicodeEncodeError:  # a lone surrogate of a transcript: only the escaped form can hold it
        body = json.dumps(row, allow_nan=False, separators=(",", ":")).encode()[:-1]
    return body + _SEAL + hashlib.sha256(body).hexdigest().encode() + b'"}\n'


def is_sealed(line: bytes) -> bool:
    """Say whether a line without its newline has the form of one that compactctl wrote; its hash is not looked at."""
    return line.startswith(_SEAL, -_TAIL)


def unseal(line: bytes) -> dict[str, Any]:
    """Read a line without its newline, whether compactctl or harness9 wrote it; raises BadLineError."""
    return _decoded(line, sealed=_checked(line))


def _checked(line: bytes) -> bool:
    """Say whether a line has the form of one that compactctl wrote; raises BadLineError where its hash is wrong."""
    sealed = is_sealed(line)
    if sealed and line[-66:] != b'%b"}' % hashlib.sha256(line[:-_TAIL]).hexdigest().encode():
        raise BadLineError("wrong hash")
    return sealed


def _decoded(line: bytes, *, sealed: bool) -> dict[str, Any]:
    try:
        row = orjson.loads(line)
    except orjson.JSONDecodeError:
        row = _parse(line)
    if type(row) is not dict:
        raise BadLineError("not an object")
    if not sealed and ("run" in row or "sha" in row or "event" in row):
        raise BadLineError("no hash")
    return row


def _parse(line: bytes) -> Any:
    # orjson refuses lone surrogates, which the standard library takes.
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        raise BadLineError("not JSON") from None


class Line(msgspec.Struct, frozen=True, gc=False):
    """A line as it lies in the file: its number from 1, its byte offset, its bytes without the newline.

    ``text`` is None for a line that is too long to load. ``ended`` is False for a torn last line.
    """

    number: int
    offset: int
    text: bytes | None
    ended: bool = True


@dataclass(frozen=True, slots=True)
class BadLine:
    """A line that was not used: its number from 1, its byte offset and the reason."""

    number: int
    offset: int
    reason: str


@dataclass(slots=True)
class LogCounts:
    """Where the lines of a file went: lines = used + blank + bad, and the bytes of a torn last line beside them."""

    lines: int = 0
    used: int = 0
    blank: int = 0
    bad: list[BadLine] = field(default_factory=list)
    torn_bytes: int = 0


def raw_lines(fs: Fs, fd: int, size: int) -> Iterator[Line]:
    """Give the lines of the first ``size`` bytes of an open file; splits at newlines only, whatever the text holds."""
    number, start, base, held, too_long = 1, 0, 0, bytearray(), False
    for data in chunks(fs, fd, size):
        at = 0
        while (end := data.find(b"\n", at)) >= 0:
            text: bytes | None = data[at:end]
            if held or too_long:
                text = None if too_long else bytes(held) + data[at:end]
                held.clear()
                too_long = False
            yield Line(number, start, text)
            number, start, at = number + 1, base + end + 1, end + 1
        if not too_long:
            held += data[at:]
        if len(held) > LONGEST:
            too_long = True
            held.clear()
        base += len(data)
    if start < base:
        yield Line(number, start, None if too_long else bytes(held), ended=False)


def read_rows(
    fs: Fs, fd: int, counts: LogCounts, *, harness9: bool = False, unread: bytes | None = None
) -> Iterator[tuple[Line, dict[str, Any]]]:
    """Give the usable objects of an open file with their lines, and count the others in ``counts``.

    Lines without a hash are used only where harness9 may have written them (``harness9``: among records). Of those that
    begin with ``unread`` the hash is checked and no more: they are counted as used, but neither decoded nor given. What
    a writer adds meanwhile is not looked at: the size is taken at the start.
    """
    size = fs.fstat(fd).st_size
    for line in raw_lines(fs, fd, size):
        text = line.text
        if not line.ended:
            counts.torn_bytes = size - line.offset
            return
        counts.lines += 1
        if text is None:
            counts.bad.append(BadLine(line.number, line.offset, "too long"))
        elif not text or text.isspace():
            counts.blank += 1
        else:
            try:
                sealed = _checked(text)
                if sealed and unread is not None and text.startswith(unread):
                    counts.used += 1
                    continue
                row = _decoded(text, sealed=sealed)
                if not harness9 and not sealed:
                    raise BadLineError("no hash")
            except BadLineError as exc:
                counts.bad.append(BadLine(line.number, line.offset, str(exc)))
                continue
            counts.used += 1
            yield line, row
