"""What a replay would ask of a model, shown before the first call: calls, tokens, cost and where it goes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, TypeVar

from compactctl.context.words import quantity
from compactctl.ports import SummaryReply, SummaryRequest
from compactctl.summarizers._cassette import CassetteChat
from compactctl.summarizers._chat import Completion, Prompt, request_key
from compactctl.summarizers._model import ModelSummarizer
from compactctl.summarizers.opaque import OpaqueSummarizer

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Plan:
    """An estimate. Tokens are four bytes each; ``cost`` (US dollars) is None where the price is not known.

    ``kept`` counts the requests that a cassette answers without a call, ``kept_from`` names the other hosts whose
    replies are among them; ``input_bytes`` is the size of the requests that are sent.
    """

    host: str
    model: str
    calls: int
    kept: int
    input_bytes: int
    input_tokens: int
    output_tokens: int
    cost: float | None
    kept_from: tuple[str, ...] = ()

    def text(self) -> str:
        """Give the plan as one line for a person."""
        model = f" ({self.model})" if self.model else ""
        hosts = " and ".join(self.kept_from)
        other = f" (recorded at {hosts}; --cassette refresh asks anew)" if hosts else ""
        if not self.calls:
            kept = f"the cassette answers {quantity(self.kept, 'request')}{other}" if self.kept else "no summary is due"
            return f"nothing is sent to {self.host}{model}: {kept}"
        kept = f", {self.kept:,} more from the cassette{other}" if self.kept else ""
        cost = "price not known" if self.cost is None else f"about ${self.cost:.4f}"
        calls = quantity(self.calls, "call")
        return (
            f"{calls} to {self.host}{model}{kept}: {self.input_bytes:,} bytes of prompts and transcript are sent "
            f"there, about {self.input_tokens:,} tokens in and {self.output_tokens:,} out, {cost}"
        )

    def to_json(self) -> dict[str, Any]:
        """Give the plan as a JSON object."""
        return asdict(self)


class Planner:
    """A summarizer that sends nothing: it counts what another one would be asked, and answers with opaque summaries.

    What a cassette holds is answered from there. A replay with it shows the plan. It is an estimate: a real summary's
    size moves later compactions a little. A memory extractor asks it too, so that its calls are in the plan.
    """

    def __init__(self, summarizer: ModelSummarizer) -> None:
        self._summarizer = summarizer
        self._opaque = OpaqueSummarizer()
        self._seen: set[str] = set()
        self._kept_from: set[str] = set()
        self.calls = self.kept = self.input_bytes = self.input_tokens = self.output_tokens = 0

    @property
    def identity(self) -> Mapping[str, Any]:
        """The settings of the model that is planned for."""
        return self._summarizer.chat.identity

    @property
    def host(self) -> str:
        """Where that model is."""
        return self._summarizer.chat.host

    def summarize(self, request: SummaryRequest) -> SummaryReply:
        """Count a request and give the kept summary, else an opaque one of its budget."""
        if self._is_kept(self._summarizer.prompt(request)):
            return self._summarizer.summarize(request)
        return self._opaque.summarize(request)

    def ask(self, prompt: Prompt, read: Callable[[Completion], T]) -> T:
        """Count a question and give what ``read`` makes of the kept answer, else of an empty list."""
        if self._is_kept(prompt):
            return self._summarizer.asker.ask(prompt, read)
        return read(Completion("[]", prompt.nonce))

    def look(self) -> None:
        """Raise StoreError where the cassette cannot be read: such a run never begins, and has no plan."""
        if isinstance(self._summarizer.chat, CassetteChat):
            self._summarizer.chat.look()

    def prepare(self) -> None:
        """Raise SettingsError or UsageError where real calls could not begin."""
        self._summarizer.chat.prepare()

    def plan(self) -> Plan:
        """Give what was counted so far."""
        price = self._summarizer.spending.price
        return Plan(
            host=self.host,
            model=str(self.identity.get("model") or ""),
            calls=self.calls,
            kept=self.kept,
            input_bytes=self.input_bytes,
            input_tokens=self.input_tokens,
            output_tokens=self.output_tokens,
            cost=price.of(self.input_tokens, self.output_tokens) if price else None,
            kept_from=tuple(sorted(self._kept_from)),
        )

    def _is_kept(self, prompt: Prompt) -> bool:
        """Count a prompt; True where a cassette holds its answer now."""
        chat = self._summarizer.chat
        if isinstance(chat, CassetteChat):
            recorded_at = chat.recorded_at(prompt)
            if recorded_at is not None:
                self.kept += 1
                self._kept_from |= {recorded_at} - {"", self.host}
                return True
            key = request_key(chat.identity, prompt)
            if key in self._seen:
                self.kept += 1
                return False
            self._seen.add(key)
        self.calls += 1
        self.input_bytes += prompt.input_bytes
        self.input_tokens += prompt.input_tokens
        self.output_tokens += prompt.budget
        return False
