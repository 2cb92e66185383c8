"""A file system that fails or dies at one chosen operation."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from contextlib import suppress
from enum import StrEnum
from typing import Any, TypeVar

from compactctl.store.fs import Fs

T = TypeVar("T")

KILLED = 86  # the exit status of a process that died on purpose


class Died(BaseException):
    """Stands for the death of the process: from now on the file system does nothing more, clean-up code included."""


class Fault(StrEnum):
    """What happens at the chosen operation."""

    KILL = "kill"  # the process dies before it
    TORN = "torn"  # a write is half done, anything else done, then the process dies
    SHORT = "short"  # a write takes half of the bytes and says so
    EINTR = "EINTR"
    ENOSPC = "ENOSPC"
    EIO = "EIO"
    EACCES = "EACCES"
    EDQUOT = "EDQUOT"
    INTERRUPT = "interrupt"  # Ctrl-C arrives


DEADLY = (Fault.KILL, Fault.TORN)
HARMLESS = (Fault.SHORT, Fault.EINTR)
ERRORS = (Fault.ENOSPC, Fault.EIO, Fault.EACCES, Fault.EDQUOT)


class FaultyFs(Fs):
    """Counts operations, and lets the one with number ``at`` (from 1) fail; 0 lets none.

    ``lasting`` lets every later write fail as well, as on a full disk. A deadly fault ends the process where ``really``
    says so, and otherwise only ends everything that this object does, which to the disk is the same.
    """

    def __init__(self, at: int = 0, fault: Fault = Fault.KILL, *, lasting: bool = False, really: bool = False) -> None:
        self.really = really
        self.dead = False
        self.at = at
        self.fault = fault
        self.lasting = lasting
        self.count = 0
        self.seen: list[str] = []

    def _once(self, call: Callable[..., T], *args: Any, **kwargs: Any) -> T:
        if self.dead:
            raise Died
        self.count += 1
        if not self.at:
            self.seen.append(call.__name__)
        if self.count == self.at or (self.lasting and self.at and self.count > self.at and call is os.write):
            self._fail(call, args, kwargs)
            if self.fault is Fault.SHORT and call is os.write:
                return call(args[0], args[1][: max(1, len(args[1]) // 2)])
        return call(*args, **kwargs)

    def _fail(self, call: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if self.fault is Fault.KILL:
            self._die()
        if self.fault is Fault.TORN:
            if call is os.write:
                os.write(args[0], args[1][: len(args[1]) // 2])
            else:
                with suppress(OSError):
                    call(*args, **kwargs)
            self._die()
        if self.fault is Fault.INTERRUPT:
            raise KeyboardInterrupt
        if self.fault is not Fault.SHORT:
            number = getattr(errno, self.fault.value)
            raise OSError(number, os.strerror(number))

    def _die(self) -> None:
        if self.really:
            os._exit(KILLED)
        self.dead = True
        raise Died


def in_child(work: Callable[[], object]) -> int:
    """Do something in a forked process that may die of it, and give its exit status."""
    child = os.fork()
    if child == 0:
        status = 99
        try:
            work()
            status = 0
        except BaseException:
            import traceback

            traceback.print_exc()
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
