"""Where the words of an anchor come from, and whether they hold: the checks that make a summary verifiable.

The seed promises that anchors can be verified by a program. These are the verifications (reference metric M7): how
many of the five say something, whether their names occur in what was summarised (grounding), whether the user's
constraints were kept, and which anchors hold words that only a tool ever said. Pure functions of texts.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from compactctl.context.anchors import is_missing
from compactctl.context.authors import is_human
from compactctl.context.mentions import names_in
from compactctl.model import ASSISTANT, USER, Anchor, AnchorType, Message, changed

FROM_USER, FROM_ASSISTANT, FROM_TOOL = "user", "assistant", "tool"
GROUNDED = 0.5  # the least share of an anchor's names that must occur in the source (metrics.md, M7)
KEPT = 0.8  # the least share of a constraint's words that one line must hold to have kept it (metrics.md, M7)

_SENTENCE = re.compile(r"[^\n.!?]+(?:[.!?](?!\s)[^\n.!?]*)*[.!?]?")
_BINDING = re.compile(r"\b(?:must|never|always|do not|don't|only)\b", re.IGNORECASE)
_WORD = re.compile(r"\w{3,}")
_LONGEST_READ = 20_000  # characters of one message: a pasted log is not a list of rules
_MOST_CONSTRAINTS = 100
_SHORTEST = 8  # characters: a shorter statement occurs everywhere by chance


def constraint_sentences(text: str) -> tuple[str, ...]:
    """Give the sentences that bind: those with must, never, always, do not or only.

    >>> constraint_sentences("Fix the parser. Never touch the schema! Thanks.")
    ('Never touch the schema!',)
    """
    if len(text) > _LONGEST_READ:
        text = text[:_LONGEST_READ]
    if not _BINDING.search(text):
        return ()
    found = (sentence.group().strip() for sentence in _SENTENCE.finditer(text) if _BINDING.search(sentence.group()))
    return tuple(dict.fromkeys(found))


class Sources:
    """What was said in a span, by whom; made once and asked for each anchor."""

    def __init__(self, messages: Iterable[Message], known: Sequence[Anchor] = ()) -> None:
        texts: dict[str, list[str]] = {FROM_USER: [], FROM_ASSISTANT: [], FROM_TOOL: []}
        others: list[str] = []
        self.constraints: list[str] = []
        for message in messages:
            if message.tool_call_id:
                texts[FROM_TOOL].append(message.content)
            elif is_human(message):
                texts[FROM_USER].append(message.content)
                self.constraints.extend(constraint_sentences(message.content))
            elif message.role == ASSISTANT:
                texts[FROM_ASSISTANT].append(message.content)
                texts[FROM_ASSISTANT].extend(call.arguments for call in message.tool_calls)
            elif message.role == USER:
                # The harness's words and an earlier summary's: their names are no invention, but no user said them.
                others.append(message.content)
        self.known = tuple(anchor for anchor in known if not is_missing(anchor))
        self._said = {who: _flat("\n".join(parts)) for who, parts in texts.items()}
        self._others = _flat("\n".join(others))
        self._words = {who: set(_WORD.findall(text)) for who, text in self._said.items()}
        self._before = [(_flat(anchor.content), anchor.origin) for anchor in self.known]

    def holds(self, name: str) -> bool:
        """Whether a name occurs anywhere in the span or in an earlier anchor."""
        flat = _flat(name)
        before = (text for text, _ in self._before)
        return any(flat in text for text in (*self._said.values(), self._others, *before))

    def origin(self, content: str) -> str:
        """Give who said the words of an anchor: ``user``, ``assistant``, ``tool`` where only tools did, or empty.

        One statement (a line) that only a tool said marks the whole anchor. A statement that nobody said as it stands
        goes to the user or the assistant by its words (at least six in ten), to a tool only where nearly all are its.
        """
        origins = [self._statement(line) for line in content.split("\n")]
        return next((who for who in (FROM_TOOL, FROM_USER, FROM_ASSISTANT) if who in origins), "")

    def _statement(self, line: str) -> str:
        flat = _flat(line.lstrip(" -*+>|")).rstrip(".!?,;: ")
        if len(flat) < _SHORTEST:
            return ""
        for who in (FROM_USER, FROM_ASSISTANT):
            if flat in self._said[who]:
                return who
        for text, origin in self._before:
            if flat in text:
                return origin
        if flat in self._said[FROM_TOOL]:
            return FROM_TOOL
        words = set(_WORD.findall(flat))
        if not words:
            return ""
        share = {who: len(words & said) / len(words) for who, said in self._words.items()}
        own = FROM_USER if share[FROM_USER] >= share[FROM_ASSISTANT] else FROM_ASSISTANT
        if share[own] >= 0.6:
            return own
        return FROM_TOOL if share[FROM_TOOL] >= 0.9 and share[own] < 0.4 else ""


@dataclass(frozen=True, slots=True)
class AnchorCheck:
    """What a program can say of a summary's anchors. A share is None where there was nothing to measure.

    ``anchors`` carry their origin. ``present`` counts those that say something; ``missing`` are headings that the
    answer lacked. ``grounding`` is the share of names that occur in the source, ``invented`` are the others.
    ``constraints_kept`` is the share of the user's binding sentences that the summary still holds, ``lost`` the others.
    """

    anchors: tuple[Anchor, ...]
    present: int
    missing: tuple[str, ...]
    grounding: float | None
    invented: tuple[str, ...]
    constraints_kept: float | None
    lost: tuple[str, ...]

    @property
    def only_tools(self) -> tuple[AnchorType, ...]:
        """The anchors with words that only a tool said."""
        return tuple(anchor.type for anchor in self.anchors if anchor.origin == FROM_TOOL)

    @property
    def faults(self) -> tuple[str, ...]:
        """Why the anchors do not hold, one word each; empty where they do.

        An anchor may honestly say ``N/A``, the user's intent may not. Half of the names must be grounded.
        """
        intent = next((a for a in self.anchors if a.type is AnchorType.USER_INTENT), None)
        return tuple(
            fault
            for fault, found in (
                ("heading_missing", bool(self.missing)),
                ("intent_missing", intent is None or is_missing(intent)),
                ("ungrounded", self.grounding is not None and self.grounding < GROUNDED),
                ("constraint_lost", bool(self.lost)),
                ("from_tool_only", bool(self.only_tools)),
            )
            if found
        )

    def notes(self) -> tuple[str, ...]:
        """Give the figures as notes for the record."""
        figures = [f"anchors_present:{self.present}"]
        if self.grounding is not None:
            figures.append(f"grounding:{self.grounding:.2f}")
        if self.constraints_kept is not None:
            figures.append(f"constraints_kept:{self.constraints_kept:.2f}")
        if self.invented:
            figures.append(f"names_invented:{len(self.invented)}")
        figures.extend(f"only_from_tool:{kind}" for kind in self.only_tools)
        return tuple(figures)


def check_anchors(
    anchors: Sequence[Anchor],
    prose: str,
    messages: Iterable[Message],
    known: Sequence[Anchor] = (),
    missing: tuple[str, ...] = (),
) -> AnchorCheck:
    """Verify the anchors of a summary against the messages that it stands for and the anchors known before.

    >>> said = [Message("user", "Fix parse_row. Never drop a row.")]
    >>> intent = Anchor(AnchorType.USER_INTENT, "Fix parse_row and read_all. Never drop a row.")
    >>> check = check_anchors([intent], "", said)
    >>> check.grounding, check.invented, check.constraints_kept
    (0.5, ('read_all',), 1.0)
    """
    sources = Sources(messages, known)
    told = [anchor for anchor in anchors if not is_missing(anchor)]
    names = tuple(dict.fromkeys(name for anchor in told for name in names_in(anchor.content)))
    invented = tuple(name for name in names if not sources.holds(name))
    constraints = tuple(dict.fromkeys(sources.constraints))[:_MOST_CONSTRAINTS]
    lines = [*(anchor.content for anchor in told), prose]
    lost = lost_constraints(constraints, "\n".join(lines))
    return AnchorCheck(
        anchors=tuple(a if is_missing(a) else changed(a, origin=sources.origin(a.content)) for a in anchors),
        present=len(told),
        missing=missing,
        grounding=1 - len(invented) / len(names) if names else None,
        invented=invented,
        constraints_kept=1 - len(lost) / len(constraints) if constraints else None,
        lost=lost,
    )


def with_origins(anchors: Iterable[Anchor], checked: Iterable[Anchor]) -> tuple[Anchor, ...]:
    """Give anchors with the origin that a summarizer found for the same words; others keep their own.

    >>> with_origins([Anchor(AnchorType.NEXT_STEP, "test")], [Anchor(AnchorType.NEXT_STEP, "test", "user")])[0].origin
    'user'
    """
    found = {(anchor.type, anchor.content): anchor.origin for anchor in checked}
    if not found:
        return tuple(anchors)
    return tuple(changed(a, origin=found.get((a.type, a.content)) or a.origin) for a in anchors)


def lost_constraints(constraints: Iterable[str], text: str) -> tuple[str, ...]:
    """Give the sentences that a text holds neither as they stand nor by 80 % of their words in one line."""
    whole = _flat(text)
    lines = [set(_WORD.findall(line.casefold())) for line in text.split("\n")]
    lost = []
    for sentence in constraints:
        if _flat(sentence).rstrip(".!?") in whole:
            continue
        words = set(_WORD.findall(sentence.casefold()))
        if not words or max((len(words & line) / len(words) for line in lines), default=0.0) < KEPT:
            lost.append(sentence)
    return tuple(lost)


def _flat(text: str) -> str:
    return " ".join(text.casefold().split())
