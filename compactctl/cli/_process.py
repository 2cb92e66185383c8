"""The process as a whole: what signals do to it, and streams that are closed or full.

Imports nothing of the package but errors, since it comes first: a signal may arrive while the rest is imported.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Iterator
from io import BufferedWriter, RawIOBase, TextIOWrapper
from threading import Timer
from typing import Any, TextIO

from compactctl.errors import StoreError, worst

SIGNALS = {signal.SIGINT: "interrupted", signal.SIGTERM: "terminated"}


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
    """Make the standard streams usable: closed ones lead nowhere, and to write to them never fails.

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
    sys.stdout = Stdout(sys.stdout)
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


class Stdout(TextIOWrapper):
    """Standard output: what cannot be written there must not change what a command does, but its status."""

    def __init__(self, like: TextIO) -> None:
        self._sink = _Sink(like.fileno())
        terminal = like.isatty()
        super().__init__(BufferedWriter(self._sink), like.encoding, like.errors, line_buffering=terminal)

    @property
    def status(self) -> int:
        """The exit status of what could not be written: 0 where nobody reads any more, 5 for a full disk."""
        return self._sink.status


class _Sink(RawIOBase):
    """A file descriptor that takes everything: after its first error, which is told, nothing more goes there."""

    def __init__(self, number: int) -> None:
        self.status = 0
        self._number = number
        self._lost = False

    def write(self, piece: Any, /) -> int:
        """Write a piece, or as much of it as goes at once."""
        if not self._lost:
            try:
                return os.write(self._number, piece)
            except OSError as error:
                self._lost = True
                if not isinstance(error, BrokenPipeError):
                    self.status = StoreError.exit_status
                    why = f"standard output could not be written: {error.strerror}"
                    print(f"compactctl: {why}", file=sys.stderr)
        return len(piece)

    def writable(self) -> bool:
        """Say that it can be written to."""
        return True

    def fileno(self) -> int:
        """Give the descriptor's number."""
        return self._number

    def isatty(self) -> bool:
        """Say whether it is a terminal."""
        return os.isatty(self._number)


def close_stdout(status: int, last: str = "") -> int:
    """Write out what standard output still holds and ``last``, and give the status that the command has then."""
    sys.stdout.write(last)
    sys.stdout.flush()
    return worst((status, sys.stdout.status)) if isinstance(sys.stdout, Stdout) else status
