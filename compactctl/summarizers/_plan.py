"""What a replay would ask of a model, shown before the first call: calls, tokens, cost and where it goes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from compactctl.ports import SummaryReply, SummaryRequest
from compactctl.summarizers._cassette import CassetteChat
from compactctl.summarizers._chat import request_key
from compactctl.summarizers._model import ModelSummarizer
from compactctl.summarizers.opaque import OpaqueSummarizer


@dataclass(frozen=True, slots=True)
class Plan:
    """An estimate. Tokens are four bytes each; ``cost`` (US dollars) is None where the price is not known.

    ``kept`` counts the requests that a cassette answers without a call.
    """

    host: str
    model: str
    calls: int
    kept: int
    input_tokens: int
    output_tokens: int
    cost: float | None

    def text(self) -> str:
        """Give the plan as one line for a person."""
        cost = "price not known" if self.cost is None else f"about ${self.cost:.4f}"
        kept = f", {self.kept} more from the cassette" if self.kept else ""
        model = f" ({self.model})" if self.model else ""
        return (
            f"{self.calls} calls to {self.host}{model}{kept}: about {self.input_tokens} tokens in, at most "
            f"{self.output_tokens} out, {cost}; parts of the transcript are sent there"
        )


class Planner:
    """A summarizer that sends nothing: it counts what another one would be asked, and answers with opaque summaries.

    A replay with it shows the plan. It is an estimate: a real summary's size moves later compactions a little.
    """

    def __init__(self, summarizer: ModelSummarizer) -> None:
        self._summarizer = summarizer
        self._opaque = OpaqueSummarizer()
        self._seen: set[str] = set()
        self.calls = self.kept = self.input_tokens = self.output_tokens = 0

    def summarize(self, request: SummaryRequest) -> SummaryReply:
        """Count a request and give an opaque summary of its budget."""
        chat = self._summarizer.chat
        prompt = self._summarizer.prompt(request)
        if isinstance(chat, CassetteChat):
            key = request_key(chat.identity, prompt)
            if key in self._seen or chat.holds(prompt):
                self.kept += 1
                return self._opaque.summarize(request)
            self._seen.add(key)
        self.calls += 1
        self.input_tokens += prompt.input_tokens
        self.output_tokens += request.budget
        return self._opaque.summarize(request)

    def plan(self) -> Plan:
        """Give what was counted so far."""
        price = self._summarizer.spending.price
        identity = self._summarizer.chat.identity
        return Plan(
            host=self._summarizer.chat.host,
            model=str(identity.get("model") or ""),
            calls=self.calls,
            kept=self.kept,
            input_tokens=self.input_tokens,
            output_tokens=self.output_tokens,
            cost=price.of(self.input_tokens, self.output_tokens) if price else None,
        )


def plan(requests: Iterable[SummaryRequest], summarizer: ModelSummarizer) -> Plan:
    """Give the plan for these requests."""
    planner = Planner(summarizer)
    for request in requests:
        planner.summarize(request)
    return planner.plan()
