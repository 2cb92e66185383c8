"""JSON bytes of any document."""

from __future__ import annotations

import json
import re
from typing import Any

import orjson

# orjson escapes the controls below the space. All else that is not ASCII stands inside a string.
_OTHERS = re.compile("[^\x00-\x7e]+")


def encode(document: Any, *, indent: bool = False) -> bytes:
    """Give JSON bytes that a terminal can be shown: what does not print, direction overrides say, is an escape.

    So are lone surrogates, which orjson refuses.
    """
    try:
        return printable(orjson.dumps(document, option=orjson.OPT_INDENT_2 if indent else 0))
    except TypeError:
        text = json.dumps(document, indent=2 if indent else None, ensure_ascii=True, allow_nan=False)
        return printable(text.encode("ascii"))


def printable(content: bytes) -> bytes:
    r"""Write the characters of JSON that do not print as escapes: the same JSON, and nothing that a terminal obeys.

    >>> printable('"a\u202eb \u4e2d \x7f"'.encode()).decode()
    '"a\\u202eb \u4e2d \\u007f"'
    """
    if content.isascii() and b"\x7f" not in content:
        return content
    return _OTHERS.sub(_escaped, content.decode()).encode()


def _escaped(run: re.Match[str]) -> str:
    return run[0] if run[0].isprintable() else "".join(c if c.isprintable() else _escape(c) for c in run[0])


def _escape(character: str) -> str:
    units = character.encode("utf-16-be").hex()
    return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))
