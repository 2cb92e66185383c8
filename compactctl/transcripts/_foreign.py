"""Knows formats that no loader reads, so that the refusal can say what the file is and how to convert it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from compactctl.transcripts._lines import Row
from compactctl.transcripts._spec import Head, Layout

CONVERT = "convert it to one JSON object a line with role, content, tool_calls and tool_call_id"

# The first bytes of files that are not text.
_MAGICS = (
    (b"PK\x03\x04", "a zip archive (an Inspect .eval log is one)"),
    (b"PAR1", "a Parquet file"),
    (b"BZh", "bzip2 data (unpack it first)"),
    (b"\xfd7zXZ\x00", "xz data (unpack it first)"),
    (b"\xff\xfe", "UTF-16 text (save it as UTF-8 first)"),
    (b"\xfe\xff", "UTF-16 text (save it as UTF-8 first)"),
    (b"%PDF", "a PDF"),
    (b"\x7fELF", "a program"),
)


def of_bytes(start: bytes) -> str:
    """Name what a file that is no JSON is by its first bytes, empty where they say nothing."""
    for magic, name in _MAGICS:
        if start.startswith(magic):
            return name
    if start.startswith((b"\x1f\x8b", b"\x28\xb5\x2f\xfd")):
        return "compressed twice (unpack it once first)"
    return "binary data" if b"\0" in start[:4096].strip(b"\0") else ""


def recognise(head: Head) -> str:
    """Name the foreign format of a head, empty where it is not known."""
    if head.layout is Layout.SQLITE:
        return _database(head)
    if head.layout is Layout.DOCUMENT:
        return _document(head.document)
    return next((name for row in head.rows for name, test in _LINES if test(row)), "")


def _database(head: Head) -> str:
    tables = head.tables
    if {"session", "message", "part"} <= set(tables):
        return "an opencode database"
    if "content_json" in tables.get("messages", ()):
        return "a goose database"
    return "a SQLite database of another program"


def _document(value: Any) -> str:
    if isinstance(value, dict):
        return next((name for name, test in _DOCUMENTS if test(value)), "")
    if isinstance(value, list):
        for item in value[:20]:
            if isinstance(item, dict) and "source" in item and ("action" in item or "observation" in item):
                return "an OpenHands trajectory"
    return ""


def _has(*keys: str) -> Callable[[Row], bool]:
    return lambda row: all(key in row for key in keys)


_DOCUMENTS: tuple[tuple[str, Callable[[Row], bool]], ...] = (
    ("an ATIF trajectory", lambda row: str(row.get("schema_version", "")).startswith("ATIF")),
    ("a Gemini CLI session", _has("projectHash", "messages")),
    ("a LangSmith run", lambda row: "post" in row or "dotted_order" in row),
    ("OpenTelemetry spans", _has("resourceSpans")),
    ("an opencode storage file", lambda row: any(key in row for key in ("sessionID", "messageID", "projectID"))),
    ("the description of a Cline session, not its messages", _has("session_id", "messages_path")),
    ("tau2 results without simulations", _has("info", "tasks")),
    ("an OpenHands state", _has("kind", "agent")),
)

_LINES: tuple[tuple[str, Callable[[Row], bool]], ...] = (
    (
        "the event stream of `codex exec --json`, not a rollout (Codex keeps rollouts under ~/.codex/sessions)",
        lambda row: row.get("type") in ("thread.started", "turn.started", "turn.completed", "item.completed"),
    ),
    ("OpenTelemetry spans", _has("resourceSpans")),
    ("OpenHands events", lambda row: "kind" in row and str(row["kind"]).endswith("Event")),
    ("OpenHands evaluation output", _has("instance_id", "history")),
    ("a pi session", lambda row: row.get("type") == "session" and "timestamp" in row),
    ("a Copilot CLI session", lambda row: str(row.get("type", "")).startswith("session.") and "data" in row),
    ("a Gemini CLI log", lambda row: "$set" in row or "$rewindTo" in row or row.get("type") == "gemini"),
    ("a Grok chat history", lambda row: row.get("type") in ("user", "assistant", "system") and "content" in row),
    *_DOCUMENTS,
)
