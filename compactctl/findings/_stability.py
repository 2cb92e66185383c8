"""Rules about stability: does the compactor come to rest, and does each compaction help? (M8, W1, W4, W5, W7, W10)"""

from __future__ import annotations

import itertools

from compactctl.compactors._offloading import Offloading
from compactctl.context.base import Kind
from compactctl.context.budget import DEFAULT_MIN_TAIL
from compactctl.context.counting import MeterContext, Standing
from compactctl.context.offload import NullOffloader
from compactctl.context.view import View
from compactctl.context.words import quantity
from compactctl.findings._kinds import Case, FindingKind, Severity, Shown, at_turns
from compactctl.findings._stops import STOPS, stops
from compactctl.measures._own import own_changes
from compactctl.measures.m4 import summary_level
from compactctl.measures.m8 import NEAR, PROGRESS, compactions_of, emergency_runs, tail_floor, tier_runs
from compactctl.model import Note, Tier, Trigger
from compactctl.ports import Span

LONG_RUN = 3
SPIRAL = 3
HEADROOM = 0.9  # a view that is left above this share of its threshold is soon there again


def _permanent(case: Case) -> Shown | None:
    runs = emergency_runs(case.trace)
    if not case.has_tiers or not runs or runs[-1][1] <= LONG_RUN or sum(runs[-1]) < case.trace.turns:
        return None
    start, length = runs[-1]
    message = f"every turn from turn {start} on is an Emergency ({length:,} of {case.trace.turns:,} turns)"
    turns = tuple(range(start, start + length))
    figures = {"from_turn": start, "turns": length}
    if not case.writes_back:
        message += ": the history only grows, and each turn truncates it afresh"
        return Shown(message, (_WRITE_BACK,), turns, figures)
    return Shown(message, ("lower what is kept (--lower tail)",), turns, figures)


def _emergency(case: Case) -> Shown | None:
    runs = [(start, length) for start, length in emergency_runs(case.trace) if length > LONG_RUN]
    runs = [run for run in runs if sum(run) < case.trace.turns]
    if not case.has_tiers or not runs:
        return None
    start, length = max(runs, key=lambda run: run[1])
    return Shown(
        f"{length:,} Emergency turns in a row from turn {start} on",
        ("summarise earlier (--lower full)", "keep less (--lower tail)"),
        tuple(range(start, start + length)),
        {"longest_run": length},
    )


def _jump(case: Case) -> Shown | None:
    if not case.has_tiers:
        return None
    turns: list[int] = []
    avoidable: list[int] = []
    spans = {span.turn: span for span in case.trace.spans}
    last = Tier.NONE
    level = case.trace.options["emergency_threshold"] * case.trace.window
    for turn, _, tier in tier_runs(case.trace):
        # The user's own /compact goes to Emergency at once: nothing jumped there.
        if tier is Tier.EMERGENCY and last <= Tier.WARN and not _is_manual(spans[turn]):
            turns.append(turn)
            view = spans[turn].before
            if view is not None and tokens_after_offload(view, case) < level:
                avoidable.append(turn)
        last = tier
    if not turns:
        return None
    enough = f"; {at_turns(avoidable)} offloading alone would have been enough" if avoidable else ""
    return Shown(
        f"{quantity(len(turns), 'jump')} past all softer tiers to Emergency, {at_turns(turns)}{enough}",
        (
            "keep large results out of the history when they are written (--spill BYTES)",
            "offload and measure again first (--safer remeasure_after_offload)",
        ),
        tuple(turns),
        {"jumps": len(turns), "offload_enough": len(avoidable)},
    )


def tokens_after_offload(view: View, case: Case) -> int:
    """Give the decision tokens of a tiered compactor's view once all that it may offload is placeholders."""
    options = case.trace.options
    offloader = NullOffloader(case.trace.session.id, threshold=0)
    offloading = Offloading(
        offloader, options["offload_threshold"], options.get("preview_bytes", 0), case.situation.protect
    )
    tail = options["min_tail_messages"] or DEFAULT_MIN_TAIL
    done = offloading.apply(view, 1, max(len(view) - tail, 1))
    return view.base.meter.tokens(view.weight + done.grown, MeterContext(view.turn, Standing.CHANGED))


def _is_manual(span: Span) -> bool:
    return any(record.trigger is Trigger.MANUAL for record in span.records)


def _spiral(case: Case) -> Shown | None:
    length = case.above("m8.spiral", SPIRAL - 1)
    if length is None:
        return None
    hard = [compaction.turn for compaction in compactions_of(case.trace) if compaction.hard]
    near = {turn for one, two in itertools.pairwise(hard) if two - one <= NEAR for turn in (one, two)}
    turns = tuple(sorted(near))
    refill = _refill(case, turns)
    ways: tuple[str, ...] = ("leave more room: keep less (--lower tail)", "compact harder earlier (--lower full)")
    if not case.writes_back:
        ways = (_WRITE_BACK,)
    return Shown(
        f"a spiral: {length:,} compactions at most {NEAR} turns apart, {at_turns(turns)}{refill[0]}",
        ways,
        turns,
        {"compactions": length, "refilled_by": refill[1]},
    )


def _refill(case: Case, turns: tuple[int, ...]) -> tuple[str, str]:
    """Name the tool whose results filled the view again between these turns the most."""
    base = case.trace.base
    weights: dict[str, int] = {}
    for one, two in itertools.pairwise(turns):
        if two - one > NEAR:
            continue
        for index in range(base.calls[one], base.calls[two]):
            if base.messages[index].tool_call_id:
                name = base.tool_name(index) or "a tool"
                weights[name] = weights.get(name, 0) + base.prefix[index + 1] - base.prefix[index]
    if not weights:
        return "", ""
    name = max(sorted(weights), key=weights.__getitem__)
    return f"; results of {name} refilled it the most", name


def _no_progress(case: Case) -> Shown | None:
    if case.above("m8.no_progress", 0) is None:
        return None
    idle = tuple(c.turn for c in compactions_of(case.trace) if c.freed < PROGRESS)
    return Shown(
        f"{quantity(len(idle), 'compaction')} freed less than {PROGRESS:.0%} of the view, {at_turns(idle)}",
        ("offload more (--lower offload)", "keep less (--lower tail)", "begin later (--raise warn)"),
        idle,
        {"compactions": len(idle)},
    )


def _grew(case: Case) -> Shown | None:
    if case.above("m8.grown", 0) is None:
        return None
    grown = [c for c in compactions_of(case.trace) if c.after >= c.before]
    worst = max(grown, key=lambda c: c.after - c.before)
    ways: tuple[str, ...] = (
        "cap the summary (--summary-tokens N)",
        "refuse what does not shrink the view (--safer refuse_poor_replies)",
    )
    records = case.acted(c.turn for c in grown)
    if records and not any(record.summaries for record in records):  # placeholders made them grow
        ways = (_CAP_PREVIEWS,)
    return Shown(
        f"{quantity(len(grown), 'compaction')} left the view no smaller, {at_turns(c.turn for c in grown)}; the worst "
        f"went from {worst.before:,} to {worst.after:,} tokens",
        ways,
        tuple(c.turn for c in grown),
        {"compactions": len(grown), "worst_growth": worst.after - worst.before},
    )


def _headroom(case: Case) -> Shown | None:
    level = summary_level(case.trace)
    if level is None:
        return None
    tight = tuple(c.turn for c in compactions_of(case.trace) if c.hard and HEADROOM * level <= c.after < c.before)
    if not tight:
        return None
    return Shown(
        f"{quantity(len(tight), 'compaction')} ended just below the threshold of {level:,.0f} tokens or above it, "
        f"{at_turns(tight)}: the next one is near",
        ("leave more room: a target below the trigger (--safer target)", "keep less (--lower tail)"),
        tight,
        {"compactions": len(tight), "threshold": level},
    )


def _unreachable(case: Case) -> Shown | None:
    levels = case.levels()
    if not levels:
        return None
    name, level = levels[0]
    trace, base = case.trace, case.trace.base
    # In the tokens by which the threshold is held; a meter that does not see the fixed part never acts on it.
    fixed = base.meter.tokens(base.prefix[base.offset], MeterContext(0, Standing.CHANGED))
    if fixed >= level:
        return Shown(
            f"the fixed part alone (system prompt and tools, {fixed:,} decision tokens) is above {name} "
            f"({level:,.0f}): nothing can bring the context below it",
            (f"raise the threshold (--raise {name})", "send fewer tools"),
            (),
            {"fixed_tokens": fixed, "threshold": level},
        )
    floors = tail_floor(trace)
    turns = tuple(turn for turn, floor in enumerate(floors or ()) if floor >= level)
    if not turns or floors is None:
        return None
    return Shown(
        f"{at_turns(turns)} the system message and the kept tail alone ({max(floors):,} tokens) are above {name} "
        f"({level:,.0f}): no compaction can bring the view below it",
        ("keep less (--lower tail)", f"raise {name} (--raise {name})", _SPILL),
        turns,
        {"floor_tokens": max(floors), "threshold": level, "turns": len(turns)},
    )


def _tail_blind(case: Case) -> Shown | None:
    acted = {compaction.turn for compaction in compactions_of(case.trace)}
    turns = [
        at
        for turn, count, tier in tier_runs(case.trace)
        if tier is not Tier.NONE
        for at in range(turn, turn + count)
        if at not in acted
    ]
    if not turns or case.above("m8.noop_turns", 0) is None:
        return None
    return Shown(
        f"{quantity(len(turns), 'turn')} above a threshold at which nothing could be compacted, {at_turns(turns)}: "
        "what is large stands in the kept tail, or before it is nothing left to take",
        ("keep fewer messages (--lower tail)", _SPILL),
        tuple(turns),
        {"turns": len(turns)},
    )


def _offload_grew(case: Case) -> Shown | None:
    turns: dict[int, None] = {}
    entries: set[int] = set()
    growth = 0
    base = case.trace.base
    for span, (change, _) in zip(case.trace.spans, own_changes(case.trace), strict=True):
        for item in change.made if change is not None else ():
            if item.kind is Kind.OFFLOADED and item.index not in entries:
                grown = item.weight - (base.prefix[item.index + 1] - base.prefix[item.index])
                if grown >= 0:
                    entries.add(item.index)
                    turns[span.turn] = None
                    growth += grown
    if not entries:
        return None
    stands = "the result it stands for" if len(entries) == 1 else "the results they stand for"
    return Shown(
        f"{quantity(len(entries), 'placeholder')} no smaller than {stands}, {at_turns(turns)}: previews "
        "are counted in lines, and these lines are long",
        (_CAP_PREVIEWS,),
        tuple(turns),
        {"placeholders": len(entries), "growth": growth},
    )


def _offload_failed(case: Case) -> Shown | None:
    turns = tuple(dict.fromkeys(span.turn for span, record in case.records() if Note.OFFLOAD_FAILED in record.notes))
    if not turns:
        return None
    return Shown(
        f"{quantity(len(turns), 'turn')} at which a result could not be written to its file, {at_turns(turns)}",
        ("look at the state directory: its space and permissions",),
        turns,
        {"turns": len(turns)},
    )


def _no_system(case: Case) -> Shown | None:
    turns = tuple(dict.fromkeys(span.turn for span, record in case.records() if Note.NO_SYSTEM_MESSAGE in record.notes))
    if not turns:
        return None
    return Shown(
        f"{quantity(len(turns), 'turn')} at which nothing was done because the view has no system message, "
        f"{at_turns(turns)}",
        ("hand the replay a Session instead of a bare list: it puts a system message first",),
        turns,
        {"turns": len(turns)},
    )


def _stopped(case: Case) -> Shown | None:
    found = stops(case)
    if not found:
        return None
    notes = sorted(set(found.values()))
    return Shown(
        f"the compactor gave up, {at_turns(found)}: {' and '.join(STOPS[note][0] for note in notes)}",
        tuple(way for note in notes for way in STOPS[note][1]),
        tuple(found),
        {"turns": len(found)},
    )


_CAP_PREVIEWS = "cap previews in bytes (--safer preview_bytes)"
_SPILL = "keep large results out of the history (--spill BYTES)"
_WRITE_BACK = "let a compaction become the history (--history write-back)"

KINDS = (
    FindingKind(
        "permanent-emergency",
        Severity.ERROR,
        "from some turn on every turn is an Emergency: no summary is ever made again",
        ("m8",),
        _permanent,
    ),
    FindingKind("emergency-run", Severity.ERROR, "more than 3 Emergency turns in a row", ("m8",), _emergency),
    FindingKind(
        "compaction-grew",
        Severity.ERROR,
        "compactions after which the view was no smaller",
        ("m8",),
        _grew,
    ),
    FindingKind(
        "unreachable-threshold",
        Severity.ERROR,
        "the fixed part or the kept tail alone is above a threshold, so that compaction never ends",
        ("m8",),
        _unreachable,
    ),
    FindingKind("gave-up", Severity.ERROR, "the compactor stopped itself and compacts no more", (), _stopped),
    FindingKind(
        "no-system-message",
        Severity.ERROR,
        "the compactor does nothing because the view has no system message",
        (),
        _no_system,
    ),
    FindingKind(
        "offload-failed", Severity.ERROR, "results that could not be written to their files", (), _offload_failed
    ),
    FindingKind("spiral", Severity.WARN, "3 or more compactions at most 3 turns apart", ("m8",), _spiral),
    FindingKind(
        "jump-to-emergency",
        Severity.WARN,
        "a batch of results takes the view past all softer tiers, whatever they could have done",
        ("m8",),
        _jump,
    ),
    FindingKind(
        "no-progress", Severity.WARN, "compactions that freed less than 10 % of their view", ("m8",), _no_progress
    ),
    FindingKind(
        "no-headroom",
        Severity.WARN,
        "compactions that ended just below the threshold that will trigger the next one",
        ("m4", "m8"),
        _headroom,
    ),
    FindingKind(
        "tail-blind",
        Severity.WARN,
        "turns above a threshold at which nothing could be compacted",
        ("m8",),
        _tail_blind,
    ),
    FindingKind(
        "offload-grew",
        Severity.WARN,
        "placeholders that are no smaller than the results they stand for",
        (),
        _offload_grew,
    ),
)
