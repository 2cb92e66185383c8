"""JSON bytes of any document."""

from __future__ import annotations

import json
from typing import Any

import orjson


def encode(document: Any, *, indent: bool = False) -> bytes:
    """Give JSON bytes; lone surrogates, which orjson refuses, are written as escapes."""
    try:
        return orjson.dumps(document, option=orjson.OPT_INDENT_2 if indent else 0)
    except TypeError:
        return json.dumps(document, indent=2 if indent else None, ensure_ascii=True, allow_nan=False).encode("ascii")
