"""Fits ``tokens = overhead + bytes / k`` to the usage that a session recorded (metrics.md), for the meters that use it.

Least squares over the calls of one context segment: a recorded compaction, a prompt that fell by more than 5 % (a cut
that nobody recorded) and a change of model each begin a new one. Thinking is not counted: providers drop that of
earlier turns. An image counts a fixed number of tokens and base64 data in a text 0.7 a character (``_images.py``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from statistics import median

from compactctl.context.counting import MeterContext
from compactctl.context.words import quantity
from compactctl.meters._bytes import message_bytes
from compactctl.meters._images import BASE64_TOKENS, IMAGE_TOKENS, base64_length, image_count
from compactctl.meters._recorded import Segment, segments
from compactctl.model import Message, Session

UNIT = 1000  # weights are in thousandths of a token, so that single messages need no rounding that adds up
FEWEST_CALLS = 3
# What text can be: 1 is dense CJK or hashes, 8 is a log of blanks. A slope outside is not that of this text.
PLAUSIBLE_BYTES = (1.0, 8.0)
ASSUMED_BYTES = 4.0


@dataclass(frozen=True, slots=True)
class SegmentFit:
    """The fit over one segment: its calls, why it began, the tokens it began with, errors as shares of the prompts.

    ``start`` is the overhead for the first segment; the prompts of a later one begin with a summary as well.
    """

    calls: int
    reason: str
    start: float
    errors: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Fit:
    """What a session's recorded usage says about its tokens.

    ``overhead`` is the fixed part in tokens that transcripts do not hold (system prompt, tools). ``assumed`` says that
    the calls did not determine the bytes a token. ``errors`` are |predicted - recorded| / recorded of every call, as
    the meter predicts it, but that each later segment has a start of its own; calls of a segment of fewer than 3 calls
    are left out.
    """

    overhead: int
    bytes_per_token: float
    assumed: bool
    segments: tuple[SegmentFit, ...]

    @property
    def calls(self) -> int:
        """How many calls were used."""
        return sum(segment.calls for segment in self.segments)

    @property
    def errors(self) -> tuple[float, ...]:
        """The errors of all calls, as shares."""
        return tuple(error for segment in self.segments for error in segment.errors)

    @property
    def median_error(self) -> float | None:
        """The median error as a share; None where no segment has 3 calls."""
        errors = self.errors
        return median(errors) if errors else None

    def sentence(self) -> str:
        """Say what the fit rests on, for reports."""
        rate = f"{self.overhead:,} + bytes / {self.bytes_per_token:.2f}"
        if self.assumed:
            return f"{rate}: overhead measured over {quantity(self.calls, 'call')}, bytes a token assumed"
        error = self.median_error
        within = "" if error is None else f", median error {error:.1%}"
        return f"{rate}: fitted to {quantity(self.calls, 'call')} in {quantity(len(self.segments), 'segment')}{within}"


def fit_usage(session: Session) -> Fit | None:
    """Fit a session's recorded usage; None where it recorded no prompt at all.

    The bytes a token are one slope for all segments (each with its own start), the overhead is that of the first
    segment: the later ones begin with a summary whose size would count as overhead.
    """
    found = segments(session)
    if not found:
        return None
    sizes = list(accumulate(map(_byte_count, session.messages), initial=0))
    fixed = list(accumulate(map(fixed_tokens, session.messages), initial=0.0))
    points = [_points(segment, sizes, fixed) for segment in found]
    fitted = _slope(points)
    slope = 1 / ASSUMED_BYTES if fitted is None else fitted
    first = points[0]
    overhead = max(round(_start(first, slope)), 0)
    starts = [float(overhead), *(_start(rows, slope) for rows in points[1:])]
    fits = tuple(_segment_fit(*each, slope) for each in zip(found, points, starts, strict=True))
    return Fit(overhead, 1 / slope, fitted is None, fits)


class Calibrated:
    """Counts ``overhead + bytes / k``; weights are thousandths of a token."""

    name = "calibrated"
    steady = True

    def __init__(self, fit: Fit) -> None:
        self.fit = fit
        self._rate = UNIT / fit.bytes_per_token

    def weigh(self, message: Message) -> int:
        """Give the thousandths of a token that a message counts."""
        return round(_byte_count(message) * self._rate + fixed_tokens(message) * UNIT)

    def tokens(self, weight: int, context: MeterContext) -> int:
        """Give the overhead and the weight in whole tokens."""
        return self.fit.overhead + weight // UNIT


def fixed_tokens(message: Message) -> float:
    """Give the tokens of a message that its bytes do not tell: images and base64 data."""
    images = image_count(message) * IMAGE_TOKENS
    return images + BASE64_TOKENS * _base64_length(message)


def _base64_length(message: Message) -> int:
    inside = base64_length(message.content)
    for call in message.tool_calls:
        inside += base64_length(call.arguments)
    return inside


def _byte_count(message: Message) -> int:
    return message_bytes(message) - _base64_length(message)


def _points(segment: Segment, sizes: Sequence[int], fixed: Sequence[float]) -> list[tuple[float, float]]:
    """Give (bytes since the segment began, recorded tokens without fixed parts) of each call."""
    start = segment.start
    return [
        (float(sizes[call.index] - sizes[start]), call.usage.prompt - (fixed[call.index] - fixed[start]))
        for call in segment.calls
    ]


def _slope(groups: Sequence[Sequence[tuple[float, float]]]) -> float | None:
    """Give the tokens a byte over all groups, each with its own mean taken off; None where they do not say."""
    products = squares = 0.0
    calls = 0
    for rows in groups:
        middle_size = sum(size for size, _ in rows) / len(rows)
        middle_tokens = sum(tokens for _, tokens in rows) / len(rows)
        products += sum((size - middle_size) * (tokens - middle_tokens) for size, tokens in rows)
        squares += sum((size - middle_size) ** 2 for size, _ in rows)
        calls += len(rows)
    if calls < FEWEST_CALLS or squares == 0 or products <= 0:
        return None
    least, most = PLAUSIBLE_BYTES
    return products / squares if least <= squares / products <= most else None


def _start(rows: Sequence[tuple[float, float]], slope: float) -> float:
    """Give the tokens that the prompts of a segment have beside its messages, at so many tokens a byte."""
    return sum(tokens - size * slope for size, tokens in rows) / len(rows)


def _segment_fit(segment: Segment, rows: Sequence[tuple[float, float]], start: float, slope: float) -> SegmentFit:
    errors: tuple[float, ...] = ()
    if len(rows) >= FEWEST_CALLS:
        errors = tuple(
            abs(start + size * slope - tokens) / call.usage.prompt
            for (size, tokens), call in zip(rows, segment.calls, strict=True)
        )
    return SegmentFit(len(rows), segment.reason, start, errors)
