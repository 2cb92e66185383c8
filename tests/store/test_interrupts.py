"""Ctrl-C comes between any two lines of the writer: what is stored stays of one piece."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from compactctl.store import fs, log, open_store, writer
from tests.store.scenes import SCENES, damage, play

Spot = tuple[str, int]
_WATCHED = {module.__file__ for module in (writer, log, fs)}


def watched(act: Callable[[], object], reached: Callable[[Spot], None]) -> None:
    """Do something and be told of each line of the writer just before it runs."""

    def lines(frame: FrameType, event: str, arg: object) -> Any:
        if event == "line":
            reached((frame.f_code.co_filename, frame.f_lineno))
        return lines

    def calls(frame: FrameType, event: str, arg: object) -> Any:
        return lines if frame.f_code.co_filename in _WATCHED else None

    before = sys.gettrace()
    sys.settrace(calls)
    try:
        act()
    finally:
        sys.settrace(before)


def test_an_interrupt_anywhere_in_the_writer_leaves_whole_runs(disk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever line a Ctrl-C hits, the first or the last time, verify finds no damage."""
    monkeypatch.setattr(writer, "_BUFFER", 300)  # so that lines are flushed in between
    seen: list[Spot] = []
    watched(lambda: play(disk / "all", SCENES[0]), seen.append)
    last = {spot: number for number, spot in enumerate(seen)}
    first = {spot: number for number, spot in reversed(list(enumerate(seen)))}
    moments = sorted({*last.values(), *first.values()})
    assert len(moments) > 200

    for number, moment in enumerate(moments):
        left = moment

        def reached(spot: Spot) -> None:
            nonlocal left
            left -= 1
            if left == -1:
                raise KeyboardInterrupt

        root = disk / str(number)
        with suppress(KeyboardInterrupt):
            watched(partial(play, root, SCENES[0]), reached)
        assert left < 0
        found = damage(open_store(root / "state"))
        assert found == [], (seen[moment], found)
