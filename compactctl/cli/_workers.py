"""Processes that work for a command: they take no signal for themselves and never outlive it."""

from __future__ import annotations

import gc
import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from math import inf
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import TYPE_CHECKING, Any, TypeVar, cast

from compactctl.errors import CompactctlError, WorkerError, plain
from compactctl.ports import ALONE, Spread

if TYPE_CHECKING:
    from concurrent.futures import ProcessPoolExecutor

Task = TypeVar("Task")
Result = TypeVar("Result")

# Forked workers share what their parent holds; others are sent it.
FORKS = "fork" in multiprocessing.get_all_start_methods()
# So often a worker looks whether its parent is still there.
_LOOK_SECONDS = 0.5


def begin_worker() -> None:
    """Make this process a worker: Ctrl-C, which goes to the whole group, is the parent's to handle."""
    gc.disable()  # as in the parent, for the same reason; where processes are not forked it is on again
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_watch, args=(parent.sentinel, os.getppid()), daemon=True).start()


def end_workers(pools: Sequence[ProcessPoolExecutor], *, failed: bool) -> None:
    """Let the workers of these pools end; where the work failed or was stopped, at once and whatever they are at.

    The store is made for processes that die at any moment; one that lives on keeps its locks and the caller's pipe.
    """
    if failed:
        for pool in pools:
            pool.shutdown(wait=False, cancel_futures=True)
        for child in multiprocessing.active_children():
            child.kill()
    for pool in pools:
        pool.shutdown(wait=True, cancel_futures=True)


def shared_out(
    perform: Callable[[Task], Result], groups: Sequence[Sequence[Task]], jobs: int, forks: bool = FORKS
) -> Iterator[Result]:
    """Give what each task gave, as they come to an end, done in so many processes of which this one is one.

    What a process made ready for one task of a group serves the others. So each takes a group that nobody has begun
    with, and when there is none, joins the group of which the most is left, if that takes longer than its first task
    did, which made it ready. All end at about the same time if the last tasks are small. Raises what ``perform`` raises
    anywhere, and WorkerError where a process was ended from outside.
    """
    context: Any = multiprocessing.get_context("fork" if forks else "spawn")
    groups = list(filter(None, groups))
    workers: list[BaseProcess] = []
    readers: list[Connection] = []
    try:
        with starting():
            begun = context.Array("q", 3 * len(groups) + 1)
            for _ in range(jobs - 1):
                reader, writer = context.Pipe(duplex=False)
                # Only the worker may hold the writing end: that it is closed is how a lost worker is noticed.
                with closing(writer):
                    worker = context.Process(target=_work, args=(perform, groups, begun, writer), daemon=True)
                    worker.start()
                workers.append(worker)
                readers.append(reader)
        for group, at in _taken_in_turn(begun, groups, workers):
            yield perform(groups[group][at])
            yield from _arrived(readers, 0)
        while readers:
            yield from _arrived(readers, None)
    except BaseException:
        end_workers((), failed=True)
        raise


def spread_over(jobs: int) -> Spread:
    """Give what shares reading out among so many processes where they can be forked; a worker reads by itself."""

    def over(function: Callable[[Any], Any], pieces: Sequence[Any]) -> list[Any]:
        numbers = [[at] for at in range(len(pieces))]
        done = dict(shared_out(lambda at: (at, function(pieces[at])), numbers, min(jobs, len(pieces))))
        return [done[at] for at in range(len(pieces))]

    alone = jobs < 2 or not FORKS or multiprocessing.parent_process() is not None
    return ALONE if alone else Spread(jobs, over)


@contextmanager
def starting() -> Iterator[None]:
    """Tell in one line that processes, pipes or locks for them were not to be had."""
    try:
        yield
    except OSError as error:
        why = error.strerror or error
        raise WorkerError(f"no process to share the work could be started ({why}); try --jobs 1") from None


def lost() -> WorkerError:
    """Give the error for a worker that ended before its work did."""
    return WorkerError("a worker process was ended from outside, perhaps for want of memory; try fewer --jobs")


def _taken_in_turn(
    begun: Any, groups: Sequence[Sequence[Any]], workers: Sequence[BaseProcess] = ()
) -> Iterator[tuple[int, int]]:
    """Take task after task for this process, each as the number of its group and its own within that."""
    mine: int | None = None
    here = spent = 0  # how many of that group's tasks were done here, and what the last one took
    while True:
        with _held(begun, workers):
            board = Board(begun.get_obj(), groups)
            if mine is not None:
                board.note(mine, spent, first=here == 1)
            taken = board.take(mine)
        if taken is None:
            return
        here = here + 1 if taken[0] == mine else 1
        mine = taken[0]
        started = time.perf_counter_ns()
        yield taken
        spent = time.perf_counter_ns() - started


class Board:
    """What all processes know of the groups: numbers in memory that they share, read and changed by one at a time.

    They are how many tasks of each group were taken, how many nanoseconds its first task took and how many the last one
    that was not a process's first (0 while nobody knows), and at the end how many groups were begun.
    """

    def __init__(self, numbers: Any, groups: Sequence[Sequence[Any]]) -> None:
        self._numbers = numbers
        self._groups = groups

    def note(self, group: int, spent: int, *, first: bool) -> None:
        """Note what a task of a group took; ``first`` for a process's first of that group, which makes it ready."""
        count = len(self._groups)
        if not first:
            self._numbers[2 * count + group] = spent
        elif not self._numbers[count + group]:
            self._numbers[count + group] = spent

    def take(self, mine: int | None) -> tuple[int, int] | None:
        """Take the next task for a process; None where there is none for it. ``mine`` is the group of its last one."""
        count = len(self._groups)
        begun = self._numbers[3 * count]
        if mine is not None and self._left(mine):
            group = mine
        elif begun < count:
            group = begun
            self._numbers[3 * count] = begun + 1
        else:
            group = max(range(count), key=self._rest, default=-1)
            if group < 0 or self._rest(group) <= self._numbers[count + group]:
                return None
        at: int = self._numbers[group]
        self._numbers[group] = at + 1
        return group, at

    def _left(self, group: int) -> int:
        taken: int = self._numbers[group]
        return len(self._groups[group]) - taken

    def _rest(self, group: int) -> float:
        """Give about how long what is left of a group takes; endless while nobody knows."""
        count, left = len(self._groups), self._left(group)
        each: int = self._numbers[2 * count + group] or self._numbers[count + group]
        return left * (each or inf) if left else 0


@contextmanager
def _held(begun: Any, workers: Sequence[BaseProcess]) -> Iterator[None]:
    """Hold the lock of what all processes count on.

    Where the workers are known, one that ended while it held the lock is noticed: nobody would get on.
    """
    lock = begun.get_lock()
    while not lock.acquire(timeout=_LOOK_SECONDS if workers else None):
        if any(worker.exitcode for worker in workers):
            raise lost()
    try:
        yield
    finally:
        lock.release()


def _work(perform: Callable[[Task], Any], groups: Sequence[Sequence[Task]], begun: Any, writer: Connection) -> None:
    """Be a worker: send what each task gave or the error that it raised, and None when there is no task left."""
    begin_worker()
    try:
        for group, at in _taken_in_turn(begun, groups):
            writer.send(perform(groups[group][at]))
        writer.send(None)
    except CompactctlError as error:
        writer.send(plain(error))
    except Exception as error:
        # Whatever it is, its words can be sent.
        writer.send(RuntimeError(f"{type(error).__name__}: {error}"))


def _arrived(readers: list[Connection], seconds: float | None) -> Iterator[Any]:
    """Give what workers have sent, after waiting for it at most so long; those without a task left are struck off."""
    for reader in cast("list[Connection]", wait(list(readers), seconds)):
        while reader in readers and reader.poll():
            try:
                given = reader.recv()
            except (EOFError, OSError):  # between two messages, or within one
                raise lost() from None
            if isinstance(given, Exception):
                raise given
            if given is None:
                readers.remove(reader)  # the process takes itself apart meanwhile; nobody waits for that
            else:
                yield given


def _watch(sentinel: int, parent: int) -> None:
    """End this process once its parent is gone, even if that was killed; forked siblings may keep its sentinel open."""
    while not wait([sentinel], _LOOK_SECONDS) and os.getppid() == parent:
        pass
    os.kill(os.getpid(), signal.SIGKILL)
