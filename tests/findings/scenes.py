"""Small sessions and how they are judged: a replay of each, its measures and its findings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from compactctl.bound import uncompacted
from compactctl.context.offload import MemoryOffloader
from compactctl.context.scale import Scale
from compactctl.errors import SummarizerError
from compactctl.findings import FINDINGS, Finding, Situation, find
from compactctl.findings._kinds import Case
from compactctl.measures import Measured, Prices, Trace, measure_all
from compactctl.meters import best_meter, make_meter
from compactctl.model import Message, RecordedCompaction, Session, ToolCall, Usage
from compactctl.ports import CompactorSpec, HistoryMode, Ports, SummaryReply, SummaryRequest
from compactctl.registry import plugin
from compactctl.replay import Limits, Plan, as_step_compactor, base_of, walk
from compactctl.summarizers.stub import StubSummarizer
from tests.figures import known

PRICES = Prices(3.0, 15.0, 0.3, 3.75)


class Told:
    """A summarizer that answers with given texts, the last again and again; None fails."""

    def __init__(self, *answers: str | None) -> None:
        self.answers = answers
        self.asked = 0

    def summarize(self, request: SummaryRequest) -> SummaryReply:
        """Give the next answer."""
        answer = self.answers[min(self.asked, len(self.answers) - 1)]
        self.asked += 1
        if answer is None:
            raise SummarizerError("no answer")
        return SummaryReply(answer)


@dataclass(frozen=True, slots=True)
class Judged:
    """What one replay gave."""

    trace: Trace
    measured: Mapping[str, Measured]
    situation: Situation
    findings: tuple[Finding, ...]

    def ids(self) -> set[str]:
        """The ids of the findings."""
        return {finding.id for finding in self.findings}

    def finding(self, name: str) -> Finding:
        """The finding of an id."""
        return next(finding for finding in self.findings if finding.id == name)

    def ways(self, name: str) -> tuple[str, ...]:
        """Every way out that the rule of a finding knows, those too that this run does not leave."""
        shown = FINDINGS[name].look(Case(self.trace, self.measured, self.situation))
        return () if shown is None else shown.ways

    def value(self, key: str) -> float | int | None:
        """The figure of a key; None where it was not measured."""
        return self.measured[key].value

    def known(self, key: str) -> float | int:
        """The figure of a key, which must have been measured."""
        return known(self.measured, key)


class Scene:
    """Builds messages and judges sessions of them."""

    told = Told

    def __init__(self) -> None:
        self._calls = 0

    def system(self, size: int = 40) -> Message:
        """A system message."""
        return Message("system", ("You are a careful agent. " * (size // 25 + 1))[:size])

    def user(self, text: str = "Please fix the parser.") -> Message:
        """What the user says."""
        return Message("user", text)

    def step(
        self, size: int = 400, *, text: str = "", name: str = "bash", body: str | None = None, prompt: int | None = None
    ) -> list[Message]:
        """One call of a tool and its result, lines of words up to ``size`` characters."""
        return self.batch(1, size, text=text, name=name, body=body, prompt=prompt)

    def batch(
        self,
        count: int,
        size: int,
        *,
        text: str = "",
        name: str = "bash",
        body: str | None = None,
        prompt: int | None = None,
    ) -> list[Message]:
        """One reply with several calls and their results."""
        ids = [f"call_{self._calls + i}" for i in range(count)]
        self._calls += count
        usage = None if prompt is None else Usage(prompt, 20)
        calls = tuple(ToolCall(ident, name, '{"command": "make"}') for ident in ids)
        content = lines(size) if body is None else body
        return [
            Message("assistant", text, calls, usage=usage),
            *(Message("tool", content, tool_call_id=ident) for ident in ids),
        ]

    def steps(self, count: int, size: int = 400, **more: Any) -> list[Message]:
        """Several steps."""
        return [message for _ in range(count) for message in self.step(size, **more)]

    def end(self, prompt: int | None = None) -> Message:
        """The last reply."""
        return Message("assistant", "Done.", usage=None if prompt is None else Usage(prompt, 20))

    def judge(
        self,
        messages: Iterable[Message],
        compactor: Any = "progressive",
        *,
        window: int = 4000,
        history: str = "",
        summarizer: Any = None,
        meter: str = "",
        reserve: int = 0,
        source: str = "flag",
        prices: Prices | None = PRICES,
        summary_tokens: int = 200,
        names: Sequence[str] | None = None,
        protect: Iterable[str] = (),
        recorded: str = "ignore",
        compactions: Sequence[RecordedCompaction] = (),
        compact_at: Iterable[int] = (),
        harness: str = "",
        **options: Any,
    ) -> Judged:
        """Replay messages through a compactor (by name, or a user's object) and judge the replay."""
        session = Session("scene", tuple(messages), harness=harness, model="some-model", compactions=tuple(compactions))
        spec = (
            plugin("compactctl.compactors", CompactorSpec, compactor, "compactor")
            if isinstance(compactor, str)
            else None
        )
        counter = make_meter(meter or (spec.meter if spec else "bytes4"), session)
        real, told = best_meter(session)
        values: dict[str, Any] = {}
        if spec is not None:
            values = {option.name: option.default for option in spec.options} | options
            ports = Ports(
                summarizer=summarizer or StubSummarizer(),
                offloader=MemoryOffloader("scene", threshold=0),
                meter=counter,
                context_window=window,
                summary_tokens=summary_tokens,
                protect=frozenset(protect),
            )
            driver: Any = spec.make(values, session, ports)
        else:
            driver = as_step_compactor(compactor)
        mode = HistoryMode(history) if history else spec.history if spec else driver.history
        follow = recorded == "follow"
        base, happened = base_of(session, counter, follow=follow)
        limits = Limits(window, real, reserve, spec.overflow_retries if spec else 0)
        plan = Plan(mode, happened, frozenset(compact_at), limits, follow=follow)
        spans = tuple(walk(base, driver, plan))
        scale = Scale(base, real)
        unchanged = uncompacted(base, scale, window - reserve, happened, follow=follow)
        bound = Trace(session, base, unchanged, scale, window, reserve)
        trace = Trace(session, base, spans, scale, window, reserve, prices, values, summary_tokens, bound=bound)
        measured = measure_all(trace, names)
        situation = Situation(
            spec.name if spec else "mine",
            str(mode),
            counter.name,
            source,
            bool(spec and spec.needs_window),
            told,
            frozenset(protect),
            ("told" if summarizer else "stub") if spec and spec.uses_summarizer else "",
            recorded,
            defaults={option.name: option.default for option in spec.options} if spec else {},
        )
        return Judged(trace, measured, situation, find(trace, measured, situation))


def lines(size: int) -> str:
    """Give lines of plain words, exactly ``size`` characters."""
    line = "all checks of this part passed without a word\n"
    return (line * (size // len(line) + 1))[:size]


GOOD = "### User Intent\nPlease fix the parser.\n## Summary\nThe parser is being fixed."


class KeepsTheLast:
    """A user's compactor that keeps the system message and the newest messages, whatever they are."""

    def __init__(self, count: int, above: int) -> None:
        self.count = count
        self.above = above

    def compact(self, messages: Sequence[Message]) -> list[Message]:
        """Cut without looking."""
        if len(messages) <= self.above:
            return list(messages)
        return [messages[0], *messages[-self.count :]]


class Summarises:
    """A user's compactor that puts one text in place of all but the newest messages."""

    def __init__(self, text: str, count: int, above: int) -> None:
        self.text = text
        self.count = count
        self.above = above

    def compact(self, messages: Sequence[Message]) -> list[Message]:
        """Replace the head."""
        if len(messages) <= self.above:
            return list(messages)
        return [messages[0], Message("user", self.text), *messages[-self.count :]]


def growing(scene: Scene, count: int = 40, size: int = 400) -> list[Message]:
    """A session that grows by about 110 decision tokens a turn."""
    return [scene.system(), scene.user(), *scene.steps(count, size), scene.end()]


def charged(scene: Scene, overhead: int, rate: float, count: int = 10, size: int = 4000) -> list[Message]:
    """A session whose prompts were recorded as ``overhead`` + bytes * ``rate``."""
    messages = [scene.system(), scene.user()]
    for _ in range(count):
        messages += scene.step(size, prompt=round(overhead + bytes_of(messages) * rate))
    return [*messages, scene.end(round(overhead + bytes_of(messages) * rate))]


def bytes_of(messages: Sequence[Message]) -> int:
    """Give the bytes of these messages as harness9 counts them."""
    return sum(
        len(m.content.encode()) + len(m.tool_call_id) + sum(len(c.id + c.name + c.arguments) for c in m.tool_calls)
        for m in messages
    )
