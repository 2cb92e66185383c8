"""One call to a model within its limits: wall clock, tries, waits, and an end within a moment when asked to stop.

The work runs in a thread of its own, since a client library cannot be trusted with a deadline: a server that sends
one byte every 29 seconds never trips a read time-out. Whoever waits gives up at the deadline or at Ctrl-C and cuts the
connection; a thread that still hangs holds nothing and dies with the process.
"""

from __future__ import annotations

import random
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from compactctl.errors import SummarizerError
from compactctl.summarizers._failure import Failure, failure
from compactctl.summarizers._secret import Redactor

T = TypeVar("T")

_POLL = 0.2  # seconds between two looks at the stop flag; a signal wakes the wait by itself


@dataclass(frozen=True, slots=True)
class Limits:
    """How long and how large one call may be. Times are in seconds; ``total`` holds all tries and waits together."""

    connect: float = 10.0
    idle: float = 30.0
    total: float = 120.0
    reply_bytes: int = 1 << 20
    tries: int = 3
    retry_after: float = 60.0
    backoff: float = 1.0


class CallError(Exception):
    """How one try failed; ``retry`` says that another may help, after ``wait`` seconds if the server said so.

    ``free`` says that no model was at work: there was no connection, or the server refused the request by its status.
    """

    def __init__(
        self, reason: Failure, text: str, *, retry: bool = False, wait: float | None = None, free: bool = False
    ) -> None:
        super().__init__(text)
        self.reason = reason
        self.text = text
        self.retry = retry
        self.wait = wait
        self.free = free

    def said(self, text: str) -> CallError:
        """Give a copy with another text, and without the traceback, whose frames hold the client and its key."""
        return CallError(self.reason, text, retry=self.retry, wait=self.wait, free=self.free)


class Attempt:
    """One try: its deadline, and what has to be cut to end it at once."""

    def __init__(self, limits: Limits, deadline: float, clock: Callable[[], float]) -> None:
        self.limits = limits
        self._deadline = deadline
        self._clock = clock
        self._lock = threading.Lock()
        self._cuts: list[Callable[[], object]] = []
        self._ended = False

    def remaining(self) -> float:
        """Give the seconds left; raises CallError where there are none, or the call was given up."""
        left = self._deadline - self._clock()
        if self._ended or left <= 0:
            raise CallError(Failure.TIMEOUT, f"no whole reply within {self.limits.total:g} s")
        return left

    def on_end(self, cut: Callable[[], object]) -> None:
        """Register what ends the try from another thread; it is called at once where the try has ended already."""
        with self._lock:
            if not self._ended:
                self._cuts.append(cut)
                return
        cut()

    def hold(self, connection: socket.socket) -> None:
        """Cut this connection when the try ends early: closing it would not wake a thread that reads from it."""
        self.on_end(lambda: _shut(connection))

    def end(self) -> None:
        """Give the try up."""
        with self._lock:
            self._ended, cuts, self._cuts = True, self._cuts, []
        for cut in cuts:
            cut()


@dataclass(slots=True)
class _Outcome(Generic[T]):
    done: threading.Event = field(default_factory=threading.Event)
    value: T | None = None
    error: CallError | None = None


class Caller:
    """Runs calls within limits; ``stop()`` ends all of them from another thread.

    ``clock`` gives seconds, ``jitter`` numbers from 0 to 1; ``sleep`` waits (default: until ``stop()`` at most).
    """

    def __init__(
        self,
        limits: Limits,
        redact: Redactor,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], object] | None = None,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self.limits = limits
        self._redact = redact
        self._clock = clock
        self._stopped = threading.Event()
        self._sleep = sleep or self._stopped.wait
        self._jitter = jitter

    def stop(self) -> None:
        """End all calls, now and later, with the reason ``interrupted``."""
        self._stopped.set()

    def run(self, work: Callable[[Attempt], T]) -> T:
        """Give the result of the first try that succeeds; raises SummarizerError, whose text is free of the key."""
        deadline = self._clock() + self.limits.total
        before = ""
        for number in range(1, self.limits.tries + 1):
            outcome = self._try(work, deadline)
            error = outcome.error
            if error is None:
                return outcome.value  # type: ignore[return-value]  # set whenever there is no error
            if error.reason is Failure.BUDGET_SPENT:
                # This try was not made; why it was needed is worth as much as why it was not allowed.
                raise failure(error.reason, f"{error.text}{before}")
            before = f"; the one before failed: {error.text}"
            if error.retry and number < self.limits.tries:
                wait = self._wait(number, error)
                if self._clock() + wait < deadline:
                    self._sleep(wait)
                    continue
            tries = f" after {number} tries" if number > 1 else ""
            raise failure(error.reason, f"{error.text}{tries}")
        raise failure(Failure.TIMEOUT, "no try was allowed")

    def _wait(self, number: int, error: CallError) -> float:
        if error.wait is not None:
            return min(max(error.wait, 0.0), self.limits.retry_after)
        # Full jitter between half and the whole, so that several runs do not come back together.
        return self.limits.backoff * 2.0 ** (number - 1) * (0.5 + self._jitter() / 2)

    def _clean(self, error: CallError) -> CallError:
        return error.said(self._redact.shown(error.text))

    def _try(self, work: Callable[[Attempt], T], deadline: float) -> _Outcome[T]:
        attempt = Attempt(self.limits, deadline, self._clock)
        outcome: _Outcome[T] = _Outcome()
        if self._stopped.is_set():
            outcome.error = CallError(Failure.INTERRUPTED, "the run was stopped")
            return outcome

        def body() -> None:
            try:
                outcome.value = work(attempt)
            except CallError as error:
                outcome.error = self._clean(error)
            except SummarizerError as error:
                outcome.error = self._clean(CallError(Failure(error.reason), str(error)))
            except BaseException as error:  # a client library may raise anything; nothing of it may escape the thread
                outcome.error = self._clean(CallError(Failure.MALFORMED, f"{type(error).__name__}: {error}"))
            finally:
                outcome.done.set()

        threading.Thread(target=body, name="compactctl-call", daemon=True).start()
        try:
            while not outcome.done.wait(min(_POLL, max(deadline - self._clock(), 0.0))):
                if self._stopped.is_set():
                    return _Outcome(error=CallError(Failure.INTERRUPTED, "the run was stopped"))
                if self._clock() >= deadline:
                    return _Outcome(error=CallError(Failure.TIMEOUT, f"no whole reply within {self.limits.total:g} s"))
        finally:
            # Also on Ctrl-C, which rises out of the wait.
            attempt.end()
        return outcome


def _shut(connection: socket.socket) -> None:
    try:
        connection.shutdown(socket.SHUT_RDWR)
    except OSError:  # closed already
        return
