"""The truest meter for a session: its own recorded usage and a fit to it, else bytes / 4 (metrics.md)."""

from __future__ import annotations

from functools import cached_property
from itertools import accumulate

from compactctl.context.counting import Meter, MeterContext, Standing
from compactctl.meters._fit import Calibrated, fit_usage
from compactctl.meters._recorded import Timeline
from compactctl.model import Message, Origin, Session


class Recorded:
    """Real tokens: the recorded prompt of a turn where the view is what was really sent, the fit for every other view.

    Of a view that was really sent up to some turn and only grew since, the last prompt counts, and the fit of the rest.
    The whole history is never less than the prompt that was charged for what was left of it after an unrecorded cut.
    Unlike the meter ``usage`` it looks at the call of the turn itself, which no harness knows before it is made.
    """

    name = "recorded"
    steady = False

    def __init__(self, session: Session, fallback: Calibrated) -> None:
        self.fallback = fallback
        self._messages = session.messages
        self._timeline = Timeline(session)

    @cached_property
    def _prefix(self) -> list[int]:
        """Running weights of the recorded messages; what the harness put in when it compacted weighs nothing."""
        own = (0 if m.origin is Origin.RECORDED_SUMMARY else self.weigh(m) for m in self._messages)
        return list(accumulate(own, initial=0))

    def weigh(self, message: Message) -> int:
        """Give the weight of a message under the fit."""
        return self.fallback.weigh(message)

    def tokens(self, weight: int, context: MeterContext) -> int:
        """Give the recorded prompt of the turn, else what the fit says."""
        call = self._timeline.own(context.turn, context.pristine)
        if call is not None:
            return call.usage.prompt
        whole = self.fallback.tokens(weight, context)
        if context.pristine == Standing.RECORDED:
            # Where the harness cut something that it did not record, it was charged for a part of this.
            part = self._timeline.own(context.turn, Standing.LIVED)
            return whole if part is None else max(whole, part.usage.prompt)
        last = self._timeline.last(context.turn, Standing.LIVED) if context.pristine == Standing.LIVED else None
        if last is None:
            return whole
        grown = self._prefix[self._timeline.index(context.turn)] - self._prefix[last.index]
        return last.usage.prompt + whole - self.fallback.tokens(weight - grown, context)


class WithOverhead:
    """Another meter and a fixed number of tokens that are in no message (system prompt, tools)."""

    def __init__(self, inner: Meter, overhead: int) -> None:
        self.inner = inner
        self.overhead = overhead
        self.name = inner.name
        self.steady = inner.steady

    def weigh(self, message: Message) -> int:
        """Give the inner meter's weight."""
        return self.inner.weigh(message)

    def tokens(self, weight: int, context: MeterContext) -> int:
        """Give the inner meter's tokens and the overhead."""
        return self.overhead + self.inner.tokens(weight, context)


def best_meter(session: Session) -> tuple[Meter, str]:
    """Give the truest meter for a session's real tokens, and a sentence that says what it rests on.

    Recorded usage and a fit to it come first; an exact tokenizer is never taken by itself.
    """
    fit = fit_usage(session)
    if fit is not None:
        return Recorded(session, Calibrated(fit)), f"recorded usage, elsewhere {fit.sentence()}"
    from compactctl.meters.bytes4 import Bytes4

    if session.overhead_tokens:
        overhead = session.overhead_tokens
        return WithOverhead(Bytes4(), overhead), f"{overhead:,} recorded overhead + UTF-8 bytes / 4 (no recorded usage)"
    return Bytes4(), "UTF-8 bytes / 4 (no recorded usage)"
