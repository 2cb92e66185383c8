"""The process as a whole: what signals do to it, and streams that are closed or full.

Imports nothing of the package but errors, since it comes first: a signal may arrive while the rest is imported.
"""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import sys
from collections.abc import Iterator
from io import TextIOWrapper
from threading import Timer
from typing import Any

from compactctl.errors import StoreError, worst

SIGNALS = {signal.SIGINT: "interrupted", signal.SIGTERM: "terminated"}
# A stream of the process has these errors where its disk is full or its device fails.
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF)


def leave_on_signals() -> None:
    """End the process at once on Ctrl-C or a termination; for the time before and after a command's own work."""
    for number in SIGNALS:
        _handle(number, _leave)


@contextlib.contextmanager
def stopping_on_signals() -> Iterator[Stop]:
    """Let Ctrl-C and a termination raise KeyboardInterrupt inside the block, the second one end the process.

    What was there before is put back afterwards. The Stop knows of the signal whatever became of its exception.
    """
    stop = Stop()
    hook = sys.unraisablehook
    before = {number: _handle(number, stop.arrived) for number in SIGNALS}
    sys.unraisablehook = lambda lost: stop.again() if stop.lost(lost) else hook(lost)
    try:
        yield stop
    finally:
        for number, handler in before.items():
            if handler is not None:
                signal.signal(number, handler)
        sys.unraisablehook = hook


class Stop:
    """Which signal asked the command to stop; 0 while none did."""

    def __init__(self) -> None:
        self.number = 0
        self._owner = os.getpid()
        self._again = False

    @property
    def status(self) -> int:
        """The exit status of a command that a signal stopped; 0 where none did."""
        return 128 + self.number if self.number else 0

    @property
    def word(self) -> str:
        """What to tell the user."""
        return SIGNALS.get(signal.Signals(self.number), "interrupted") if self.number else "interrupted"

    def arrived(self, number: int, frame: object) -> None:
        """Take a signal: raise, or leave where one came before, or in a worker that was just forked."""
        if os.getpid() != self._owner or (self.number and not self._again):
            os._exit(128 + number)
        self._again = False
        self.number = number
        raise KeyboardInterrupt

    def lost(self, unraisable: Any) -> bool:
        """Say whether Python has just thrown away the exception of a signal, which came inside a callback."""
        return bool(self.number) and issubclass(unraisable.exc_type, KeyboardInterrupt)

    def again(self) -> None:
        """Send the signal once more in a moment, when the callback is over."""
        self._again = True
        Timer(0.05, os.kill, (os.getpid(), self.number)).start()


def _handle(number: signal.Signals, handler: Any) -> Any:
    """Set a handler and give the one before; None where the signal is ignored, as it is under nohup, and stays so."""
    if signal.getsignal(number) == signal.SIG_IGN:
        return None
    return signal.signal(number, handler)


def _leave(number: int, frame: object) -> None:
    with contextlib.suppress(OSError):
        os.write(2, f"compactctl: {SIGNALS[signal.Signals(number)]}\n".encode())
    os._exit(128 + number)


def secure_streams() -> None:
    """Make the standard streams usable: closed ones lead nowhere, and stderr never fails.

    A closed one must not stay free: the next file to be opened, say a transcript, would take its place.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest free number, which is this one
    if sys.stdin is None:
        sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115 - as long as the process
    if sys.stdout is None:
        sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115 - as long as the process
    told = sys.stderr
    raw = told.buffer if told is not None else open(2, "wb", closefd=False)  # noqa: SIM115 - as long as the process
    encoding = told.encoding if told is not None else "utf-8"
    sys.stderr = _Lenient(raw, encoding=encoding, errors="backslashreplace", line_buffering=True)


class _Lenient(TextIOWrapper):
    """Standard error: what cannot be said there must not change what a command does."""

    def write(self, words: str) -> int:
        """Write as far as that is possible."""
        with contextlib.suppress(OSError):
            super().write(words)
        return len(words)

    def flush(self) -> None:
        """Flush as far as that is possible."""
        with contextlib.suppress(OSError):
            super().flush()


def stdout_failed(error: OSError) -> int | None:
    """Give the exit status for an error of standard output, which is then given up; None for another error.

    A closed pipe ends quietly (0); a full disk is told and has the status of what could not be written.
    """
    if isinstance(error, BrokenPipeError):
        status = 0
    elif error.errno in _FULL and error.filename is None:
        status = StoreError.exit_status
        print(f"compactctl: standard output could not be written: {error.strerror}", file=sys.stderr)
    else:
        return None
    # What is left in its buffer must not fail again at the very end.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return status


def close_stdout(status: int, last: str = "") -> int:
    """Write out what standard output still holds and ``last``, and give the status that the command has then."""
    try:
        sys.stdout.write(last)
        sys.stdout.flush()
    except OSError as error:
        failed = stdout_failed(error)
        if failed is None:
            raise
        return worst((status, failed))
    return status
