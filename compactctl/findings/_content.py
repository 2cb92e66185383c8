"""Rules about what the model still sees: results, the task, the rules, the anchors (M5, M6, M7, W3, W6, W12, W13)."""

from __future__ import annotations

from compactctl.context.words import quantity
from compactctl.findings._kinds import Case, FindingKind, Severity, Shown, at_turns
from compactctl.measures._retention import anchor_checks, constraint_rounds
from compactctl.measures.m5 import KINDS as FAULTS, faults_of, unread_results
from compactctl.measures.m7 import CLIFF_SHARE
from compactctl.measures.m8 import compactions_of
from compactctl.model import Tier

GROUNDED = 0.5
INTENT = 0.5
DRIFT = 0.5
FEW_NAMES = 3
_VIEW_FAULTS = ("system_only", "no_user")
# The user's words survive where they are kept, or where the summary holds them word for word.
_QUOTE = (
    "keep user messages as they are (--compactor codex)",
    "let the summary quote the user (--summarizer stub)",
)
# An Emergency can spare the task; a summary takes it in any compactor but those that keep what the user said.
_USER_TOKENS = "user_tokens"
_AFTER_EMERGENCY = (
    "keep the task in an Emergency (--safer emergency_keeps_task)",
    "compact once for all (--history write-back)",
)
_KEEP_TASK = ("keep the task in an Emergency (--safer emergency_keeps_task)", "keep user messages (--compactor codex)")


def _fault_turns(case: Case, kinds: tuple[str, ...]) -> tuple[int, ...]:
    turns: set[int] = set()
    for fault in faults_of(case.trace):
        if fault.kind in kinds:
            turns.update(range(fault.turn, fault.turn + fault.turns))
    return tuple(sorted(turns))


def _system_only(case: Case) -> Shown | None:
    turns = _fault_turns(case, ("system_only",))
    if not turns:
        return None
    return Shown(
        f"{quantity(len(turns), 'view')} with nothing but the system message, {at_turns(turns)}: the model would be "
        "asked without a single message",
        _AFTER_EMERGENCY,
        turns,
        {"turns": len(turns)},
    )


def _no_user(case: Case) -> Shown | None:
    turns = tuple(sorted(set(_fault_turns(case, ("no_user",))) - set(_fault_turns(case, ("system_only",)))))
    if not turns:
        return None
    return Shown(
        f"{quantity(len(turns), 'view')} without any message of a user, {at_turns(turns)}",
        (*_KEEP_TASK, "keep more (--raise tail)"),
        turns,
        {"turns": len(turns)},
    )


def _faults(case: Case) -> Shown | None:
    counts = {
        kind: case.value(f"m5.{kind}") or 0 for kind in FAULTS if kind not in _VIEW_FAULTS and case.value(f"m5.{kind}")
    }
    if not counts:
        return None
    turns = _fault_turns(case, tuple(counts))
    words = ", ".join(f"{count:,} x {FAULTS[kind]}" for kind, count in sorted(counts.items(), key=lambda c: -c[1]))
    return Shown(
        f"{quantity(len(turns), 'request')} that a provider would reject, {at_turns(turns)}: {words}",
        ("cut only where tool calls balance (--safer balanced_cuts)", "report the compactor"),
        turns,
        dict(counts),
    )


def _unread_lost(case: Case) -> Shown | None:
    if case.above("m5.unread_results_lost", 0) is None:
        return None
    found = [unread for unread in unread_results(case.trace) if unread.lost]
    lost = sum(unread.lost for unread in found)
    turns = tuple(unread.turn for unread in found)
    records = case.acted(turns)
    # A truncation keeps no tail.
    truncated = case.has_tiers and bool(records) and all(record.tier is Tier.EMERGENCY for record in records)
    them = "it" if lost == 1 else "them"
    return Shown(
        f"{quantity(lost, 'result')} gone before the model had seen {them}, {at_turns(turns)}",
        _AFTER_EMERGENCY
        if truncated
        else (
            # What codex keeps are messages of the user, and no tail.
            *(() if _USER_TOKENS in case.trace.options else ("keep whole batches: a larger tail (--raise tail)",)),
            "cut only where tool calls balance (--safer balanced_cuts)",
        ),
        turns,
        {"results": lost},
    )


def _unread_cut(case: Case) -> Shown | None:
    if case.above("m5.unread_results_cut", 0) is None:
        return None
    found = [unread for unread in unread_results(case.trace) if unread.cut]
    cut = sum(unread.cut for unread in found)
    turns = tuple(unread.turn for unread in found)
    return Shown(
        f"{quantity(cut, 'result')} shortened before the model had seen them whole, {at_turns(turns)}",
        ("raise the size at which results are cut (--raise offload)", "spare the newest results (--raise tail)"),
        turns,
        {"results": cut},
    )


def _dropped(case: Case) -> Shown | None:
    found = [
        (span.turn, record.dropped)
        for span, record in case.records()
        if record.dropped and record.tier is not Tier.EMERGENCY and not record.error
    ]
    if not found:
        return None
    turns = tuple(dict.fromkeys(turn for turn, _ in found))
    total = sum(dropped for _, dropped in found)
    return Shown(
        f"{quantity(total, 'message')} dropped at the cut without being summarised or stored, {at_turns(turns)}",
        ("cut only where tool calls balance (--safer balanced_cuts)",),
        turns,
        {"messages": total},
    )


def _orphaned_files(case: Case) -> Shown | None:
    share = case.above("m6.orphaned", 0)
    if share is None:
        return None
    return Shown(
        f"{share:.0%} of what the model took up again lies in files that its view no longer names",
        # A truncation drops the list as well.
        _AFTER_EMERGENCY[:1]
        if _truncated(case) and case.trace.options.get("emergency_keeps_task") is False
        else ("list all offloaded files in the compaction message (--safer file_index)",),
        (),
        {"share": share, "references": case.value("m6.references")},
    )


def _task_gone(case: Case) -> Shown | None:
    if case.value("m7.first_user_kept") != 0:
        return None
    return Shown(
        "the user's first message, which is mostly the task, is not in the last view",
        _keep_task(case),
        (),
        {"user_tokens_kept": case.value("m7.user_tokens_kept")},
        # What a summary still tells of the task may be enough; a truncation leaves nothing of it.
        Severity.ERROR if _truncated(case) else None,
        _first_cut(case),
    )


def _keep_task(case: Case) -> tuple[str, ...]:
    """Give the ways in which the task stays in the view."""
    less = "compact less (--raise full)"
    if _USER_TOKENS in case.trace.options:
        return "keep more of what the user wrote (--raise user_tokens)", less
    return _KEEP_TASK if _truncated(case) else (*_KEEP_TASK, less)


def _first_cut(case: Case) -> tuple[int, ...]:
    """Give the first turn at which messages went away, by a compaction of the run or of the recorded harness."""
    hard = {compaction.turn for compaction in compactions_of(case.trace) if compaction.hard}
    return tuple(sorted(hard | case.recorded_turns()))[:1]


def _truncated(case: Case) -> bool:
    """Whether the last compaction that took messages away was a truncation: the view has only grown since."""
    last = next((compaction for compaction in reversed(compactions_of(case.trace)) if compaction.hard), None)
    return last is not None and last.tier is Tier.EMERGENCY


def _rules_gone(case: Case) -> Shown | None:
    worst = case.below("m7.constraints_worst", CLIFF_SHARE)
    if worst is None:
        return None
    rounds = constraint_rounds(case.trace) or []
    turns = tuple(turn for turn, share in rounds if share < CLIFF_SHARE)
    return Shown(
        f"less than half of the user's binding sentences (must, never, always, ...) are left after compaction round "
        f"{case.value('m7.cliff_round')}, {at_turns(turns)}",
        _QUOTE,
        turns,
        {"worst": worst, "last": case.value("m7.constraints_kept"), "round": case.value("m7.cliff_round")},
    )


def _anchors_empty(case: Case) -> Shown | None:
    if case.value("m7.anchors_filled") is None:
        return None
    turns = tuple(check.turn for check in anchor_checks(case.trace) if not check.filled)
    if not turns:
        return None
    return Shown(
        f"all five anchors are N/A in {quantity(len(turns), 'summary')}, {at_turns(turns)}",
        ("look at the summarizer: its reply does not have the asked-for form",),
        turns,
        {"summaries": len(turns)},
    )


def _ungrounded(case: Case) -> Shown | None:
    if case.value("m7.grounding") is None:
        return None
    bad = [c for c in anchor_checks(case.trace) if c.named >= FEW_NAMES and c.grounded < GROUNDED * c.named]
    if not bad:
        return None
    turns = tuple(check.turn for check in bad)
    return Shown(
        f"less than half of the names in the anchors occur in what was summarised, {at_turns(turns)}",
        ("the summarizer makes things up: take another model, or a lower temperature",),
        turns,
        {"summaries": len(bad), "grounding": case.value("m7.grounding")},
    )


def _tool_only(case: Case) -> Shown | None:
    lines = case.above("m7.tool_only_anchors", 0)
    if lines is None:
        return None
    turn = anchor_checks(case.trace)[-1].turn
    return Shown(
        f"{quantity(lines, 'line')} of the last anchors stand in a tool result only: nobody in the conversation "
        "said them",
        ("a tool's output may have written the model's instructions; look at the summary of this turn",),
        (turn,),
        {"lines": lines},
    )


def _invented_intent(case: Case) -> Shown | None:
    share = case.below("m7.intent_grounding", INTENT)
    if share is None:
        return None
    return Shown(
        f"only {share:.0%} of the words of the last User Intent are the user's: the order may be invented",
        _QUOTE,
        (anchor_checks(case.trace)[-1].turn,),
        {"share": share},
    )


def _drift(case: Case) -> Shown | None:
    share = case.above("m7.drift", DRIFT)
    if share is None:
        return None
    return Shown(
        f"from one summary to the next {share:.0%} of the names are lost",
        ("allow longer summaries (--summary-tokens N)", "summarise less often (--raise soft)"),
        (),
        {"drift": share},
    )


KINDS = (
    FindingKind(
        "system-only-view",
        Severity.ERROR,
        "views that hold nothing but the system message",
        ("m5",),
        _system_only,
    ),
    FindingKind("no-user-message", Severity.ERROR, "views without any message of a user", ("m5",), _no_user),
    FindingKind(
        "protocol-faults",
        Severity.ERROR,
        "requests with faults that the history has not: torn pairs, doubled ids, empty or ill-formed text",
        ("m5",),
        _faults,
    ),
    FindingKind(
        "unread-results-lost", Severity.ERROR, "results that were gone before the model saw them", ("m5",), _unread_lost
    ),
    FindingKind(
        "tool-only-anchor",
        Severity.ERROR,
        "anchor lines whose words only a tool result says: a way in for foreign instructions",
        ("m7",),
        _tool_only,
    ),
    FindingKind("anchors-empty", Severity.ERROR, "summaries whose five anchors are all N/A", ("m7",), _anchors_empty),
    FindingKind(
        "task-gone",
        Severity.WARN,
        "the user's first message is not in the last view; an error where it was truncated away",
        ("m7",),
        _task_gone,
    ),
    FindingKind(
        "rules-gone",
        Severity.WARN,
        "a compaction after which less than half of the user's binding sentences are left",
        ("m7",),
        _rules_gone,
    ),
    FindingKind(
        "messages-dropped",
        Severity.WARN,
        "messages that were neither kept nor summarised nor stored, because their pair was cut",
        (),
        _dropped,
    ),
    FindingKind(
        "unread-results-cut",
        Severity.WARN,
        "results that were shortened before the model saw them",
        ("m5",),
        _unread_cut,
    ),
    FindingKind(
        "files-orphaned",
        Severity.WARN,
        "offloaded files that the view no longer names, although the model takes up what is in them",
        ("m6",),
        _orphaned_files,
    ),
    FindingKind(
        "anchors-ungrounded",
        Severity.WARN,
        "anchors most of whose names do not occur in what was summarised",
        ("m7",),
        _ungrounded,
    ),
    FindingKind(
        "intent-invented",
        Severity.WARN,
        "a User Intent most of whose words the user never wrote",
        ("m7",),
        _invented_intent,
    ),
    FindingKind(
        "anchors-drift",
        Severity.INFO,
        "more than half of the names are lost from one summary to the next",
        ("m7",),
        _drift,
    ),
)
