"""JSON lines: a line for the root without its sessions, then a line a session."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from compactctl.reports._json_bytes import encode
from compactctl.reports._spec import ReportSpec


def render(document: Mapping[str, Any]) -> bytes:
    """Give the lines."""
    head = {key: value for key, value in document.items() if key != "sessions"}
    return b"".join(encode(row) + b"\n" for row in ({"event": "run", **head}, *document["sessions"]))


REPORT = ReportSpec("jsonl", "a JSON line for the run, then one a session", render, (".jsonl", ".ndjson"))
