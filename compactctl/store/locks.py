"""One lock a session, held by an open handle, so that it dies with its process and is never stale."""

from __future__ import annotations

import errno
import fcntl
import os
import time
from contextlib import suppress
from typing import Self

from compactctl.errors import LockedError
from compactctl.store.fs import Dir, store_error

_POLL_SECONDS = 0.05
# A check of one session takes seconds at most, and no replay should fail because somebody looks.
_FOR_READERS_SECONDS = 10.0


class SessionLock:
    """The right to write (or, shared, to read in peace) what the store holds of one session."""

    def __init__(self, locks: Dir, name: str, fd: int) -> None:
        self._locks = locks
        self._name = name
        self._fd = fd

    @classmethod
    def take(cls, locks: Dir, name: str, session: str, wait: float | None = None) -> Self:
        """Take the lock for writing, waiting up to ``wait`` seconds; raises LockedError where another has it.

        Those who only read are waited for in any case, for a short time.
        """
        begin = time.monotonic()
        while True:
            fd = locks.open_file(name, os.O_RDWR | os.O_CREAT)
            if fd is not None and cls._try(locks, name, fd, fcntl.LOCK_EX):
                return cls(locks, name, fd)
            waited = time.monotonic() - begin
            if waited >= (wait or 0.0) and (waited >= _FOR_READERS_SECONDS or cls._is_written(locks, name)):
                raise LockedError(
                    f"session {session!r} is in use by another process: wait for it, or give --wait SECONDS"
                )
            time.sleep(_POLL_SECONDS)

    @classmethod
    def share(cls, locks: Dir, name: str, session: str, wait: float | None = None) -> Self | None:
        """Take the lock for reading, without making its file; None where nobody has ever written under it."""
        deadline = time.monotonic() + (wait or 0.0)
        while (fd := locks.open_file(name)) is not None:
            if cls._try(locks, name, fd, fcntl.LOCK_SH):
                return cls(locks, name, fd)
            if time.monotonic() >= deadline:
                raise LockedError(
                    f"session {session!r} is in use by another process: wait for it, or give --wait SECONDS"
                )
            time.sleep(_POLL_SECONDS)
        return None

    @classmethod
    def _is_written(cls, locks: Dir, name: str) -> bool:
        """Say whether somebody has the lock for writing: then it cannot be shared."""
        fd = locks.open_file(name)
        if fd is None or not cls._try(locks, name, fd, fcntl.LOCK_SH):
            return fd is not None
        locks.fs.close(fd)
        return False

    @staticmethod
    def _try(locks: Dir, name: str, fd: int, kind: int) -> bool:
        fs = locks.fs
        try:
            fs.lock(fd, kind | fcntl.LOCK_NB)
            # gc removes the file at its end: a lock on a file that has no name any more guards nothing.
            found = locks.look(name)
            if found is not None and found.st_ino == fs.fstat(fd).st_ino:
                return True
        except OSError as exc:
            fs.close(fd)
            if exc.errno != errno.EAGAIN:
                raise store_error(locks.label(name), exc) from exc
            return False
        except BaseException:
            fs.close(fd)
            raise
        fs.close(fd)
        return False

    def release(self, *, remove: bool = False) -> None:
        """Give the lock back; ``remove`` takes its file away first."""
        if self._fd < 0:
            return
        try:
            if remove:
                self._locks.unlink(self._name)
        finally:
            # Closing would do, were it not for child processes that still have a copy of the handle.
            try:
                with suppress(OSError):
                    self._locks.fs.lock(self._fd, fcntl.LOCK_UN)
            finally:
                self._locks.fs.close(self._fd)
                self._fd = -1
