"""Asking a summarizer, and what that cost: the same for every compactor that summarises."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from compactctl.context.counting import Meter, MeterContext
from compactctl.context.weights import tokens_added
from compactctl.errors import SummarizerError
from compactctl.model import USER, Anchor, Message
from compactctl.ports import Summarizer, SummaryFormat, SummaryReply, SummaryRequest


@dataclass(frozen=True, slots=True)
class Answer:
    """A summary and the tokens that it took: as charged, or as the compactor's own meter counts them.

    ``notes`` and ``anchors`` are what the summarizer found out about it (ports.SummaryReply).
    """

    text: str
    input_tokens: int
    output_tokens: int
    notes: tuple[str, ...] = ()
    anchors: tuple[Anchor, ...] = ()


def ask(
    summarizer: Summarizer | None,
    messages: Sequence[Message],
    meter: Meter,
    *,
    weight: int,
    turn: int,
    format: SummaryFormat = SummaryFormat.ANCHORS,
    budget: int = 2000,
    previous: Callable[[], str] | None = None,
    anchors: tuple[Anchor, ...] = (),
) -> Answer:
    """Have messages of a total ``weight`` summarised; raises SummarizerError, also where there is no summarizer."""
    if summarizer is None:
        raise SummarizerError("no summarizer was given")
    reply = summarizer.summarize(
        SummaryRequest(messages, previous=previous, anchors=anchors, format=format, budget=budget)
    )
    return taken(reply, meter, weight, turn)


def taken(reply: SummaryReply, meter: Meter, weight: int, turn: int) -> Answer:
    """Give a reply with the tokens that it took; ``weight`` is that of the messages that were read."""
    if reply.usage is not None:
        return Answer(reply.text, reply.usage.prompt, reply.usage.output, reply.notes, reply.anchors)
    read = meter.tokens(weight, MeterContext(turn, False))
    # A prompt holds what the meter adds to every view (system prompt, tools), a reply does not.
    written = tokens_added(meter, meter.weigh(Message(USER, reply.text)))
    return Answer(reply.text, read, written, reply.notes, reply.anchors)


def failure_note(error: SummarizerError) -> str:
    """Give the note of a record whose summary failed: the reason in one word.

    >>> failure_note(SummarizerError("no whole reply within 120 s", "timeout"))
    'summary_failed:timeout'
    """
    return f"summary_failed:{error.reason}"
