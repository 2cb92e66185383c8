"""File names for ids that come out of transcripts: a closed alphabet, so that no id is ever a path.

An id is used as it is only where it is plain: 1 to 64 of ``A-Z a-z 0-9 _ -``, not beginning with ``-``, and not a
device name of Windows. Everything else, and every second content under one id, gets a short readable slug and a hash;
``~`` between them keeps the two kinds apart, since no plain id holds it.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, MutableMapping

RESULTS = "tool_results"
SUFFIX = ".txt"

_PLAIN = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]{0,63}")
_HASHED = re.compile(r"[A-Za-z0-9_-]{0,32}~[0-9a-f]{24}")
_DEVICES = frozenset(["con", "prn", "aux", "nul", *(f"{port}{n}" for port in ("com", "lpt") for n in range(10))])


def is_plain(raw: str) -> bool:
    """Say whether an id may be a file name as it is.

    >>> [is_plain(raw) for raw in ("toolu_01Ab", "..", "", "a/b", "-rf", "NUL", "x" * 65)]
    [True, False, False, False, False, False, False]
    """
    return _PLAIN.fullmatch(raw) is not None and raw.casefold() not in _DEVICES


def is_hashed(name: str) -> bool:
    """Say whether a name is a slug and a hash, as ``safe_name`` makes them."""
    return _HASHED.fullmatch(name) is not None


def safe_name(raw: str) -> str:
    """Give the name under which the store keeps a session; the same id always has the same one.

    >>> safe_name("session-1"), safe_name("../../etc")
    ('session-1', 'etc~74ccf3c5b4c19a8167f9a3d1')
    """
    return raw if is_plain(raw) else _hashed(raw, raw.encode("utf-8", "surrogatepass"))


def result_file_name(tool_call_id: str, content: str, taken: Mapping[str, str]) -> str:
    """Give the file name for one tool result of a session.

    ``taken`` maps the names already given in this session, case-folded (two ids that differ in case only are one file
    on some systems), to the text that each holds. The same id with the same text has the same name again; a second
    text under one id gets a name of its own, so that both are kept.

    >>> result_file_name("call_1", "first", {})
    'call_1.txt'
    >>> result_file_name("CALL_1", "second", {"call_1.txt": "first"})
    'CALL_1~6a1f834916cd22e7d47c66b9.txt'
    """
    name = tool_call_id + SUFFIX
    if is_plain(tool_call_id) and taken.get(name.casefold(), content) == content:
        return name
    key = tool_call_id.encode("utf-8", "surrogatepass") + b"\0" + content.encode("utf-8", "surrogatepass")
    return _hashed(tool_call_id, key) + SUFFIX


def result_path(session_id: str, file_name: str) -> str:
    """Give the path of an offloaded result, relative to the state directory, with ``/`` on every system."""
    return f"{RESULTS}/{safe_name(session_id)}/{file_name}"


class ResultNames:
    """The names that the results of one session have got so far.

    ``taken`` maps case-folded names to the text of each; a store hands in one that knows the files of earlier runs.
    ``owned`` maps such names to the texts that they are kept for, whoever asks first: so the names of a session do not
    depend on what a compactor meets first, nor on what it met in an earlier run under other settings.
    """

    def __init__(self, session_id: str, taken: MutableMapping[str, str] | None = None) -> None:
        self.session_id = session_id
        self._taken: MutableMapping[str, str] = {} if taken is None else taken
        self._room = result_path(session_id, "")
        self.owned: Mapping[str, str] = {}

    def path(self, tool_call_id: str, content: str) -> str:
        """Give the path of a result, relative to the state directory, and remember who has its name."""
        name = result_file_name(tool_call_id, content, self._taken)
        if self.owned and self.owned.get(name.casefold(), content) != content:
            name = result_file_name(tool_call_id, content, self.owned)
        self._taken[name.casefold()] = content
        return self._room + name


def _hashed(raw: str, key: bytes) -> str:
    slug = re.sub(r"[^A-Za-z0-9_]+", "-", raw[:200])[:32].strip("-") or "id"
    return f"{slug}~{hashlib.sha256(key).hexdigest()[:24]}"
