"""Processes that work for a command: they take no signal for themselves and never outlive it."""

from __future__ import annotations

import gc
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import closing
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any, TypeVar

from compactctl.errors import WorkerLostError

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
    perform: Callable[[Task], Result], tasks: Sequence[Task], jobs: int, forks: bool = FORKS
) -> Iterator[Result]:
    """Give what each task gave, as they come to an end, done in so many processes of which this one is one.

    Each process takes the next task that none has begun with, so all end at about the same time if the last tasks are
    small. Raises what ``perform`` raises anywhere, and WorkerLostError where a process was ended from outside.
    """
    context: Any = multiprocessing.get_context("fork" if forks else "spawn")
    begun = context.Value("q", 0)
    workers: list[BaseProcess] = []
    readers: list[Connection] = []
    try:
        for _ in range(jobs - 1):
            reader, writer = context.Pipe(duplex=False)
            # Only the worker may hold the writing end: that it is closed is how a lost worker is noticed.
            with closing(writer):
                workers.append(context.Process(target=_work, args=(perform, tasks, begun, writer), daemon=True))
                workers[-1].start()
            readers.append(reader)
        for task in _next(tasks, begun):
            yield perform(task)
            yield from _arrived(readers, 0)
        while readers:
            yield from _arrived(readers, None)
    except BaseException:
        for worker in workers:
            worker.kill()
        raise


def _next(tasks: Sequence[Task], begun: Any) -> Iterator[Task]:
    while True:
        with begun.get_lock():
            at = begun.value
            begun.value = at + 1
        if at >= len(tasks):
            return
        yield tasks[at]


def _work(perform: Callable[[Task], Any], tasks: Sequence[Task], begun: Any, writer: Connection) -> None:
    """Be a worker: send what each task gave or the error that it raised, and None when there is no task left."""
    begin_worker()
    try:
        for task in _next(tasks, begun):
            writer.send(perform(task))
        writer.send(None)
    except Exception as error:
        writer.send(error)


def _arrived(readers: list[Connection], seconds: float | None) -> Iterator[Any]:
    """Give what workers have sent, after waiting for it at most so long; those without a task left are struck off."""
    for reader in wait(list(readers), seconds):
        assert isinstance(reader, Connection)  # nothing else was waited for
        while reader in readers and reader.poll():
            try:
                given = reader.recv()
            except EOFError:
                raise lost() from None
            if isinstance(given, Exception):
                raise given
            if given is None:
                readers.remove(reader)  # the process takes itself apart meanwhile; nobody waits for that
            else:
                yield given


def lost() -> WorkerLostError:
    """Give the error for a worker that ended before its work did."""
    return WorkerLostError("a worker process was ended from outside, perhaps for want of memory; try fewer --jobs")


def _watch(sentinel: int, parent: int) -> None:
    """End this process once its parent is gone, even if that was killed; forked siblings may keep its sentinel open."""
    while not wait([sentinel], _LOOK_SECONDS) and os.getppid() == parent:
        pass
    os.kill(os.getpid(), signal.SIGKILL)
