"""Replays sessions under many setups, in this process or in several, and remembers what is done.

A task is a share of the setups over one session. Every point is a whole replay by ``runs.run``; nothing is worked out
by other rules. Processes are forked where the system can, so that they share the loaded sessions.
"""

from __future__ import annotations

import hashlib
import importlib.util
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

import compactctl
from compactctl.cli._summarizer import failed_records
from compactctl.cli._work import Work, make_summarizer, setup_of, workbench
from compactctl.compactors._user import GROUP, PACKAGE
from compactctl.errors import CompactctlError, StoreError, WorkerError, plain
from compactctl.measures._spec import Measured
from compactctl.model import ASSISTANT, Session
from compactctl.ports import ALONE, BlobStore, Spread, Summarizer
from compactctl.registry import names
from compactctl.runs import Setup, Workbench, run
from compactctl.settings import Resolved, canonical
from compactctl.tuning.figures import figures_of

if TYPE_CHECKING:
    from compactctl.summarizers._plan import Planner

Figures = Mapping[str, Measured]

# A task replays so many points, more of them where a session is small, and no more than a part of all that is left;
# but it is never so small that handing it out costs more than doing it.
_POINTS_A_TASK = 10
_CHARACTERS_A_TASK = 100_000_000
_PART_OF_THE_REST = 8
_CHARACTERS_WORTH_A_TASK = 4_000_000
# What is kept of each figure; what was kept in another form is not taken for it.
_FIGURES = ("value", "reason", "amounts")
# So much text is held at a time while sessions are replayed.
BATCH_CHARACTERS = 128_000_000


@dataclass(frozen=True, slots=True)
class Plan:
    """What every session is replayed under: the options of each point over the settings; picklable.

    ``planner`` stands in for a summarizer with a model behind it while its plan is made.
    """

    settings: Resolved
    points: tuple[Mapping[str, Any], ...]
    measures: tuple[str, ...]
    planner: Planner | None = None

    def setups(self) -> list[Setup]:
        """Give the setup of each point."""
        base = setup_of(self.settings)
        return [replace(base, options={**base.options, **point}) for point in self.points]


@dataclass(frozen=True, slots=True)
class Task:
    """The points ``first`` to ``last`` - 1 over the session at a position."""

    session: int
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Done:
    """What a task gave: the figures of each of its points, or the error that the session raised.

    ``failures`` has a sentence for each summary that failed.
    """

    task: Task
    rows: tuple[Figures, ...] = ()
    error: CompactctlError | None = None
    failures: tuple[str, ...] = ()


def characters(session: Session) -> int:
    """Give about how much text a session holds."""
    return sum(len(message.content) for message in session.messages)


def tasks_of(sessions: Sequence[Session], points: int) -> list[Task]:
    """Cut the work into tasks; they depend on the sessions and points alone, so that a resumed run cuts alike.

    The last ones are small, so that no process works for long while the others have nothing left to do.
    """
    sizes = [max(characters(session), 1) for session in sessions]
    left = sum(sizes) * points
    tasks: list[Task] = []
    for at, size in enumerate(sizes):
        most = max(_POINTS_A_TASK, _CHARACTERS_A_TASK // size)
        least = max(1, _CHARACTERS_WORTH_A_TASK // size)
        first = 0
        while first < points:
            share = min(most, max(least, left // (_PART_OF_THE_REST * size)))
            last = min(first + share, points)
            tasks.append(Task(at, first, last))
            left -= size * (last - first)
            first = last
    return tasks


def sweep(sessions: Sequence[Session], plan: Plan, jobs: int, memory: Memory | None = None) -> Iterator[Done]:
    """Give what each task gave, as they come to an end. ``memory`` is asked first and told afterwards."""
    waiting: list[Task] = []
    keys = _Keys(sessions, plan) if memory is not None else None
    for task in tasks_of(sessions, len(plan.points)):
        known = memory.recall(keys.of(task), task) if memory is not None and keys is not None else None
        if known is None:
            waiting.append(task)
        else:
            yield Done(task, known)
    hands = min(jobs, len(waiting))
    for done in _forked(sessions, plan, waiting, hands) if hands > 1 else _here(sessions, plan, waiting):
        # What a failed summary left is not what the settings give; a later run shall ask again.
        if memory is not None and keys is not None and done.error is None and not done.failures:
            memory.keep(keys.of(done.task), done)
        yield done


class Memory:
    """Keeps the figures of finished tasks in the state directory, under the hash of all that they depend on.

    ``broken`` is why nothing more can be kept, say a full disk; what was asked for goes on without.
    """

    def __init__(self, blobs: BlobStore, *, resume: bool) -> None:
        self.blobs = blobs
        self.resume = resume
        self.recalled = 0
        self.broken: StoreError | None = None

    def recall(self, key: str, task: Task) -> tuple[Figures, ...] | None:
        """Give the figures of a task that an earlier run finished; None where none did, or none may be used."""
        held = self.blobs.get(key) if self.resume else None
        if held is None:
            return None
        self.recalled += task.last - task.first
        return tuple(
            {
                key: Measured(value, reason, None if amounts is None else tuple(amounts))
                for key, (value, reason, amounts) in row.items()
            }
            for row in orjson.loads(held)
        )

    def keep(self, key: str, done: Done) -> None:
        """Keep what a task gave, as long as that is possible."""
        if self.broken is not None:
            return
        rows = [{key: (m.value, m.reason, m.amounts) for key, m in row.items()} for row in done.rows]
        try:
            self.blobs.put(key, orjson.dumps(rows))
        except StoreError as error:
            self.broken = error


class _Keys:
    """Names tasks by the hash of all that their figures depend on; what many share is looked up once."""

    def __init__(self, sessions: Sequence[Session], plan: Plan) -> None:
        self.sessions = sessions
        self.plan = plan
        self.setups = plan.setups()
        self.code = _code_of(plan.settings["compactor"])
        self._keys: dict[Task, str] = {}
        self._facts: dict[int, str] = {}

    def of(self, task: Task) -> str:
        """Give the key of a task."""
        if task not in self._keys:
            if task.session not in self._facts:
                self._facts[task.session] = self._told(self.sessions[task.session])
            settings = canonical({"settings": [setup.settings() for setup in self.setups[task.first : task.last]]})
            digest = hashlib.sha256(f"{self._facts[task.session]}\n{settings}".encode()).hexdigest()
            self._keys[task] = f"tune-{digest}"
        return self._keys[task]

    def _told(self, session: Session) -> str:
        bench = workbench(self.plan.settings, session)
        return canonical(
            {
                "tool_version": compactctl.__version__,
                "figures": _FIGURES,
                "input": session.input_sha256,
                "session": session.id,
                "code": self.code,
                "window": bench.window.tokens,
                "prices": _prices_of(bench) if self.plan.measures else None,
                "measures": self.plan.measures,
            }
        )


def _prices_of(bench: Workbench) -> dict[str, str]:
    """Give the prices of every model that made a call of a session: recorded usage is priced by each one's own."""
    own = bench.session.model
    models = {own, *(message.model or own for message in bench.session.messages if message.role == ASSISTANT)}
    return {model: repr(bench.prices_of(model)) for model in sorted(models)}


def _code_of(text: str) -> str:
    """Give a hash of the file that a user's compactor is in, hexadecimal; empty for one of the package's own.

    What that file imports is not in it.
    """
    if text in names(PACKAGE):
        return ""
    place = text.rpartition(":")[0]
    if not place:
        from importlib.metadata import entry_points

        place = next((point.module for point in entry_points(group=GROUP) if point.name == text), text)
    try:
        if not place.endswith(".py"):
            spec = importlib.util.find_spec(place)
            place = (spec.origin if spec is not None else None) or place
        return hashlib.sha256(Path(place).read_bytes()).hexdigest()
    except (OSError, ImportError, ValueError):
        return "unknown"


class _Bench:
    """The session that is worked on, made ready; a process keeps one at a time."""

    def __init__(self, sessions: Sequence[Session], plan: Plan) -> None:
        self.sessions = sessions
        self.plan = plan
        self.setups = plan.setups()
        self.at = -1
        self.bench: Workbench | None = None
        self.summarizer: Summarizer | None = None

    def perform(self, task: Task, spread: Spread | None = None) -> Done:
        """Replay the points of a task; ``spread`` says who reads the text for it (default: as many as the jobs)."""
        try:
            bench = self._ready(task)
            if spread is not None:
                bench.spread = spread
            failures: list[str] = []
            rows = tuple(self._figures(bench, setup, failures) for setup in self.setups[task.first : task.last])
        except WorkerError:  # those who read are gone, which is no fault of the session
            raise
        except CompactctlError as error:
            return Done(task, error=plain(error))
        return Done(task, rows, failures=tuple(failures))

    def _ready(self, task: Task) -> Workbench:
        """Give the bench of a task's session."""
        if task.session != self.at or self.bench is None:
            self.bench = workbench(self.plan.settings, self.sessions[task.session])
            self.summarizer = make_summarizer(Work(self.plan.settings, planner=self.plan.planner))
            self.at = task.session
        return self.bench

    def _figures(self, bench: Workbench, setup: Setup, failures: list[str]) -> Figures:
        outcome = run(
            bench,
            setup,
            summarizer=self.summarizer,
            measures=self.plan.measures,
            skip=True,
            figures_only=True,
        )
        failures.extend(failed_records(bench.session.id, outcome.tally.compactions))
        return figures_of(outcome)


def _here(sessions: Sequence[Session], plan: Plan, tasks: Sequence[Task]) -> Iterator[Done]:
    yield from map(_Bench(sessions, plan).perform, tasks)


def _forked(sessions: Sequence[Session], plan: Plan, tasks: Sequence[Task], jobs: int) -> Iterator[Done]:
    # It takes a while to import what this stands on.
    from compactctl.cli._workers import FORKS, shared_out

    bench = _Bench(sessions, plan)
    if FORKS and tasks[0].session == tasks[-1].session:
        # What a first replay of the session works out, forked processes share.
        smallest = min(tasks, key=lambda task: task.last - task.first)
        yield bench.perform(smallest)
        tasks = [task for task in tasks if task is not smallest]
    of_session = [list(some) for _, some in groupby(tasks, key=lambda task: task.session)]
    # The longest first: one that is begun last would be left to a single process.
    of_session.sort(key=lambda some: characters(sessions[some[0].session]), reverse=True)
    # All of them are at work: none is left to read for another.
    yield from shared_out(partial(bench.perform, spread=ALONE), of_session, jobs)
