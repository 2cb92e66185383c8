"""Whether what binds a model survives: the user's messages and rules, and the truth of the anchors."""

from __future__ import annotations

import re
import string
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_

from compactctl.context.anchors import is_missing
from compactctl.context.authors import is_human
from compactctl.context.base import Item, Kind
from compactctl.context.provenance import constraint_sentences
from compactctl.context.view import View
from compactctl.measures._facts import Facts, facts_of
from compactctl.measures._own import Change, own_changes
from compactctl.measures._spec import Trace
from compactctl.model import Anchor, AnchorType, CompactionRecord, Message, Note, Tier
from compactctl.ports import Span

WORDS_KEPT = 0.8  # a sentence counts as kept where this share of its words is in one made message
SHORTEST_LINE = 20  # characters of an anchor line worth looking for
MOST_SEARCHED = 16_000_000  # characters that the search for anchor lines reads in one replay
_MARKS = string.punctuation.replace("_", "") + "，。、；：！？"
_BETWEEN_WORDS = str.maketrans(dict.fromkeys(_MARKS, " "))
_LONG_WORD = re.compile(r"[^\W\d_]{4,}")
_SPOKEN_FOR = (Kind.SUMMARY, Kind.REPLACED)
_OUTER = 2
_NO_REPLY = (Note.SUMMARY_EMPTY, Note.ANCHORS_MISSING)


@dataclass(frozen=True, slots=True)
class Users:
    """Whether the first and the last message of the user are in the last view, and the share of all their tokens."""

    first: bool
    last: bool
    share: float | None


@dataclass(frozen=True, slots=True)
class AnchorCheck:
    """What was found about one summary's anchors.

    ``filled`` of the five say something; ``empty`` says that the reply itself filled none. Of the ``named`` references
    in them ``grounded`` occur in what was summarised; of the ``before`` that the summary before named, ``lost`` are no
    longer named. ``tool_only`` counts lines that only a tool result says, ``intent`` the share of the user's own words
    in User Intent; both are looked for in the last summary only.
    """

    turn: int
    filled: int
    empty: bool
    grounded: int
    named: int
    lost: int
    before: int
    tool_only: int | None = None
    intent: float | None = None


def user_messages(trace: Trace) -> list[int]:
    """List the indices of what a human wrote, up to the last call."""
    base = trace.base
    key = f"user messages {base.offset} {len(base.messages)}"
    known = trace.shared.get(key)
    if not isinstance(known, list):
        stop = base.calls[-1] if base.calls else 0
        known = trace.shared[key] = [i for i in range(stop) if is_human(base.messages[i])]
    return known


def user_retention(trace: Trace) -> Users | None:
    """Look for the user's messages in the view of the last turn; None where there are none."""
    users = user_messages(trace)
    if not users or not trace.spans:
        return None
    view = trace.spans[-1].last_view
    whole = _whole_in(view)
    made = [item.message.content for item in view.own if item.kind in _SPOKEN_FOR]
    prefix = trace.scale.prefix

    def kept(index: int) -> bool:
        text = trace.base.messages[index].content.strip()
        return view.lo <= index < view.hi or index in whole or any(text in other for other in made if text)

    flags = [kept(index) for index in users]
    weights = [prefix[index + 1] - prefix[index] for index in users]
    total = sum(weights)
    share = sum(w for w, flag in zip(weights, flags, strict=True) if flag) / total if total else None
    return Users(flags[0], flags[-1], share)


def constraint_rounds(trace: Trace) -> list[tuple[int, float]] | None:
    """Give (turn, share of the binding sentences kept) for each compaction that took messages away.

    None where the user wrote no such sentence. Sentences count from the turn at which they were said.
    """
    known = trace.cache.get("constraint rounds", ...)
    if known is ...:
        known = trace.cache["constraint rounds"] = _rounds(trace)
    return known  # type: ignore[no-any-return]  # the memo holds any kind of value


@dataclass(frozen=True, slots=True)
class _Rule:
    index: int
    text: str
    words: frozenset[str]


def _rules(trace: Trace) -> list[_Rule]:
    base = trace.base
    key = f"rules {base.offset} {len(base.messages)}"
    known = trace.shared.get(key)
    if not isinstance(known, list):
        known = trace.shared[key] = find_rules(base.messages, user_messages(trace))
    return known


def find_rules(messages: Sequence[Message], users: Iterable[int]) -> list[_Rule]:
    """Find the binding sentences in the messages with these indices."""
    return [
        _Rule(index, sentence, frozenset(_words(sentence)))
        for index in users
        for sentence in constraint_sentences(messages[index].content)
    ]


def _rounds(trace: Trace) -> list[tuple[int, float]] | None:
    rules = _rules(trace)
    if not rules:
        return None
    said_at = [rule.index for rule in rules]

    def between(start: int, stop: int) -> int:
        """Give the rules in some messages; a set of rules is a number with a bit for each."""
        return (1 << bisect_left(said_at, stop)) - (1 << bisect_left(said_at, start)) if stop > start else 0

    def brought(change: Change) -> int:
        there = reduce(or_, (between(start, stop) for start, stop, _ in change.come), 0)
        for item in change.made:
            there &= ~between(item.index, item.index + 1)
        return there

    whole = 0
    texts: dict[int, Item] = {}
    told = _Told(rules)
    found: list[tuple[int, float]] = []
    for span, (change, leapt) in zip(trace.spans, own_changes(trace), strict=True):
        if change is not None:
            for start, stop, item in change.gone:
                whole &= ~between(start, stop)
                if item is not None:
                    texts.pop(id(item), None)
            whole |= brought(change)
            texts |= {id(item): item for _, _, item in change.come if item is not None and item.kind in _SPOKEN_FOR}
        said = bisect_left(said_at, span.view.hi)
        if said and any(r.summarized or r.dropped or r.tier is Tier.EMERGENCY for r in span.records):
            near = min(bisect_left(said_at, span.view.lo), said)
            # Whoever has it: the recorded range, a message that was kept whole, or a made text.
            there = whole
            for item in texts.values():
                there |= told.by(item.message.content, near)
            kept = said - near + (there & ((1 << near) - 1)).bit_count()
            found.append((span.turn, kept / said))
        whole |= brought(leapt) if leapt is not None else 0
    return found


class _Told:
    """Which rules a made text still tells, as a number with a bit for each; looked for once in each text."""

    def __init__(self, rules: list[_Rule]) -> None:
        self._rules = rules
        self._words = frozenset().union(*(rule.words for rule in rules))
        self._known: dict[str, tuple[int, int]] = {}  # text -> how many rules were looked for, and those it tells

    def by(self, text: str, count: int) -> int:
        """Look for the first ``count`` rules."""
        done, told = self._known.get(text, (0, 0))
        if done < count:
            words = self._words.intersection(_words(text))
            for at, rule in enumerate(self._rules[done:count], done):
                # A rule of more than two words stands in no text that has none of them: only the outer two may differ.
                if not words and len(rule.words) > _OUTER:
                    continue
                if rule.text in text or len(rule.words & words) >= WORDS_KEPT * len(rule.words):
                    told |= 1 << at
            self._known[text] = count, told
        return told


def anchored_records(trace: Trace) -> list[tuple[Span, CompactionRecord]]:
    """Give the records that hold anchors of their own summary, with their spans."""
    return [
        (span, record)
        for span in trace.spans
        for record in span.records
        if record.anchors and record.summary_input_tokens is not None
    ]


def anchor_checks(trace: Trace) -> list[AnchorCheck]:
    """Check the anchors of every summary; worked out once."""
    known = trace.cache.get("anchor checks")
    if not isinstance(known, list):
        known = trace.cache["anchor checks"] = _checks(trace)
    return known


def _checks(trace: Trace) -> list[AnchorCheck]:
    facts = facts_of(trace)
    records = anchored_records(trace)
    found: list[AnchorCheck] = []
    before: set[int] = set()
    for number, (span, record) in enumerate(records, 1):
        end = _summarised_end(span, record)
        named = _names(facts, [a.content for a in record.anchors if not is_missing(a)])
        now = named | facts.references.of_made(record.summary_text)
        is_last = number == len(records)
        found.append(
            AnchorCheck(
                span.turn,
                sum(1 for anchor in record.anchors if not is_missing(anchor)),
                any(note in _NO_REPLY for note in record.notes),
                sum(1 for ref in named if facts.first.get(ref, end) < end),
                len(named),
                len(before - now),
                len(before),
                _tool_only(trace, facts, record.anchors, end) if is_last else None,
                _intent(trace, record.anchors) if is_last else None,
            )
        )
        before = now
    return found


def _names(facts: Facts, texts: list[str]) -> set[int]:
    found: set[int] = set()
    for text in texts:
        found |= facts.references.of(text)
    return found


def _summarised_end(span: Span, record: CompactionRecord) -> int:
    """Give the index behind the last recorded message that a summary stands for."""
    view = span.before
    if view is None:
        return span.view.hi
    position = (1 if view.has_system else 0) + record.summarized
    if position > view.own_length:
        return view.lo + position - view.own_length
    return max([item.index for item in view.own_buffer[:position]], default=-1) + 1


def _tool_only(trace: Trace, facts: Facts, anchors: tuple[Anchor, ...], end: int) -> int | None:
    """Count the anchor lines that stand in a tool result and that neither the user nor the model said.

    A line whose names somebody said is taken as said. None where the text to search is too long.
    """
    lines = [
        line.strip(" \t-*+•")
        for anchor in anchors
        if not is_missing(anchor)
        for line in anchor.content.splitlines()
        if len(line.strip()) >= SHORTEST_LINE
    ]
    messages = trace.base.messages[:end]
    searched = 0
    found = 0
    for line in dict.fromkeys(lines):
        if not facts.references.has_met(line):
            continue
        if any(facts.spoken.get(ref, end) < end for ref in facts.references.of(line)):
            continue
        said = in_tool = False
        # The newest first: what a summary repeats is mostly new.
        for message in reversed(messages):
            if searched > MOST_SEARCHED:
                return None
            searched += len(message.content)
            if line in message.content:
                if not message.tool_call_id:
                    said = True
                    break
                in_tool = True
        found += in_tool and not said
    return found


def _intent(trace: Trace, anchors: tuple[Anchor, ...]) -> float | None:
    """Give the share of the words of User Intent that the user wrote at some time; None where it says nothing."""
    stated = next((a for a in anchors if a.type is AnchorType.USER_INTENT and not is_missing(a)), None)
    words = set(_LONG_WORD.findall(stated.content.lower())) if stated is not None else set()
    if not words:
        return None
    written: set[str] = set()
    for index in user_messages(trace):
        written.update(_LONG_WORD.findall(trace.base.messages[index].content.lower()))
    return len(words & written) / len(words)


def _words(text: str) -> list[str]:
    return text.lower().translate(_BETWEEN_WORDS).split()


def _whole_in(view: View) -> set[int]:
    return {item.index for item in view.own if item.kind is Kind.RECORDED and item.index >= 0}
