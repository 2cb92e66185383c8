"""Checks of one session's lines: numbering, the start and end of runs, and the arithmetic of records."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from compactctl.context.naming import safe_name
from compactctl.model import AnchorType, CompactionRecord
from compactctl.store.lines import Line
from compactctl.store.problems import Level
from compactctl.store.reader import NOT_A_RECORD
from compactctl.store.writer import DONE, END, START, TURN

Rows = Iterable[tuple[Line, dict[str, Any]]]
Say = Callable[[Level, str, Line | None], None]


@dataclass(slots=True)
class SeenRun:
    """What a session's files hold of one run: its end line, and how many records, turns and memories."""

    started: bool = False
    end: Mapping[str, Any] | None = None
    records: int = 0
    turns: int = 0
    memories: int = 0
    last_turn: int = 0


@dataclass(slots=True)
class Reference:
    """A result file that a record names: what it says of the file, and where it says so."""

    file_path: str
    bytes: int
    lines: int
    sha256: str
    own: bool
    line: Line


@dataclass(slots=True)
class SeenSession:
    """What was read of one session."""

    name: str
    dropped: frozenset[str] = frozenset()
    runs: dict[str, SeenRun] = field(default_factory=dict)
    references: list[Reference] = field(default_factory=list)

    def run(self, row: Mapping[str, Any]) -> SeenRun:
        """Give the run that a line belongs to."""
        return self.runs.setdefault(str(row.get("run") or ""), SeenRun())


def check_turns(seen: SeenSession, rows: Rows, say: Say) -> None:
    """Check the start, turn and end lines of all runs of a session."""
    for line, row in rows:
        run = seen.run(row)
        event, number = row.get("event"), row.get("seq")
        if event == START and not run.started and number == 0:
            run.started = True
            if not _same_session(row, seen.name):
                say(Level.ERROR, "the run is of another session", line)
        elif event == TURN and run.started and run.end is None and number == run.turns + 1:
            run.turns += 1
            if row.get("open_pairs"):
                say(Level.WARNING, "tool calls and results of this turn's view do not belong together", line)
        elif event == END and run.started and run.end is None and number == run.turns + 1:
            run.end = row
        else:
            say(
                Level.ERROR, f"{event!r} with number {number!r} is out of sequence: lines are missing or repeated", line
            )


def check_memories(seen: SeenSession, rows: Rows, say: Say) -> None:
    """Check the numbering of a session's memories."""
    for line, row in rows:
        run = seen.run(row)
        run.memories += 1
        if row.get("seq") != run.memories:
            say(Level.ERROR, f"number {row.get('seq')!r} is out of sequence: lines are missing or repeated", line)


def check_records(seen: SeenSession, rows: Rows, say: Say) -> None:
    """Check the records of a session and collect the result files that they name."""
    for line, row in rows:
        run = seen.run(row)
        own = bool(row.get("run"))
        if own:
            run.records += 1
            if row.get("seq") != run.records:
                say(Level.ERROR, f"number {row.get('seq')!r} is out of sequence: lines are missing or repeated", line)
        try:
            record = CompactionRecord.from_json(row)
        except NOT_A_RECORD as exc:
            say(Level.ERROR, f"not a record ({type(exc).__name__}: {exc})", line)
            continue
        if not _same_session(row, seen.name):
            # harness9 goes on writing under the session that it was started with after another was resumed.
            say(Level.ERROR if own else Level.WARNING, "the record is of another session", line)
        for text in _arithmetic(record):
            say(Level.ERROR, text, line)
        if own and record.turn < run.last_turn:
            say(Level.ERROR, f"turn {record.turn} comes after turn {run.last_turn}", line)
        run.last_turn = max(run.last_turn, record.turn)
        for entry in record.offloaded:
            seen.references.append(Reference(entry.file_path, entry.bytes, entry.lines, entry.sha256, own, line))


def _same_session(row: Mapping[str, Any], name: str) -> bool:
    session = str(row.get("session_id") or "")
    return name in (session, safe_name(session))


def _arithmetic(record: CompactionRecord) -> Iterator[str]:
    counts = {
        "tokens_before": record.tokens_before,
        "tokens_after": record.tokens_after,
        "msgs_before": record.msgs_before,
        "msgs_after": record.msgs_after,
        "summarized": record.summarized,
        "preserved_tail": record.preserved_tail,
        "dropped": record.dropped,
    }
    for name, value in counts.items():
        if value < 0:
            yield f"{name} is {value}, which cannot be"
    ratio = record.tokens_after / record.tokens_before if record.tokens_before else 0.0
    if not math.isclose(record.compression_ratio, ratio, rel_tol=1e-6, abs_tol=1e-9):
        yield f"compression_ratio is {record.compression_ratio}, not {record.tokens_after} / {record.tokens_before}"
    kinds = [anchor.type for anchor in record.anchors]
    if kinds and kinds != list(AnchorType):
        yield f"the anchors are not the five kinds in their order: {', '.join(kinds)}"
    if record.duration is not None and record.duration < 0:
        yield f"duration is {record.duration}, which cannot be"


def check_runs(seen: SeenSession, say: Say, *, shared_records: bool) -> Iterator[str]:
    """Check that each run has its start, and as many lines as its end says; gives the ids of unfinished runs."""
    for run_id, run in seen.runs.items():
        if not run_id:
            continue
        if not run.started:
            # Two state directories may keep their records in one place; the other one knows these runs.
            level = Level.WARNING if shared_records and not run.turns else Level.ERROR
            say(level, f"run {run_id} has no start line", None)
        elif run.end is None:
            yield run_id
        else:
            _check_end(run_id, run, run.end, say)


def _check_end(run_id: str, run: SeenRun, end: Mapping[str, Any], say: Say) -> None:
    if end.get("status") != DONE:
        say(Level.INFO, f"run {run_id} ended as {end.get('status')!r} and does not count", None)
        return
    stored = end.get("stored")
    told = stored if isinstance(stored, Mapping) else {}
    for what, found in (("records", run.records), ("turns", run.turns), ("memories", run.memories)):
        if told.get(what) != found:
            say(Level.ERROR, f"run {run_id} holds {found} {what}, but its end says {told.get(what)}", None)
    failures = told.get("failures")
    if isinstance(failures, Mapping) and any(failures.get(kind) for kind in ("offloads", "memories")):
        say(Level.INFO, f"run {run_id} could not write everything: {failures.get('first')}", None)
