"""Rules about summaries and costs: too often, too large, empty, failed, never paid back (M3, M4, W2, W9, W11, W14)."""

from __future__ import annotations

from collections.abc import Iterator

from compactctl.context.words import quantity
from compactctl.findings._kinds import Case, FindingKind, Severity, Shown, at_turns
from compactctl.measures._cost import asked_of, summarizer_cost
from compactctl.measures._spec import dollars
from compactctl.measures.m3 import unpaid
from compactctl.measures.m4 import avoidable, largest_input, summaries, summary_level
from compactctl.meters._recorded import first_break
from compactctl.model import CompactionRecord, Note, Tier
from compactctl.ports import Span

IN_A_ROW = 3
DEAR = 0.25  # of the cost of the whole replay
THRASH = 50  # rewrites for each hundred calls
COLD = 0.5  # of the tokens sent found in the cache
FEW_CALLS = 10
APART = 0.05  # of the modelled cost


def _every_turn(case: Case) -> Shown | None:
    asked = sorted({span.turn for span, _ in summaries(case.trace)})
    best = start = 0  # turns of the longest run, and where the present one begins
    last = 0
    for place, turn in enumerate(asked):
        if place == 0 or turn != asked[place - 1] + 1:
            start = turn
        if turn - start + 1 > best:
            best, last = turn - start + 1, turn
    if best < IN_A_ROW:
        return None
    first = last - best + 1
    ways = (
        ("compact harder (--lower full)", "keep less (--lower tail)")
        if case.writes_back
        else ("let a compaction become the history (--history write-back), so that it is not made again at each turn",)
    )
    return Shown(
        f"the summarizer is called at every turn from turn {first} to {last} ({len(asked):,} calls in "
        f"{case.trace.turns:,} turns)",
        ways,
        tuple(range(first, last + 1)),
        {"calls": len(asked), "longest_run": best},
    )


def _again(case: Case) -> Shown | None:
    often = case.above("m4.resummarized_messages", 0)
    if often is None:
        return None
    return Shown(
        f"{quantity(often, 'message')} summarised more than twice",
        ("let a compaction become the history (--history write-back)", f"summarise less often ({_later(case)})"),
        (),
        {"messages": often},
    )


def _later(case: Case) -> str:
    """Give the flag that raises what makes the summaries: mostly one of the two thresholds does."""
    tiers = [record.tier for _, record in summaries(case.trace)]
    return "--raise full" if tiers.count(Tier.FULL) * 2 > len(tiers) else "--raise soft"


def _avoidable(case: Case) -> Shown | None:
    if case.above("m4.avoidable_calls", 0) is None:
        return None
    turns = avoidable(case.trace)
    return Shown(
        f"{quantity(len(turns), 'summary')} need not have been written: offloading alone brought the view below the "
        f"threshold, {at_turns(turns)}",
        ("measure again after offloading (--safer remeasure_after_offload)",),
        turns,
        {"summaries": len(turns)},
    )


def _no_room(case: Case) -> Shown | None:
    trace = case.trace
    largest = largest_input(trace)
    if largest is not None and trace.window > 0 and largest[0] > trace.window:
        return Shown(
            f"the summarizer would be asked to read and write {largest[0]:,.0f} tokens at turn {largest[1]}, more than "
            f"the window of {trace.window:,}",
            ("summarise earlier (--lower full)", "cap the summary (--summary-tokens N)"),
            (largest[1],),
            {"tokens": largest[0], "window": trace.window},
        )
    level = summary_level(trace)
    if level is not None and trace.window > 0 and level + trace.summary_tokens > trace.window:
        return Shown(
            f"a summary begins at {level:,.0f} tokens and may take {trace.summary_tokens:,}: together more than the "
            f"window of {trace.window:,}",
            ("summarise earlier (--lower full)", "cap the summary (--summary-tokens N)"),
            (),
            {"threshold": level, "summary_tokens": trace.summary_tokens, "window": trace.window},
        )
    return None


def _modelled(case: Case) -> Shown | None:
    """Say what the modelled cost leaves out where the session shows it: it was replayed as it was recorded."""
    recorded, prices = case.value("m3.recorded_cost_usd"), case.trace.prices
    whole = case.value("m3.uncompacted_cost_usd")
    session = case.trace.session
    # A session that was cut by its harness sent less than the whole that is modelled: nothing to compare.
    if not recorded or not whole or prices is None or first_break(session) < session.model_calls:
        return None
    # The recorded calls of several models stand at several prices, the modelled ones at one.
    if len({message.model for message in session.messages if message.usage is not None and message.model}) > 1:
        return None
    if recorded <= whole * (1 + APART):
        return None
    dated = f", {prices.date}" if prices.date else ""
    return Shown(
        f"by its recorded usage the session cost {dollars(recorded)} US dollars, {recorded / whole - 1:.0%} more than "
        f"the {dollars(whole)} that are modelled at the same prices ({prices.source}{dated})",
        (
            "the modelled prompt cache never expires, and every token that was sent before is cached: compare modelled "
            "costs with one another, not with a bill",
        ),
        (),
        {
            "recorded_usd": recorded,
            "modelled_usd": whole,
            "price_source": prices.source,
            "price_date": prices.date or None,
        },
    )


def _dear(case: Case) -> Shown | None:
    share = case.above("m4.cost_share", DEAR)
    prices = case.trace.prices
    if share is None or prices is None:
        return None
    cost = summarizer_cost(case.trace, prices)
    read = sum(call.read for call in asked_of(case.trace))
    aligned = cost - read * (prices.input - prices.cached) / 1_000_000
    return Shown(
        f"the summarizer makes {share:.0%} of the whole cost ({dollars(cost)} US dollars; {dollars(aligned)} if its "
        "requests began like the conversation and were cached)",
        (
            "let a compaction become the history (--history write-back)",
            "summarise less often (--raise soft)",
            "summarise with a cheaper model",
        ),
        (),
        {"share": share, "cost_usd": cost, "cost_usd_if_cached": aligned},
    )


def _failures(case: Case) -> Iterator[tuple[Span, CompactionRecord]]:
    for span, record in case.records():
        if record.summary_failed:
            yield span, record


def _failed(case: Case) -> Shown | None:
    failures = list(_failures(case))
    if not failures:
        return None
    turns = tuple(dict.fromkeys(span.turn for span, _ in failures))
    cause = next((r.error.partition(": ")[2] for _, r in failures if ": " in r.error), "")
    return Shown(
        f"{quantity(len(failures), 'summary')} failed, {at_turns(turns)}" + (f"; the first: {cause}" if cause else ""),
        ("look at the summarizer; while it fails the fallback drops messages, or does nothing",),
        turns,
        {"failures": len(failures)},
    )


def _silent(case: Case) -> Shown | None:
    turns = tuple(dict.fromkeys(s.turn for s, r in _failures(case) if r.tokens_after >= r.tokens_before))
    if not turns:
        return None
    return Shown(
        f"{quantity(len(turns), 'turn')} at which the summary failed and the fallback changed nothing, "
        f"{at_turns(turns)}",
        (
            "the fallback keeps 80 % of the window, so below that it does nothing: raise soft (--raise soft)",
            "look at the summarizer",
        ),
        turns,
        {"turns": len(turns)},
    )


def _empty(case: Case) -> Shown | None:
    found = [
        span.turn
        for span, record in case.records()
        if Note.SUMMARY_EMPTY in record.notes or Note.ANCHORS_MISSING in record.notes
    ]
    if not found:
        return None
    total = sum(1 for _ in summaries(case.trace))
    turns = tuple(dict.fromkeys(found))
    return Shown(
        f"{len(found):,} of {quantity(total, 'summary')} came without a single anchor, "
        f"and the messages that they stand for are gone, {at_turns(turns)}",
        ("look at the summarizer", "refuse empty replies (--safer refuse_poor_replies)"),
        turns,
        {"summaries": len(found), "of": total},
    )


# What puts a compaction of each tier off.
_LATER = {
    Tier.WARN: "offload later (--raise warn)",
    Tier.SOFT: "summarise later (--raise soft)",
    Tier.FULL: "summarise later (--raise full)",
}


def _unpaid(case: Case) -> Shown | None:
    turns = unpaid(case.trace)
    if not turns or case.above("m3.unpaid_compactions", 0) is None:
        return None
    tiers = {record.tier for record in case.acted(turns)} if case.has_tiers else set(_LATER)
    ways: tuple[str, ...] = tuple(way for tier, way in _LATER.items() if tier in tiers)
    if tiers & {Tier.SOFT, Tier.FULL}:  # made afresh at the next turn, a summary is written to the cache once more
        ways = ("let a compaction become the history (--history write-back), so that it lasts", *ways)
    if case.above("m3.cost_share_of_uncompacted", 1) is not None and _fits_whole(case):
        # Only then is no compaction the cheaper one, and possible at all.
        ways += ("compact nothing, since for the cost alone a short session needs no compaction (--compactor none)",)
    return Shown(
        f"{quantity(len(turns), 'compaction')} without a return: what is made new in the prompt cache costs more than "
        f"what is saved as long as {'it lasts' if len(turns) == 1 else 'they last'}, {at_turns(turns)}",
        ways,
        turns,
        {"compactions": len(turns)},
    )


def _dearer(case: Case) -> Shown | None:
    share = case.above("m3.cost_share_of_uncompacted", 1)
    if share is None or not _fits_whole(case):
        return None
    return Shown(
        f"compaction makes the session {share:.2f} times as dear as none, and without any it would fit the window",
        (
            "offload later (--raise warn)",
            "summarise later (--raise soft)",
            "compact nothing in sessions like this (--compactor none)",
        ),
        (),
        {
            "cost_share": share,
            "cost_usd": case.value("m3.cost_usd"),
            "whole_usd": case.value("m3.uncompacted_cost_usd"),
        },
    )


def _fits_whole(case: Case) -> bool:
    from compactctl.measures._load import uncompacted

    trace = case.trace
    return trace.window > 0 and max(uncompacted(trace), default=0) + trace.reserve <= trace.window


def _thrash(case: Case) -> Shown | None:
    rewrites, hits = case.value("m3.rewrites_per_100"), case.value("m3.cache_hit_ratio")
    if rewrites is None or hits is None or case.trace.turns < FEW_CALLS or (rewrites < THRASH and hits >= COLD):
        return None
    return Shown(
        f"the prompt cache is broken at {rewrites:.0f} of 100 calls; {hits:.0%} of the tokens sent are found in it",
        ("free more at a time (--raise clear_at_least)",)
        if "clear_at_least" in case.trace.options
        else (
            "compact less often and more at a time: a target below the trigger (--safer target)",
            "let a compaction become the history (--history write-back)",
        ),
        (),
        {"rewrites_per_100": rewrites, "cache_hit_ratio": hits},
    )


KINDS = (
    FindingKind(
        "summary-every-turn",
        Severity.ERROR,
        "the summarizer is called at three or more turns in a row",
        ("m4",),
        _every_turn,
    ),
    FindingKind(
        "summary-no-room",
        Severity.ERROR,
        "what the summarizer must read and may write is more than the window",
        ("m4",),
        _no_room,
    ),
    FindingKind(
        "summary-empty", Severity.ERROR, "replies of the summarizer that filled no anchor and were accepted", (), _empty
    ),
    FindingKind(
        "fallback-did-nothing",
        Severity.ERROR,
        "the summary failed and the fallback left the view as it was, which no record shows as a failure",
        (),
        _silent,
    ),
    FindingKind("summary-failed", Severity.WARN, "calls of the summarizer that failed", (), _failed),
    FindingKind("summarised-again", Severity.WARN, "messages that were summarised more than twice", ("m4",), _again),
    FindingKind(
        "summary-avoidable",
        Severity.WARN,
        "summaries that the offloads before them had made unnecessary",
        ("m4",),
        _avoidable,
    ),
    FindingKind("never-pays-back", Severity.WARN, "compactions that cost more than they save", ("m3",), _unpaid),
    FindingKind(
        "dearer-than-none",
        Severity.WARN,
        "the replay costs more than no compaction, while the whole session fits the window",
        ("m3",),
        _dearer,
    ),
    FindingKind(
        "cache-thrash",
        Severity.WARN,
        "at least half of the calls do not begin like the one before, or half of what is sent is not cached",
        ("m3",),
        _thrash,
    ),
    FindingKind(
        "cost-below-recorded",
        Severity.INFO,
        "the modelled cost, with a prompt cache that never expires, is more than 5 % below that of the recorded usage",
        ("m3",),
        _modelled,
    ),
    FindingKind(
        "summarizer-dear", Severity.INFO, "the summarizer makes more than a quarter of the whole cost", ("m4",), _dear
    ),
)
