"""Asking a model without asking in vain: what failed for good, for one request or for all, is not sent again."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from compactctl.errors import SummarizerError
from compactctl.summarizers._chat import Chat, Completion, Prompt, request_key
from compactctl.summarizers._failure import FINAL, LASTING, Failure, failure
from compactctl.summarizers._spending import Spending

T = TypeVar("T")


class Asker:
    """A model, the account that it is asked on, and the memory of what failed; summaries and extraction share one."""

    def __init__(self, chat: Chat, spending: Spending) -> None:
        self.chat = chat
        self.spending = spending
        self._refused: dict[str, str] = {}
        self._final: SummarizerError | None = None

    def ask(self, prompt: Prompt, read: Callable[[Completion], T]) -> T:
        """Give what ``read`` makes of the answer; raises SummarizerError as the model and ``read`` do.

        A request whose answer was unusable is not paid for twice (``repeated``); after a refused key, a spent budget or
        a stop nothing more is sent.
        """
        if self._final is not None:
            raise SummarizerError(str(self._final), self._final.reason)
        key = request_key(self.chat.identity, prompt)
        if key in self._refused:
            raise failure(Failure.REPEATED, f"the same request failed before: {self._refused[key]}")
        try:
            return read(self.chat.complete(prompt, self.spending))
        except SummarizerError as error:
            if error.reason in FINAL:
                self._final = error
            elif error.reason in LASTING:
                self._refused[key] = error.reason
            raise
