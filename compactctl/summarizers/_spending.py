"""What a run may spend on a model, counted before each try and after it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, TypeVar

from compactctl.model import Usage
from compactctl.summarizers._calls import CallError
from compactctl.summarizers._failure import Failure


@dataclass(frozen=True, slots=True)
class Price:
    """What a model costs, in US dollars for a million tokens."""

    input: float
    output: float

    def of(self, input_tokens: int, output_tokens: int) -> float:
        """Give the cost of so many tokens.

        >>> Price(3.0, 15.0).of(100_000, 2_000)
        0.33
        """
        return round((input_tokens * self.input + output_tokens * self.output) / 1_000_000, 9)


@dataclass(frozen=True, slots=True)
class Caps:
    """The most that a run may spend; None means no cap."""

    calls: int | None = None
    input_tokens: int | None = None
    cost: float | None = None


class Used(Protocol):
    """An answer that may say what it used."""

    @property
    def usage(self) -> Usage | None:
        """The tokens of the answer; None where the server does not say."""


Answer = TypeVar("Answer", bound=Used)


class Spending:
    """The account of one run. All summarizers that may spend the same money share one.

    A request is one call, each try of it: a second one is paid for like the first.
    """

    def __init__(self, caps: Caps, price: Price | None = None) -> None:
        self.caps = caps
        self.price = price
        self.calls = 0
        self.input_tokens = 0
        self.output_tokens = 0
        self._lock = threading.Lock()

    @property
    def cost(self) -> float | None:
        """What was spent so far in US dollars; None where the price is not known."""
        return self.price.of(self.input_tokens, self.output_tokens) if self.price else None

    def charge(self, input_tokens: int, output_tokens: int, ask: Callable[[], Answer]) -> Answer:
        """Make one try on this account: its estimated input, and all the output that it is allowed, are set aside.

        What it really used takes their place where that is known; a try that a server refused cost nothing, one that
        broke off may have cost all. Raises CallError where a cap would be passed, and as ``ask`` does.
        """
        self._begin(input_tokens, output_tokens)
        try:
            answer = ask()
        except CallError as error:
            if error.free:
                self._correct(-input_tokens, -output_tokens)
            raise
        if answer.usage is not None:
            self._correct(answer.usage.prompt - input_tokens, answer.usage.output - output_tokens)
        return answer

    def _begin(self, input_tokens: int, output_tokens: int) -> None:
        with self._lock:
            calls, tokens = self.calls + 1, self.input_tokens + input_tokens
            cost = self.price.of(tokens, self.output_tokens + output_tokens) if self.price else None
            caps = self.caps
            for name, value, cap in (
                ("--max-calls", calls, caps.calls),
                ("--max-input-tokens", tokens, caps.input_tokens),
                ("--max-cost", cost, caps.cost),
            ):
                if cap is not None and value is not None and value > cap:
                    raise CallError(Failure.BUDGET_SPENT, f"the next call would pass {name} {cap:g}")
            self.calls, self.input_tokens = calls, tokens
            self.output_tokens += output_tokens

    def _correct(self, input_tokens: int, output_tokens: int) -> None:
        with self._lock:
            self.input_tokens += input_tokens
            self.output_tokens += output_tokens
