"""Reads the small things that all formats share: content blocks, arguments, usage, times."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import orjson

from compactctl.model import (
    ASSISTANT,
    SYSTEM,
    TOOL,
    USER,
    Message,
    Parts,
    RecordedCompaction,
    ToolCall,
    Usage,
)

ROLE_OF = {
    "system": SYSTEM,
    "developer": SYSTEM,
    "user": USER,
    "human": USER,
    "assistant": ASSISTANT,
    "ai": ASSISTANT,
    "model": ASSISTANT,
    "gpt": ASSISTANT,
    "tool": TOOL,
    "function": TOOL,
}
_TEXT = ("text", "input_text", "output_text", "summary_text", "refusal")
_IMAGES = ("image", "input_image", "image_url", "output_image")
_THINKING = ("thinking", "redacted_thinking", "reasoning")
_LARGEST = 2**53


class Content:
    """A message's content while its blocks are read: texts, calls, results, images, thinking."""

    __slots__ = ("calls", "image_bytes", "images", "results", "texts", "thinking")

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.calls: list[ToolCall] = []
        self.results: list[dict[str, Any]] = []
        self.images = 0
        self.image_bytes = 0
        self.thinking = 0

    def add(self, content: Any) -> None:
        """Take a content of any shape: text, blocks, one block, nothing."""
        if isinstance(content, str):
            self.texts.append(content)
        elif isinstance(content, list):
            for block in content:
                self._block(block)
        elif isinstance(content, dict):
            self._block(content)
        elif content is not None:
            self.texts.append(dump(content))

    def text(self, join: str = "\n") -> str:
        """Give the texts as one."""
        return self.texts[0] if len(self.texts) == 1 else join.join(self.texts)

    def parts(self) -> Parts | None:
        """Give what is beside the text, None where there is nothing."""
        texts = tuple(self.texts) if len(self.texts) > 1 else ()
        if texts or self.images or self.thinking:
            return Parts(texts, self.images, self.image_bytes, self.thinking)
        return None

    def _block(self, block: Any) -> None:
        if isinstance(block, str):
            self.texts.append(block)
            return
        if not isinstance(block, dict):
            self.texts.append(dump(block))
            return
        kind = block.get("type")
        if kind in _TEXT:
            self.texts.append(as_text(block.get("text", block.get("refusal"))))
        elif kind in ("tool_use", "server_tool_use", "tool-call", "mcp_tool_use"):
            arguments = block.get("input", block.get("arguments"))
            self.calls.append(ToolCall(as_text(block.get("id")), as_text(block.get("name")), argument_text(arguments)))
        elif kind == "tool_result" or kind == "tool-result":
            self.results.append(block)
        elif kind in _IMAGES:
            self.images += 1
            self.image_bytes += _image_bytes(block)
        elif kind in _THINKING:
            said = block.get("thinking") or block.get("text") or block.get("data") or block.get("content")
            self.thinking += len(said) if isinstance(said, str) else 0
        elif kind == "encrypted_content":
            self.thinking += len(as_text(block.get("encrypted_content")))
        elif kind in ("document", "input_file", "file", "input_audio"):
            self._file(block)
        else:
            self.texts.append(dump(block))

    def _file(self, block: dict[str, Any]) -> None:
        source = block.get("source")
        held = source if isinstance(source, dict) else block
        if held.get("type") == "text" or isinstance(held.get("content"), str):
            self.texts.append(as_text(held.get("data", held.get("content"))))
        else:  # a picture to the model, whatever its kind: never text
            self.images += 1
            self.image_bytes += _image_bytes(block)


def as_text(value: Any) -> str:
    """Give a string as it is, nothing as an empty one, anything else as JSON."""
    if isinstance(value, str):
        return value
    return "" if value is None else dump(value)


def dump(value: Any) -> str:
    """Write a decoded value as compact JSON; its depth was bounded when it was read."""
    try:
        return orjson.dumps(value).decode()
    except TypeError:  # an integer beyond 64 bits, which only the decoder for damaged lines lets through
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def argument_text(value: Any) -> str:
    """Give a call's arguments as JSON text; text is kept as it was recorded, even where it is no JSON."""
    if isinstance(value, str):
        return value
    return "{}" if value is None else dump(value)


def call_of(call: Any) -> ToolCall | None:
    """Read a call as OpenAI ({id, function: {name, arguments}}) or harness9 ({id, name, arguments}) write it."""
    if not isinstance(call, dict):
        return None
    held = call.get("function")
    inner = held if isinstance(held, dict) else call
    name = held if isinstance(held, str) else inner.get("name")
    ident = as_text(call.get("id") or call.get("tool_call_id"))
    return ToolCall(ident, as_text(name), argument_text(inner.get("arguments", inner.get("args"))))


def calls_of(calls: Any) -> tuple[ToolCall, ...]:
    """Read a list of calls; anything else gives none."""
    if not isinstance(calls, list):
        return ()
    return tuple(made for call in calls if (made := call_of(call)) is not None)


def count_of(value: Any) -> int | None:
    """Give a token count, None for what cannot be one (trust.md P15)."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    if not 0 <= value <= _LARGEST or value != int(value):
        return None
    return int(value)


def usage_of(usage: Any) -> Usage | None:
    """Read a usage of any provider; ``prompt`` is always the whole prompt (formats.md section 2).

    Anthropic counts the cached parts beside ``input_tokens``, OpenAI within them. Nothing and all zeros give None.
    """
    if not isinstance(usage, dict):
        return None
    get = usage.get
    inner = get("prompt_tokens_details") or get("input_tokens_details")
    details = inner if isinstance(inner, dict) else {}
    output = _first(usage, "output", "output_tokens", "completion_tokens", "completion", "outputTokens")
    read = _first(usage, "cache_read", "cache_read_input_tokens", "cached_input_tokens", "cacheReadTokens")
    if read is None:
        read = count_of(details.get("cached_tokens"))
    write = _first(usage, "cache_write", "cache_creation_input_tokens", "cache_write_input_tokens", "cacheWriteTokens")
    prompt = _first(usage, "prompt", "prompt_tokens", "input_tokens", "inputTokens")
    anthropic = "cache_read_input_tokens" in usage or "cache_creation_input_tokens" in usage
    if anthropic and "prompt_tokens" not in usage and prompt is not None:
        prompt += (read or 0) + (write or 0)
    if prompt is None or (prompt == 0 and not output):
        return None
    return Usage(prompt, output or 0, read, write)


def time_of(value: Any) -> str | None:
    """Give a time as the transcript wrote it; numbers (seconds or milliseconds of the Unix epoch) become RFC 3339.

    >>> time_of(1700000000000), time_of("2026-01-01T00:00:00Z")
    ('2023-11-14T22:13:20.000Z', '2026-01-01T00:00:00Z')
    """
    if isinstance(value, str):
        return value or None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or value <= 0:
        return None
    try:
        seconds = value / 1000 if value > 1e11 else value
        moment = datetime.fromtimestamp(seconds, UTC)
    except (OverflowError, ValueError, OSError):
        return None
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def result_messages(results: Iterable[dict[str, Any]], timestamp: str | None) -> list[Message]:
    """Make one message of role tool of each tool result block, in their order."""
    made = []
    for block in results:
        content = Content()
        content.add(block.get("content"))
        ident = as_text(block.get("tool_use_id") or block.get("toolCallId") or block.get("tool_call_id"))
        failed = block.get("is_error") is True or block.get("isError") is True
        name = as_text(block.get("name"))
        made.append(
            Message(
                TOOL,
                content.text(),
                tool_call_id=ident,
                name=name,
                is_error=failed,
                timestamp=timestamp,
                parts=content.parts(),
            )
        )
    return made


def system_message(text: Any) -> Message | None:
    """Make the system message of recorded instructions, None where there are none."""
    content = Content()
    content.add(text)
    said = content.text()
    return Message(SYSTEM, said, parts=content.parts()) if said else None


def behind_system(
    system: Message | None, messages: list[Message], compactions: list[RecordedCompaction]
) -> tuple[tuple[Message, ...], tuple[RecordedCompaction, ...]]:
    """Put a system message that was recorded elsewhere in front of a session and of what its compactions kept."""
    if system is None:
        return tuple(messages), tuple(compactions)
    moved = (
        replace(item, at=item.at + 1, replacement=None if item.replacement is None else (system, *item.replacement))
        for item in compactions
    )
    return (system, *messages), tuple(moved)


def _first(usage: dict[str, Any], *names: str) -> int | None:
    return next((count for name in names if (count := count_of(usage.get(name))) is not None), None)


def _image_bytes(block: dict[str, Any]) -> int:
    """Give the decoded size of an image's base64, 0 where it lies elsewhere."""
    source = block.get("source")
    held = source.get("data") if isinstance(source, dict) else None
    if held is None:
        url = block.get("image_url") or block.get("file_data") or block.get("data")
        held = url.get("url") if isinstance(url, dict) else url
    if not isinstance(held, str):
        return 0
    if held.startswith("data:"):
        held = held[held.find(",") + 1 :]
    elif held.startswith(("http:", "https:", "file:")):
        return 0
    return len(held) * 3 // 4
