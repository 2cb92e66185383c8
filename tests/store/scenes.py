"""Replays into a store that the fault tests crash, and the one judge of what is left."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from compactctl.compactors.progressive import ProgressiveCompactor
from compactctl.context.naming import RESULTS, safe_name
from compactctl.errors import StoreError, SummarizerError
from compactctl.model import CompactionRecord, Message, Tier, ToolCall, changed
from compactctl.ports import SummaryReply, SummaryRequest
from compactctl.replay import replay
from compactctl.store import Failures, Run, Store, open_store
from compactctl.store.fs import Fs
from compactctl.store.problems import Level, Problem
from compactctl.store.verify import verify

Decoys = dict[str, tuple[int, str]]

SUMMARY = """## Anchors
### User Intent
- fix it

### Execution Progress
- read

### Key Decisions
- none

### Tried Solutions
- none

### Next Steps
- go on

## Summary
It went on.
"""


class Fixed:
    """A summarizer that always says the same."""

    def summarize(self, request: SummaryRequest) -> SummaryReply:
        """Give the fixed summary."""
        return SummaryReply(SUMMARY)


class Failing:
    """A summarizer whose server is down."""

    def summarize(self, request: SummaryRequest) -> SummaryReply:
        """Fail."""
        raise SummarizerError("no server")


@dataclass(frozen=True, slots=True)
class Scene:
    """A session to replay into a store."""

    name: str
    session: str
    messages: tuple[Message, ...]
    window: int
    summarizer: Any

    @property
    def start(self) -> dict[str, Any]:
        """What goes into the start line."""
        return {"input_sha256": hashlib.sha256(self.name.encode()).hexdigest(), "settings": {"window": self.window}}


def conversation(turns: int, size: int, ids: str = "call_{}") -> tuple[Message, ...]:
    """Give a conversation in which every turn reads something of ``size`` bytes."""
    messages = [Message("system", "You are an agent."), Message("user", "Fix the bug.")]
    for turn in range(turns):
        call = ids.format(turn)
        messages.append(Message("assistant", f"step {turn}", (ToolCall(call, "read", "{}"),)))
        messages.append(
            Message("tool", f"{turn}\n" + f"line {turn} é\n" * (size // 10), tool_call_id=call, name="read")
        )
    return tuple(messages)


SCENES = (
    Scene("small", "s-1", conversation(4, 4600), 4200, Fixed()),
    # Ids come again, as some providers have it: each content needs a file of its own.
    Scene(
        "many offloads",
        "../many",
        conversation(8, 4100, "../c{}")[:-2] + conversation(2, 4200, "../c{}")[2:],
        9000,
        Fixed(),
    ),
    Scene("summarizer down", "f" * 80, conversation(5, 4300), 5200, Failing()),
)


def play(root: Path, scene: Scene, fs: Fs | None = None, wait: float | None = None) -> Failures:
    """Replay a scene into the store under ``root``, as the command does, and give what could not be written."""
    store = open_store(root / "state", fs=fs)
    with store.writer(scene.session, scene.start, wait) as run:
        compactor = ProgressiveCompactor(
            scene.summarizer, scene.window, offloader=run.offloader(), session_id=scene.session, min_tail_messages=2
        )
        for turn in replay(scene.messages, compactor):
            for record in turn.records:
                if record.tier is not Tier.NONE:
                    with suppress(StoreError):
                        run.append(record)
            with suppress(StoreError):
                run.turn({"turn": turn.turn, "tier": int(turn.record.tier), "tokens": turn.record.tokens_after})
        with suppress(StoreError):
            run.memory({"title": "a fact"})
        run.end({"figures": [1, 2]})
    return run.failures


def last_complete_run(store: Store, session: str) -> Run | None:
    """Give the newest run of a session that a report counts, None where there is none."""
    return next((run for run in reversed(store.runs(session)) if run.complete), None)


@dataclass(frozen=True, slots=True)
class Picture:
    """What a complete run left, without what differs between two runs of the same."""

    records: tuple[CompactionRecord, ...]
    turns: tuple[tuple[tuple[str, Any], ...], ...]
    results: tuple[tuple[str, str], ...]


def picture(store: Store, session: str) -> Picture | None:
    """Give the last complete run of a session, None where there is none."""
    run = last_complete_run(store, session)
    if run is None:
        return None
    records = tuple(changed(record, id="", run="") for record in store.records(session, run))
    turns = tuple(tuple((k, v) for k, v in row.items() if k not in ("run", "sha")) for row in store.turns(session, run))
    home = store.layout.state_dir / RESULTS / safe_name(session)
    found = tree(home).items() if home.is_dir() else ()
    results = tuple(sorted((path, text) for path, (_, text) in found if ".tmp-" not in path))
    return Picture(records, turns, results)


def tree(root: Path) -> dict[str, tuple[int, str]]:
    """Give every path under a directory with its type and mode, and its content (or what a link points to)."""
    return {path: (mode, text) for path, mode, text in _walk(str(root), "")}


def _walk(root: str, under: str) -> Iterator[tuple[str, int, str]]:
    with os.scandir(root) as entries:
        for entry in entries:
            path, mode = f"{under}/{entry.name}", entry.stat(follow_symlinks=False).st_mode
            if entry.is_symlink():
                yield path, mode, str(Path(entry.path).readlink())
            elif entry.is_dir():
                yield path, mode, ""
                yield from _walk(entry.path, path)
            else:
                with open(entry.path, "rb") as file:  # noqa: PTH123 - thousands of times
                    yield path, mode, hashlib.sha256(file.read()).hexdigest()


def plant_decoys(root: Path) -> Decoys:
    """Put files around the state directory that nothing may touch."""
    for path in ("neighbour/a.txt", "tool_results/s-1/x.txt", "many/c0.txt", "compaction_records/s-1.jsonl", "t.jsonl"):
        target = root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text("do not touch")
    return {path: found for path, found in tree(root).items() if not path.startswith("/state")}


def around(root: Path) -> Decoys:
    """Give what lies around the state directory now."""
    return {path: found for path, found in tree(root).items() if not path.startswith("/state")}


def damage(store: Store) -> list[Problem]:
    """Judge a store after a fault: what must never be there (trust.md 4.3, I1 to I4, I6, I14)."""
    return [problem for problem in verify(store).problems if problem.level is not Level.INFO]


def temporaries(root: Path) -> list[str]:
    """Give the half-written files that are left."""
    return [path for path in tree(root) if ".tmp-" in path]
