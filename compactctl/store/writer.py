"""Writing one run of a session: results, records and turns, in the order that survives a crash.

A result is durable before the record that names it, every record before its run ends, and a run counts only when its
end line is there. What could not be written is counted in ``failures`` and never hidden.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass, fields
from typing import Any, Self

from compactctl.context.naming import RESULTS, safe_name
from compactctl.context.offload import DEFAULT_PREVIEW_LINES, DEFAULT_THRESHOLD
from compactctl.errors import StoreError
from compactctl.model import CompactionRecord, changed
from compactctl.store.fs import Dir
from compactctl.store.layout import JSONL, LOCKS, MEMORIES, RECORDS, TURNS, Layout
from compactctl.store.lines import seal
from compactctl.store.locks import SessionLock
from compactctl.store.log import AppendLog, note_length
from compactctl.store.offloader import FileOffloader
from compactctl.store.trash import finish_deletion, sweep_temporaries

START, TURN, END = "start", "turn", "end"
# How every turn line begins, so that one who has no use for the turns can tell them from the others undecoded.
TURN_HEAD = b'{"event":"turn",'
DONE, INCOMPLETE, INTERRUPTED, FAILED = "done", "incomplete", "interrupted", "failed"
RESERVED = frozenset({"event", "run", "seq", "sha", "status", "stored"})

_BUFFER = 1 << 16


@dataclass(slots=True)
class Failures:
    """What a run could not write: results, records, turn lines and memories, and the first reason."""

    offloads: int = 0
    records: int = 0
    turns: int = 0
    memories: int = 0
    first: str = ""

    def count(self, kind: str, reason: BaseException, number: int = 1) -> None:
        """Count failures of a kind and keep the first reason."""
        setattr(self, kind, getattr(self, kind) + number)
        self.first = self.first or str(reason) or type(reason).__name__

    @property
    def total(self) -> int:
        """How many writes failed; the exit status is 5 where it is not 0."""
        return self.offloads + self.records + self.turns + self.memories

    def to_json(self) -> dict[str, Any]:
        """Give the counts as the end line holds them."""
        return {field.name: getattr(self, field.name) for field in fields(self)}


def run_hash(session_id: str, start: Mapping[str, Any]) -> str:
    """Give 16 hex digits for what makes two runs the same: the session, its input and the settings."""
    key = json.dumps([session_id, start.get("input_sha256"), start.get("settings")], sort_keys=True)
    return hashlib.sha256(key.encode()).hexdigest()[:16]


class RunWriter:
    """A run that is being written; made by ``Store.writer``, used as a context manager.

    ``run`` is its id: a hash of input and settings, and a counter. Leaving the block without ``end`` writes an end line
    that says ``interrupted`` or ``failed``; such a run is never counted in a report.
    """

    def __init__(self, layout: Layout, session_id: str, start: Mapping[str, Any], wait: float | None = None) -> None:
        """Lock the session, repair what a crash left and write the start line; raises StoreError, LockedError."""
        self.session_id = session_id
        self.failures = Failures()
        self.records = 0
        self._layout = layout
        self._name = safe_name(session_id)
        self._offloaders: list[FileOffloader] = []
        self._results: Dir | None = None
        self._memories: AppendLog | None = None
        self._memory_count = 0
        self._buffer: list[bytes] = []
        self._buffered = 0
        self._turns = 0
        self._ended = False
        with ExitStack() as stack:
            # The handles stay open for the whole run; leaving the block early closes them in reverse order.
            locks = stack.enter_context(layout.make_room(LOCKS))
            lock = SessionLock.take(locks, self._name, session_id, wait)
            stack.callback(lock.release)
            finish_deletion(layout, self._name)
            sweep_temporaries(layout, self._name)
            self._record_log = self._open_log(stack, RECORDS)
            self._turn_log = self._open_log(stack, TURNS)
            self.run = f"{run_hash(session_id, start)}-{self._next_counter(run_hash(session_id, start))}"
            line = {"event": START, "run": self.run, "seq": 0, **_own(start), "session_id": session_id}
            self._turn_log.append([seal(line)], sync=True)
            self._stack = stack.pop_all()

    def _open_log(self, stack: ExitStack, room: str) -> AppendLog:
        home = stack.enter_context(self._layout.make_room(room))
        log = AppendLog.open(home, self._name + JSONL)
        stack.callback(log.close)
        return log

    def _next_counter(self, prefix: str) -> int:
        """Give the number of the next run with this prefix: records of a run whose turns were lost keep its number."""
        runs = [str(row.get("run")) for row in self._record_log.rows()]
        for row in self._turn_log.rows():
            if row.get("event") != START:
                continue
            if row.get("session_id") != self.session_id:
                raise StoreError(
                    f"{self._turn_log.path!r} holds session {row.get('session_id')!r}, which this system cannot tell "
                    f"from {self.session_id!r}: use another --state-dir"
                )
            runs.append(str(row.get("run")))
        parts = [run.rpartition("-") for run in runs]
        numbers = [int(counter) for head, _, counter in parts if head == prefix and counter.isdecimal()]
        return max(numbers, default=0) + 1

    def offloader(
        self,
        threshold: int = DEFAULT_THRESHOLD,
        preview_lines: int = DEFAULT_PREVIEW_LINES,
        preview_bytes: int | None = None,
    ) -> FileOffloader:
        """Give an offloader that writes to this session's results; raises StoreError where that is not possible."""
        if self._results is None:
            results = self._stack.enter_context(self._layout.make_room(RESULTS))
            self._results = self._stack.enter_context(results.made(self._name))

        def failed(reason: StoreError) -> None:
            self.failures.count("offloads", reason)

        made = FileOffloader(self.session_id, self._results, failed, threshold, preview_lines, preview_bytes)
        self._offloaders.append(made)
        return made

    def append(self, record: CompactionRecord) -> None:
        """Write a record durably, after the files that it names; it gets this run's id, its own and a number.

        Raises StoreError where it could not be written; it is counted by then, so a caller may go on.
        """
        number = self.records + 1
        key = f"{self.session_id}\0{self.run}\0{number}".encode("utf-8", "surrogatepass")
        stamped = changed(
            record,
            id=hashlib.sha256(key).hexdigest()[:32],
            session_id=record.session_id or self.session_id,
            run=self.run,
        )
        try:
            for offloader in self._offloaders:
                offloader.sync()
            self._record_log.append([seal({**stamped.to_json(), "seq": number})], sync=True)
        except StoreError as exc:
            self.failures.count("records", exc)
            raise
        self.records = number

    def turn(self, row: Mapping[str, Any]) -> None:
        """Add a turn line; raises StoreError where lines could not be written (counted by then, as all later ones)."""
        if self.failures.turns:
            self.failures.turns += 1
            return
        line = seal({"event": TURN, "run": self.run, "seq": self._turns + 1, **_own(row)})
        self._turns += 1
        self._buffer.append(line)
        self._buffered += len(line)
        if self._buffered >= _BUFFER:
            self._flush(sync=False)

    def _flush(self, *, sync: bool) -> None:
        lines, self._buffer, self._buffered = self._buffer, [], 0
        try:
            self._turn_log.append(lines, sync=sync)
        except BaseException as exc:
            # None of this run's turn lines was durable yet, so the log has taken all of them back. Later lines without
            # them are of no use and are not tried.
            self.failures.count("turns", exc, max(1, self._turns))
            self._turns = 0
            raise

    def memory(self, row: Mapping[str, Any]) -> None:
        """Add a line to the session's memories, durably; raises StoreError (counted by then)."""
        try:
            if self._memories is None:
                self._memories = self._open_log(self._stack, MEMORIES)
            line = {"run": self.run, "seq": self._memory_count + 1, **_own(row)}
            self._memories.append([seal(line)], sync=True)
        except StoreError as exc:
            self.failures.count("memories", exc)
            raise
        self._memory_count += 1

    def end(self, row: Mapping[str, Any] | None = None) -> None:
        """Write the end line, durably, after everything else; from now on the run counts.

        A run that lost records or turn lines ends as ``incomplete`` and does not count. Raises StoreError where the
        line could not be written.
        """
        self._end(DONE, row or {})

    def _end(self, status: str, row: Mapping[str, Any]) -> None:
        if not self.failures.turns:
            # On its own, so that no end line can be there without the turns before it.
            with suppress(StoreError):
                self._flush(sync=True)
        if status == DONE and (self.failures.records or self.failures.turns):
            status = INCOMPLETE
        line = {
            "event": END,
            "run": self.run,
            "seq": self._turns + 1,
            "status": status,
            **_own(row),
            "stored": {
                "records": self.records,
                "turns": self._turns,
                "memories": self._memory_count,
                "offloads": sum(offloader.written for offloader in self._offloaders),
                "failures": self.failures.to_json(),
            },
        }
        for offloader in self._offloaders:
            offloader.sync()
        self._turn_log.append([seal(line)], sync=True)
        self._ended = True
        note_length(self._turn_log.home, self._turn_log.name)

    def _recount(self) -> None:
        """Take the counts from the files: a signal may have come between a line and its count. Raises StoreError."""
        self._buffer, self._buffered = [], 0
        events = [row.get("event") for row in self._own_rows(self._turn_log)]
        self._turns = events.count(TURN)
        self._ended = END in events
        self.records = sum(1 for _ in self._own_rows(self._record_log))
        if self._memories is not None:
            self._memory_count = sum(1 for _ in self._own_rows(self._memories))

    def _own_rows(self, log: AppendLog) -> Iterator[dict[str, Any]]:
        log.settle()
        return (row for row in log.rows() if row.get("run") == self.run)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *exc: object) -> None:
        with self._stack:
            if kind is not None and not self._ended:
                stopped = issubclass(kind, KeyboardInterrupt)
                with suppress(StoreError):
                    if stopped:
                        self._recount()
                    if not self._ended:
                        self._end(INTERRUPTED if stopped else FAILED, {})


def _own(row: Mapping[str, Any]) -> dict[str, Any]:
    taken = RESERVED & row.keys()
    if taken:
        raise ValueError(f"the store itself sets {', '.join(sorted(taken))}")
    return dict(row)
