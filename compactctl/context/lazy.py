"""Messages that are put together only when someone looks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import overload

from compactctl.model import Message


class LazyMessages(Sequence[Message]):
    """A known number of messages as a sequence that costs nothing until someone looks into it."""

    __slots__ = ("_length", "_listed", "_make")

    def __init__(self, length: int, make: Callable[[], list[Message]]) -> None:
        self._length = length
        self._make = make
        self._listed: list[Message] | None = None

    def _messages(self) -> list[Message]:
        if self._listed is None:
            self._listed = self._make()
        return self._listed

    def __len__(self) -> int:
        return self._length

    @overload
    def __getitem__(self, at: int) -> Message: ...

    @overload
    def __getitem__(self, at: slice) -> list[Message]: ...

    def __getitem__(self, at: int | slice) -> Message | list[Message]:
        return self._messages()[at]

    def __iter__(self) -> Iterator[Message]:
        return iter(self._messages())
