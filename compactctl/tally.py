"""What is counted while a replay goes by, span by span, in decision and in real tokens."""

from __future__ import annotations

from dataclasses import dataclass, field

from compactctl.context.growth import Growth, Run
from compactctl.context.passing import Leap
from compactctl.context.scale import Scale
from compactctl.model import CompactionRecord, Note, OffloadEntry, Tier
from compactctl.ports import Span


@dataclass(frozen=True, slots=True)
class Peak:
    """The largest view of a replay in tokens, and its turn."""

    tokens: int = 0
    turn: int = 0

    def occupancy(self, window: int) -> float | None:
        """The share of the window; None where the window is unknown."""
        return self.tokens / window if window > 0 else None


# What is said of the turns that were leapt over together.
LEAPT = ("turns", "stretches", "offloaded", "offloaded_bytes")


@dataclass(slots=True)
class Tally:
    """What is counted while a replay goes by."""

    turns: int = 0
    failed_turns: int = 0
    turns_by_tier: list[int] = field(default_factory=lambda: [0] * len(Tier))
    # Compactions are records that changed the view; ``compactions`` holds those that failed or say something as well.
    compactions_by_tier: list[int] = field(default_factory=lambda: [0] * len(Tier))
    compactions: list[CompactionRecord] = field(default_factory=list)
    peak: Peak = Peak()
    real_peak: Peak = Peak()
    tokens_sent: int = 0
    entries: list[OffloadEntry] = field(default_factory=list)
    summarizer_calls: int = 0
    summarizer_failures: int = 0
    summary_input_tokens: int = 0
    summary_output_tokens: int = 0
    offload_failures: int = 0
    # Turns at Warn that were leapt over, in how many stretches, and what was offloaded at them.
    leapt: list[int] = field(default_factory=lambda: [0] * len(LEAPT))

    @property
    def offloaded(self) -> dict[str, OffloadEntry]:
        """The files by path: entries of one result come again at each later turn, and the path makes it one file."""
        return {entry.file_path: entry for entry in self.entries}

    def add(self, span: Span, growth: Growth, scale: Scale) -> None:
        """Count a span: ``growth`` is in decision tokens, ``scale`` in real ones."""
        # What was leapt over is counted by itself.
        turns = span.turns if span.leap is None else 1
        self.turns += turns
        self.failed_turns += turns if span.failed else 0
        self.turns_by_tier[max([record.tier for record in span.records])] += 1
        self.turns_by_tier[span.quiet_tier] += turns - 1
        for record in span.records:
            acted = record.acted
            self.compactions_by_tier[record.tier] += acted
            if not (acted or record.error or record.notes) or (record.tier is Tier.NONE and not record.error):
                continue
            self.compactions.append(record)
            self.entries += record.offloaded
            self.summarizer_calls += len(record.summaries)
            self.summary_input_tokens += record.summary_input_tokens or 0
            self.summary_output_tokens += record.summary_output_tokens or 0
            self.summarizer_failures += record.summary_failed
            if Note.OFFLOAD_FAILED in record.notes:
                self.offload_failures += 1

        view = span.view
        until = span.turn + turns
        run = Run(view, view.weight, span.turn, until)
        self.tokens_sent += growth.total(run)
        peak = growth.peak(run, self.peak.tokens)
        if peak is not None:
            self.peak = Peak(*peak)
        if not scale.native:
            peak = scale.growth.peak(Run(view, scale.weight(view), span.turn, until), self.real_peak.tokens)
            if peak is not None:
                self.real_peak = Peak(*peak)
        if span.leap is not None:
            self._leap(span.leap, growth, scale)
        if scale.native:
            self.real_peak = self.peak

    def _leap(self, leap: Leap, growth: Growth, scale: Scale) -> None:
        """Count turns that were leapt over."""
        turns = leap.until - leap.turn - 1
        self.turns_by_tier[Tier.WARN] += leap.warned
        self.turns_by_tier[Tier.NONE] += turns - leap.warned
        self.compactions_by_tier[Tier.WARN] += sum(1 for _ in leap.events())
        self.turns += turns
        self.tokens_sent += leap.heights.total(growth)
        peak = leap.heights.peak(growth.meter, self.peak.tokens)
        if peak is not None:
            self.peak = Peak(*peak)
        if not scale.native:
            peak = leap.real_heights.peak(scale.meter, self.real_peak.tokens)
            if peak is not None:
                self.real_peak = Peak(*peak)
        self.entries += leap.entries
        more = (leap.warned, 1, leap.last - leap.first, leap.bytes)
        self.leapt = [one + another for one, another in zip(self.leapt, more, strict=True)]
