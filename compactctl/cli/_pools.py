"""Several processes that load and work on sessions, each with its own share of the inputs.

Imported only where more than one is asked for: what this stands on takes a while to import.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import Any, TypeVar

from compactctl.cli._hands import HELD_BYTES, Failed, Hands, Result, Task, Worker, input_bytes
from compactctl.cli._workers import begin_worker, end_workers, lost, starting
from compactctl.model import Session
from compactctl.transcripts import Account, Candidate

Given = TypeVar("Given")


class Processes(Hands[Result]):
    """One process a share of the candidates, so that what it loaded can be kept there."""

    def __init__(
        self, task: Task[Result], context: Any, side_threads: bool, candidates: Sequence[Candidate], jobs: int
    ) -> None:
        with starting():
            self._pools = [
                ProcessPoolExecutor(1, initializer=_begin, initargs=(task, context, side_threads, HELD_BYTES // jobs))
                for _ in range(jobs)
            ]
        loads = [0] * jobs
        self._home: dict[Candidate, ProcessPoolExecutor] = {}
        # Large inputs first, each to the process that has the least: a good balance without moving anything.
        for candidate in sorted(candidates, key=input_bytes, reverse=True):
            least = loads.index(min(loads))
            loads[least] += input_bytes(candidate) + 1
            self._home[candidate] = self._pools[least]

    def __exit__(self, *exc: object) -> None:
        end_workers(self._pools, failed=exc[0] is not None)

    def identify(self, candidates: Sequence[Candidate]) -> Iterator[tuple[list[Session], Account]]:
        """Load all candidates at once, and give them in order."""
        with starting():
            futures = [self._home[candidate].submit(_identify, candidate) for candidate in candidates]
        return map(_result, futures)

    def perform(
        self, candidates: Sequence[Candidate], shares: Sequence[list[Session]]
    ) -> Iterator[Iterator[Result | Failed]]:
        """Have all work done at once, and give it in order."""
        futures: list[Future[list[Result | Failed]]] = [
            self._home[candidate].submit(_perform, candidate, share)
            for candidate, share in zip(candidates, shares, strict=True)
        ]
        return (iter(given) for given in map(_result, futures))


def _result(future: Future[Given]) -> Given:
    """Give what a worker gave; raises WorkerError where it was ended before."""
    try:
        return future.result()
    except BrokenProcessPool:
        raise lost() from None


_worker: Worker[Any]


def _begin(task: Task[Any], context: Any, side_threads: bool, held_bytes: int) -> None:
    global _worker
    begin_worker()
    _worker = Worker(task, context, side_threads, held_bytes)


def _identify(candidate: Candidate) -> tuple[list[Session], Account]:
    return _worker.identify(candidate)


def _perform(candidate: Candidate, named: Sequence[Session]) -> list[Any]:
    return list(_worker.perform(candidate, named))
