"""Claude Code's session files: one JSON object a line, a model's reply over many of them (formats.md 3.1)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from compactctl.errors import EmptyTranscriptError
from compactctl.model import (
    ASSISTANT,
    USER,
    LineCounts,
    Message,
    Origin,
    RecordedCompaction,
    Session,
    ToolCall,
    Usage,
)
from compactctl.transcripts._blocks import Content, as_text, count_of, result_messages, time_of, usage_of
from compactctl.transcripts._lines import Row, Rows
from compactctl.transcripts._spec import FormatSpec, Head, Input, Layout, SideThreadError, collector_paused

_OWN_KINDS = ("file-history-snapshot", "queue-operation", "pr-link", "ai-title", "custom-title", "last-prompt")
# Texts that the harness writes in the user's name, in versions that do not mark the row.
_HARNESS_TEXTS = (
    "<local-command-",
    "<bash-stdout>",
    "<bash-stderr>",
    "<system-reminder>",
    "<task-notification>",
    "[Request interrupted",
)
_COMPACTION_AGENT = "acompact"


class _Reply:
    """One model call while its rows come in: one block a row, and a usage that repeats or grows."""

    __slots__ = ("call_ids", "content", "model", "place", "timestamp", "usage")

    def __init__(self, model: str, timestamp: str | None, place: int) -> None:
        self.place = place
        self.content = Content()
        self.call_ids: set[str] = set()
        self.model = model
        self.timestamp = timestamp
        self.usage: Usage | None = None

    def add(self, message: dict[str, Any]) -> None:
        before = len(self.content.calls)
        self.content.add(message.get("content"))
        for call in self.content.calls[before:]:
            if call.id and call.id in self.call_ids:
                self.content.calls.remove(call)
            self.call_ids.add(call.id)
        usage = usage_of(message.get("usage"))
        if usage and (self.usage is None or usage.output >= self.usage.output):
            self.usage = usage

    def message(self) -> Message:
        calls: tuple[ToolCall, ...] = tuple(self.content.calls)
        return Message(
            ASSISTANT,
            self.content.text(),
            calls,
            timestamp=self.timestamp,
            model=self.model,
            usage=self.usage,
            parts=self.content.parts(),
        )


class _Thread:
    """The messages of one thread: the main one, or that of a subagent."""

    def __init__(self) -> None:
        self.messages: list[Message | _Reply] = []
        self.replies: dict[str, _Reply] = {}
        self.compactions: list[RecordedCompaction] = []
        self.kept: dict[int, tuple[str, ...]] = {}  # compaction -> uuids of the messages that it preserved
        self.places: dict[str, tuple[int, int]] = {}  # uuid -> its messages
        self.ids: Counter[str] = Counter()
        self.version = ""
        self.rows = 0

    def user(self, row: Row, message: dict[str, Any]) -> tuple[int, int]:
        """Take a row of a user; give the places of its messages."""
        timestamp = time_of(row.get("timestamp"))
        content = Content()
        content.add(message.get("content"))
        made = result_messages(content.results, timestamp)
        if content.texts or content.images or not made:
            text = content.text()
            origin = _origin(row, text)
            made.append(Message(USER, text, timestamp=timestamp, parts=content.parts(), origin=origin))
        start = len(self.messages)
        self.messages.extend(made)
        return start, len(self.messages)

    def assistant(self, row: Row, message: dict[str, Any], line: int) -> tuple[int, int]:
        """Take a row of a reply; give the place of its message."""
        key = as_text(message.get("id")) or as_text(row.get("uuid")) or f"line {line}"
        reply = self.replies.get(key)
        if reply is None:
            reply = _Reply(as_text(message.get("model")), time_of(row.get("timestamp")), len(self.messages))
            self.replies[key] = reply
            self.messages.append(reply)
        reply.add(message)
        return reply.place, reply.place + 1

    def full(self, row: Row) -> None:
        meta = row.get("compactMetadata")
        held: dict[str, Any] = meta if isinstance(meta, dict) else {}
        self._compaction("full", held, count_of(held.get("postTokens")))
        kept = held.get("preservedMessages")
        if isinstance(kept, dict) and isinstance(kept.get("uuids"), list):
            self.kept[len(self.compactions) - 1] = tuple(as_text(uuid) for uuid in kept["uuids"])

    def micro(self, row: Row) -> None:
        meta = row.get("microcompactMetadata")
        held: dict[str, Any] = meta if isinstance(meta, dict) else {}
        before, saved = count_of(held.get("preTokens")), count_of(held.get("tokensSaved"))
        after = before - saved if before is not None and saved is not None and saved <= before else None
        cleared = held.get("compactedToolIds")
        ids = tuple(as_text(ident) for ident in cleared) if isinstance(cleared, list) else ()
        self._compaction("micro", held, after, ids)

    def _compaction(self, kind: str, held: dict[str, Any], after: int | None, cleared: tuple[str, ...] = ()) -> None:
        self.compactions.append(
            RecordedCompaction(
                kind,
                as_text(held.get("trigger")),
                at=len(self.messages),
                before_model_call=len(self.replies),
                tokens_before=count_of(held.get("preTokens")),
                tokens_after=after,
                cleared=cleared,
            )
        )

    def finish(self) -> tuple[tuple[Message, ...], tuple[RecordedCompaction, ...]]:
        messages = tuple(item.message() if isinstance(item, _Reply) else item for item in self.messages)
        compactions = [self._with_kept(number, item, messages) for number, item in enumerate(self.compactions)]
        return messages, tuple(compactions)

    def _with_kept(
        self, number: int, compaction: RecordedCompaction, messages: tuple[Message, ...]
    ) -> RecordedCompaction:
        """Put the messages that a compaction preserved behind its summary, which is how the harness went on."""
        places = [self.places[uuid] for uuid in self.kept.get(number, ()) if uuid in self.places]
        if not places:
            return compaction
        at = compaction.at
        summary = messages[at : at + 1] if messages[at : at + 1] and _is_summary(messages[at]) else ()
        chosen = sorted({index for start, stop in places for index in range(start, stop) if index < at})
        kept = tuple(messages[index] for index in chosen)
        return replace(compaction, at=at + len(summary), replacement=summary + kept)


def _is_summary(message: Message) -> bool:
    return message.origin is Origin.RECORDED_SUMMARY


def _origin(row: Row, text: str) -> Origin:
    if row.get("isCompactSummary") is True:
        return Origin.RECORDED_SUMMARY
    told = row.get("origin")
    kind = told.get("kind") if isinstance(told, dict) else None
    if row.get("isMeta") is True or (isinstance(kind, str) and kind != "human") or text.startswith(_HARNESS_TEXTS):
        return Origin.HARNESS
    return Origin.HUMAN


def _sniff(head: Head) -> int:
    if head.layout is not Layout.LINES:
        return 0
    for row in head.rows:
        message = row.get("message")
        spoken = isinstance(message, dict) and "role" in message
        if spoken and row.get("type") in ("user", "assistant") and ("sessionId" in row or "uuid" in row):
            return 100
        if spoken and "sessionId" in row and "payload" not in row:
            return 90
        if row.get("type") == "summary" and "leafUuid" in row:
            return 80
        if row.get("type") in _OWN_KINDS and "payload" not in row:
            return 70
        if "parentUuid" in row and "sessionId" in row:
            return 90
    return 0


class _File:
    """One file while it is read: its threads, and which rows were seen."""

    def __init__(self, rows: Rows, side_threads: bool) -> None:
        self.rows = rows
        self.side_threads = side_threads
        self.main = _Thread()
        self.side: dict[str, _Thread] = {}
        self.seen: set[str] = set()
        self.thread_of: dict[str, str] = {}
        self.side_rows = 0

    def read(self) -> None:
        for row in self.rows:
            self._row(row)

    def _row(self, row: Row) -> None:
        rows = self.rows
        message = row.get("message")
        kind = row.get("type")
        if kind is None and isinstance(message, dict):
            kind = message.get("role")
        uuid = as_text(row.get("uuid"))
        if uuid:
            if uuid in self.seen:
                rows.ignore("repeated uuid")
                return
            self.seen.add(uuid)
        if kind == "system" and not isinstance(message, dict):
            self._system(row)
            return
        queued = _queued(row) if kind == "attachment" else None
        if queued is not None:
            kind, message = USER, queued
        if kind not in (USER, ASSISTANT) or not isinstance(message, dict):
            rows.ignore(kind if isinstance(kind, str) else "no type")
            return
        thread = self._thread(row, uuid)
        if thread is None:
            return
        if message.get("model") == "<synthetic>":
            rows.ignore("synthetic")
            return
        place = thread.assistant(row, message, rows.line) if kind == ASSISTANT else thread.user(row, message)
        if uuid:
            thread.places[uuid] = place
        thread.rows += 1
        session = row.get("sessionId")
        if isinstance(session, str) and session:
            thread.ids[session] += 1
        version = row.get("version")
        if isinstance(version, str):
            thread.version = version

    def _system(self, row: Row) -> None:
        subtype = row.get("subtype")
        if row.get("isSidechain") is not True:
            if subtype == "compact_boundary":
                self.main.full(row)
                return
            if subtype == "microcompact_boundary":
                self.main.micro(row)
                return
        self.rows.ignore(f"system/{subtype}" if isinstance(subtype, str) else "system")

    def _thread(self, row: Row, uuid: str) -> _Thread | None:
        if row.get("isSidechain") is not True:
            return self.main
        agent = as_text(row.get("agentId"))
        if agent.startswith(_COMPACTION_AGENT):
            self.rows.ignore("compaction agent")
            return None
        self.side_rows += 1
        if not self.side_threads:
            self.rows.ignore("side thread")
            return None
        # Older versions give the threads no name: what hangs together by parentUuid is one.
        name = agent or self.thread_of.get(as_text(row.get("parentUuid"))) or uuid
        self.thread_of[uuid] = name
        return self.side.setdefault(name, _Thread())


def _queued(row: Row) -> dict[str, Any] | None:
    """A prompt that was typed while the model worked reaches it as an attachment."""
    attachment = row.get("attachment")
    if isinstance(attachment, dict) and attachment.get("type") == "queued_command" and "prompt" in attachment:
        return {"role": USER, "content": attachment["prompt"]}
    return None


def _parse(source: Input) -> Iterator[Session]:
    file = _File(source.rows(), source.side_threads)
    with collector_paused():
        file.read()
        sessions = list(_sessions(source, file))
    yield from sessions


def _sessions(source: Input, file: _File) -> Iterator[Session]:
    lines = file.rows.counts()
    threads = [("", file.main, lines)] if file.main.messages else []
    for name, thread in file.side.items():
        threads.append((name, thread, LineCounts(total=thread.rows, used=thread.rows)))
    if not threads:
        if file.side_rows:
            raise SideThreadError(f"{source.label}: only the thread of a subagent; --subagents loads it")
        raise EmptyTranscriptError(f"{source.label}: a Claude Code file without any message; name another one")
    for name, thread, counts in threads:
        messages, compactions = thread.finish()
        own = thread.ids.most_common(1)[0][0] if thread.ids else source.session_id()
        warnings = [*source.damage()]
        if len(thread.ids) > 1:
            warnings.append(f"holds rows of {len(thread.ids)} session ids; they were read as one session")
        models = Counter(message.model for message in messages if message.model)
        yield Session(
            id=f"{own}-{name}" if name else own,
            messages=messages,
            format=FORMAT.name,
            path=source.path,
            harness="claude-code",
            harness_version=thread.version,
            model=models.most_common(1)[0][0] if models else "",
            compactions=compactions,
            lines=counts,
            input_sha256=source.sha256(),
            parent_id=own if name else "",
            warnings=tuple(warnings),
        )


FORMAT = FormatSpec("claude-code", "Claude Code session files (JSON lines)", _sniff, _parse)
