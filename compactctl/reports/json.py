"""One JSON object: the root document as it is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from compactctl.reports._json_bytes import encode
from compactctl.reports._spec import ReportSpec


def render(document: Mapping[str, Any]) -> bytes:
    """Give the document, indented, with a newline at the end."""
    return encode(document, indent=True) + b"\n"


REPORT = ReportSpec("json", "one JSON object", render, (".json",))
