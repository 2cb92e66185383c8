"""What the text mentions does not depend on who read which part of it."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given, strategies as st

from compactctl.measures import _facts
from compactctl.measures._facts import Facts
from compactctl.model import Message, ToolCall
from compactctl.ports import Spread

_WORDS = ("src/app.py", "./src/app.py.", "lib/reader.go", "parse_line", "self.parse_line", "ValueError", "and/or")
_TEXTS = st.lists(st.sampled_from((*_WORDS, "3f2a91bc", "plain", "words_of_it", "")), max_size=6).map(" ".join)


def _message(text: str, said: str) -> Message:
    return Message("assistant", text, (ToolCall("c", "bash", said),))


def _sent(function: Callable[[Any], Any], pieces: Sequence[Any]) -> list[Any]:
    """Do it as another process does: what it gives is sent."""
    return [pickle.loads(pickle.dumps(function(piece))) for piece in pieces]


@given(
    messages=st.lists(st.builds(_message, _TEXTS, _TEXTS), max_size=12),
    processes=st.integers(2, 5),
    worth=st.integers(1, 40),
)
def test_facts_are_the_same_whoever_read_them(messages: list[Message], processes: int, worth: int) -> None:
    """Names, their ids and what each message mentions are those of one reading, however it was shared out."""
    alone = Facts(messages)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_facts, "_CHARACTERS_WORTH_A_PROCESS", worth)
        shared = Facts(messages, Spread(processes, _sent))
    assert shared.references.names == alone.references.names
    assert dict(shared.references) == dict(alone.references)
    assert list(map(sorted, shared.of)) == list(map(sorted, alone.of))
    assert (shared.first, shared.spoken) == (alone.first, alone.spoken)
    for text in (*_WORDS, "new_name is src/other.py here"):
        assert shared.references.of(text) == alone.references.of(text)


def test_little_text_is_not_shared_out() -> None:
    """A process costs more than it brings where there is not much to read; and one reads its part without gaps."""
    pieces: list[int] = []

    def over(function: Callable[[Any], Any], given: Sequence[Any]) -> list[Any]:
        pieces.extend(map(len, given))
        return list(map(function, given))

    Facts([Message("user", "x" * 1000)] * 1000, Spread(8, over))
    Facts([Message("user", "x" * 1000)] * 6000, Spread(8, over))
    Facts([], Spread(8, over))
    assert pieces == [1000, 2000, 2000, 2000, 0]
