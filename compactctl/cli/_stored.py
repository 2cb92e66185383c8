"""Reading runs out of a state directory: each file once, one session at a time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from compactctl.errors import NothingMatchedError, UsageError
from compactctl.reports._stored import RunLines, StoredSession, stored_session
from compactctl.reports._timeline import Timeline
from compactctl.store import Store
from compactctl.store.layout import RECORDS, TURNS
from compactctl.store.lines import LogCounts
from compactctl.store.trash import written_down
from compactctl.store.writer import DONE, END, START, TURN, TURN_HEAD


@dataclass(frozen=True, slots=True)
class Choice:
    """Which runs of a session are meant: the newest complete one, all complete ones, or one by its id or a prefix."""

    every: bool = False
    run: str | None = None


@dataclass(slots=True)
class Damage:
    """Lines that could not be used, and sessions without a complete run or without any record, for the user."""

    warnings: list[str] = field(default_factory=list)
    incomplete: list[str] = field(default_factory=list)
    without_records: list[str] = field(default_factory=list)

    def count(self, label: str, counts: LogCounts) -> None:
        """Add what one file gave: lines that are damaged, and a torn last line."""
        if counts.bad:
            first = counts.bad[0]
            more = f" and {len(counts.bad) - 1} more" if len(counts.bad) > 1 else ""
            self.warnings.append(f"{label}: line {first.number} is not used ({first.reason}){more}; run `verify`")
        if counts.torn_bytes:
            self.warnings.append(f"{label}: the last line is torn ({counts.torn_bytes:,} bytes) and not used")


def names_of(store: Store, sessions: Sequence[str], *, half_gone: bool = False, also: str = "") -> list[str]:
    """Give the stored names of the sessions asked for (ids or unique beginnings), or of all that the store holds.

    ``half_gone`` also knows sessions whose deletion was begun and not finished; ``also`` ends the message about an
    unknown one. Raises NothingMatchedError where any is unknown, UsageError for the beginning of several.
    """
    store.must_exist()
    held = sorted(store.layout.names() | written_down(store.layout).keys()) if half_gone else store.stored_names()
    if not sessions:
        return held
    known = set(held)
    found: dict[str, None] = {}
    unknown: list[str] = []
    several: list[str] = []
    for session in sessions:
        alike = [name for name in store.layout.resolve(session) if name in known]
        alike = alike or ([session] if session in known else [])
        if not alike and session:
            alike = [name for name in held if name.startswith(session)]
            if len(alike) > 1:
                shown = ", ".join(alike[:5]) + (f" and {len(alike) - 5} more" if len(alike) > 5 else "")
                several.append(f"{session!r} is the beginning of {len(alike)} sessions: {shown}")
                continue
        if not alike:
            unknown.append(repr(session))
        found.update(dict.fromkeys(alike))
    if unknown:
        raise NothingMatchedError(f"{str(store.layout.state_dir)!r} holds no session {', '.join(unknown)}{also}")
    if several:
        raise UsageError("; ".join(several) + also)
    return list(found)


def run_lines(store: Store, name: str, choice: Choice, damage: Damage, *, turns: bool = True) -> Iterator[RunLines]:
    """Give the lines of the chosen runs of a stored session, oldest run first; the turns only where asked for."""
    counts = LogCounts()
    runs = _turn_lines(store, name, counts, turns=turns)
    damage.count(f"{store.layout.room_path(TURNS)}/{name}.jsonl", counts)
    note = written_down(store.layout).get(name)
    for dropped in (note.drop or ()) if note is not None else ():
        runs.pop(dropped, None)
    complete = {run: lines for run, lines in runs.items() if lines.start and lines.end.get("status") == DONE}
    wanted = _chosen(complete, choice)
    records: dict[str, list[Mapping[str, Any]]] = {}
    counts = LogCounts()
    unnamed = choice.every or (not runs if choice.run is None else not choice.run)
    for _, row in store.rows(RECORDS, name, counts):
        run = row.get("run") or ""
        if run in wanted or (unnamed and not run):
            records.setdefault(run, []).append(row)
    damage.count(f"{store.layout.room_path(RECORDS)}/{name}.jsonl", counts)
    if "" in records:
        yield RunLines("", store.session_id(name), records=records[""])
    for run in wanted:
        lines = complete[run]
        lines.records = records.get(run, ())
        yield lines
    if not wanted and "" not in records:
        if runs:
            damage.incomplete.append(name)
        else:
            damage.without_records.append(name)


def read_timeline(store: Store, name: str, run: str) -> Timeline:
    """Give the turns of one run of a stored session, for one that was read without them."""
    lines = _turn_lines(store, name, LogCounts(), turns=True).get(run)
    return Timeline.of(lines.turns if lines is not None else ())


def _turn_lines(store: Store, name: str, counts: LogCounts, *, turns: bool) -> dict[str, RunLines]:
    runs: dict[str, RunLines] = {}
    current: RunLines | None = None
    read: list[Mapping[str, Any]] = []
    for _, row in store.rows(TURNS, name, counts, unread=None if turns else TURN_HEAD):
        event = row["event"]
        if event == TURN:
            if current is not None and row["run"] == current.id:
                read.append(row)
        elif event == START:
            read = []
            current = RunLines(str(row["run"]), str(row.get("session_id") or name), start=row, turns=read)
            runs[current.id] = current
        elif event == END and current is not None and row["run"] == current.id:
            current.end = row
    return runs


def _chosen(complete: Mapping[str, RunLines], choice: Choice) -> list[str]:
    if choice.run is not None:
        return [run for run in complete if choice.run and run.startswith(choice.run)]
    return list(complete) if choice.every else list(complete)[-1:]


def read_sessions(
    store: Store, names: Sequence[str], choice: Choice, damage: Damage, *, text: bool, points: int | None
) -> Iterator[tuple[int, StoredSession]]:
    """Give each chosen run of the named sessions with the place of its session, reading one session at a time."""
    with store.layout.held():
        for place, name in enumerate(names):
            for lines in run_lines(store, name, choice, damage, turns=points is not None):
                stored = stored_session(lines, text=text, points=points)
                if stored.bad_records:
                    damage.warnings.append(f"{name}: {stored.bad_records} lines of its record file are no records")
                yield place, stored
