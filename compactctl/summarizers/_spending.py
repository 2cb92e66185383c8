"""What a run may spend on a model, counted before each call and after it."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from compactctl.model import Usage
from compactctl.summarizers._chat import Chat, Completion, Prompt
from compactctl.summarizers._failure import Failure, failure


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


class Spending:
    """The account of one run. All summarizers that may spend the same money share one."""

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

    def begin(self, input_tokens: int, output_tokens: int) -> None:
        """Take a call of this estimated size into account; raises SummarizerError where a cap would be passed."""
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
                    raise failure(Failure.BUDGET_SPENT, f"the next call would pass {name} {cap:g}")
            self.calls, self.input_tokens = calls, tokens
            self.output_tokens += output_tokens

    def end(self, input_tokens: int, output_tokens: int, usage: Usage | None) -> None:
        """Replace a call's estimate by what it really used, where that is known."""
        if usage is not None:
            with self._lock:
                self.input_tokens += usage.prompt - input_tokens
                self.output_tokens += usage.output - output_tokens


class MeteredChat:
    """A model behind an account and a bound on how many calls run at once."""

    def __init__(self, inner: Chat, spending: Spending, concurrency: int, output_tokens: int) -> None:
        self._inner = inner
        self._spending = spending
        self._slots = threading.BoundedSemaphore(concurrency)
        self._output_tokens = output_tokens

    @property
    def identity(self) -> Mapping[str, Any]:
        """The settings of the model inside."""
        return self._inner.identity

    @property
    def host(self) -> str:
        """Where the model inside is."""
        return self._inner.host

    def complete(self, prompt: Prompt) -> Completion:
        """Ask the model inside, if the account allows it."""
        expected = self._output_tokens or prompt.budget
        with self._slots:
            self._spending.begin(prompt.input_tokens, expected)
            completion = self._inner.complete(prompt)
            self._spending.end(prompt.input_tokens, expected, completion.usage)
            return completion

    def prepare(self) -> None:
        """Make the model inside ready."""
        self._inner.prepare()

    def stop(self) -> None:
        """Stop the model inside."""
        self._inner.stop()
