"""The names that a text mentions: paths, identifiers and error lines."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

from compactctl.context.fence import one_line

# A result's names stand mostly at its ends; reading all of 62 MB for a list of a hundred names buys nothing.
HEAD_CHARS, TAIL_CHARS = 1200, 600
LONGEST_ERROR, MOST_ERRORS = 160, 4

# One linear pass gives candidates; each distinct one is then looked at once for the whole run of the program.
_CANDIDATE = re.compile(r"[\w./:@~+-]{5,120}")
_IDENTIFIER = re.compile(r"[A-Za-z_]\w*(?:_[A-Za-z0-9]|[a-z0-9][A-Z])\w*|(?=[a-f]*\d)[0-9a-f]{7,40}")
_FILE = re.compile(r"[\w.+-]*\w\.(?:[a-z]{1,4}\d?|json|yaml|toml|proto|swift|kotlin|scala|lock)")
_ERROR = re.compile(r"(?:[Ee]rror|Exception|fatal|panic)\b\s?[:(\[]|FAILED\b")
_ERROR_HINTS = ("rror", "Exception", "FAILED", "fatal", "panic")


class Mentions(NamedTuple):
    """What one message mentions, each once, in order."""

    paths: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    errors: tuple[str, ...] = ()


def mentions(text: str) -> Mentions:
    """Find the paths, identifiers and error lines of a text; of a long one at both its ends.

    >>> mentions("edit src/app.py: parse_line raised\\nValueError: bad row")
    Mentions(paths=('src/app.py',), names=('parse_line', 'ValueError'), errors=('ValueError: bad row',))
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
    at = 0 if any(hint in text for hint in _ERROR_HINTS) else len(text)
    while len(errors) < MOST_ERRORS and (match := _ERROR.search(text, at)):
        end = text.find("\n", match.end())
        at = len(text) if end < 0 else end
        # The words before the error are mostly a time or a place; a few of them are enough.
        start = max(text.rfind("\n", 0, match.start()) + 1, match.start() - 40)
        errors[one_line(text[start:at][: 2 * LONGEST_ERROR])[:LONGEST_ERROR]] = None
    return Mentions(tuple(dict.fromkeys(paths)), tuple(dict.fromkeys(names)), tuple(errors))


def names_in(text: str) -> tuple[str, ...]:
    """Give all paths and identifiers of a whole text, each once, in order.

    >>> names_in("parse_line in src/app.py, see parse_line")
    ('parse_line', 'src/app.py')
    """
    kinds = map(_classified, dict.fromkeys(_CANDIDATE.findall(text)))
    return tuple(dict.fromkeys(found for kind, found in kinds if kind))


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
