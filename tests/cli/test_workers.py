"""Work that is shared out among processes: all of it is done once, and whatever goes wrong in one is told."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from functools import partial

import pytest

from compactctl.cli._workers import FORKS, shared_out
from compactctl.errors import StoreError, WorkerLostError

METHODS = [False, True] if FORKS else [False]


def square(number: int) -> int:
    """Do a task."""
    return number * number


def where(number: int) -> tuple[int, int]:
    """Say which process did a task that takes a moment."""
    time.sleep(0.02)
    return number, os.getpid()


def fails(number: int) -> int:
    """Fail at one task, in whichever process it is met."""
    if number == 3:
        raise StoreError("no room for 3")
    return number


def dies(parent: int, number: int) -> int:
    """End a process that is not the parent at once, as a system does that is short of memory."""
    if os.getpid() != parent:
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(0.2)
    return number


@pytest.mark.parametrize("forks", METHODS)
@pytest.mark.parametrize("jobs", [1, 2, 4])
def test_each_task_is_done_once(jobs: int, forks: bool) -> None:
    """Any number of processes gives what one gives, more processes than tasks too, forked or started anew."""
    for tasks in ([], [7], list(range(20))):
        assert sorted(shared_out(square, tasks, jobs, forks)) == [n * n for n in tasks]


@pytest.mark.skipif(not FORKS, reason="a new process takes longer to start than these tasks take")
def test_tasks_are_taken_by_whoever_is_free() -> None:
    """This process works as well, and no worker gets a task before it is done with the last."""
    done = list(shared_out(where, range(20), 2))
    shares = [sum(by == process for _, by in done) for process in {by for _, by in done}]
    assert len(shares) == 2
    assert max(shares) - min(shares) <= 6


@pytest.mark.parametrize("forks", METHODS)
@pytest.mark.parametrize("jobs", [1, 3])
def test_an_error_anywhere_is_the_error_of_the_whole(jobs: int, forks: bool) -> None:
    """What a task raises is raised here with its words, and no worker goes on."""
    with pytest.raises(StoreError, match="no room for 3"):
        list(shared_out(fails, range(10), jobs, forks))
    _all_ended()


@pytest.mark.parametrize("forks", METHODS)
def test_a_worker_that_was_ended_from_outside_is_told(forks: bool) -> None:
    """A worker that is gone does not hang the command: the error says what to try."""
    with pytest.raises(WorkerLostError, match="try fewer --jobs"):
        list(shared_out(partial(dies, os.getpid()), range(50), 2, forks))
    _all_ended()


def test_who_stops_listening_stops_the_workers() -> None:
    """A consumer that leaves early leaves no process behind."""
    given = shared_out(where, range(1000), 3)
    next(given)
    given.close()
    _all_ended()


def _all_ended() -> None:
    until = time.monotonic() + 10
    while multiprocessing.active_children() and time.monotonic() < until:
        time.sleep(0.01)
    assert not multiprocessing.active_children()
