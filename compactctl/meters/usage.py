"""What a harness that trusts the provider counts: the last recorded prompt and reply, and bytes / 4 of what came after.

Claude Code decides by this (metrics.md). It holds for a view that is still the recorded history; for any other view
nothing was ever charged, and the fit of the ``calibrated`` meter takes over. Where a session recorded no usage at all,
everything came after the last recorded call: bytes / 4, above the recorded overhead if there is one.
"""

from __future__ import annotations

from itertools import accumulate

from compactctl.context.counting import MeterContext, Standing
from compactctl.meters._bytes import message_bytes
from compactctl.meters._fit import ASSUMED_BYTES, Calibrated, Fit, fit_usage
from compactctl.meters._images import IMAGE_TOKENS, image_count
from compactctl.meters._recorded import Timeline
from compactctl.model import Message, Origin, Session
from compactctl.ports import MeterSpec, RankSource


class UsageMeter:
    """Counts from the last recorded call on; weights are those of the fit, thousandths of a token."""

    name = "usage"

    def __init__(self, session: Session, fallback: Calibrated) -> None:
        self.fallback = fallback
        self.steady = not fallback.fit.segments
        self._timeline = Timeline(session)
        self._estimates = list(accumulate(map(_estimated, session.messages), initial=0))

    def weigh(self, message: Message) -> int:
        """Give the weight of a message under the fit."""
        return self.fallback.weigh(message)

    def tokens(self, weight: int, context: MeterContext) -> int:
        """Give the last recorded prompt and reply and bytes / 4 of what came after, else what the fit says."""
        call = self._timeline.last(context.turn, context.pristine)
        if call is None and context.pristine == Standing.SENT:
            # The harness has just compacted: only the prompt that it then sent says what it had left.
            sent = self._timeline.own(context.turn, context.pristine)
            if sent is not None:
                return sent.usage.prompt
        if call is None:
            return self.fallback.tokens(weight, context)
        estimates = self._estimates
        # Some versions record the reply's tokens before it was written: then its text is the better witness.
        reply = max(call.usage.output, (estimates[call.index + 1] - estimates[call.index]) // 4)
        after = estimates[self._timeline.index(context.turn)] - estimates[call.index + 1]
        return call.usage.prompt + reply + after // 4


def _estimated(message: Message) -> int:
    """Give the bytes that a message counts for; what a harness put in when it compacted never grew a view."""
    if message.origin is Origin.RECORDED_SUMMARY:
        return 0
    return message_bytes(message) + 4 * IMAGE_TOKENS * image_count(message)


def _make(session: Session | None, ranks: RankSource | None = None) -> UsageMeter:
    known = session or Session("", ())
    fit = fit_usage(known) or Fit(known.overhead_tokens or 0, ASSUMED_BYTES, True, ())
    return UsageMeter(known, Calibrated(fit))


METER = MeterSpec("usage", "the last recorded prompt and reply + bytes / 4 of what came after (Claude Code)", _make)
