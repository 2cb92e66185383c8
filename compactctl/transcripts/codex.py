"""Codex CLI's rollout files: wrapped items, and the bare ones of old versions (formats.md 3.2)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from compactctl.errors import EmptyTranscriptError
from compactctl.model import ASSISTANT, USER, Message, Origin, RecordedCompaction, Session
from compactctl.transcripts._blocks import as_text, behind_system, count_of, system_message, time_of, usage_of
from compactctl.transcripts._lines import Row, Rows
from compactctl.transcripts._responses import ITEM_KINDS, ItemFold
from compactctl.transcripts._spec import FormatSpec, Head, Input, Layout, SideThreadError, collector_paused

_WRAPPED = ("session_meta", "turn_context", "response_item", "event_msg", "compacted")


class _Rollout:
    """One rollout while it is read."""

    def __init__(self) -> None:
        self.fold = ItemFold()
        self.id = ""
        self.parent = ""
        self.version = ""
        self.model = ""
        self.window: int | None = None
        self.system: Message | None = None
        self.subagent = False
        self.compactions: list[RecordedCompaction] = []
        self.warnings: list[str] = []
        self._metas = 0
        self._total: Any = None
        self._call_begun = False
        self._known: dict[Any, Message] = {}
        self._known_to = 0

    def read(self, rows: Rows) -> None:
        for row in rows:
            kind = row.get("type")
            payload = row.get("payload")
            if isinstance(payload, dict) and isinstance(kind, str):
                if ignored := self._wrapped(kind, payload, time_of(row.get("timestamp")), rows):
                    rows.ignore(ignored)
            elif ignored := self._bare(row):
                rows.leave(ignored, row)
        self.fold.close()

    def _wrapped(self, kind: str, payload: Row, timestamp: str | None, rows: Rows) -> str:
        if kind == "response_item":
            self._call_begun = False
            ignored = self.fold.add(payload, timestamp)
            return f"response_item/{ignored}" if ignored else ""
        if kind == "event_msg":
            return self._event(payload, rows)
        if kind == "compacted":
            self._compacted(payload, timestamp)
            return ""
        if kind == "session_meta":
            self._meta(payload)
        elif kind == "turn_context":
            self.fold.call_over()
            self.model = self.fold.model = as_text(payload.get("model")) or self.model
            self._call_begun = True
        return kind

    def _meta(self, meta: Row) -> None:
        self._metas += 1
        ident = as_text(meta.get("id"))
        if self._metas > 1 and ident != self.id:
            # A fork repeats its parent's lines, the parent's own first line among them.
            self.parent = self.parent or ident
            return
        if self.id:
            return
        self.id = ident
        self.parent = as_text(meta.get("forked_from_id") or meta.get("parent_thread_id"))
        self.version = as_text(meta.get("cli_version"))
        self.subagent = isinstance(meta.get("source"), dict) and "subagent" in meta["source"]
        instructions = meta.get("base_instructions")
        if isinstance(instructions, dict):
            self.system = system_message(instructions.get("text"))

    def _event(self, event: Row, rows: Rows) -> str:
        kind = as_text(event.get("type"))
        if kind == "token_count":
            return self._tokens(event)
        if kind == "task_started":
            self.window = count_of(event.get("model_context_window")) or self.window
        elif kind == "thread_rolled_back":
            self.warnings.append(f"line {rows.line}: the user took turns back; the replay keeps them")
        return f"event_msg/{kind}"

    def _tokens(self, event: Row) -> str:
        info = event.get("info")
        if not isinstance(info, dict):
            return "event_msg/token_count"
        self.window = count_of(info.get("model_context_window")) or self.window
        last, total = info.get("last_token_usage"), info.get("total_token_usage")
        seen = total if total is not None else last
        usage = usage_of(last)
        if seen == self._total or usage is None:
            return "event_msg/token_count"
        self._total = seen
        return "" if self.fold.usage(usage, next_call=self._call_begun) else "event_msg/token_count"

    def _compacted(self, payload: Row, timestamp: str | None) -> None:
        self.fold.call_over()  # the call that wrote the summary is no reply of the session
        history = payload.get("replacement_history")
        if isinstance(history, list):
            replaced = ItemFold()
            for item in history:
                if isinstance(item, dict):
                    replaced.add(item)
            replaced.close()
            replacement = tuple(self._shared(message) for message in replaced.messages)
        else:
            text = as_text(payload.get("message"))
            replacement = (Message(USER, text, timestamp=timestamp, origin=Origin.RECORDED_SUMMARY),) if text else ()
        self.compactions.append(
            RecordedCompaction(
                "full",
                as_text(payload.get("trigger")),
                at=len(self.fold.messages),
                before_model_call=self.fold.calls_made,
                replacement=replacement or None,
            )
        )

    def _shared(self, message: Message) -> Message:
        """Give the message of the session that says the same: hundreds of snapshots repeat most of the history."""
        for known in self.fold.messages[self._known_to :]:
            self._known.setdefault(_said(known), known)
        self._known_to = len(self.fold.messages)
        return self._known.setdefault(_said(message), message)

    def _bare(self, row: Row) -> str:
        """Take a line of an old version: the item itself, without a wrapper."""
        kind = row.get("type")
        if "record_type" in row:
            return f"record_type/{as_text(row['record_type'])}"
        if kind is None and "id" in row and "role" not in row:
            self._metas += 1
            self.id = self.id or as_text(row["id"])
            return "session_meta"
        if kind is None and "role" not in row:
            return "no type"
        return self.fold.add(row, time_of(row.get("timestamp")))


def _said(message: Message) -> tuple[Any, ...]:
    return (message.role, message.content, message.tool_calls, message.tool_call_id, message.parts)


def _sniff(head: Head) -> int:
    if head.layout is not Layout.LINES:
        return 0
    for row in head.rows:
        if row.get("type") in _WRAPPED and isinstance(row.get("payload"), dict):
            return 100
        if "record_type" in row:
            return 90
    first = head.rows[0] if head.rows else {}
    bare_meta = "type" not in first and "role" not in first and "id" in first and "timestamp" in first
    if bare_meta and any(row.get("type") in ITEM_KINDS for row in head.rows[1:]):
        return 90
    return 80 if bare_meta and ("git" in first or "instructions" in first) else 0


def _parse(source: Input) -> Iterator[Session]:
    rollout = _Rollout()
    rows = source.rows()
    with collector_paused():
        rollout.read(rows)
    session = _session(source, rollout, rows)
    yield session


def _session(source: Input, rollout: _Rollout, rows: Rows) -> Session:
    messages = rollout.fold.messages
    if not any(message.role in (USER, ASSISTANT) for message in messages):
        raise EmptyTranscriptError(f"{source.label}: a Codex rollout without any message; name another one")
    if rollout.subagent and not source.side_threads:
        raise SideThreadError(f"{source.label}: the rollout of a subagent; --subagents loads it")
    model = rollout.model
    found, compactions = behind_system(rollout.system, messages, rollout.compactions)
    warnings = [*rollout.warnings, *source.damage()]
    if rollout.parent:
        warnings.append(f"begins with a copy of session {rollout.parent}, whose model calls are counted again here")
    return Session(
        id=rollout.id or source.session_id(),
        messages=found,
        format=FORMAT.name,
        path=source.path,
        harness="codex",
        harness_version=rollout.version,
        model=model,
        context_window=rollout.window or None,
        compactions=compactions,
        lines=rows.counts(),
        input_sha256=source.sha256(),
        parent_id=rollout.parent,
        warnings=tuple(warnings),
    )


FORMAT = FormatSpec("codex", "Codex CLI rollout files (JSON lines)", _sniff, _parse)
