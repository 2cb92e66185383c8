"""Does one thing with every session of the inputs, in this process or in several, in the order of the inputs.

Ids must be told apart before the first session is worked on, so each worker first loads its share and says what ids it
found, and then does the work; what it loaded it keeps, as far as that is little.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

from compactctl.cli._workers import begin_worker, end_workers, lost, starting
from compactctl.errors import CompactctlError, UnreadableError, plain
from compactctl.model import Session
from compactctl.transcripts import Account, Candidate, Found, distinct_ids, empty_roots, load_candidate

# Sessions of inputs of up to so many bytes are kept between the two passes; others are loaded twice.
HELD_BYTES = 256_000_000
# The collector runs between sessions once so many messages went by.
COLLECT_AFTER = 200_000

Result = TypeVar("Result")
Given = TypeVar("Given")
Task = Callable[[Session, Any], Result]


@dataclass(frozen=True, slots=True)
class Failed:
    """A session that could not be worked on, and the error."""

    session_id: str
    error: CompactctlError


class Worker(Generic[Result]):
    """Loads candidates and works on their sessions; one in each process."""

    def __init__(self, task: Task[Result], context: Any, side_threads: bool, held_bytes: int = HELD_BYTES) -> None:
        self.task = task
        self.context = context
        self.side_threads = side_threads
        self.room = held_bytes
        self.held: dict[Candidate, list[Session]] = {}
        self.messages = 0

    def identify(self, candidate: Candidate) -> tuple[list[Session], Account]:
        """Load a candidate and give its sessions without their messages."""
        account = Account()
        sessions = list(load_candidate(candidate, account, side_threads=self.side_threads))
        size = input_bytes(candidate)
        # A stream cannot be read a second time.
        if size <= self.room or candidate.path == "-":
            self.room -= size
            self.held[candidate] = sessions
        return [replace(session, messages=(), compactions=()) for session in sessions], account

    def perform(self, candidate: Candidate, named: Sequence[Session]) -> Iterator[Result | Failed]:
        """Work on a candidate's sessions under the ids that they were given; one at a time is kept.

        Those of a file that has changed since fail: ids and what was said of its lines are of the first reading.
        """
        again = Account()
        held = self.held.pop(candidate, None)
        self.room += input_bytes(candidate) if held is not None else 0
        sessions: Iterator[Session]
        if held is not None:
            sessions = iter(held)
            del held
        else:
            sessions = load_candidate(candidate, again, side_threads=self.side_threads)
        for name in named:
            session = next(sessions, None)
            if session is None or session.input_sha256 != name.input_sha256:
                why = "".join(f": {problem}" for problem in again.problems[:1])
                yield Failed(name.id, UnreadableError(f"{candidate.path} changed while it was read{why}; try it again"))
                continue
            self._tidy(session)
            told = replace(session, id=name.id, warnings=name.warnings)
            try:
                yield self.task(told, self.context)
            except CompactctlError as error:
                yield Failed(name.id, plain(error))

    def _tidy(self, session: Session) -> None:
        """Collect what earlier sessions may have left, now and then: nobody else does in this process."""
        self.messages += len(session.messages)
        if self.messages > COLLECT_AFTER:
            self.messages = len(session.messages)
            gc.collect()


def input_bytes(candidate: Candidate) -> int:
    """Give the size of an input; 0 where it has none."""
    try:
        return os.stat(candidate.path).st_size if candidate.path != "-" else 0  # noqa: PTH116 - may be any bytes
    except (OSError, ValueError):
        return 0


def each_session(
    found: Found,
    account: Account,
    task: Task[Result],
    context: Any,
    *,
    jobs: int = 1,
    side_threads: bool = False,
    progress: Callable[[int, int, str], None] = lambda done, total, label: None,
) -> Iterator[Result | Failed]:
    """Give what the task made of each session. What could not be loaded goes to the account.

    The results are in input order whatever the number of jobs. ``progress`` hears how many bytes of how many are done.
    """
    account.problems.extend(found.problems)
    for reason, count in found.ignored.items():
        account.ignored[reason] = account.ignored.get(reason, 0) + count
    candidates = found.candidates
    hands = min(jobs, len(candidates))

    def maker() -> _Hands[Result]:
        if hands > 1:
            return _Processes(task, context, side_threads, candidates, hands)
        return _Local(Worker(task, context, side_threads))

    total = 2 * sum(map(input_bytes, candidates))
    done = 0
    with maker() as workers:
        identified: list[list[Session]] = []
        for candidate, (sessions, seen) in zip(candidates, workers.identify(candidates), strict=True):
            identified.append(sessions)
            account.merge(seen)
            done += input_bytes(candidate)
            progress(done, total, candidate.path)
        account.problems.extend(empty_roots(found, [bool(sessions) for sessions in identified]))
        named = iter(distinct_ids(session for sessions in identified for session in sessions))
        shares = [[next(named) for _ in sessions] for sessions in identified]
        for candidate, results in zip(candidates, workers.perform(candidates, shares), strict=True):
            yield from results
            done += input_bytes(candidate)
            progress(done, total, candidate.path)


class _Hands(Generic[Result]):
    """Who does the work: this process or several."""

    def __enter__(self) -> _Hands[Result]:
        return self

    def __exit__(self, *exc: object) -> None:
        pass

    def identify(self, candidates: Sequence[Candidate]) -> Iterator[tuple[list[Session], Account]]:
        """Load each candidate, in order."""
        raise NotImplementedError

    def perform(
        self, candidates: Sequence[Candidate], shares: Sequence[list[Session]]
    ) -> Iterator[Iterator[Result | Failed]]:
        """Work on each candidate's sessions, in order."""
        raise NotImplementedError


class _Local(_Hands[Result]):
    def __init__(self, worker: Worker[Result]) -> None:
        self.worker = worker

    def identify(self, candidates: Sequence[Candidate]) -> Iterator[tuple[list[Session], Account]]:
        return map(self.worker.identify, candidates)

    def perform(
        self, candidates: Sequence[Candidate], shares: Sequence[list[Session]]
    ) -> Iterator[Iterator[Result | Failed]]:
        return map(self.worker.perform, candidates, shares)


class _Processes(_Hands[Result]):
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
        with starting():
            futures = [self._home[candidate].submit(_identify, candidate) for candidate in candidates]
        return map(_result, futures)

    def perform(
        self, candidates: Sequence[Candidate], shares: Sequence[list[Session]]
    ) -> Iterator[Iterator[Result | Failed]]:
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
