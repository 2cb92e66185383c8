"""Finds out by content, never by suffix, how an input is laid out and which loader reads it."""

from __future__ import annotations

from functools import cache

import orjson

from compactctl import registry
from compactctl.errors import EmptyTranscriptError, InputError, UnknownFormatError, UnreadableError
from compactctl.transcripts import _foreign
from compactctl.transcripts._damaged import BOM, deeper_than, document, recover, torn_array
from compactctl.transcripts._lines import Row
from compactctl.transcripts._source import Source
from compactctl.transcripts._spec import FormatSpec, Head, Input, Layout, stem_of

_PACKAGE = "compactctl.transcripts"
_SQLITE_MAGIC = b"SQLite format 3\0"
_PEEK = 1 << 18
_OBJECTS = 200  # first objects that loaders may look at
_JUNK = b" \t\r\n\0"


def choose(source: Source, *, side_threads: bool) -> tuple[FormatSpec, Input]:
    """Give the loader of an input and what to hand to it.

    Raises UnknownFormatError, EmptyTranscriptError and UnreadableError.
    """
    head, torn = _head(source)
    formats = _formats()
    scores = [(spec.sniff(head), spec) for spec in formats.values()]
    best, spec = max(scores, key=lambda item: item[0])
    if not best:
        name = _foreign.recognise(head)
        told = f"this is {name}, which no loader reads" if name else "no loader knows this content"
        words = f"{source.label}: {told}; {_foreign.CONVERT} (formats read: {', '.join(formats)})"
        raise UnknownFormatError(words, name)
    return spec, Input(source, head, stem=stem_of(source.path), side_threads=side_threads, torn=torn)


@cache
def _formats() -> dict[str, FormatSpec]:
    return registry.plugins(_PACKAGE, FormatSpec)


def _head(source: Source) -> tuple[Head, bool]:
    if source.magic.startswith(_SQLITE_MAGIC):
        return _database(source), False
    start, complete, rows = _start(source)
    if not start.lstrip(BOM).lstrip(_JUNK):
        if complete and source.damage:
            raise _cut(source)
        if complete:
            raise EmptyTranscriptError(f"{source.label}: the file is empty; name one that holds a session")
        raise UnknownFormatError(f"{source.label}: its first {len(start):,} bytes are blanks; name a transcript")
    if _is_document(start, rows, complete):
        value, torn = _document(source)
        return Head(Layout.DOCUMENT, document=value), torn
    if not rows:
        if complete and source.damage:
            raise _cut(source)
        name = _foreign.of_bytes(start)
        told = f"this is {name}" if name else "no line of its beginning is a JSON object"
        raise UnknownFormatError(f"{source.label}: {told}; {_foreign.CONVERT}")
    return Head(Layout.LINES, rows=tuple(rows)), False


def _start(source: Source) -> tuple[bytes, bool, list[Row]]:
    """Peek until the beginning holds an object; give it, whether it is all there is, and its first objects."""
    size = _PEEK
    while True:
        start = source.peek(size)
        complete = len(start) < size
        body = start.lstrip(BOM).lstrip(_JUNK)  # any number of blank lines may stand first
        lines = body.split(b"\n")
        if not complete:
            lines.pop()
        rows = _rows(lines, source)
        # Many lines and no object among them are a document, or nothing; one long line may yet end.
        hopeless = len(lines) > 3 or body[:1] not in (b"{", b"[", b"")
        enough = rows and len(body) > size // 2
        if enough or complete or hopeless or size > source.limits.line:
            return start, complete, rows
        size *= 4


def _rows(lines: list[bytes], source: Source) -> list[Row]:
    rows: list[Row] = []
    for line in lines:
        if len(line) < 2:
            continue
        try:
            row = orjson.loads(line)
        except ValueError:
            if line[:2] in (b'{"', BOM[:2]) or b"\0" in line:
                rows.extend(recover(line, torn=False, depth=source.limits.depth)[0])
        else:
            if isinstance(row, dict) and not deeper_than(row, source.limits.depth):
                rows.append(row)
        if len(rows) >= _OBJECTS:
            break
    return rows


def _is_document(start: bytes, rows: list[Row], complete: bool) -> bool:
    """Tell one JSON document from JSON lines.

    A document that is printed over many lines has none but its last that is an object by itself and begins at the
    margin; an array is a document unless each line is one.
    """
    body = start.lstrip(BOM).lstrip(_JUNK)
    if body[:1] == b"[":
        first = [line.strip() for line in body.split(b"\n", 3)[:2]]
        return not all(line.startswith(b"[") and line.endswith(b"]") for line in first) or len(first) < 2
    if body[:1] != b"{" or rows:
        return body.split(b"\n", 1)[0].strip() == b"{"
    return complete or body.count(b"\n") > 3


def _document(source: Source) -> tuple[object, bool]:
    limit = source.limits.document
    too_large = source.size > limit and not source.packed
    data = b"" if too_large else source.open().read(limit + 1)
    if too_large or len(data) > limit:
        raise UnreadableError(f"{source.label}: one JSON document of more than {limit:,} bytes; convert it to lines")
    try:
        value: object = orjson.loads(data.lstrip(BOM))
        torn = False
    except ValueError:
        value, torn = _damaged_document(source, data.decode("utf-8", "replace"))
    if deeper_than(value, source.limits.depth):
        raise _unusable(source, data, f"nested more than {source.limits.depth} levels deep")
    return value, torn


def _damaged_document(source: Source, text: str) -> tuple[object, bool]:
    try:
        return document(text), False
    except RecursionError:
        raise _unusable(source, text.encode(), "nested far too deep") from None
    except ValueError as error:
        items = torn_array(text) if text.lstrip("\ufeff \t\r\n\0").startswith("[") else []
        if items:
            return items, True
        raise _unusable(source, text.encode(), f"damaged JSON ({error})") from None


def _cut(source: Source) -> InputError:
    return UnreadableError(f"{source.label}: {source.damage}; copy it or write it anew")


def _unusable(source: Source, data: bytes, reason: str) -> InputError:
    """Make the error for a broken document; one without any role is some other program's, and no transcript."""
    if source.damage:
        return _cut(source)
    if b'"role"' in data:
        return UnreadableError(f"{source.label}: {reason}; repair it or export it again")
    return UnknownFormatError(f"{source.label}: {reason}, and no message in sight; name a transcript")


def _database(source: Source) -> Head:
    from compactctl.transcripts.harness9_db import tables_of

    if not source.path:
        raise UnreadableError(f"{source.label}: a SQLite database cannot be read from a stream; name its file")
    return Head(Layout.SQLITE, tables=tables_of(source.path))
