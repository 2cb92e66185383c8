"""Loads the sessions of an input and does one thing with each of them: what every process of a command does."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

from compactctl.errors import CompactctlError, UnreadableError, plain
from compactctl.model import Session
from compactctl.transcripts import Account, Candidate, Limits, load_candidate

# Sessions of inputs of up to so many bytes are kept between the two passes; others are loaded twice.
HELD_BYTES = 256_000_000
# The collector runs between sessions once so many messages went by.
COLLECT_AFTER = 200_000

Result = TypeVar("Result")
Task = Callable[[Session, Any], Result]


@dataclass(frozen=True, slots=True)
class Failed:
    """A session that could not be worked on, and the error."""

    session_id: str
    error: CompactctlError


class Worker(Generic[Result]):
    """Loads candidates and works on their sessions; one in each process. ``cores`` of the machine are its own."""

    def __init__(
        self, task: Task[Result], context: Any, side_threads: bool, held_bytes: int = HELD_BYTES, cores: int = 1
    ) -> None:
        self.task = task
        self.context = context
        self.side_threads = side_threads
        self.room = held_bytes
        self.limits = Limits(cores=cores)
        self.held: dict[Candidate, list[Session]] = {}
        self.messages = 0

    def identify(self, candidate: Candidate) -> tuple[list[Session], Account]:
        """Load a candidate and give its sessions without their messages."""
        account = Account()
        sessions = list(self._load(candidate, account))
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
            sessions = self._load(candidate, again)
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

    def _load(self, candidate: Candidate, account: Account) -> Iterator[Session]:
        return load_candidate(candidate, account, side_threads=self.side_threads, limits=self.limits)

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


class Hands(Generic[Result]):
    """Who does the work: this process or several."""

    def __enter__(self) -> Hands[Result]:
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


class Local(Hands[Result]):
    """This process alone."""

    def __init__(self, worker: Worker[Result]) -> None:
        self.worker = worker

    def identify(self, candidates: Sequence[Candidate]) -> Iterator[tuple[list[Session], Account]]:
        """Load each candidate when it is asked for."""
        return map(self.worker.identify, candidates)

    def perform(
        self, candidates: Sequence[Candidate], shares: Sequence[list[Session]]
    ) -> Iterator[Iterator[Result | Failed]]:
        """Work on each candidate's sessions when they are asked for."""
        return map(self.worker.perform, candidates, shares)
