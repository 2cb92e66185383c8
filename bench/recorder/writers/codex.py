"""Codex's rollout: wrapped items, every message twice, token counts as events."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from typing import Any

from ..conversation import PROJECT_HOME, Call, Compaction, Conversation, Line, iso
from ._rows import lines

VERSION = "0.98.0"
_SETTING = f"""<environment_context>
  <cwd>{PROJECT_HOME}</cwd>
  <sandbox_mode>workspace-write</sandbox_mode>
  <network_access>restricted</network_access>
  <shell>bash</shell>
</environment_context>"""


def write(conversation: Conversation) -> bytes:
    """Write a conversation as a rollout file."""
    return lines(_Rollout(conversation).rows())


class _Rollout:
    def __init__(self, conversation: Conversation) -> None:
        self.conversation = conversation
        self.at = conversation.lines[0].at
        self.replies = 0
        self.prompt = self.cached = self.output = 0

    def rows(self) -> Iterator[dict[str, Any]]:
        conversation = self.conversation
        compactions = {compaction.at: compaction for compaction in conversation.compactions}
        yield self._row(
            "session_meta",
            {
                "id": conversation.uuid("session"),
                "timestamp": iso(self.at),
                "cwd": PROJECT_HOME,
                "originator": "codex_cli_rs",
                "cli_version": VERSION,
                "source": "cli",
                "model_provider": "openai",
                "base_instructions": {"text": conversation.system},
            },
        )
        yield self._item(_message("user", "input_text", _SETTING))
        turn = 0
        for index, line in enumerate(conversation.lines):
            self.at = line.at
            if index in compactions:
                yield from self._compaction(compactions[index], conversation.lines[:index])
                self.at = line.at
            if line.role == "user":
                turn += 1
                yield self._event("task_started", model_context_window=conversation.window)
                yield self._item(_message("user", "input_text", line.text))
                yield self._event("user_message", message=line.text, images=[])
            elif line.role == "assistant":
                yield self._row(
                    "turn_context",
                    {
                        "turn_id": conversation.uuid(f"turn/{turn}"),
                        "cwd": PROJECT_HOME,
                        "approval_policy": "on-request",
                        "sandbox_policy": {"mode": "workspace-write"},
                        "model": conversation.model,
                        "effort": "medium",
                        "summary": "auto",
                    },
                )
                yield from self._reply(line)
            else:
                yield self._item({"type": _output_kind(line.tool), "call_id": line.call_id, "output": line.text})

    def _row(self, kind: str, payload: dict[str, Any]) -> dict[str, Any]:
        return {"timestamp": iso(self.at), "type": kind, "payload": payload}

    def _item(self, payload: dict[str, Any]) -> dict[str, Any]:
        return self._row("response_item", payload)

    def _event(self, kind: str, **fields: Any) -> dict[str, Any]:
        return self._row("event_msg", {"type": kind, **fields})

    def _reply(self, line: Line) -> Iterator[dict[str, Any]]:
        self.replies += 1
        if line.thinking:
            yield self._event("agent_reasoning", text=line.thinking)
            secret = self.conversation.ident(f"reasoning/{line.at}", 64) * 5
            summary = [{"type": "summary_text", "text": line.thinking}]
            yield self._item({"type": "reasoning", "summary": summary, "content": None, "encrypted_content": secret})
        if line.text:
            yield self._event("agent_message", message=line.text)
            yield self._item(_message("assistant", "output_text", line.text))
        for call in line.calls:
            yield self._item(_call(call))
        if line.charge is None:
            return
        self.prompt += line.charge.prompt
        self.cached += line.charge.cache_read
        self.output += line.charge.output
        info = {
            "total_token_usage": _usage(self.prompt, self.cached, self.output),
            "last_token_usage": _usage(line.charge.prompt, line.charge.cache_read, line.charge.output),
            "model_context_window": self.conversation.window,
        }
        limits = {"primary": {"used_percent": float(self.replies % 40), "window_minutes": 299}, "secondary": None}
        yield self._event("token_count", info=info, rate_limits=limits)
        if self.replies % 9 == 0:  # a refresh of the rate limits repeats the last figures, or has none
            yield self._event("token_count", info=info if self.replies % 2 else None, rate_limits=limits)

    def _compaction(self, compaction: Compaction, before: tuple[Line, ...]) -> Iterator[dict[str, Any]]:
        self.at = compaction.time
        kept = [_message("user", "input_text", line.text) for line in before if line.role == "user"]
        history = [*kept, _message("user", "input_text", compaction.summary)]
        yield self._row(
            "compacted", {"message": compaction.summary, "replacement_history": history, "window_number": 2}
        )
        yield self._event("context_compacted")


def _message(role: str, kind: str, text: str) -> dict[str, Any]:
    return {"type": "message", "role": role, "content": [{"type": kind, "text": text}]}


def _usage(prompt: int, cached: int, output: int) -> dict[str, int]:
    return {
        "input_tokens": prompt,
        "cached_input_tokens": cached,
        "output_tokens": output,
        "reasoning_output_tokens": output // 3,
        "total_tokens": prompt + output,
    }


def _output_kind(tool: str) -> str:
    return "custom_tool_call_output" if tool == "edit_file" else "function_call_output"


def _call(call: Call) -> dict[str, Any]:
    arguments = call.arguments
    if call.name == "edit_file":
        removed = "".join(f"-{line}\n" for line in arguments["old"].split("\n"))
        added = "".join(f"+{line}\n" for line in arguments["new"].split("\n"))
        patch = f"*** Begin Patch\n*** Update File: {arguments['path']}\n@@\n{removed}{added}*** End Patch"
        return {
            "type": "custom_tool_call",
            "status": "completed",
            "call_id": call.id,
            "name": "apply_patch",
            "input": patch,
        }
    if call.name == "bash":
        command = arguments["command"]
    elif call.name == "read_file":
        command = f"nl -ba {shlex.quote(arguments['path'])}"
        if "offset" in arguments:
            command += f" | sed -n '{arguments['offset']},{arguments['offset'] + arguments['limit'] - 1}p'"
    elif call.name == "grep":
        pattern, glob = shlex.quote(arguments["pattern"]), shlex.quote(arguments["glob"])
        command = f"grep -rnE --include={glob} -e {pattern} {arguments['path']}"
    else:
        command = f"cat > {arguments['path']} <<'END'\n{arguments['content']}END"
    text = json.dumps({"command": ["bash", "-lc", command], "workdir": PROJECT_HOME, "timeout_ms": 120000})
    return {"type": "function_call", "name": "shell", "arguments": text, "call_id": call.id}
