"""Opens an input: regular files only, as long as they were when opened, unpacked in pieces within bounds."""

from __future__ import annotations

import hashlib
import os
import stat
import tempfile
import zlib
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from io import FileIO
from pathlib import Path
from typing import IO, BinaryIO

from compactctl.errors import MissingPathError, UnreadableError

CHUNK = 1 << 20
GZIP_MAGIC = b"\x1f\x8b"
ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
# 1 KiB of zstd unpacks to at most 32 MiB (runs of 128 KiB in 4 bytes), so a bomb is seen before it fills the memory.
_ZSTD_SLICE = 1 << 10
_GZIP_BLOCK = 1 << 16


@dataclass(frozen=True, slots=True)
class Limits:
    """What an input may ask of the machine; sizes in bytes, ``ratio`` is unpacked to packed (trust.md 2d, P11, P19)."""

    line: int = 64 << 20
    document: int = 1 << 30
    expanded: int = 2 << 30
    ratio: int = 200
    ratio_after: int = 16 << 20
    depth: int = 200
    skipped: int = 100_000


class Source:
    """The bytes of one input, unpacked, and the hash of what was read.

    ``label`` names it in messages, ``path`` is empty for a stream. ``damage`` is a sentence about compressed data that
    ended early or broke; it is known once everything was read. Raises MissingPathError and UnreadableError.
    """

    def __init__(self, where: str | BinaryIO, limits: Limits, *, label: str = "") -> None:
        self.limits = limits
        self.damage = ""
        self._hash = hashlib.sha256()
        self._digest = ""
        if isinstance(where, str):
            self.label = label or where
            self.path = where
            self._raw: IO[bytes] | FileIO = _open_regular(where)
        else:
            self.label = label or "standard input"
            self.path = ""
            self._raw = self._spool(where)
        # A file that grows while it is read is taken as it was when it was opened.
        self._left = self.size = os.fstat(self._raw.fileno()).st_size
        self.magic = self._raw.read(16)
        self._raw.seek(0)
        self._unpacked = self._stream()
        self._head: list[bytes] = []

    def close(self) -> None:
        """Close the file."""
        self._unpacked.close()
        self._raw.close()

    def peek(self, size: int) -> bytes:
        """Give about the first ``size`` unpacked bytes, at least that many unless the input is shorter."""
        have = sum(map(len, self._head))
        while have < size:
            piece = next(self._unpacked, b"")
            if not piece:
                break
            self._head.append(piece)
            have += len(piece)
        if len(self._head) > 1:
            self._head = [b"".join(self._head)]
        return self._head[0] if self._head else b""

    def chunks(self) -> Iterator[bytes]:
        """Give the unpacked bytes in pieces of about 1 MiB, once."""
        head, self._head = self._head, []
        yield from head
        del head
        yield from self._unpacked

    def sha256(self) -> str:
        """Give the hash of the input's bytes as they lie on disk, hexadecimal."""
        if not self._digest:
            if self._left:
                here, whole, left = self._raw.tell(), hashlib.sha256(), self.size
                self._raw.seek(0)
                while left and (block := self._raw.read(min(CHUNK, left))):
                    whole.update(block)
                    left -= len(block)
                self._raw.seek(here)
                self._digest = whole.hexdigest()
            else:
                self._digest = self._hash.hexdigest()
        return self._digest

    def _spool(self, stream: BinaryIO) -> IO[bytes]:
        """Copy a stream to an unnamed temporary file: ids need the hash of the whole before the first session."""
        spooled = tempfile.TemporaryFile()  # noqa: SIM115 -- closed by close()
        taken = 0
        while block := stream.read(CHUNK):
            taken += len(block)
            if taken > self.limits.expanded:
                spooled.close()
                raise UnreadableError(
                    f"{self.label}: more than {self.limits.expanded:,} bytes; save it to a file first"
                )
            spooled.write(block)
        spooled.flush()
        spooled.seek(0)
        return spooled

    def _blocks(self, size: int) -> Generator[bytes, None, None]:
        while self._left:
            block = self._raw.read(min(size, self._left))
            if not block:  # it was cut while we read
                self._left = 0
                break
            self._left -= len(block)
            if not self._digest:
                self._hash.update(block)
            yield block

    def _stream(self) -> Generator[bytes, None, None]:
        if self.magic.startswith(GZIP_MAGIC):
            return self._gunzip()
        if self.magic.startswith(ZSTD_MAGIC):
            return self._unzstd()
        return self._blocks(CHUNK)

    def _gunzip(self) -> Generator[bytes, None, None]:
        inflate = zlib.decompressobj(31)
        produced = consumed = 0
        try:
            for block in self._blocks(_GZIP_BLOCK):
                consumed += len(block)
                while True:
                    if inflate.eof:  # another member follows; zeros may pad the last one
                        block = block.lstrip(b"\0")
                        if not block:
                            break
                        inflate = zlib.decompressobj(31)
                    out = inflate.decompress(block, CHUNK)
                    block = inflate.unused_data if inflate.eof else inflate.unconsumed_tail
                    if out:
                        produced += len(out)
                        self._guard(produced, consumed)
                        yield out
                    if not block and len(out) < CHUNK:
                        break
        except zlib.error:
            self.damage = f"the gzip data is damaged: only its first {produced:,} bytes could be unpacked"
            return
        if not inflate.eof:
            self.damage = f"the gzip data ends too early: only {produced:,} bytes could be unpacked"

    def _unzstd(self) -> Generator[bytes, None, None]:
        import zstandard

        context = zstandard.ZstdDecompressor()
        frame = context.decompressobj()
        produced = consumed = 0
        started = False
        try:
            for block in self._blocks(CHUNK):
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


def _open_regular(path: str) -> FileIO:
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
