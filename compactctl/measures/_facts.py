"""What the text of a session mentions, as integer ids: found in one pass, shared by every replay of the session.

A reference is a path, a file name, an identifier of 6 characters or more (camel, Pascal or snake case; the names of
errors are such), a URL or a hash. Only ASCII names count, so that they end where CJK text begins.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Sequence
from functools import cached_property, lru_cache
from itertools import accumulate, pairwise
from typing import NamedTuple

from compactctl.measures._spec import Trace
from compactctl.model import Message
from compactctl.ports import ALONE, Spread

LONGEST = 200
_CANDIDATE = re.compile(rf"[\w./@~+-]{{6,{LONGEST}}}", re.ASCII)
_IDENTIFIER = re.compile(r"[A-Za-z_]\w*(?:_[A-Za-z0-9]|[a-z0-9][A-Z])\w*", re.ASCII)
_HASH = re.compile(r"(?=[a-f]*[0-9])(?=[0-9]*[a-f])[0-9a-f]{7,64}")
_FILE = re.compile(r"[\w.+-]*\w\.[A-Za-z]{1,5}\d?", re.ASCII)
_ENDS = ".+-"
# So much text is worth a process that reads it.
_CHARACTERS_WORTH_A_PROCESS = 2_000_000


class Reading(NamedTuple):
    """What some messages mention, found by whoever read them.

    ``of`` are the ids of each message's references, which are places in ``names``. ``candidates`` are the ids of all
    runs of name characters that were met, -1 for those that name nothing.
    """

    candidates: dict[str, int]
    names: list[str]
    of: list[tuple[int, ...]]


class References(dict[str, int]):
    """The ids of references by the text that names them; -1 for text that names nothing. Grows when it is asked."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []
        self._ids: dict[str, int] = {}
        # Lines of made text come again: a summary repeats what the last one said, and so do other replays.
        self._of_line = lru_cache(maxsize=4096)(self.of)

    def __missing__(self, candidate: str) -> int:
        name = reference_in(candidate)
        self[candidate] = found = self._id_of(name) if name else -1
        return found

    def _id_of(self, name: str) -> int:
        found = self._ids.setdefault(name, len(self.names))
        if found == len(self.names):
            self.names.append(name)
        return found

    def of(self, text: str) -> set[int]:
        """Give the ids of the references in a text."""
        return _known(set(map(self.__getitem__, _CANDIDATE.findall(text))))

    def of_made(self, text: str) -> set[int]:
        """Give the same for a text that a replay made."""
        return set().union(*map(self._of_line, text.split("\n")))

    def has_met(self, text: str) -> bool:
        """Whether every run of name characters in a text was met before; without that it cannot have been said."""
        return all(candidate in self for candidate in _CANDIDATE.findall(text)[1:-1])

    def of_message(self, message: Message) -> set[int]:
        """Give the ids of the references in a message's content and in the arguments of its calls."""
        found = self.of(message.content) if message.content else set()
        for call in message.tool_calls:
            found |= self.of(call.arguments)
        return found

    def take(self, reading: Reading) -> list[tuple[int, ...]]:
        """Take over what was read elsewhere; give what each of the messages mentions, by the ids that it has here."""
        ids = list(map(self._id_of, reading.names))
        if ids == list(range(len(ids))):
            self.update(reading.candidates)
            return reading.of
        ids.append(-1)  # where -1 leads
        self.update({candidate: ids[known] for candidate, known in reading.candidates.items()})
        return [tuple([ids[known] for known in mentioned]) for mentioned in reading.of]


def reference_in(candidate: str) -> str:
    """Give the reference that a run of name characters stands for, empty where it is none.

    >>> [reference_in(text) for text in ("src/app.py.", "self.parse_line", "ValueError", "3f2a91bc", "and/or")]
    ['src/app.py', 'parse_line', 'ValueError', '3f2a91bc', '']
    """
    found = candidate.lstrip("+-").rstrip(_ENDS)
    if len(found) < 6:
        return ""
    if "/" in found:
        last = found.rpartition("/")[2]
        deep = found.count("/") > 1 or found[0] in "./~" or "." in last
        return found.removeprefix("./") if deep and any(map(str.isalpha, found)) else ""
    if _HASH.fullmatch(found):
        return found
    name = found.rpartition(".")[2] if "." in found else found
    if len(name) >= 6 and _IDENTIFIER.fullmatch(name):
        return name
    if "." in found and _FILE.fullmatch(found):
        return found
    return found if len(found) >= 6 and _IDENTIFIER.fullmatch(found) else ""


def read(messages: Sequence[Message]) -> Reading:
    """Find what some messages mention."""
    references = References()
    of = [tuple(references.of_message(message)) for message in messages]
    return Reading(dict(references), references.names, of)


class Facts:
    """The references of every message; ``of[i]`` are the ids in message i, each once."""

    def __init__(self, messages: Sequence[Message], spread: Spread = ALONE) -> None:
        self.references = References()
        self.of: list[tuple[int, ...]] = []
        for reading in spread.over(read, _pieces(messages, spread.processes)):
            self.of += self.references.take(reading)
        self._messages = messages

    @cached_property
    def first(self) -> dict[int, int]:
        """The index of the first message that mentions each id."""
        return self._first(lambda message: True)

    @cached_property
    def spoken(self) -> dict[int, int]:
        """The index of the first message that mentions each id and is no tool result."""
        return self._first(lambda message: not message.tool_call_id)

    def _first(self, counts: Callable[[Message], bool]) -> dict[int, int]:
        found: dict[int, int] = {}
        for i in range(len(self.of) - 1, -1, -1):
            if counts(self._messages[i]):
                found.update(dict.fromkeys(self.of[i], i))
        return found


def facts_of(trace: Trace) -> Facts:
    """Give the facts of a session's text; found once for all its replays."""
    messages = trace.base.messages
    key = f"facts {trace.base.offset} {len(messages)}"
    known = trace.shared.get(key)
    if not isinstance(known, Facts):
        known = trace.shared[key] = Facts(messages, trace.spread)
    return known


def _pieces(messages: Sequence[Message], parts: int) -> list[Sequence[Message]]:
    """Cut messages into at most so many runs of about as much text."""
    reached = list(accumulate(len(message.content) for message in messages))
    parts = min(parts, reached[-1] // _CHARACTERS_WORTH_A_PROCESS) if reached else 1
    if parts < 2:
        return [messages]
    cuts = [bisect_right(reached, reached[-1] * part // parts) for part in range(1, parts)]
    return [messages[first:last] for first, last in pairwise([0, *cuts, len(messages)])]


def _known(ids: set[int]) -> set[int]:
    ids.discard(-1)
    return ids
