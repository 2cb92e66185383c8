"""M8, stability: how often the compactor acts, whether that helps, and whether it ever comes to rest."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from statistics import median
from typing import NamedTuple

from compactctl.context.counting import MeterContext, tokens_of_all
from compactctl.measures._spec import Direction, Key, Measured, MeasureSpec, Pool, Trace
from compactctl.model import Tier
from compactctl.ports import Span

RUN, COMPACTIONS, NO_PROGRESS, GROWN, IDLE = (
    "m8.emergency_run",
    "m8.compactions",
    "m8.no_progress",
    "m8.grown",
    "m8.noop_turns",
)
SPIRAL, GAP, FLOOR = "m8.spiral", "m8.refill_gap", "m8.floor"
PROGRESS = 0.10  # a compaction that frees less of its view made no progress
NEAR = 3  # compactions no more turns apart belong to one spiral


class Compaction(NamedTuple):
    """One turn at which the view was changed, in decision tokens; ``hard`` where messages went away."""

    turn: int
    tier: Tier
    before: int
    after: int
    hard: bool

    @property
    def freed(self) -> float:
        """The share of the view that was freed; negative where it grew."""
        return (self.before - self.after) / self.before if self.before else 0.0


def longest_chain(turns: Sequence[int], gap: int = NEAR) -> int:
    """Give the length of the longest chain of turns that are at most ``gap`` apart.

    >>> longest_chain([3, 5, 8, 20, 21])
    3
    """
    best = length = 0
    last: int | None = None
    for turn in turns:
        length = length + 1 if last is not None and turn - last <= gap else 1
        best, last = max(best, length), turn
    return best


def compactions_of(trace: Trace) -> list[Compaction]:
    """Give the turns at which the compactor changed the view, in order; worked out once."""
    known = trace.cache.get("m8 compactions")
    if not isinstance(known, list):
        known = trace.cache["m8 compactions"] = [c for span in trace.spans for c in _compactions(span)]
    return known


def tier_runs(trace: Trace) -> list[tuple[int, int, Tier]]:
    """Give (turn, turns, tier) for the whole replay, in order; neighbours may have one tier. Worked out once."""
    known = trace.cache.get("m8 tiers")
    if not isinstance(known, list):
        known = trace.cache["m8 tiers"] = list(_tier_runs(trace.spans))
    return known


def _tier_runs(spans: Sequence[Span]) -> Iterator[tuple[int, int, Tier]]:
    for span in spans:
        records = span.records
        yield span.turn, 1, records[0].tier if len(records) == 1 else max(record.tier for record in records)
        if span.leap is not None:
            # These two tiers took turns; how they did is not asked.
            warned = span.leap.warned
            yield span.turn + 1, warned, Tier.WARN
            yield span.turn + 1 + warned, span.turns - 1 - warned, Tier.NONE
        elif span.until > span.turn + 1:
            yield span.turn + 1, span.turns - 1, span.quiet_tier


def emergency_runs(trace: Trace) -> list[tuple[int, int]]:
    """Give (first turn, turns) of each unbroken run of Emergency."""
    found: list[tuple[int, int]] = []
    end = -1
    for turn, turns, tier in tier_runs(trace):
        if tier is not Tier.EMERGENCY:
            continue
        if found and end == turn:
            found[-1] = (found[-1][0], found[-1][1] + turns)
        else:
            found.append((turn, turns))
        end = turn + turns
    return found


def tail_floor(trace: Trace) -> list[int] | None:
    """For each turn, give the decision tokens of the system message and the kept tail: nothing can go below that.

    None where the compactor does not keep a fixed number of newest messages.
    """
    tail = trace.options.get("min_tail_messages")
    if not isinstance(tail, int):
        return None
    tail = tail or 6
    base = trace.base
    key = f"m8 floor {tail} {base.meter.name} {base.offset} {base.prefix[-1]}"
    known = trace.shared.get(key)
    if not isinstance(known, list):
        prefix, tokens, context = base.prefix, base.meter.tokens, MeterContext(0, False)
        head = prefix[1] if len(prefix) > 1 else 0
        known = trace.shared[key] = [
            tokens(head + prefix[call] - prefix[max(call - tail, 1)] if call > 1 else prefix[call], context)
            for call in base.calls
        ]
    return known


def _compactions(span: Span) -> Iterator[Compaction]:
    if span.view is not span.before or len(span.records) > 1:
        records = [record for record in span.records if record.acted]
        if records:
            hard = any(r.summarized or r.dropped or r.tier >= Tier.SOFT for r in records)
            tier = max(record.tier for record in records)
            yield Compaction(span.turn, tier, records[0].tokens_before, records[-1].tokens_after, hard)
    if span.leap is not None:
        leap, base = span.leap, span.view.base
        sums = leap.passing.sums(base)
        events, fixed, context = list(leap.events()), leap.heights.base, MeterContext(leap.turn, False)
        befores = [sums.recorded[turn] + sums.grown[first] for turn, first, _ in events]
        afters = [sums.recorded[turn] + sums.grown[done] for turn, _, done in events]
        weighed = (tokens_of_all(base.meter, weights, fixed, context) for weights in (befores, afters))
        for (turn, _, _), before, after in zip(events, *weighed, strict=True):
            yield Compaction(turn, Tier.WARN, before, after, False)


def _compacted(trace: Trace) -> int:
    """Count the compactions: what an overflow made necessary at a turn is one more."""
    return sum(
        sum(record.acted for record in span.records) + (sum(1 for _ in span.leap.events()) if span.leap else 0)
        for span in trace.spans
    )


def _compute(trace: Trace) -> Mapping[str, Measured]:
    by_tier = dict.fromkeys(Tier, 0)
    for _, turns, tier in tier_runs(trace):
        by_tier[tier] += turns
    compactions = compactions_of(trace)
    above = sum(turns for tier, turns in by_tier.items() if tier is not Tier.NONE)
    idle = above - sum(compaction.tier is not Tier.NONE for compaction in compactions)
    hard = [compaction.turn for compaction in compactions if compaction.hard]
    gaps = [later - earlier for earlier, later in itertools.pairwise(hard)]
    floors = tail_floor(trace)
    found = {f"m8.turns_{tier.name.lower()}": Measured(turns) for tier, turns in by_tier.items()}
    found |= {
        RUN: Measured(max((turns for _, turns in emergency_runs(trace)), default=0)),
        COMPACTIONS: Measured(_compacted(trace)),
        NO_PROGRESS: Measured(sum(1 for c in compactions if c.freed < PROGRESS)),
        GROWN: Measured(sum(1 for c in compactions if c.after >= c.before)),
        IDLE: Measured(idle),
        SPIRAL: Measured(longest_chain(hard)),
        GAP: Measured(median(gaps)) if gaps else Measured(None, "fewer than two compactions took messages away"),
    }
    if floors is None:
        found[FLOOR] = Measured(None, "the compactor keeps no fixed number of messages")
    elif trace.window > 0 and floors:
        found[FLOOR] = Measured(max(floors) / trace.window)
    else:
        found[FLOOR] = Measured(None, "no window is known" if floors else "no model call")
    return found


MEASURE = MeasureSpec(
    "m8",
    "stability",
    (
        *(
            Key(f"m8.turns_{tier.name.lower()}", "turns", Direction.NEUTRAL, f"turns at tier {tier.label}")
            for tier in Tier
        ),
        Key(RUN, "turns", Direction.LOWER, "longest unbroken run of Emergency", Pool.MAX),
        Key(COMPACTIONS, "compactions", Direction.NEUTRAL, "changes of the view, as every output counts them"),
        Key(NO_PROGRESS, "compactions", Direction.LOWER, "compactions that freed less than 10 % of their view"),
        Key(GROWN, "compactions", Direction.LOWER, "compactions after which the view was no smaller"),
        Key(IDLE, "turns", Direction.LOWER, "idle turns: above a threshold, but nothing was changed"),
        Key(SPIRAL, "compactions", Direction.LOWER, "longest chain of compactions at most 3 turns apart", Pool.MAX),
        # A median: a sum of medians says nothing.
        Key(GAP, "turns", Direction.HIGHER, "median turns between compactions that took messages away", Pool.MEAN),
        Key(
            FLOOR,
            "share of the window",
            Direction.LOWER,
            "largest system message + kept tail (decision tokens)",
            Pool.MAX,
        ),
    ),
    _compute,
)
