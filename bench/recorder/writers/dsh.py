"""dsh's session log: a header, then numbered events; those with a surface operation are what the model sees."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..conversation import PROJECT_HOME, Conversation, Line
from ._rows import lines

TOOLS = tuple(
    {"name": name, "description": text, "parameters": {"type": "object", "properties": fields}}
    for name, text, fields in (
        (
            "bash",
            "Run a shell command in the project.",
            {"command": {"type": "string"}, "description": {"type": "string"}},
        ),
        (
            "read_file",
            "Read a text file with line numbers.",
            {"path": {"type": "string"}, "offset": {"type": "integer"}},
        ),
        (
            "grep",
            "Search files for an extended regular expression.",
            {"pattern": {"type": "string"}, "path": {"type": "string"}},
        ),
        (
            "edit_file",
            "Replace a text that occurs exactly once.",
            {"path": {"type": "string"}, "old": {"type": "string"}},
        ),
        ("write_file", "Create or replace a file.", {"path": {"type": "string"}, "content": {"type": "string"}}),
    )
)


def write(conversation: Conversation) -> bytes:
    """Write a conversation as an uncompressed session log."""
    return lines(_Log(conversation).rows())


class _Log:
    def __init__(self, conversation: Conversation) -> None:
        self.conversation = conversation
        self.seq = 0
        self.turn = self.step = 0
        self.provider = {"provider": "deepseek-official", "model": conversation.model}

    def rows(self) -> Iterator[dict[str, Any]]:
        first = self.conversation.lines[0].at
        yield {
            "type": "session",
            "version": 0,
            "id": self.conversation.uuid("session"),
            "createdAt": first,
            "cwd": PROJECT_HOME,
            "delegationDepth": 0,
        }
        for line in self.conversation.lines:
            if line.role == "user":
                if self.turn:
                    yield self._end_step(line.at - 400)
                    yield self._event("turn/end", line.at - 300, {"turn": self.turn, "reason": {"kind": "completed"}})
                self.turn += 1
                self.step = 0
                yield self._event("turn/start", line.at, {"turn": self.turn})
                content = [{"type": "text", "text": line.text}]
                yield self._surface(
                    "user/message", line, {"content": content, "source": {"kind": "user"}, "role": "user"}
                )
                if self.turn == 1:
                    header = {"config": self.provider, "system": self.conversation.system, "tools": list(TOOLS)}
                    yield self._event("request/header", line.at, {"header": header})
                    context = {**self.provider, "contextWindow": self.conversation.window}
                    yield self._event("request/context", line.at, context)
            elif line.role == "assistant":
                if self.step:
                    yield self._end_step(line.at - 600)
                self.step += 1
                yield self._event("step/start", line.at - 500, self._where())
                yield from self._reply(line)
            else:
                block = {
                    "type": "tool-result",
                    "toolCallId": line.call_id,
                    "content": [{"type": "text", "text": line.text}],
                    "isError": line.is_error,
                }
                message = {"source": {"kind": "tool", "callId": line.call_id}, "content": [block], "role": "user"}
                yield self._surface("tool/result", line, {**self._where(), "message": message})
        end = self.conversation.lines[-1].at + 200
        yield self._end_step(end)
        yield self._event("turn/end", end, {"turn": self.turn, "reason": {"kind": "completed"}})

    def _where(self) -> dict[str, int]:
        return {"turn": self.turn, "step": self.step}

    def _end_step(self, at: int) -> dict[str, Any]:
        return self._event("step/end", at, self._where())

    def _event(self, kind: str, at: int, data: dict[str, Any]) -> dict[str, Any]:
        self.seq += 1
        return {"type": kind, "seq": self.seq - 1, "time": at, "data": data}

    def _surface(self, kind: str, line: Line, data: dict[str, Any]) -> dict[str, Any]:
        identifier = self.conversation.uuid(f"message/{self.seq}")
        if "message" in data:
            data = {**data, "message": {**data["message"], "id": identifier}}
        else:
            data = {**data, "id": identifier}
        return {**self._event(kind, line.at, data), "surfaceOp": "append"}

    def _reply(self, line: Line) -> Iterator[dict[str, Any]]:
        content: list[dict[str, Any]] = []
        if line.text:
            content.append({"type": "text", "text": line.text})
            yield self._packed(line)
        content += [
            {"type": "tool-call", "id": call.id, "name": call.name, "arguments": call.arguments_json}
            for call in line.calls
        ]
        message = {"role": "assistant", "content": content, "source": {"kind": "model", **self.provider}}
        data: dict[str, Any] = {**self._where(), "message": message}
        if line.charge:
            fresh = line.charge.prompt - line.charge.cache_read
            data["usage"] = {
                "inputTokens": fresh,
                "cacheReadTokens": line.charge.cache_read,
                "outputTokens": line.charge.output,
            }
        yield self._surface("assistant/message", line, data)
        for call in line.calls:
            call_data = {"callId": call.id, "name": call.name, "arguments": call.arguments_json}
            yield self._event("tool/call", line.at, {**self._where(), **call_data})

    def _packed(self, line: Line) -> dict[str, Any]:
        """The streamed pieces of a text, packed into one row that stands for as many events as it has pieces."""
        words = line.text.split(" ")
        pieces = [" ".join(words[index : index + 12]) for index in range(0, len(words), 12)]
        texts = [pieces[0], *(f" {piece}" for piece in pieces[1:])]
        row = {
            "type": "text-chunks",
            "seq0": self.seq,
            "time0": line.at - 40 * len(texts),
            "data": {**self._where(), "index": 0, "dt": [40] * len(texts), "texts": texts},
        }
        self.seq += len(texts)
        return row
