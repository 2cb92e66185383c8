"""Reads lists of chat messages as the many harnesses write them (formats.md 3.3, 3.4, 3.9)."""

from __future__ import annotations

from collections import Counter
from typing import Any

from compactctl.model import (
    ASSISTANT,
    TOOL,
    USER,
    Message,
    Origin,
    RecordedCompaction,
    ToolCall,
    changed,
)
from compactctl.transcripts._blocks import (
    ROLE_OF,
    Content,
    argument_text,
    as_text,
    calls_of,
    count_of,
    result_messages,
    time_of,
    usage_of,
)
from compactctl.transcripts._neutral import compaction_of, neutral_message, origin_of
from compactctl.transcripts._responses import ITEM_KINDS, ItemFold


class Chat:
    """A conversation while its rows come in."""

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self.compactions: list[RecordedCompaction] = []
        self.unknown_roles: Counter[str] = Counter()
        self.demonstrations = 0
        self.open = False  # whether items of the Responses API have left a reply in work
        self._fold: ItemFold | None = None
        self._unnamed = 0  # calls of the old kind, which have no id
        self._answered = 0

    def add(self, row: dict[str, Any]) -> str:
        """Take a row; give an empty string, or its kind where it carries no message."""
        message = neutral_message(row)
        if message is not None:
            self.close()
            self.messages.append(message)
            return ""
        if "event" in row and "role" not in row:
            return self._event(row)
        kind = row.get("type")
        if kind in ITEM_KINDS and ("role" not in row or kind == "message"):
            if self._fold is None:
                self._fold = ItemFold(self.messages)
            self.open = True
            return self._fold.add(row, time_of(row.get("timestamp")))
        role = row.get("role")
        if not isinstance(role, str):
            return as_text(kind) or "no role"
        # tau2's simulated user has tools of its own, of which the agent sees nothing.
        if row.get("requestor") == "user" or (role == "user" and row.get("tool_calls") and not row.get("content")):
            return "tool of the simulated user"
        self.close()
        self.demonstrations += row.get("is_demo") is True and role == ASSISTANT
        self._spoken(role, row)
        return ""

    def close(self) -> None:
        """End the reply in work."""
        self.open = False
        if self._fold is not None:
            self._fold.close()

    def charge(self, since: int, usage: Any, model: Any) -> None:
        """Give the last reply among the messages from ``since`` on what its container says, where it says none itself.

        Ends the reply in work.
        """
        self.close()
        for at in range(len(self.messages) - 1, since - 1, -1):
            reply = self.messages[at]
            if reply.role == ASSISTANT:
                told = usage_of(usage) if reply.usage is None else reply.usage
                self.messages[at] = changed(reply, usage=told, model=reply.model or as_text(model))
                return

    def warnings(self) -> list[str]:
        """Give a sentence about each role that is none of the four."""
        told = [
            f"{count} messages of the unknown role {role!r} were kept as user messages"
            for role, count in sorted(self.unknown_roles.items())
        ]
        if self.demonstrations:
            told.append(f"{self.demonstrations} replies of a demonstration are counted as model calls")
        return told

    def _event(self, row: dict[str, Any]) -> str:
        self.close()
        if row["event"] != "recorded_compaction":
            return f"event/{as_text(row['event'])}"
        calls = sum(1 for message in self.messages if message.role == ASSISTANT)
        self.compactions.append(compaction_of(row, self.messages, calls))
        return ""

    def _spoken(self, role: str, row: dict[str, Any]) -> None:
        known = ROLE_OF.get(role.lower())
        if known is None:
            self.unknown_roles[role] += 1
            known = USER
        content = Content()
        content.add(_said(row))
        timestamp = _time(row)
        ident = self._result_id(known, row)
        if ident and known != ASSISTANT:  # harness9 gives results the role of a user
            known = TOOL
        made = result_messages(content.results, timestamp)
        calls = self._calls(row, content) if known == ASSISTANT else ()
        if made and not (content.texts or content.images or calls):
            self.messages.extend(made)
            return
        usage, model = _charged(row) if known == ASSISTANT else (None, "")
        text = content.text()
        self.messages.extend(made)
        self.messages.append(
            Message(
                known,
                text,
                calls,
                tool_call_id=ident if known == TOOL else "",
                name=as_text(row.get("name")),
                is_error=row.get("is_error") is True or row.get("error") is True,
                timestamp=timestamp,
                model=model,
                usage=usage,
                parts=content.parts(),
                origin=self._origin(known, row),
            )
        )

    def _origin(self, role: str, row: dict[str, Any]) -> Origin | None:
        told = row.get("metadata")
        if (isinstance(told, dict) and told.get("kind") == "compaction_summary") or row.get("isSummary") is True:
            calls = sum(1 for message in self.messages if message.role == ASSISTANT)
            before = count_of(told.get("tokensBefore")) if isinstance(told, dict) else None
            self.compactions.append(
                RecordedCompaction("full", "", at=len(self.messages), before_model_call=calls, tokens_before=before)
            )
            return Origin.RECORDED_SUMMARY
        return origin_of(row)

    def _calls(self, row: dict[str, Any], content: Content) -> tuple[ToolCall, ...]:
        held = row.get("message")
        inner: dict[str, Any] = held if isinstance(held, dict) else {}
        calls = calls_of(row.get("tool_calls", inner.get("tool_calls"))) + tuple(content.calls)
        old = row.get("function_call")
        if isinstance(old, dict) and not calls:
            self._unnamed += 1
            name = as_text(old.get("name"))
            return (ToolCall(f"function-{self._unnamed}", name, argument_text(old.get("arguments"))),)
        return calls

    def _result_id(self, role: str, row: dict[str, Any]) -> str:
        ident = row.get("tool_call_id") or row.get("tool_use_id")
        listed = row.get("tool_call_ids")
        if not ident and isinstance(listed, list) and listed:  # SWE-agent: a list of one
            ident = listed[0]
        if not ident and role == TOOL:
            ident = row.get("id")
            if not ident and row.get("role") == "function" and self._answered < self._unnamed:
                self._answered += 1
                ident = f"function-{self._answered}"
        return as_text(ident)


def is_spoken(row: Any) -> bool:
    """Say whether a value is a chat message or an item that a Chat can take."""
    if not isinstance(row, dict):
        return False
    role = row.get("role")
    if isinstance(role, str):
        return any(key in row for key in ("content", "tool_calls", "function_call", "message", "text", "parts"))
    # Reasoning alone proves nothing: other formats have items of that name among messages that no loader reads.
    return row.get("type") in ITEM_KINDS and ("call_id" in row or (row.get("type") == "message" and "content" in row))


def _said(row: dict[str, Any]) -> Any:
    if "content" in row:
        return row["content"]
    held = row.get("message")
    if isinstance(held, dict):
        return held.get("content")
    return next((row[key] for key in ("message", "text", "system_prompt", "parts") if row.get(key) is not None), None)


def _time(row: dict[str, Any]) -> str | None:
    extra = row.get("extra")
    places = (row, extra) if isinstance(extra, dict) else (row,)
    for place in places:
        for key in ("timestamp", "ts", "created_at", "time"):
            if (time := time_of(place.get(key))) is not None:
                return time
    return None


def _charged(row: dict[str, Any]) -> tuple[Any, str]:
    """Find the usage and the model of a reply: in it, or in the response that some harnesses keep beside it."""
    extra = row.get("extra")
    response = extra.get("response") if isinstance(extra, dict) else None
    told: dict[str, Any] = response if isinstance(response, dict) else {}
    usage = usage_of(row.get("usage")) or usage_of(row.get("metrics")) or usage_of(told.get("usage"))
    info = row.get("modelInfo")
    named = info.get("id") if isinstance(info, dict) else None
    return usage, as_text(row.get("model") or named or told.get("model"))
