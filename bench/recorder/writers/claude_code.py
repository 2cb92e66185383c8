"""Claude Code's transcript: one content block a row, usage on every row, and rows that carry no message."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..conversation import PROJECT_HOME, Call, Compaction, Conversation, Line, iso
from ._rows import lines

VERSION = "2.1.17"
_NAMES = {"read_file": "Read", "write_file": "Write", "edit_file": "Edit", "bash": "Bash", "grep": "Grep"}


def write(conversation: Conversation) -> bytes:
    """Write a conversation as Claude Code appends it."""
    return lines(rows(conversation))


def rows(conversation: Conversation) -> Iterator[dict[str, Any]]:
    """The rows of the file, in order."""
    return _Transcript(conversation).rows()


class _Transcript:
    def __init__(self, conversation: Conversation) -> None:
        self.conversation = conversation
        self.session = conversation.uuid("session")
        self.count = 0
        self.replies = 0
        self.parent: str | None = None

    def rows(self) -> Iterator[dict[str, Any]]:
        compactions = {compaction.at: compaction for compaction in self.conversation.compactions}
        first = self.conversation.lines[0].at
        yield self._snapshot(first)
        yield self._row(
            "progress",
            first,
            data={
                "type": "hook_progress",
                "hookEvent": "SessionStart",
                "hookName": "SessionStart:startup",
                "command": "scripts/session-start",
            },
        )
        for index, line in enumerate(self.conversation.lines):
            if index in compactions:
                yield from self._compaction(compactions[index])
            if line.role == "user":
                if index:
                    yield self._row(
                        "system", line.at - 900, subtype="turn_duration", durationMs=41_000 + 37 * index, isMeta=False
                    )
                    yield self._snapshot(line.at)
                yield self._row("user", line.at, message={"role": "user", "content": line.text})
            elif line.role == "assistant":
                yield from self._reply(line)
            elif line.role == "tool":
                yield from self._result(line)

    def _row(self, kind: str, at: int, **fields: Any) -> dict[str, Any]:
        self.count += 1
        row = {
            "parentUuid": self.parent,
            "isSidechain": False,
            "userType": "external",
            "cwd": PROJECT_HOME,
            "sessionId": self.session,
            "version": VERSION,
            "gitBranch": "main",
            "type": kind,
            **fields,
            "uuid": self.conversation.uuid(f"row/{self.count}"),
            "timestamp": iso(at),
        }
        self.parent = row["uuid"]
        return row

    def _snapshot(self, at: int) -> dict[str, Any]:
        message = self.conversation.uuid(f"snapshot/{self.count}")
        return {
            "type": "file-history-snapshot",
            "messageId": message,
            "snapshot": {"messageId": message, "trackedFileBackups": {}, "timestamp": iso(at)},
            "isSnapshotUpdate": False,
        }

    def _reply(self, line: Line) -> Iterator[dict[str, Any]]:
        self.replies += 1
        blocks: list[dict[str, Any]] = []
        if line.thinking:
            blocks.append(
                {
                    "type": "thinking",
                    "thinking": line.thinking,
                    "signature": self.conversation.ident(f"sign/{line.at}", 64) * 4,
                }
            )
        if line.text:
            blocks.append({"type": "text", "text": line.text})
        blocks += [{"type": "tool_use", "id": call.id, **_call(call)} for call in line.calls]
        for index, block in enumerate(blocks):
            last = index == len(blocks) - 1
            # Harnesses differ: a third of the replies has usage that grows from row to row, the rest repeats it.
            output = line.charge.output if line.charge and (last or self.replies % 3) else 3 + index
            message: dict[str, Any] = {
                "model": self.conversation.model,
                "id": f"msg_01{self.conversation.ident(f'message/{self.replies}', 22)}",
                "type": "message",
                "role": "assistant",
                "content": [block],
                "stop_reason": None,
                "stop_sequence": None,
            }
            if line.charge:
                message["usage"] = {
                    "input_tokens": line.charge.prompt - line.charge.cache_read - line.charge.cache_write,
                    "cache_creation_input_tokens": line.charge.cache_write,
                    "cache_read_input_tokens": line.charge.cache_read,
                    "output_tokens": output,
                    "service_tier": "standard",
                }
            request = f"req_011{self.conversation.ident(f'request/{self.replies}', 20)}"
            yield self._row("assistant", line.at - 120 * (len(blocks) - 1 - index), message=message, requestId=request)

    def _result(self, line: Line) -> Iterator[dict[str, Any]]:
        if line.tool == "bash" and len(line.text) > 2_000:
            head = line.text[:160]
            progress = {
                "type": "bash_progress",
                "output": head,
                "fullOutput": head,
                "elapsedTimeSeconds": 2,
                "totalLines": 3,
            }
            yield self._row(
                "progress", line.at - 400, data=progress, parentToolUseID=line.call_id, toolUseID="bash-progress-0"
            )
        block = {"tool_use_id": line.call_id, "type": "tool_result", "content": line.text, "is_error": line.is_error}
        # The raw copy of a result is most of a real file's bytes and nothing that the model sees: only its shape stays.
        copy = {"type": "text", "truncatedCopy": True, "totalLines": line.text.count("\n") + 1}
        yield self._row("user", line.at, message={"role": "user", "content": [block]}, toolUseResult=copy)

    def _compaction(self, compaction: Compaction) -> Iterator[dict[str, Any]]:
        logical, self.parent = self.parent, None
        yield self._row(
            "system",
            compaction.time,
            logicalParentUuid=logical,
            subtype="compact_boundary",
            content="Conversation compacted",
            isMeta=False,
            level="info",
            compactMetadata={"trigger": "auto", "preTokens": compaction.tokens_before},
        )
        message = {"role": "user", "content": compaction.summary}
        yield self._row("user", compaction.time, message=message, isVisibleInTranscriptOnly=True, isCompactSummary=True)


def _call(call: Call) -> dict[str, Any]:
    arguments = dict(call.arguments)
    if "path" in arguments and call.name != "grep":
        arguments = {"file_path": f"{PROJECT_HOME}/{arguments.pop('path')}", **arguments}
    for ours, theirs in (("old", "old_string"), ("new", "new_string")):
        if ours in arguments:
            arguments[theirs] = arguments.pop(ours)
    return {"name": _NAMES[call.name], "input": arguments}
