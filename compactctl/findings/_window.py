"""Rules about the window: does what is sent fit, and does the compactor count truly? (M1, W8)"""

from __future__ import annotations

import difflib
import itertools
from collections.abc import Sequence

from compactctl.compactors.claude_code import COMPACTOR as CLAUDE_CODE, ClaudeCodeCompactor
from compactctl.context.words import quantity
from compactctl.findings._estimate import ESTIMATE_OFF, lowered, true_line
from compactctl.findings._kinds import Case, FindingKind, Severity, Shown, at_turns
from compactctl.findings._stops import COMPACT_BY_ITSELF, STOPS, stops
from compactctl.measures._load import load_of
from compactctl.measures.m8 import compactions_of, tier_runs
from compactctl.meters._images import base64_length, image_count
from compactctl.meters._recorded import segments
from compactctl.model import Tier
from compactctl.ports import Ports

NEAR = 0.9  # of the window
EARLY = 0.5  # of the window, in real tokens
_BLIND_METERS = ("bytes4",)


def _exceeded(case: Case) -> Shown | None:
    over = case.above("m1.overshoot_turns", 0)
    if over is None:
        return None
    trace = case.trace
    tokens = load_of(trace).tokens
    turns = tuple(turn for turn, count in enumerate(tokens) if count + trace.reserve > trace.window)
    peak = max(tokens)
    reserve = f" with the reserve of {trace.reserve:,}" if trace.reserve else ""
    return Shown(
        f"{quantity(len(turns), 'request')} would not fit the window of {trace.window:,}{reserve}: {at_turns(turns)}, "
        f"at most {peak:,} {_real(case)}",
        _sooner(case, turns),
        turns,
        {"turns": len(turns), "peak_tokens": peak, "window": trace.window, "reserve": trace.reserve},
    )


def _real(case: Case) -> str:
    """Name the tokens that requests are held against the window by: without recorded usage they are an estimate."""
    return "real tokens" if case.has_usage else "tokens by the estimate of bytes / 4 (no usage was recorded)"


def _sooner(case: Case, turns: Sequence[int]) -> tuple[str, ...]:
    """Give the ways to compact before these turns; a better count or threshold is none where nothing acts."""
    if case.trace.options.get("auto") is False:
        return (COMPACT_BY_ITSELF,)
    if not case.counts_tokens:
        return "compact earlier (--lower full)", _acting(case)
    return case.true_count(), _earlier(case, max(turns))


def _earlier(case: Case, turn: int) -> str:
    """Give the way to lower what compacts before a turn.

    Full cannot go below Soft, so that where no view came to Soft all thresholds must move.
    """
    reached = max((tier for at, _, tier in tier_runs(case.trace) if at <= turn), default=Tier.NONE)
    if case.has_tiers and reached < Tier.SOFT:
        return lowered(case) or "lower the thresholds together (--lower warn --lower soft --lower full)"
    return "compact earlier (--lower full)"


def _acting(case: Case) -> str:
    """Give the way to another compactor, with the meter by which it acts in this session."""
    meter = " --meter calibrated" if case.has_usage and case.situation.meter != "calibrated" else ""
    if meter and case.is_brittle:
        return case.true_count()
    return f"take a compactor that acts (--compactor progressive-safe{meter})"


def _failed(case: Case) -> Shown | None:
    turns = tuple(turn for span in case.trace.spans if span.failed for turn in range(span.turn, span.until))
    if not turns:
        return None
    failed, stopped = set(turns), stops(case)
    gave_up = [turn for turn in turns if turn in stopped]
    quiet = {
        at
        for turn, count, tier in tier_runs(case.trace)
        if tier is Tier.NONE and turn in failed
        for at in range(turn, turn + count)
    }
    idle = sorted(quiet - stopped.keys())
    notes = sorted({stopped[turn] for turn in gave_up})
    parts: list[str] = []
    ways: list[str] = []
    if gave_up:
        why = " and ".join(STOPS[note][0] for note in notes)
        parts.append(f"at {len(gave_up):,} of them the compactor did nothing, since {why}")
        ways += [way for note in notes for way in STOPS[note][1]]
    if idle:
        said, found = _idle(case, idle)
        parts.append(said)
        ways += found
    if not parts:
        parts.append("the compactor had no way left")
        ways += ["keep less as it is (--lower tail)", "compact earlier (--lower full)"]
    figures = {"turns": len(turns), **({"idle_turns": len(idle)} if idle else {})}
    return Shown(
        f"{quantity(len(turns), 'request')} would be rejected, and {', '.join(parts)}: {at_turns(turns)}",
        tuple(ways),
        turns,
        figures,
    )


def _idle(case: Case, turns: list[int]) -> tuple[str, tuple[str, ...]]:
    """Say why a compactor left the views of these turns as they were though they do not fit, and what helps."""
    name, count = case.situation.compactor, f"at {len(turns):,} of them"
    if name == "none":
        return f"{count} nothing was done, since the compactor {name} never compacts", (_acting(case),)
    if not case.counts_tokens:
        return f"{count} it did nothing, since {name} does not go by tokens", _sooner(case, turns)
    seen, room = set(turns), case.trace.window - case.trace.reserve
    full = sum(
        case.decision_tokens(span, turn) > room
        for span in case.trace.spans
        for turn in range(span.turn, span.until)
        if turn in seen
    )
    if full:
        # By its own count it had to act: it is made, or set, to act later than that.
        unseen = f", and at {len(turns) - full:,} it did not count the view as full" if full < len(turns) else ""
        said = f"at {full:,} of them it did nothing although the view was above the window by its own count{unseen}"
        return said, (_earlier(case, turns[-1]), _acting(case))
    # It is the estimate or the threshold that is wrong, and not what a compaction leaves.
    return f"{count} it did not count the view as full", _sooner(case, turns)


def _tiers_apart(case: Case) -> Shown | None:
    apart = case.above("m1.tier_disagreement", 0)
    if apart is None or not case.has_usage:
        return None
    return Shown(
        f"at {apart:.0%} of the turns real tokens would give another tier than the compactor's own count",
        (case.true_count(),),
        (),
        {"share_of_turns": apart},
    )


def _assumed(case: Case) -> Shown | None:
    if case.situation.window_source != "assumed":
        return None
    window = case.trace.window
    if case.situation.needs_window:
        return Shown(
            f"the window of {window:,} is only assumed, and the real {case.situation.compactor} does nothing without a "
            "known one",
            ("name the window (--window N)",),
            (),
            {"window": window},
            Severity.WARN,
        )
    return Shown(
        f"the window of {window:,} is only assumed: neither the session nor the model table names one",
        ("name the window (--window N)",),
        (),
        {"window": window},
    )


def _recorded_above(case: Case) -> Shown | None:
    window = case.trace.window
    calls = [m for m in case.trace.session.messages if m.role == "assistant"]
    prompts = [(turn, m.usage.prompt) for turn, m in enumerate(calls) if m.usage is not None]
    turns = tuple(turn for turn, prompt in prompts if window > 0 and prompt > window)
    if not turns:
        return None
    most = max(prompt for _, prompt in prompts)
    return Shown(
        f"the session recorded prompts of up to {most:,} tokens, more than the window of {window:,}: {at_turns(turns)}",
        ("the window is larger than that: name it (--window N)",),
        turns,
        {"largest_prompt": most, "window": window},
    )


def _near_limit(case: Case) -> Shown | None:
    peak = case.value("m1.peak_occupancy")
    if peak is None or not NEAR <= peak <= 1 or case.value("m8.compactions") != 0:
        return None
    if not case.has_usage and _largest(case) < NEAR * case.trace.window:
        return None  # only an estimate says so, and the compactor's own count may be the truer one
    recorded = [m.usage.prompt for m in case.trace.session.messages if m.usage is not None]
    really = max(recorded, default=0) / case.trace.window if case.trace.window > 0 else 0.0
    # Where the harness cut its prompts itself, only the replay without these cuts came so far.
    told = (
        f"with nothing that the harness itself cut, the session would come to {peak:.0%} of the window, and nothing "
        f"was compacted; its recorded prompts came to {really:.0%}"
        if 0 < really < NEAR
        else f"the session came to {peak:.0%} of the window and nothing was compacted"
    )
    return Shown(
        f"{told}: a longer session of this kind will not fit",
        tuple(dict.fromkeys((*_sooner(case, (case.trace.turns,)), _acting(case)))),
        (),
        {"peak_occupancy": peak, "recorded_occupancy": really or None},
    )


def _unrecorded_cuts(case: Case) -> Shown | None:
    found = segments(case.trace.session)
    falls = [(one, two) for one, two in itertools.pairwise(found) if two.reason == "fall"]
    if not falls:
        return None
    messages = case.trace.session.messages
    words = []
    for one, two in falls[:3]:
        was, now = one.calls[-1], two.calls[0]
        models = (messages[was.index].model, messages[now.index].model)
        other = f", where the model changed from {models[0]} to {models[1]}" if models[0] != models[1] else ""
        words.append(
            f"by {was.usage.prompt - now.usage.prompt:,} at turn {now.turn} ({was.usage.prompt:,} to "
            f"{now.usage.prompt:,}){other}"
        )
    more = f", and {quantity(len(falls) - 3, 'time')} more" if len(falls) > 3 else ""
    turns = tuple(two.calls[0].turn for _, two in falls)
    return Shown(
        f"the recorded prompt fell {'; '.join(words)}{more} without a recorded compaction: the harness cut something "
        "that the transcript does not show",
        (
            "nothing: the recorded prompts are taken as they are"
            if case.situation.recorded == "follow"
            else "from there on a replay of the whole history is what-if; --recorded follow takes the recorded prompts "
            "as they are",
        ),
        turns,
        {"falls": len(falls)},
    )


def _no_such_tool(case: Case) -> Shown | None:
    named = set(case.trace.base.tool_names)
    unknown = sorted(case.situation.protect - named)
    if not unknown:
        return None
    known = sorted(named - {""})
    near = [close[0] for name in unknown if (close := difflib.get_close_matches(name, known, n=1, cutoff=0.5))]
    return Shown(
        f"no result of this session is of a protected tool {', '.join(map(repr, unknown))}: that protects nothing",
        (f"name a tool of the session (--protect): {', '.join(near or known[:8]) or 'it has no results'}",),
        (),
        {"unknown": len(unknown)},
    )


def _without_effect(case: Case) -> Shown | None:
    levels = case.levels()
    if not levels or case.value("m8.compactions") != 0 or case.value("m8.noop_turns") != 0 or not case.trace.turns:
        return None
    most = _largest(case)
    name, lowest = levels[0]
    return Shown(
        f"no threshold was reached: the largest view is {most:,} decision tokens, {name} is {lowest:,.0f}",
        ("the thresholds had no effect on this session: tune on longer ones", "name a smaller window (--window N)"),
        (),
        {"largest_view": most, "lowest_threshold": lowest},
    )


def _largest(case: Case) -> int:
    """Give the largest decision tokens that were sent."""
    spans = case.trace.spans
    return max(case.decision_tokens(span, turn) for span in spans for turn in range(span.turn, span.until))


def _option_without_effect(case: Case) -> Shown | None:
    found = _idle_options(case)
    if found is None:
        return None
    message, *ways = found
    return Shown(message, tuple(ways))


def _idle_options(case: Case) -> tuple[str, ...] | None:
    options = case.trace.options
    offload = options.get("offload_threshold")
    if case.situation.compactor == "harness9" and isinstance(offload, int) and offload < 4000:
        return (
            f"offload_threshold {offload} has no effect: harness9's offloader has its own gate at 4,000 bytes",
            "set it to 4,000 or more (--set offload=4000)",
            "offload without that gate (--compactor progressive)",
        )
    percent = options.get("pct_override")
    if isinstance(percent, int | float) and percent > 0 and case.trace.window > 0:
        # The override is taken as the smaller of the two, so that it can only bring compaction forward.
        without = _own_threshold(case, 0.0)
        if _own_threshold(case, percent) == without:
            return (
                f"pct_override {percent:g} has no effect: it only lowers the threshold of {without:,} tokens",
                "set it lower",
                "leave it out",
            )
    limit, share = options.get("limit"), options.get("share")
    if isinstance(limit, int) and isinstance(share, int | float) and 0 < share * case.trace.window <= limit:
        return (
            f"limit {limit:,} has no effect: it can only lower the trigger of {share * case.trace.window:,.0f} tokens",
            "set it lower",
            "raise share (--raise share)",
        )
    names = ("warn_threshold", "soft_threshold", "full_threshold", "emergency_threshold")
    held = [(name, options[name]) for name in names if isinstance(options.get(name), int | float)]
    for (lower, one), (higher, two) in itertools.pairwise(held):
        if one == two:
            return (
                f"{lower} {one:g} has no effect: {higher} is as low and wins",
                f"set them apart (--set {lower}=...)",
            )
    return None


def _own_threshold(case: Case, percent: float) -> int:
    """Give the tokens at which Claude Code compacts with this override, by its own rule."""
    options = {**case.trace.options, "pct_override": percent}
    compactor = CLAUDE_CODE.make(options, case.trace.session, Ports(context_window=case.trace.window))
    assert isinstance(compactor, ClaudeCodeCompactor)
    return compactor.threshold


def _early(case: Case) -> Shown | None:
    window = case.trace.window
    # What the harness itself did while the session was recorded is nothing that an option could change.
    own = case.recorded_turns()
    early = [(turn, grown) for turn, grown in _grown(case) if turn not in own and grown < EARLY * window]
    if window <= 0 or not early:
        return None
    least = min(grown for _, grown in early)
    turns = tuple(turn for turn, _ in early)
    of = "the real window" if case.has_usage else "the window by its own count (no usage was recorded)"
    return Shown(
        f"{quantity(len(turns), 'compaction')} with less than half of the window in use, the first of them at "
        f"{least / window:.0%} of {of}: {at_turns(turns)}",
        ("raise the threshold (--raise warn)", "let the compactor count real tokens (--meter calibrated)"),
        turns,
        {"compactions": len(turns), "least_occupancy": least / window},
    )


def _grown(case: Case) -> list[tuple[int, float]]:
    """Give the turns at which the compactor changed the view, each with the tokens that would have been sent else.

    Without recorded usage they are the compactor's own count and the fixed part that is known.
    """
    if case.has_usage:
        return [(cut.turn, cut.grown) for cut in load_of(case.trace).cuts if cut.acted]
    fixed = (true_line(case) or (0.0,))[0]
    return [(compaction.turn, fixed + compaction.before) for compaction in compactions_of(case.trace)]


def _uncounted(case: Case) -> Shown | None:
    if case.situation.meter not in _BLIND_METERS or not case.counts_tokens:
        return None
    messages = case.trace.base.messages
    key = f"uncounted {case.trace.base.offset} {len(messages)}"
    if key not in case.trace.shared:
        encoded = sum(base64_length(message.content) for message in messages)
        case.trace.shared[key] = sum(map(image_count, messages)), encoded
    images, encoded = case.trace.shared[key]
    if not images and not encoded:
        return None
    parts = [quantity(images, "image")] * bool(images) + [f"{encoded:,} characters of base64"] * bool(encoded)
    return Shown(
        f"the meter {case.situation.meter} does not count what {' and '.join(parts)} cost: images are nothing to it, "
        "base64 a quarter of a token a character",
        (
            "let the compactor count real tokens (--meter calibrated)"
            if case.has_usage
            else "count with a tokenizer (--meter o200k_base)",
        ),
        (),
        {"images": images, "base64_characters": encoded},
    )


KINDS = (
    FindingKind(
        "window-exceeded",
        Severity.ERROR,
        "requests whose real tokens and reserve exceed the window: a provider would reject them",
        ("m1",),
        _exceeded,
    ),
    FindingKind(
        "request-failed",
        Severity.ERROR,
        "requests that do not fit after every retry that the compactor has",
        (),
        _failed,
    ),
    FindingKind(
        "recorded-above-window",
        Severity.ERROR,
        "the session recorded prompts that are larger than the window that it is judged by",
        (),
        _recorded_above,
    ),
    ESTIMATE_OFF,
    FindingKind(
        "tier-disagreement",
        Severity.INFO,
        "turns at which real tokens would give another tier than the compactor's count",
        ("m1",),
        _tiers_apart,
    ),
    FindingKind(
        "window-assumed",
        Severity.INFO,
        "nobody named the window; a warning where the real harness would refuse to compact",
        (),
        _assumed,
    ),
    FindingKind(
        "uncounted-data",
        Severity.WARN,
        "the session holds images or base64 data, and the compactor's meter is blind to what they cost",
        (),
        _uncounted,
    ),
    FindingKind(
        "early-compaction",
        Severity.WARN,
        "compactions with less than half of the real window in use",
        ("m1",),
        _early,
    ),
    FindingKind(
        "near-limit",
        Severity.INFO,
        "the session came near the end of the window and nothing was compacted",
        ("m1", "m8"),
        _near_limit,
    ),
    FindingKind(
        "unrecorded-cut",
        Severity.INFO,
        "the recorded prompt fell by more than 5 % without a recorded compaction",
        (),
        _unrecorded_cuts,
    ),
    FindingKind(
        "protect-unknown",
        Severity.WARN,
        "a protected tool that no result of the session is of",
        (),
        _no_such_tool,
    ),
    FindingKind(
        "thresholds-unreached",
        Severity.INFO,
        "no threshold was reached, so this session says nothing about them",
        ("m8",),
        _without_effect,
    ),
    FindingKind(
        "option-without-effect",
        Severity.WARN,
        "an option that cannot change anything at its value",
        (),
        _option_without_effect,
    ),
)
