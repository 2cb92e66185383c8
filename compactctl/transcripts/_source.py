"""Opens an input: regular files only, as long as they were when opened, unpacked in pieces within bounds."""

from __future__ import annotations

import hashlib
import os
import stat
import tempfile
import zlib
from collections.abc import Callable, Generator
from dataclasses import dataclass
from io import BufferedReader, FileIO, RawIOBase
from pathlib import Path
from typing import IO, TYPE_CHECKING, BinaryIO

from compactctl.errors import MissingPathError, UnreadableError

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer as Buffer

# Small enough to stay in a processor's cache while it is hashed, split and decoded.
CHUNK = 1 << 17
GZIP_MAGIC = b"\x1f\x8b"
ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
# 1 KiB of zstd unpacks to at most 32 MiB (runs of 128 KiB in 4 bytes), so a bomb is seen before it fills the memory.
_ZSTD_SLICE = 1 << 10
_BLOCK = 1 << 16
# An input of so many bytes is worth a process that reads ahead.
_WORTH_A_PROCESS = 16 << 20


@dataclass(frozen=True, slots=True)
class Limits:
    """What an input may ask of the machine; sizes in bytes, ``ratio`` is unpacked to packed (trust.md 2d, P11, P19).

    With more than one of ``cores`` a large input is read and hashed by a process of its own while it is decoded.
    """

    line: int = 64 << 20
    document: int = 512 << 20
    expanded: int = 2 << 30
    ratio: int = 200
    ratio_after: int = 16 << 20
    depth: int = 200
    skipped: int = 100_000
    cores: int = 1


class _Window(RawIOBase):
    """The packed bytes of a file from its start, no further than a given size; hashes what goes through."""

    def __init__(self, file: IO[bytes], size: int, finished: Callable[[str], None] | None = None) -> None:
        file.seek(0)
        self._file = file
        self._left = size
        self._finished = finished
        self._hash = hashlib.sha256()

    def readable(self) -> bool:
        """Say that it can be read."""
        return True

    def readinto(self, buffer: Buffer) -> int:
        """Fill a buffer; 0 at the end."""
        with memoryview(buffer) as whole, whole[: self._left] as part:
            taken = self._file.readinto(part) if self._left else 0  # type: ignore[attr-defined]  # binary files have it, IO does not say
            if self._finished is not None:
                self._hash.update(part[:taken])
        self._left -= taken
        if not taken:  # the end, or the file was cut while we read
            self._left = 0
        if not self._left and self._finished is not None:
            self._finished(self._hash.hexdigest())
            self._finished = None
        return int(taken)

    def blocks(self) -> Generator[bytes, None, None]:
        """Give the bytes in small blocks."""
        block = bytearray(_BLOCK)
        while taken := self.readinto(block):
            yield bytes(block[:taken])


class _Pieces(RawIOBase):
    """A stream out of the pieces that an unpacker gives."""

    def __init__(self, pieces: Generator[bytes, None, None]) -> None:
        self._pieces = pieces
        self._rest = memoryview(b"")

    def readable(self) -> bool:
        """Say that it can be read."""
        return True

    def readinto(self, buffer: Buffer) -> int:
        """Fill a buffer; 0 at the end."""
        while not self._rest:
            piece = next(self._pieces, None)
            if piece is None:
                return 0
            self._rest = memoryview(piece)
        with memoryview(buffer) as target:
            taken = min(len(target), len(self._rest))
            target[:taken] = self._rest[:taken]
        self._rest = self._rest[taken:]
        return taken


class Source:
    """The bytes of one input, unpacked, and the hash of what was read.

    ``label`` names it in messages, ``path`` is empty for a stream. ``damage`` is a sentence about compressed data that
    ended early or broke; it is known once everything was read. Raises MissingPathError and UnreadableError.
    """

    def __init__(self, where: str | BinaryIO, limits: Limits, *, label: str = "") -> None:
        self.limits = limits
        self.damage = ""
        self._digest = ""
        if isinstance(where, str):
            self.label = label or where
            self.path = where
            self._file: IO[bytes] = open_regular(where)
        else:
            self.label = label or "standard input"
            self.path = ""
            self._file = self._spool(where)
        # A file that grows while it is read is taken as it was when it was opened.
        self.size = os.fstat(self._file.fileno()).st_size
        self.magic = self._file.read(16)
        self.packed = self.magic.startswith((GZIP_MAGIC, ZSTD_MAGIC))
        self._ahead: RawIOBase | None = None

    def close(self) -> None:
        """Close the file."""
        self._end_reading_ahead()
        self._file.close()

    def peek(self, size: int) -> bytes:
        """Give the first ``size`` unpacked bytes, fewer where the input is shorter; then ``damage`` is known too."""
        self.damage = ""
        return self._unpacked(_Window(self._file, self.size)).read(size)

    def open(self) -> BufferedReader:
        """Give the unpacked bytes from their beginning; only the last stream that was opened may be read."""
        self.damage = ""
        self._end_reading_ahead()
        if self.limits.cores > 1 and self.size >= _WORTH_A_PROCESS and not self.packed:
            self._ahead = self._reading_ahead()
            if self._ahead is not None:
                return BufferedReader(self._ahead, CHUNK)
        return self._unpacked(_Window(self._file, self.size, self._finished))

    def sha256(self) -> str:
        """Give the hash of the input's bytes as they lie on disk, hexadecimal.

        Free once everything was read; before that it costs a reading of its own.
        """
        if not self._digest:
            here = self._file.tell()
            window = _Window(self._file, self.size, self._finished)
            block = bytearray(CHUNK)
            while window.readinto(block):
                pass
            self._file.seek(here)
        return self._digest

    def _finished(self, digest: str) -> None:
        self._digest = digest

    def _reading_ahead(self) -> RawIOBase | None:
        """Have the file read by a process of its own; None where there cannot be one."""
        # It takes a while to import what this stands on.
        from compactctl.transcripts._ahead import is_possible, read_ahead

        try:
            return read_ahead(self._file.fileno(), self.size, self.label, self._finished) if is_possible() else None
        except OSError:
            return None

    def _end_reading_ahead(self) -> None:
        if self._ahead is not None:
            self._ahead.close()

    def _unpacked(self, window: _Window) -> BufferedReader:
        if self.magic.startswith(GZIP_MAGIC):
            return BufferedReader(_Pieces(self._gunzip(window)), CHUNK)
        if self.magic.startswith(ZSTD_MAGIC):
            return BufferedReader(_Pieces(self._unzstd(window)), CHUNK)
        return BufferedReader(window, CHUNK)

    def _spool(self, stream: BinaryIO) -> IO[bytes]:
        """Copy a stream to an unnamed temporary file: ids need the hash of the whole before the first session."""
        spooled = tempfile.TemporaryFile()  # noqa: SIM115 -- closed by close()
        try:
            taken = 0
            while block := stream.read(CHUNK):
                taken += len(block)
                if taken > self.limits.expanded:
                    limit = self.limits.expanded
                    raise UnreadableError(f"{self.label}: more than {limit:,} bytes; save it to a file first")
                spooled.write(block)
            spooled.flush()
            spooled.seek(0)
        except BaseException:
            spooled.close()
            raise
        return spooled

    def _gunzip(self, window: _Window) -> Generator[bytes, None, None]:
        inflate = zlib.decompressobj(31)
        produced = consumed = 0
        for block in window.blocks():
            consumed += len(block)
            while True:
                if inflate.eof:  # another member follows; zeros may pad the last one
                    block = block.lstrip(b"\0")
                    if not block:
                        break
                    inflate = zlib.decompressobj(31)
                before = inflate.copy()
                try:
                    out = inflate.decompress(block, CHUNK)
                except zlib.error:
                    for out in _salvage(before, block):
                        produced += len(out)
                        yield out
                    self.damage = f"the gzip data is damaged: only its first {produced:,} bytes could be unpacked"
                    return
                block = inflate.unused_data if inflate.eof else inflate.unconsumed_tail
                if out:
                    produced += len(out)
                    self._guard(produced, consumed)
                    yield out
                if not block and len(out) < CHUNK:
                    break
        if not inflate.eof:
            self.damage = f"the gzip data ends too early: only {produced:,} bytes could be unpacked"

    def _unzstd(self, window: _Window) -> Generator[bytes, None, None]:
        import zstandard

        context = zstandard.ZstdDecompressor()
        frame = context.decompressobj()
        produced = consumed = 0
        started = False
        try:
            for block in window.blocks():
                at = 0
                while at < len(block):
                    if frame.eof:
                        frame = context.decompressobj()
                    piece = block[at : at + _ZSTD_SLICE]
                    out = frame.decompress(piece)
                    rest = len(frame.unused_data) if frame.eof else 0
                    consumed += len(piece) - rest
                    at += len(piece) - rest
                    started = not frame.eof
                    if out:
                        produced += len(out)
                        self._guard(produced, consumed)
                        yield out
        except zstandard.ZstdError:
            self.damage = f"the zstd data is damaged: only its first {produced:,} bytes could be unpacked"
            return
        if started:
            self.damage = f"the zstd data ends too early: only {produced:,} bytes could be unpacked"

    def _guard(self, produced: int, consumed: int) -> None:
        limits = self.limits
        advice = "if you trust it, unpack it and name the unpacked file"
        if produced > limits.expanded:
            raise UnreadableError(f"{self.label}: unpacks to more than {limits.expanded:,} bytes; {advice}")
        if produced > limits.ratio_after and produced > limits.ratio * consumed:
            raise UnreadableError(f"{self.label}: unpacks to more than {limits.ratio} times its size; {advice}")


def _salvage(inflate: zlib._Decompress, block: bytes) -> Generator[bytes, None, None]:
    """Unpack what lies before the damage in smaller and smaller steps: an error takes its step's output with it."""
    for step in (4096, 64, 1):
        while True:
            before = inflate.copy()
            try:
                out = inflate.decompress(block, step)
            except zlib.error:
                inflate = before
                break
            if not out:
                return
            yield out
            block = inflate.unconsumed_tail


def open_regular(path: str) -> FileIO:
    """Open a regular file, and nothing that could block or never end; raises MissingPathError and UnreadableError."""
    # Without O_NONBLOCK the opening of a FIFO would wait for a writer, for ever.
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
    try:
        handle = os.open(path, flags)
    except (FileNotFoundError, NotADirectoryError):
        raise MissingPathError(f"{path}: no such file; check the path") from None
    except ValueError:
        raise MissingPathError(f"{path!r}: not a possible path") from None
    except OSError as error:
        raise UnreadableError(f"{path}: {_kind_of(path) or error.strerror}; name a file that you may read") from None
    try:
        mode = os.fstat(handle).st_mode
        if not stat.S_ISREG(mode):
            raise UnreadableError(f"{path}: {_kind(mode)}, not a regular file; pipe it in and name -")
        return FileIO(handle, "rb")
    except BaseException:
        os.close(handle)
        raise


def _kind_of(path: str) -> str:
    try:
        mode = Path(path).stat().st_mode
    except OSError:
        return ""
    return "" if stat.S_ISREG(mode) else _kind(mode)


def _kind(mode: int) -> str:
    kinds = (
        (stat.S_ISDIR, "a directory"),
        (stat.S_ISFIFO, "a FIFO"),
        (stat.S_ISSOCK, "a socket"),
        (stat.S_ISCHR, "a device"),
        (stat.S_ISBLK, "a device"),
    )
    return next((name for test, name in kinds if test(mode)), "a special file")
