"""Reads and hashes a large input in a process of its own, ahead of the one that decodes it.

A thread would not do: decoding does not let go of the interpreter, so that a thread waits for its turn at each block.
"""

from __future__ import annotations

import hashlib
import mmap
import multiprocessing
import os
import signal
from collections.abc import Callable
from contextlib import suppress
from io import RawIOBase
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import TYPE_CHECKING, Any

from compactctl.errors import UnreadableError

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer as Buffer

# What lies between the two processes: so many blocks of so many bytes.
_BLOCK = 1 << 20
_BLOCKS = 4


def is_possible() -> bool:
    """Whether a process can inherit the open file and the shared memory, and read without moving the file's position.

    A daemonic process, as those of a pool are, may have none of its own.
    """
    forks = "fork" in multiprocessing.get_all_start_methods()
    return forks and hasattr(os, "preadv") and not multiprocessing.current_process().daemon


def read_ahead(handle: int, size: int, label: str, finished: Callable[[str], None]) -> Ahead:
    """Have the first ``size`` bytes of an open file read by a process of its own.

    ``finished`` is told their hash once all were taken. Raises OSError where no process can be started.
    """
    shared = mmap.mmap(-1, _BLOCK * _BLOCKS)
    context: Any = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe()
    with theirs:
        try:
            process = context.Process(target=_read, args=(handle, size, shared, theirs, ours), daemon=True)
            process.start()
        except OSError:
            ours.close()
            raise
    return Ahead(process, ours, shared, label, finished)


class Ahead(RawIOBase):
    """What another process reads, as a stream; ``label`` names it.

    Reading on after that process was ended from outside raises UnreadableError.
    """

    def __init__(
        self, process: BaseProcess, pipe: Connection, shared: mmap.mmap, label: str, finished: Callable[[str], None]
    ) -> None:
        self._process = process
        self._pipe = pipe
        self._shared = shared
        self._label = label
        self._finished: Callable[[str], None] | None = finished
        self._taken = 0  # blocks
        self._rest = memoryview(b"")

    def readable(self) -> bool:
        """Say that it can be read."""
        return True

    def readinto(self, buffer: Buffer) -> int:
        """Fill a buffer; 0 at the end."""
        if not self._rest and not self._next():
            return 0
        with memoryview(buffer) as target:
            taken = min(len(target), len(self._rest))
            target[:taken] = self._rest[:taken]
        self._rest = self._rest[taken:]
        return taken

    def close(self) -> None:
        """End the process, whatever it is at; nobody waits for one that has read everything."""
        if not self.closed:
            self._pipe.close()
            if self._finished is not None:
                self._process.kill()  # it holds nothing that could be lost
                self._process.join()
        super().close()

    def _next(self) -> bool:
        """Go to the next block; False where there is none."""
        if self._finished is None:
            return False
        try:
            if self._taken:
                self._pipe.send(None)
            told = self._pipe.recv()
        except (EOFError, OSError):
            raise UnreadableError(
                f"{self._label}: the process that reads it was ended from outside; try again with --jobs 1"
            ) from None
        if isinstance(told, OSError):
            raise told
        if isinstance(told, str):
            self._finished(told)
            self._finished = None
            return False
        at = self._taken % _BLOCKS * _BLOCK
        self._taken += 1
        self._rest = memoryview(self._shared)[at : at + told]
        return True


def _read(handle: int, size: int, shared: mmap.mmap, pipe: Connection, parents: Connection) -> None:
    """Be the process: put block after block into the shared memory and say how long each is, at last their hash."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # it goes to the whole group and is the parent's to handle
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    parents.close()  # so that the end of the parent is the end of the pipe
    digest = hashlib.sha256()
    at = blocks = 0
    try:
        with memoryview(shared) as memory:
            while at < size:
                if blocks >= _BLOCKS:
                    pipe.recv()
                start = blocks % _BLOCKS * _BLOCK
                with memory[start : start + min(_BLOCK, size - at)] as block:
                    taken = os.preadv(handle, [block], at)
                    if not taken:  # the file was cut while we read
                        break
                    digest.update(block[:taken])
                at += taken
                blocks += 1
                pipe.send(taken)
        pipe.send(digest.hexdigest())
        # The parent gives its last blocks back; a pipe that is closed before that would be an error there.
        while True:
            pipe.recv()
    except (EOFError, ConnectionError):
        pass
    except OSError as error:
        with suppress(OSError):
            pipe.send(OSError(error.errno, error.strerror))
