"""One replay and everything that is said about it: what replay, report, compare, tune and check have in common.

A ``Workbench`` makes a session ready once; ``run`` replays it under a ``Setup`` and gives an ``Outcome``, whose
``document`` is the JSON object that every output and the store hold.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from compactctl.bound import uncompacted
from compactctl.context.base import Base
from compactctl.context.counting import Meter
from compactctl.context.growth import Growth
from compactctl.context.offload import NullOffloader, OffloaderBase
from compactctl.context.scale import Scale
from compactctl.context.spill import Spilled, SpillRule, rule_for, spilled
from compactctl.measures import Measured, Prices, Trace, measure_all
from compactctl.measures._alike import with_known
from compactctl.measures._load import load_of
from compactctl.meters import best_meter, make_meter
from compactctl.meters._choose import Recorded
from compactctl.model import RecordedCompaction, Session, Tier
from compactctl.ports import (
    ALONE,
    Clock,
    CompactorSpec,
    HistoryMode,
    MemoryExtractor,
    Offloader,
    Ports,
    RankSource,
    RecordedMode,
    Span,
    Spread,
    StepCompactor,
    Summarizer,
)
from compactctl.replay import Limits, Plan, base_of, overhead_weight, walk
from compactctl.settings import canonical
from compactctl.tally import Tally

if TYPE_CHECKING:
    from compactctl.findings import Finding


@dataclass(frozen=True, slots=True)
class Window:
    """A context window in tokens and where the value is from: flag, recorded, inferred, table or assumed."""

    tokens: int
    source: str


@dataclass(frozen=True, slots=True)
class Setup:
    """How sessions are replayed; ``options`` are the compactor's, complete. ``meter`` None is the compactor's own.

    ``summarizer_options`` are those that were set and shape the answers of a model.
    """

    spec: CompactorSpec
    options: Mapping[str, Any]
    history: HistoryMode | None = None
    recorded: RecordedMode = RecordedMode.IGNORE
    meter: str | None = None
    overhead: int = 0
    reserve: int = 0
    summary_tokens: int = 2000
    summarizer: str = "stub"
    compact_at: frozenset[int] = frozenset()
    protect: frozenset[str] = frozenset()
    spill: int | None = None
    summarizer_options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def mode(self) -> HistoryMode:
        """The history mode: as set, else the compactor's own."""
        return self.history or self.spec.history

    @property
    def follow(self) -> bool:
        """Whether the session's own compactions are applied where they happened."""
        return self.recorded is RecordedMode.FOLLOW

    def settings(self) -> dict[str, Any]:
        """Give everything that shapes the figures, for output and hashing."""
        return {
            "compactor": self.spec.name,
            "options": dict(self.options),
            "history": str(self.mode),
            "recorded": str(self.recorded),
            "meter": self.meter or self.spec.meter,
            "overhead": self.overhead,
            "reserve": self.reserve,
            "summarizer": self.summarizer,
            "summary_tokens": self.summary_tokens,
            "compact_at": sorted(self.compact_at),
            "protect": sorted(self.protect),
            "spill": self.spill,
            **({"summarizer_options": dict(self.summarizer_options)} if self.summarizer_options else {}),
        }


def settings_hash(settings: Mapping[str, Any]) -> str:
    """Give 12 hexadecimal digits that are the same for the same settings."""
    return hashlib.sha256(canonical(settings).encode()).hexdigest()[:12]


class Workbench:
    """A session made ready for any number of replays: each message is weighed once under each meter.

    ``spread`` says who reads the text that measures need.
    """

    def __init__(
        self,
        session: Session,
        window: Window,
        *,
        prices: Callable[[str], Prices | None] = lambda model: None,
        ranks: RankSource | None = None,
        real: tuple[Meter, str] | None = None,
        altered: bool = False,
        spread: Spread = ALONE,
    ) -> None:
        self.session = session
        self.window = window
        self._priced = prices
        self._ranks = ranks
        self._real = real
        self._altered = altered
        self.spread = spread
        self.shared: dict[str, Any] = {}
        self._bases: dict[tuple[str, bool, int], tuple[Base, tuple[RecordedCompaction, ...]]] = {}
        self._overheads: dict[int, int] = {}
        self._meters: dict[str, Meter] = {}
        self._scales: dict[int, Scale] = {}
        self._growths: dict[int, Growth] = {}
        self._bounds: dict[tuple[int, int], Bound] = {}

    @cached_property
    def prices(self) -> Prices | None:
        """What the session's model costs; looked up when first asked for, since the table of all prices is large."""
        return self._priced(self.session.model)

    def prices_of(self, model: str) -> Prices | None:
        """What another model costs, which made some of the session's calls."""
        return self._priced(model)

    @property
    def real(self) -> tuple[Meter, str]:
        """The meter of real tokens and the sentence that says what it rests on."""
        if self._real is None:
            self._real = best_meter(self.session)
        return self._real

    def meter(self, name: str) -> Meter:
        """Give a meter by name, made once for this session; raises UnknownNameError."""
        if name not in self._meters:
            self._meters[name] = make_meter(name, self.session, self._ranks)
        return self._meters[name]

    def base(self, meter: str, follow: bool, overhead: int) -> tuple[Base, tuple[RecordedCompaction, ...]]:
        """Give the session weighed under a meter, and the recorded compactions to follow."""
        key = (meter, follow, overhead)
        if key not in self._bases:
            self._bases[key] = base_of(
                self.session, self.meter(meter), follow=follow, overhead=overhead, altered=self._altered
            )
            self._overheads[id(self._bases[key][0])] = overhead
        return self._bases[key]

    def spilled(self, rule: SpillRule, offloader: OffloaderBase) -> tuple[Workbench, Spilled]:
        """Give a bench of the session as it would be had its large results gone to files when they were written.

        Its meters are those of this one: what they know was recorded without any spilling.
        """
        done = spilled(self.session.messages, rule, offloader)
        session = replace(self.session, messages=done.messages)
        bench = Workbench(
            session,
            self.window,
            prices=self._priced,
            ranks=self._ranks,
            real=self.real,
            altered=True,
            spread=self.spread,
        )
        bench._meters = self._meters
        return bench, done

    def scale(self, base: Base) -> Scale:
        """Give the scale of real tokens for a base."""
        if id(base) not in self._scales:
            meter = self.real[0]
            # A recorded overhead is that of a session without its system message, or the meter has it anyway.
            known = (self.session.overhead_tokens or 0) if base.offset else 0
            tokens = max(known, self.declared(self._overheads.get(id(base), 0)))
            self._scales[id(base)] = Scale(base, meter, overhead_weight(meter, tokens))
        return self._scales[id(base)]

    def declared(self, overhead: int) -> int:
        """Give the part of an overhead that the user declared in real tokens: none where usage measured it."""
        return 0 if isinstance(self.real[0], Recorded) else overhead

    def real_source(self, overhead: int) -> str:
        """Say what real tokens rest on."""
        declared = self.declared(overhead)
        return f"{self.real[1]}, {declared:,} declared overhead" if declared else self.real[1]

    def growth(self, base: Base) -> Growth:
        """Give what counts the decision tokens of a base over runs of turns."""
        if id(base) not in self._growths:
            self._growths[id(base)] = Growth(base.calls, base.prefix, base.meter)
        return self._growths[id(base)]

    def bound(self, setup: Setup) -> Bound:
        """Give the session without a compactor under a setup's meter; worked out once for all setups that share it."""
        base, compactions = self.base(setup.meter or setup.spec.meter, setup.follow, setup.overhead)
        key = id(base), setup.reserve
        if key not in self._bounds:
            growth, scale, window = self.growth(base), self.scale(base), self.window.tokens
            spans = uncompacted(base, scale, window - setup.reserve, compactions, follow=setup.follow)
            tally = Tally()
            for span in spans:
                tally.add(span, growth, scale)
            self._bounds[key] = Bound(tally, Trace(self.session, base, spans, scale, window, setup.reserve))
        return self._bounds[key]


@dataclass(frozen=True, slots=True)
class Bound:
    """A session without a compactor: its figures, and the trace that measures hold others against."""

    tally: Tally
    trace: Trace


class Occupied(NamedTuple):
    """The largest real tokens of some consecutive turns: what was simulated, and what a provider recorded."""

    first: int
    simulated: int
    recorded: int | None


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one replay of one session gave.

    ``tally`` are its figures, ``bound`` those of the same session without compaction. ``spans`` are kept where measures
    were computed, otherwise empty.
    """

    session: Session
    setup: Setup
    window: Window
    real_source: str
    tally: Tally
    bound: Tally
    spans: tuple[Span, ...] = ()
    occupancy: tuple[Occupied, ...] = ()
    measures: Mapping[str, Measured] = field(default_factory=dict)
    findings: tuple[Finding, ...] = ()

    @property
    def reduction(self) -> float | None:
        """The share of decision tokens that need not be sent, against no compaction; None where nothing is sent."""
        sent = self.bound.tokens_sent
        return 1 - self.tally.tokens_sent / sent if sent else None


def compactor_for(
    bench: Workbench,
    setup: Setup,
    *,
    summarizer: Summarizer | None,
    offloader: Offloader | None = None,
    clock: Clock | None = None,
    memory_extractor: MemoryExtractor | None = None,
) -> StepCompactor:
    """Build the compactor of a setup for one replay of one session."""
    ports = Ports(
        summarizer=summarizer,
        offloader=offloader or NullOffloader(bench.session.id, threshold=0),
        meter=bench.meter(setup.meter or setup.spec.meter),
        context_window=bench.window.tokens,
        clock=clock,
        memory_extractor=memory_extractor,
        protect=setup.protect,
        summary_tokens=setup.summary_tokens,
    )
    return setup.spec.make(setup.options, bench.session, ports)


def spans(
    bench: Workbench,
    setup: Setup,
    compactor: StepCompactor,
    *,
    skip: bool = False,
    leap: bool = False,
    clock: Clock | None = None,
) -> Iterator[Span]:
    """Replay a session under a setup, span by span."""
    base, compactions = bench.base(setup.meter or setup.spec.meter, setup.follow, setup.overhead)
    limits = Limits(bench.window.tokens, bench.real[0], setup.reserve, setup.spec.overflow_retries, bench.scale(base))
    plan = Plan(setup.mode, compactions, setup.compact_at, limits, skip, clock, leap, setup.follow)
    return walk(base, compactor, plan)


def run(
    bench: Workbench,
    setup: Setup,
    *,
    summarizer: Summarizer | None,
    offloader: Offloader | None = None,
    clock: Clock | None = None,
    memory_extractor: MemoryExtractor | None = None,
    measures: Sequence[str] = (),
    skip: bool = False,
    figures_only: bool = False,
    watch: Callable[[Span], None] | None = None,
) -> Outcome:
    """Replay a session and give what can be said about it. ``watch`` sees each span as it comes (to store or show it).

    ``skip`` lets quiet turns be skipped; their records are then not among the compactions. ``figures_only`` leaves out
    what is not a figure: findings, occupancy over turns and, where turns may be skipped and no measure is computed, the
    records of steps that only offloaded what left the tail. Where the setup spills, the compactor and the measures see
    the session as it would have been written; the bound is that of the session as it was.
    """
    bound = bench.bound(setup)
    tally = Tally()
    if setup.spill is not None:
        store = offloader if isinstance(offloader, OffloaderBase) else NullOffloader(bench.session.id, threshold=0)
        bench, gone = bench.spilled(rule_for(setup.spec.name, setup.spill, setup.protect), store)
        tally.entries += gone.entries
        tally.offload_failures += gone.failed
        offloader = store
    compactor = compactor_for(
        bench, setup, summarizer=summarizer, offloader=offloader, clock=clock, memory_extractor=memory_extractor
    )
    base, _ = bench.base(setup.meter or setup.spec.meter, setup.follow, setup.overhead)
    growth, scale = bench.growth(base), bench.scale(base)
    kept: list[Span] = []
    # Whoever looks at spans one by one wants each step that changed something.
    leap = skip and figures_only and watch is None
    for span in spans(bench, setup, compactor, skip=skip, leap=leap, clock=clock):
        tally.add(span, growth, scale)
        if watch is not None:
            watch(span)
        if measures:
            _keep(kept, span)
    outcome = Outcome(bench.session, setup, bench.window, bench.real_source(setup.overhead), tally, bound.tally)
    if not measures:
        return outcome
    return replace(outcome, **_judged(bench, setup, base, tuple(kept), bound.trace, measures, figures_only))


def _judged(
    bench: Workbench,
    setup: Setup,
    base: Base,
    kept: tuple[Span, ...],
    bound: Trace,
    measures: Sequence[str],
    figures_only: bool,
) -> dict[str, Any]:
    """Compute the measures of a replay and what they mean."""
    trace = Trace(
        bench.session,
        base,
        kept,
        bench.scale(base),
        bench.window.tokens,
        setup.reserve,
        bench.prices,
        setup.options,
        setup.summary_tokens,
        bench.shared,
        bound=bound,
        prices_of=bench.prices_of,
        spread=bench.spread,
    )
    chosen = None if "all" in measures else measures
    if figures_only:
        # One of many replays, as a rule: some went as one before did.
        return {"measures": measure_all(with_known(trace), chosen)}
    # The kinds of findings are not loaded where nobody looks for any.
    from compactctl.findings import Situation, find

    measured = measure_all(trace, chosen)
    situation = Situation(
        setup.spec.name,
        str(setup.mode),
        setup.meter or setup.spec.meter,
        bench.window.source,
        setup.spec.needs_window,
        bench.real_source(setup.overhead),
        setup.protect,
        setup.summarizer if setup.spec.uses_summarizer else "",
        setup.recorded,
        setup.spill,
        {option.name: option.default for option in setup.spec.options},
    )
    return {
        "spans": kept,
        "occupancy": _occupancy(trace),
        "measures": measured,
        "findings": find(trace, measured, situation),
    }


def _keep(kept: list[Span], span: Span) -> None:
    """Keep a span for the measures; turns at which the compactor only looked on join the span before them."""
    joined = _joined(kept[-1], span) if kept else None
    if joined is None:
        kept.append(span)
    else:
        kept[-1] = joined


def _joined(last: Span, span: Span) -> Span | None:
    """Give two spans as one, None where the second changed something or says more than its tier."""
    record, view = span.records[0], span.view
    if view is not span.before or len(span.records) > 1 or record.error or record.notes or record.offloaded:
        return None
    tier = last.quiet_tier if last.turns > 1 else record.tier
    if tier > Tier.WARN or record.tier is not tier or (span.turns > 1 and span.quiet_tier is not tier):
        return None
    if last.leap is not None or span.leap is not None or span.failed is not last.failed:
        return None
    if not view.is_grown_from(last.view) or view.pristine != last.view.pristine:
        return None
    return Span(last.turn, span.until, last.records, last.view, last.failed, last.before, tier)


def _occupancy(trace: Trace, most: int = 64) -> tuple[Occupied, ...]:
    """Give real tokens over turns in at most so many points, beside the recorded prompts."""
    messages, calls, sent = trace.base.messages, trace.base.calls, load_of(trace).tokens
    width = max(1, -(-trace.turns // most))
    points: list[Occupied] = []
    for first in range(0, trace.turns, width):
        usages = [messages[call].usage for call in calls[first : first + width]]
        recorded = max((usage.prompt for usage in usages if usage is not None), default=None)
        points.append(Occupied(first, max(sent[first : first + width]), recorded))
    return tuple(points)
