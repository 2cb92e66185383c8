"""Work that is shared out among processes: all of it is done once, and whatever goes wrong in one is told."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
from functools import partial
from math import inf
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from compactctl.cli import _workers
from compactctl.cli._workers import FORKS, Board, shared_out, spread_over
from compactctl.errors import StoreError, UsageError, WorkerError

METHODS = [False, True] if FORKS else [False]


def square(number: int) -> int:
    """Do a task."""
    return number * number


def where(number: int) -> tuple[int, int]:
    """Say which process did a task that takes a moment."""
    time.sleep(0.02)
    return number, os.getpid()


def waits_for_the_others(others: Path, tasks: int, number: int) -> tuple[int, int]:
    """Do the first task only when all others are done, which whoever is free must do; say which process did it."""
    if number == 0:
        until = time.monotonic() + 60
        while len(list(others.iterdir())) < tasks - 1 and time.monotonic() < until:
            time.sleep(0.01)
    else:
        (others / str(number)).touch()
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
        assert sorted(shared_out(square, [tasks], jobs, forks)) == [n * n for n in tasks]


@pytest.mark.parametrize("forks", METHODS)
def test_all_groups_are_done(forks: bool) -> None:
    """Tasks in groups, of which some are empty and fewer or more than there are processes, are each done once."""
    for groups in ([], [[]], [[1, 2], [], [3]], [[n] for n in range(30)]):
        done = shared_out(square, groups, 3, forks)
        assert sorted(done) == sorted(n * n for group in groups for n in group)


@given(
    sizes=st.lists(st.integers(1, 5), max_size=6),
    turns=st.lists(st.tuples(st.integers(0, 3), st.integers(1, 100)), max_size=60),
)
def test_a_process_keeps_to_its_group_and_joins_another_where_that_is_worth_it(
    sizes: list[int], turns: list[tuple[int, int]]
) -> None:
    """Whoever is when at it: a begun group is done to its end, each task once, and joined only if enough is left."""
    board = Board([0] * (3 * len(sizes) + 1), [range(size) for size in sizes])
    mine: dict[int, list[int]] = {}  # the groups of a process's tasks
    first, last, left = [0] * len(sizes), [0] * len(sizes), list(sizes)
    taken: list[tuple[int, int]] = []
    for process, spent in [*turns, *((who, 5) for who in range(4) for _ in range(40))]:
        done = mine.setdefault(process, [])
        group = done[-1] if done else None
        if group is not None:
            is_first = done[-2:-1] != [group]
            board.note(group, spent, first=is_first)
            if is_first:
                first[group] = first[group] or spent
            else:
                last[group] = spent
        found = board.take(group)
        rests = [n * (late or early or inf) if n else 0 for n, early, late in zip(left, first, last, strict=True)]
        begun = len({group for group, _ in taken})
        if group is not None and left[group]:
            assert found is not None
            assert found[0] == group
        elif begun < len(sizes):
            assert found is not None
            assert found[0] == begun
        elif found is None:
            assert all(rest <= early for rest, early in zip(rests, first, strict=True) if rest == max(rests))
        else:
            assert first[found[0]] < rests[found[0]] == max(rests)
        if found is None:
            done.clear()
            continue
        taken.append(found)
        done.append(found[0])
        left[found[0]] -= 1
    assert sorted(taken) == [(group, task) for group, size in enumerate(sizes) for task in range(size)]


@pytest.mark.parametrize("forks", METHODS)
def test_tasks_are_taken_by_whoever_is_free(forks: bool, tmp_path: Path) -> None:
    """While one process is at a long task the other does all the rest, this process among them."""
    by = dict(shared_out(partial(waits_for_the_others, tmp_path, 20), [range(20)], 2, forks))
    rest = {by[number] for number in range(1, 20)}
    assert len(rest) == 1
    assert by[0] not in rest
    assert os.getpid() in {by[0], *rest}


@pytest.mark.parametrize("forks", METHODS)
@pytest.mark.parametrize("jobs", [1, 3])
def test_an_error_anywhere_is_the_error_of_the_whole(jobs: int, forks: bool) -> None:
    """What a task raises is raised here with its words, and no worker goes on."""
    with pytest.raises(StoreError, match="no room for 3"):
        list(shared_out(fails, [range(10)], jobs, forks))
    _all_ended()


@pytest.mark.parametrize("forks", METHODS)
def test_a_worker_that_was_ended_from_outside_is_told(forks: bool) -> None:
    """A worker that is gone does not hang the command: the error says what to try."""
    with pytest.raises(WorkerError, match="try fewer --jobs"):
        list(shared_out(partial(dies, os.getpid()), [range(50)], 2, forks))
    _all_ended()


def sends_much(parent: int, number: int) -> bytes:
    """End a worker while it sends more than a pipe holds, and the parent is at a task of its own."""
    if os.getpid() == parent:
        time.sleep(0.5)
        return b""
    threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGKILL)).start()
    return b"x" * 10_000_000


def test_a_worker_that_is_ended_within_a_message_is_told() -> None:
    """Half a result is no result and no internal error."""
    with pytest.raises(WorkerError, match="ended from outside"):
        list(shared_out(partial(sends_much, os.getpid()), [range(4)], 2))
    _all_ended()


@pytest.mark.skipif(not FORKS, reason="what is patched here must be seen by the worker")
def test_a_worker_that_ends_with_the_counter_in_hand_hangs_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """The lock of the counter dies with its holder; whoever waits for it finds out."""
    parent, held = os.getpid(), _workers._held

    def holds(begun: Any, workers: Any) -> Any:
        if os.getpid() != parent:
            begun.get_lock().acquire()
            os.kill(os.getpid(), signal.SIGKILL)
        while begun.get_lock().acquire(block=False):  # until the worker holds it
            begun.get_lock().release()
            time.sleep(0.01)
        return held(begun, workers)

    monkeypatch.setattr(_workers, "_held", holds)
    with pytest.raises(WorkerError, match="ended from outside"):
        list(shared_out(square, [range(4)], 2))
    _all_ended()


class Odd(UsageError):
    """An error of a user's own, made with more than its words, that cannot be sent."""

    def __init__(self, one: int, two: int) -> None:
        super().__init__(f"{one} and {two}")
        self.lock = threading.Lock()


def oddly(parent: int, odd: bool, number: int) -> int:
    """Raise in a worker an error of one's own, or what is no error of this package at all."""
    if os.getpid() != parent:
        raise Odd(1, 2) if odd else LookupError("of another kind")
    time.sleep(0.2)
    return number


@pytest.mark.parametrize("forks", METHODS)
@pytest.mark.parametrize(
    ("odd", "kind", "words"), [(True, UsageError, "1 and 2"), (False, RuntimeError, "LookupError: of another kind")]
)
def test_any_error_comes_across(odd: bool, kind: type[Exception], words: str, forks: bool) -> None:
    """An error that cannot be sent arrives as the nearest that can, with its words."""
    with pytest.raises(kind, match=words) as caught:
        list(shared_out(partial(oddly, os.getpid(), odd), [range(50)], 2, forks))
    assert caught.type is kind
    _all_ended()


@pytest.mark.skipif(not FORKS, reason="without forks nothing is spread")
@pytest.mark.parametrize("pieces", [[], [3], list(range(9))])
def test_what_is_spread_comes_back_in_order(pieces: list[int]) -> None:
    """However many processes there are, results are in the order of the pieces, and nobody is left."""
    for jobs in (1, 2, 4):
        spread = spread_over(jobs)
        assert spread.processes == jobs
        assert list(spread.over(lambda piece: piece * piece, pieces)) == [n * n for n in pieces]
    with pytest.raises(StoreError, match="no room for 3"):
        list(spread_over(2).over(fails, [1, 2, 3]))
    _all_ended()


def test_who_stops_listening_stops_the_workers() -> None:
    """A consumer that leaves early leaves no process behind."""
    given = shared_out(where, [range(1000)], 3)
    next(given)
    given.close()
    _all_ended()


def _all_ended() -> None:
    until = time.monotonic() + 10
    while multiprocessing.active_children() and time.monotonic() < until:
        time.sleep(0.01)
    assert not multiprocessing.active_children()
