"""Processes that work for a command: they take no signal for themselves and never outlive it."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing.connection import wait

# So often a worker looks whether its parent is still there.
_LOOK_SECONDS = 0.5


def begin_worker() -> None:
    """Make this process a worker: Ctrl-C, which goes to the whole group, is the parent's to handle."""
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


def _watch(sentinel: int, parent: int) -> None:
    """End this process once its parent is gone, even if that was killed; forked siblings may keep its sentinel open."""
    while not wait([sentinel], _LOOK_SECONDS) and os.getppid() == parent:
        pass
    os.kill(os.getpid(), signal.SIGKILL)
