"""dsh's session files: events, of which some append to or replace parts of a surface (formats.md 3.5, dsh.md 2.10)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from compactctl.errors import EmptyTranscriptError
from compactctl.model import ASSISTANT, USER, Message, Origin, RecordedCompaction, Session, Usage
from compactctl.transcripts._blocks import (
    Content,
    as_text,
    behind_system,
    count_of,
    result_messages,
    system_message,
    time_of,
)
from compactctl.transcripts._lines import Row, Rows
from compactctl.transcripts._spec import FormatSpec, Head, Input, Layout, SideThreadError, collector_paused

_SURFACE = ("user/message", "assistant/message", "tool/result")
_PACKED = ("text-chunks", "reasoning-chunks", "tool-call-chunks")
_OVERFLOW = "CONTEXT_WINDOW_EXCEEDED"


@dataclass(slots=True)
class _Node:
    """A message on the surface, and the number of the event that put it there."""

    seq: int
    messages: tuple[Message, ...]


class _Log:
    """One session while its events are read."""

    def __init__(self) -> None:
        self.header: Row = {}
        self.messages: list[Message] = []  # all that was appended: the session as it was before any compaction
        self.surface: list[_Node] = []  # what the model saw
        self._places: dict[int, int] = {}  # number of an event -> its place on the surface
        self._pruning = False  # whether a pass of prunes is in work
        self._cleared: list[str] = []  # the results that it has shortened
        self.compactions: list[RecordedCompaction] = []
        self.system: Message | None = None
        self.model = ""
        self.window: int | None = None
        self.calls = 0
        self.warnings: list[str] = []
        self._seq = 0
        self._trigger = "pressure"
        self._failure = ""

    def read(self, rows: Rows) -> None:
        for row in rows:
            kind = as_text(row.get("type"))
            if kind == "session" and not self.header:
                self.header = row
                rows.ignore(kind)
                continue
            seq = self._number(kind, row)
            data = row.get("data")
            if seq < (count_of(self.header.get("seedLength")) or 0):
                rows.ignore("parent's seed")
            elif not isinstance(data, dict):
                rows.leave(kind or "no type", row)
            elif kind in _SURFACE:
                self._surface(kind, seq, row, data, rows)
            elif not self._other(kind, data):
                rows.ignore(kind or "no type")
        self._end_pass()

    def _number(self, kind: str, row: Row) -> int:
        """Give the number of an event; a packed row stands for as many as it holds deltas."""
        given = count_of(row.get("seq", row.get("seq0")))
        seq = self._seq if given is None else given
        length = 1
        if kind in _PACKED and isinstance(row.get("data"), dict):
            data = row["data"]
            held = (data.get(key) for key in ("texts", "args", "dt"))
            length = next((len(items) for items in held if isinstance(items, list)), 1)
        self._seq = seq + length
        return seq

    def _surface(self, kind: str, seq: int, row: Row, data: Row, rows: Rows) -> None:
        made = _messages(kind, data, time_of(row.get("time")), self.model)
        op = row.get("surfaceOp")
        node = _Node(seq, made)
        if op == "append" or op is None:
            if made:
                self._end_pass()
            self.messages.extend(made)
            self._places[seq] = len(self.surface)
            self.surface.append(node)
            self.calls += kind == "assistant/message"
        elif isinstance(op, dict) and op.get("op") == "replace" and (span := self._span(op)) is not None:
            if kind == "user/message":
                self._end_pass()
                self._replace(span, node)
                self.compactions.append(replace(self._compaction("full"), replacement=self._seen()))
            else:
                self._replace(span, node)
                if not self._pruning:
                    self._pruning = True
                    self.compactions.append(self._compaction("micro"))
                self._cleared.extend(message.tool_call_id for message in made)
        else:
            self.warnings.append(f"line {rows.line}: a surface operation that does not fit was left out")
            rows.ignore("surfaceOp")

    def _span(self, op: Row) -> range | None:
        """Give the places on the surface that an operation replaces, None where it fits none."""
        first, last = (count_of(op.get(f"{name}Seq", op.get(name))) for name in ("start", "end"))
        if first is None or last is None:
            return None
        start, end = self._places.get(first), self._places.get(last)
        return None if start is None or end is None or start > end else range(start, end + 1)

    def _replace(self, span: range, node: _Node) -> None:
        for gone in self.surface[span.start : span.stop]:
            self._places.pop(gone.seq, None)
        self.surface[span.start : span.stop] = [node]
        # Prunes replace one message each; only a summary moves those behind it.
        moved = self.surface[span.start :] if len(span) > 1 else [node]
        self._places.update((kept.seq, place) for place, kept in enumerate(moved, start=span.start))

    def _seen(self) -> tuple[Message, ...]:
        return tuple(message for node in self.surface for message in node.messages)

    def _compaction(self, kind: str) -> RecordedCompaction:
        return RecordedCompaction(kind, self._trigger, at=len(self.messages), before_model_call=self.calls)

    def _end_pass(self) -> None:
        """Give the compaction of the prunes in work what they left: one pass prunes many results."""
        if self._pruning:
            self.compactions[-1] = replace(self.compactions[-1], replacement=self._seen(), cleared=tuple(self._cleared))
            self._pruning, self._cleared = False, []

    def _other(self, kind: str, data: Row) -> bool:
        """Take an event that carries no message; whether it was of use is the answer."""
        if kind == "request/context":
            self.model = as_text(data.get("model")) or self.model
            self.window = count_of(data.get("contextWindow")) or self.window
        elif kind == "request/header":
            header = data.get("header")
            if self.system is None and isinstance(header, dict):
                self.system = system_message(header.get("system"))
        elif kind == "compaction/start":
            overflow = self._failure == _OVERFLOW
            manual = "turn" in data and data["turn"] is None
            self._trigger = "context-overflow" if overflow else "manual" if manual else "pressure"
        elif kind in ("assistant/chunk", "step/end"):
            self._finish(data)
            return False
        else:
            return kind in ("compaction/summary", "compaction/prune", "compaction/end")
        return True

    def _finish(self, data: Row) -> None:
        chunk = data.get("chunk", data)
        reason = chunk.get("reason") if isinstance(chunk, dict) else None
        if isinstance(reason, dict):
            failure = reason.get("failure")
            self._failure = as_text(failure.get("code")) if isinstance(failure, dict) else ""


def _messages(kind: str, data: Row, timestamp: str | None, model: str) -> tuple[Message, ...]:
    held = data.get("message")
    message: dict[str, Any] = held if isinstance(held, dict) else data
    content = Content()
    content.add(message.get("content"))
    source = message.get("source")
    told: dict[str, Any] = source if isinstance(source, dict) else {}
    if kind == "tool/result":
        return tuple(result_messages(content.results, timestamp))
    if kind == "assistant/message":
        return (
            Message(
                ASSISTANT,
                content.text(""),
                tuple(content.calls),
                timestamp=timestamp,
                model=as_text(told.get("model")) or model,
                usage=_usage(data.get("usage")),
                parts=content.parts(),
            ),
        )
    origin = Origin.HUMAN if told.get("kind", "user") == "user" else Origin.HARNESS
    if "compactionId" in told:
        origin = Origin.RECORDED_SUMMARY
    return (Message(USER, content.text(""), timestamp=timestamp, parts=content.parts(), origin=origin),)


def _usage(usage: Any) -> Usage | None:
    """Read a usage, whose buckets are disjoint: the whole prompt is their sum."""
    if not isinstance(usage, dict):
        return None
    fresh, output = count_of(usage.get("inputTokens")), count_of(usage.get("outputTokens"))
    read, write = count_of(usage.get("cacheReadTokens")), count_of(usage.get("cacheWriteTokens"))
    if fresh is None:
        return None
    return Usage(fresh + (read or 0) + (write or 0), output or 0, read, write)


def _sniff(head: Head) -> int:
    if head.layout is not Layout.LINES:
        return 0
    for row in head.rows:
        if row.get("type") == "session" and "createdAt" in row and "timestamp" not in row:
            return 100
        if row.get("type") in _SURFACE and isinstance(row.get("data"), dict):
            return 90
    return 0


def _parse(source: Input) -> Iterator[Session]:
    log, rows = _Log(), source.rows()
    with collector_paused():
        log.read(rows)
    header = log.header
    if not any(message.role in (USER, ASSISTANT) for message in log.messages):
        raise EmptyTranscriptError(f"{source.label}: a dsh session without any message; name another one")
    if count_of(header.get("delegationDepth")) and not source.side_threads:
        raise SideThreadError(f"{source.label}: the session of a delegated agent; --subagents loads it")
    # The system prompt is recorded with the first request, behind the first prompt.
    messages, compactions = behind_system(log.system, log.messages, log.compactions)
    version = header.get("version", 0)
    if version != 0:
        log.warnings.append(f"version {as_text(version)} of the format was read by the rules of version 0")
    yield Session(
        id=as_text(header.get("id")) or source.session_id(),
        messages=messages,
        format=FORMAT.name,
        path=source.path,
        harness="dsh",
        model=log.model or next((message.model for message in messages if message.model), ""),
        context_window=log.window,
        compactions=compactions,
        lines=rows.counts(),
        input_sha256=source.sha256(),
        parent_id=as_text(header.get("parentSession")),
        warnings=(*log.warnings, *source.damage()),
    )


FORMAT = FormatSpec("dsh", "dsh (DeepSeek harness) session files (JSON lines, zstd or plain)", _sniff, _parse)
