"""Files that only grow: a line counts whole or not at all."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any, Self

from compactctl.errors import LockedError, StoreError
from compactctl.store.fs import Dir, store_error
from compactctl.store.layout import LENGTH
from compactctl.store.lines import BadLineError, LogCounts, read_rows, seal, unseal

TORN = ".torn-"
_BACK = 1 << 16


class AppendLog:
    """A file of lines that is open for appending; the caller holds the session's lock.

    Opening it cuts a torn last line into a side file that is kept. A line that could not be written whole is taken
    back, so that the next one does not stick to it.
    """

    def __init__(self, home: Dir, name: str, fd: int, size: int) -> None:
        self.home = home
        self.name = name
        self._fd = fd
        self._size = size  # of the file as it should be
        self._durable = size  # of the part that has been synced
        self._dirty = False  # whether bytes beyond _size may be there

    @classmethod
    def open(cls, home: Dir, name: str) -> Self:
        """Open or make the file and repair its end; raises StoreError, LockedError."""
        while True:
            fd = locked_file(home, name, os.O_RDWR | os.O_APPEND | os.O_CREAT)
            if fd is not None:
                break
        try:
            home.sync()
            return cls(home, name, fd, _cut_torn_tail(home, name, fd))
        except OSError as exc:
            home.fs.close(fd)
            raise store_error(home.label(name), exc) from exc
        except BaseException:
            home.fs.close(fd)
            raise

    @property
    def path(self) -> str:
        """The file's path, for messages."""
        return self.home.label(self.name)

    def rows(self) -> Iterator[dict[str, Any]]:
        """Give the usable lines as they are now; raises StoreError."""
        try:
            for _, row in read_rows(self.home.fs, self._fd, LogCounts()):
                yield row
        except OSError as exc:
            raise store_error(self.path, exc) from exc

    def append(self, lines: Iterable[bytes], *, sync: bool) -> None:
        """Add lines, durably where ``sync`` says so; raises StoreError and takes back all that was not durable yet."""
        data = b"".join(lines)
        fs = self.home.fs
        try:
            self._take_back()
            self._dirty = True
            fs.write_all(self._fd, data)
            self._size += len(data)
            if sync:
                fs.sync(self._fd)
                self._durable = self._size
            self._dirty = False
        except BaseException as exc:
            self._size = self._durable
            with suppress(OSError):  # the next append tries again, and so does the next opening
                self._take_back()
            if isinstance(exc, OSError):
                raise store_error(self.path, exc) from exc
            raise

    def settle(self) -> None:
        """Take back what an interrupted append may have left; raises StoreError."""
        try:
            self._take_back()
        except OSError as exc:
            raise store_error(self.path, exc) from exc

    def _take_back(self) -> None:
        if self._dirty:
            self.home.fs.truncate(self._fd, self._size)
            self._dirty = False

    def close(self) -> None:
        """Give the file back."""
        if self._fd < 0:
            return
        try:
            with suppress(OSError):  # an interrupted append may have left half a line
                self._take_back()
            with suppress(OSError):
                self.home.fs.lock(self._fd, fcntl.LOCK_UN)
        finally:
            self.home.fs.close(self._fd)
            self._fd = -1


def locked_file(home: Dir, name: str, flags: int) -> int | None:
    """Open a file and lock it for writing; None where it does not exist or was replaced meanwhile.

    Two state directories may share one directory of records, and their session locks do not know each other. Raises
    LockedError where another process has it.
    """
    fs = home.fs
    fd = home.open_file(name, flags)
    if fd is None:
        return None
    try:
        fs.lock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        found = home.look(name)
        if found is not None and found.st_ino == fs.fstat(fd).st_ino:
            return fd
    except OSError as exc:
        fs.close(fd)
        if exc.errno == errno.EAGAIN:
            raise LockedError(f"{home.label(name)!r} is being written by another process: wait for it") from exc
        raise store_error(home.label(name), exc) from exc
    except BaseException:
        fs.close(fd)
        raise
    fs.close(fd)
    return None


def side_name(name: str, tail: bytes) -> str:
    """Give the name of the file that keeps a torn tail; made from its bytes, so that a repair can begin again."""
    return f"{name}{TORN}{hashlib.sha256(tail).hexdigest()[:12]}"


def torn_tail(home: Dir, fd: int) -> tuple[int, bytes]:
    """Give the size of an open file up to its last newline, and the bytes behind it."""
    fs = home.fs
    size = at = fs.fstat(fd).st_size
    tail = b""
    while at > 0:
        step = min(_BACK, at)
        at -= step
        block = fs.read(fd, step, at)
        end = block.rfind(b"\n")
        tail = block[end + 1 :] + tail
        if end >= 0:
            break
    return size - len(tail), tail


def note_length(home: Dir, name: str) -> None:
    """Note durably how long a file of lines is, up to its last newline; the caller holds the session's lock.

    A file that is cut at the border of two lines looks whole. No crash makes one shorter than it was noted: what is
    noted has been synced before.
    """
    fd = home.open_file(name)
    if fd is None:
        return
    try:
        keep, _ = torn_tail(home, fd)
    except OSError as exc:
        raise store_error(home.label(name), exc) from exc
    finally:
        home.fs.close(fd)
    home.publish(name + LENGTH, [seal({"bytes": keep})], replace=True)
    home.sync()


def forget_length(home: Dir, name: str) -> None:
    """Take the note of a file's length back, durably, before the file becomes shorter on purpose."""
    home.unlink(name + LENGTH)
    home.sync()


def noted_length(home: Dir, name: str) -> int:
    """Give the noted length of a file of lines, 0 where there is no note; raises StoreError for a damaged one."""
    data = home.read(name + LENGTH)
    if data is None:
        return 0
    try:
        return int(unseal(data.removesuffix(b"\n"))["bytes"])
    except (BadLineError, KeyError, TypeError, ValueError):
        raise StoreError(f"{home.label(name + LENGTH)!r} is damaged") from None


def _cut_torn_tail(home: Dir, name: str, fd: int) -> int:
    keep, tail = torn_tail(home, fd)
    if tail:
        home.publish(side_name(name, tail), [tail])
        home.sync()
        home.fs.truncate(fd, keep)
        home.fs.sync(fd)
    return keep
