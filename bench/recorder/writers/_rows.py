"""How all writers put JSON on lines."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any


def compact(value: Any) -> str:
    """One value as JSON without spaces; text stays readable, a lone surrogate becomes an escape as harnesses do."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return "".join(f"\\u{ord(char):04x}" if "\ud800" <= char <= "\udfff" else char for char in text)


def lines(rows: Iterable[Any]) -> bytes:
    """One object a line."""
    return "".join(compact(row) + "\n" for row in rows).encode()
