"""Folds the items of OpenAI's Responses API, which Codex also records, into messages: one a model call."""

from __future__ import annotations

from typing import Any

from compactctl.model import ASSISTANT, TOOL, USER, Message, Origin, Parts, ToolCall, Usage, changed
from compactctl.transcripts._blocks import ROLE_OF, Content, argument_text, as_text, dump

_CALLS = (
    "function_call",
    "custom_tool_call",
    "local_shell_call",
    "tool_search_call",
    "web_search_call",
    "file_search_call",
    "computer_call",
    "image_generation_call",
    "code_interpreter_call",
    "mcp_call",
)
_RESULTS = (
    "function_call_output",
    "custom_tool_call_output",
    "local_shell_call_output",
    "tool_search_output",
    "computer_call_output",
    "mcp_call_output",
)
# Calls that the provider itself answers within the same reply: no result will come for them.
_HOSTED = ("web_search_call", "file_search_call", "image_generation_call", "code_interpreter_call", "mcp_call")
# A tuple: what is asked for may be anything, and not all of it can be looked up in a set.
ITEM_KINDS = (*_CALLS, *_RESULTS, "message", "reasoning")
_HARNESS_TEXTS = (
    "<user_instructions>",
    "<environment_context>",
    "<permissions",
    "# AGENTS.md instructions",
    "<INSTRUCTIONS>",
)


class ItemFold:
    """Collects items in order: what the model says between two answers from outside is one message.

    ``close()`` ends the reply in work where something else tells that the model call is over.
    """

    def __init__(self, messages: list[Message] | None = None) -> None:
        self.messages: list[Message] = [] if messages is None else messages
        self.calls_made = 0
        self.model = ""  # of the replies that begin from here on
        self._content: Content | None = None
        self._timestamp: str | None = None
        self._waiting: Usage | None = None

    def add(self, item: dict[str, Any], timestamp: str | None = None) -> str:
        """Take an item; give an empty string, or the item's kind where it carries nothing."""
        kind = as_text(item.get("type")) or "message"
        if kind == "message":
            role = ROLE_OF.get(as_text(item.get("role")))
            if role is None:
                return f"message/{as_text(item.get('role'))}"
            if role == ASSISTANT:
                self._reply(timestamp).add(item.get("content"))
            else:
                self._spoken(role, item, timestamp)
        elif kind == "reasoning":
            self._reply(timestamp).thinking += _reasoning(item)
        elif kind in _CALLS:
            if kind in _HOSTED:
                self._reply(timestamp).texts.append(dump({"type": kind, "action": item.get("action")}))
            else:
                self._reply(timestamp).calls.append(_call(kind, item))
        elif kind in _RESULTS:
            self._result(item, timestamp)
        elif kind in ("compaction", "compaction_summary", "context_compaction"):
            self.close()
            hidden = len(as_text(item.get("encrypted_content")))
            parts = Parts(thinking_chars=hidden) if hidden else None
            text = as_text(item.get("summary") or item.get("text"))
            self.messages.append(Message(USER, text, timestamp=timestamp, parts=parts, origin=Origin.RECORDED_SUMMARY))
        else:
            return kind
        return ""

    def usage(self, usage: Usage, *, next_call: bool) -> bool:
        """Take the usage of a model call; False where it is that of none which is a reply here.

        It belongs to the reply in work, which is over then; where none is, to the next one if ``next_call`` says that
        this call has begun (some versions write the usage first), otherwise to the last one if that has none yet.
        """
        if self._content is not None or next_call:
            self._waiting = usage
            self.close()
            return True
        last = next((i for i in range(len(self.messages) - 1, -1, -1) if self.messages[i].role == ASSISTANT), None)
        if last is None or self.messages[last].usage is not None:
            return False
        self.messages[last] = changed(self.messages[last], usage=usage)
        return True

    def call_over(self) -> None:
        """End the reply in work, and forget the usage of a call that gave none: it is not that of the next reply."""
        self.close()
        self._waiting = None

    def close(self) -> None:
        """End the reply in work."""
        content, self._content = self._content, None
        if content is None:
            return
        calls: tuple[ToolCall, ...] = tuple(content.calls)
        usage, self._waiting = self._waiting, None
        self.messages.append(
            Message(
                ASSISTANT,
                content.text(),
                calls,
                timestamp=self._timestamp,
                model=self.model,
                usage=usage,
                parts=content.parts(),
            )
        )

    def _reply(self, timestamp: str | None) -> Content:
        if self._content is None:
            self._content = Content()
            self._timestamp = timestamp
            self.calls_made += 1
        return self._content

    def _spoken(self, role: str, item: dict[str, Any], timestamp: str | None) -> None:
        self.close()
        content = Content()
        content.add(item.get("content"))
        text = content.text()
        origin = None
        if role == USER:
            origin = Origin.HARNESS if text.lstrip().startswith(_HARNESS_TEXTS) else Origin.HUMAN
        self.messages.append(Message(role, text, timestamp=timestamp, parts=content.parts(), origin=origin))

    def _result(self, item: dict[str, Any], timestamp: str | None) -> None:
        self.close()
        content = Content()
        content.add(item.get("output", item.get("tools")))
        ident = as_text(item.get("call_id") or item.get("id"))
        text = content.text()
        self.messages.append(Message(TOOL, text, tool_call_id=ident, timestamp=timestamp, parts=content.parts()))


def _reasoning(item: dict[str, Any]) -> int:
    content = Content()
    content.add(item.get("summary"))
    content.add(item.get("content"))
    hidden = item.get("encrypted_content")
    return content.thinking + sum(map(len, content.texts)) + (len(hidden) if isinstance(hidden, str) else 0)


def _call(kind: str, item: dict[str, Any]) -> ToolCall:
    name = as_text(item.get("name")) or kind.removesuffix("_call")
    arguments = next((item[key] for key in ("arguments", "input", "action") if key in item), None)
    return ToolCall(as_text(item.get("call_id") or item.get("id")), name, argument_text(arguments))
