"""The names that a text mentions: paths, identifiers and error lines, for the list that the stub writes."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

from compactctl.context.fence import one_line

# A result's names stand mostly at its ends; reading all of 62 MB for a list of a hundred names buys nothing.
HEAD_CHARS, TAIL_CHARS = 1200, 600
LONGEST_ERROR = 160

# One linear pass gives candidates; each distinct one is then looked at once for the whole run of the program.
_CANDIDATE = re.compile(r"[\w./:@~+-]{5,120}")
_IDENTIFIER = re.compile(r"[A-Za-z_]\w*(?:_[A-Za-z0-9]|[a-z0-9][A-Z])\w*|(?=[a-f]*\d)[0-9a-f]{7,40}")
_FILE = re.compile(r"[\w.+-]*\w\.(?:[a-z]{1,4}\d?|json|yaml|toml|proto|swift|kotlin|scala|lock)")
_ERROR = re.compile(r"\b\w*(?:Error|Exception)\b\s*[:(]|\b(?:error|fatal|panic)\b\s*[:\[]|\bFAILED\b")
_ERROR_HINTS = ("rror", "xception", "FAILED", "fatal", "panic")


class Refs(NamedTuple):
    """What one message mentions, each once, in order."""

    paths: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    errors: tuple[str, ...] = ()


def references(text: str) -> Refs:
    """Find the paths, identifiers and error lines at both ends of a text.

    >>> references("edit src/app.py: parse_line raised\\nValueError: bad row")
    Refs(paths=('src/app.py',), names=('parse_line', 'ValueError'), errors=('ValueError: bad row',))
    """
    if len(text) > HEAD_CHARS + TAIL_CHARS:
        text = f"{text[:HEAD_CHARS]}\n{text[-TAIL_CHARS:]}"
    paths: list[str] = []
    names: list[str] = []
    for candidate in dict.fromkeys(_CANDIDATE.findall(text)):
        kind, found = _classified(candidate)
        if kind == "path":
            paths.append(found)
        elif kind == "name":
            names.append(found)
    errors: dict[str, None] = {}
    if any(hint in text for hint in _ERROR_HINTS):
        for line in text.split("\n"):
            if any(hint in line for hint in _ERROR_HINTS) and (match := _ERROR.search(line)):
                # The words before the error are mostly a time or a place; keep a few of them.
                errors[one_line(line[max(match.start() - 40, 0) :])[:LONGEST_ERROR]] = None
    return Refs(tuple(dict.fromkeys(paths)), tuple(dict.fromkeys(names)), tuple(errors))


@lru_cache(maxsize=65_536)
def _classified(candidate: str) -> tuple[str, str]:
    found = candidate.lstrip(":+-").rstrip(".:+-")
    if "://" in found:
        return "path", found
    found = found.partition(":")[0]
    if "/" in found:
        whole = found.strip("/") and any(c.isalpha() for c in found) and len(found) >= 5 and "//" not in found
        return ("path" if whole else ""), found
    if _FILE.fullmatch(found):
        return "path", found
    return ("name" if len(found) >= 6 and _IDENTIFIER.fullmatch(found) else ""), found
