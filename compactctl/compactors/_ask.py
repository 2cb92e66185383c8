"""Asking a summarizer, and what that cost: the same for every compactor that summarises."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from compactctl.context.counting import Meter
from compactctl.context.weights import tokens_added
from compactctl.errors import SummarizerError
from compactctl.model import USER, Anchor, Message, SummaryCall
from compactctl.ports import Summarizer, SummaryFormat, SummaryReply, SummaryRequest


@dataclass(frozen=True, slots=True)
class Answer:
    """A summary and the calls that it took; ``notes`` and ``anchors`` are what was found out (ports.SummaryReply)."""

    text: str
    calls: tuple[SummaryCall, ...]
    notes: tuple[str, ...] = ()
    anchors: tuple[Anchor, ...] = ()


def ask(
    summarizer: Summarizer | None,
    messages: Sequence[Message],
    meter: Meter,
    *,
    weight: int,
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
    return taken(reply, meter, weight)


def taken(reply: SummaryReply, meter: Meter, weight: int) -> Answer:
    """Give a reply with the tokens that it took; ``weight`` is that of the messages that were read."""
    if reply.usage is not None:
        call = SummaryCall(reply.usage.prompt, reply.usage.output, charged=True)
    else:
        # What stands before every request of the session (system prompt, tools) is no part of these texts.
        read, written = (tokens_added(meter, w) for w in (weight, meter.weigh(Message(USER, reply.text))))
        call = SummaryCall(read, written)
    return Answer(reply.text, (call,), reply.notes, reply.anchors)


def failure_note(error: SummarizerError) -> str:
    """Give the note of a record whose summary failed: the reason in one word.

    >>> failure_note(SummarizerError("no whole reply within 120 s", "timeout"))
    'summary_failed:timeout'
    """
    return f"summary_failed:{error.reason}"
