"""What the stub takes out of messages: found once for each message of a session, however many replays ask.

A replay asks for hundreds of summaries over overlapping spans of one session. So the messages are put into one ledger
in order, each kind of fact is a list sorted by position, and a summary reads the newest facts of its span until its
budget is full. Facts that come late (the outcome of a call, the words of a speech) are worked out when first read.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import orjson

from compactctl.context.anchors import COMPACTION_MARKER
from compactctl.context.fence import one_line
from compactctl.context.mentions import Mentions, mentions
from compactctl.context.provenance import constraint_sentences
from compactctl.model import ASSISTANT, USER, Message, Origin, ToolCall

LONGEST_ITEM = 240  # characters of one decision, command or failure
_WHOLE_ARGUMENTS = 16_384  # longer call arguments are searched for their keys, not decoded
_SPEECH_HEAD, _SPEECH_TAIL = 3000, 1500

_PATH_KEYS = ("file_path", "path", "filename", "target_file", "notebook_path", "filePath", "absolute_path", "file")
_COMMAND_KEYS = ("command", "cmd", "script", "code")
_EDITS = re.compile(r"edit|write|patch|replace|create|insert", re.IGNORECASE)
_PATCHED = re.compile(r"\*\*\* (?:Update|Add|Delete) File: ([^\n\"\\]{1,200})")
_KEY = re.compile(rf'"({"|".join(_PATH_KEYS + _COMMAND_KEYS)})"\s*:\s*("(?:[^"\\]|\\.){{1,400}}")')
_NAMED = re.compile(r'"\w{1,40}"\s*:')
_EXIT = re.compile(
    r"\bexit(?:ed)?(?: with)?[ _]?(?:code|status)?\W{1,4}(\d{1,3})\b|\breturncode\W{1,4}(\d{1,3})\b", re.I
)

_DECIDED = ("because", "decid", "instead of", "rather than", "root cause", "so that", "the reason", "chose", "prefer")
_FAILED = (
    "didn't work",
    "did not work",
    "doesn't work",
    "does not work",
    "failed",
    "revert",
    "no luck",
    "wrong approach",
)
_NEXT = ("next", "i'll ", "i will ", "let me ", "now i", "remaining", "todo", "still need")
_CUE = re.compile("|".join(map(re.escape, (*_DECIDED, *_FAILED, *_NEXT))))
_SENTENCE = re.compile(r"[^\n.!?]+(?:[.!?](?!\s)[^\n.!?]*)*[.!?]?")
_DONE = ("completed", "done", "cancelled", "canceled", "deleted")


class Action(NamedTuple):
    """A call that changed a file or ran a command: where, which kind (``changed``, ``ran``) and what."""

    position: int
    kind: str
    what: str


class Outcome(NamedTuple):
    """How a call ended: the position of its result, and ``failed``, ``ok``, ``exit 1`` or nothing."""

    position: int
    text: str


class Speech(NamedTuple):
    """What an assistant message says: decisions with their reasons, failures, and what comes next."""

    decisions: tuple[str, ...] = ()
    failures: tuple[str, ...] = ()
    following: tuple[str, ...] = ()


class Ledger:
    """The facts of one run of messages, in order; it only grows at its end."""

    def __init__(self) -> None:
        self.messages: list[Message] = []  # held, so that an id in ``position`` stays that of its message
        self.position: dict[int, int] = {}
        self.users: list[int] = []
        self.constraints: list[tuple[int, str]] = []
        self.speeches: list[int] = []
        self.actions: list[Action] = []
        self.outcomes: list[Outcome | None] = []  # beside ``actions``
        self.failures: list[tuple[int, int]] = []  # position of the result, index of the action
        self.todos: list[tuple[int, tuple[str, ...]]] = []
        self.results: list[int] = []
        self._open: dict[str, list[int]] = {}
        self._speech: dict[int, Speech] = {}
        self._mentions: dict[int, Mentions] = {}

    def extend(self, messages: Sequence[Message]) -> None:
        """Put messages at the end."""
        for message in messages:
            at = len(self.messages)
            self.messages.append(message)
            self.position[id(message)] = at
            if message.tool_call_id:
                self._add_result(at, message)
            elif message.role == ASSISTANT:
                if message.content:
                    self.speeches.append(at)
                for call in message.tool_calls:
                    self._add_call(at, call)
            elif message.role == USER and not is_summary(message) and message.origin is not Origin.HARNESS:
                self.users.append(at)
                self.constraints.extend((at, sentence) for sentence in constraint_sentences(message.content))

    def speech(self, at: int) -> Speech:
        """Give what the assistant message at a position says."""
        found = self._speech.get(at)
        if found is None:
            found = self._speech[at] = _speech(self.messages[at].content)
        return found

    def mentions(self, at: int) -> Mentions:
        """Give the names that the message at a position mentions."""
        found = self._mentions.get(at)
        if found is None:
            message = self.messages[at]
            calls = map(_argument_text, message.tool_calls)
            found = self._mentions[at] = mentions("\n".join((message.content, *calls)))
        return found

    def _add_call(self, at: int, call: ToolCall) -> None:
        todo, actions = _read_call(at, call)
        if todo is not None:
            self.todos.append((at, todo))
        for action in actions:
            self._open.setdefault(call.id, []).append(len(self.actions))
            self.actions.append(action)
            self.outcomes.append(None)

    def _add_result(self, at: int, message: Message) -> None:
        self.results.append(at)
        indices = self._open.pop(message.tool_call_id, None)
        if indices is None:
            return
        text = _outcome(message)
        for index in indices:
            self.outcomes[index] = Outcome(at, text)
            if text not in ("", "ok"):
                self.failures.append((at, index))


class Span:
    """The part of a ledger that one request is about: positions ``lo`` up to ``hi``."""

    def __init__(self, ledger: Ledger, lo: int, hi: int) -> None:
        self.ledger = ledger
        self.lo = lo
        self.hi = hi

    def positions(self, sorted_positions: list[int]) -> range:
        """Give the indices of the entries of a sorted list that lie in the span."""
        return range(bisect_left(sorted_positions, self.lo), bisect_left(sorted_positions, self.hi))

    def newest(self, pairs: Sequence[tuple[int, Any]]) -> Iterator[tuple[int, Any]]:
        """Give the entries (position, fact) that lie in the span, newest first."""
        for index in range(bisect_left(pairs, (self.hi,)) - 1, bisect_left(pairs, (self.lo,)) - 1, -1):
            yield pairs[index]

    def newest_actions(self) -> Iterator[tuple[Action, str]]:
        """Give the actions with their outcomes as far as the span knows them, newest first."""
        actions, outcomes = self.ledger.actions, self.ledger.outcomes
        for index in range(bisect_left(actions, (self.hi,)) - 1, bisect_left(actions, (self.lo,)) - 1, -1):
            outcome = outcomes[index]
            # A result behind the span is not known to it, although another replay may have read it already.
            yield actions[index], outcome.text if outcome and outcome.position < self.hi else ""


class Ledgers:
    """Finds the span of a request in the ledger of its session; makes a ledger where there is none."""

    def __init__(self) -> None:
        self._ledger = Ledger()

    def span(self, messages: Sequence[Message]) -> Span:
        """Give the span of these messages; a run that the ledger does not hold in order gets a ledger of its own."""
        ledger = self._ledger
        position = ledger.position
        count = len(messages)
        # A summary that an earlier compaction left stands in front of the recorded messages and is not one of them.
        first = 0
        while first < min(count, 4) and id(messages[first]) not in position and is_summary(messages[first]):
            first += 1
        known = count
        while known > first and id(messages[known - 1]) not in position:
            known -= 1
        if known == first:
            if not first:  # another session: the last one's messages are let go
                self._ledger = ledger = Ledger()
            ledger.extend(messages[first:])
            return Span(ledger, len(ledger.messages) - (count - first), len(ledger.messages))
        lo, last = position.get(id(messages[first]), -1), position[id(messages[known - 1])]
        in_order = last - lo == known - 1 - first and (known == count or last == len(ledger.messages) - 1)
        if lo < 0 or not in_order:
            alone = Ledger()
            alone.extend(messages[first:])
            if len(alone.messages) > len(ledger.messages):
                self._ledger = alone
            return Span(alone, 0, count - first)
        ledger.extend(messages[known:])
        return Span(ledger, lo, lo + count - first)


def is_summary(message: Message) -> bool:
    """Whether a user message is what an earlier compaction left."""
    if message.origin is Origin.RECORDED_SUMMARY:
        return True
    head = message.content[:400]
    return message.role == USER and (head.startswith(COMPACTION_MARKER) or "<compacted-summary>" in head)


def _read_call(at: int, call: ToolCall) -> tuple[tuple[str, ...] | None, list[Action]]:
    """Give the open tasks that a call writes (None: it writes none), and what it changes or runs."""
    arguments = call.arguments
    found = _keys(arguments)
    todo = _open_tasks(found)
    if todo is not None:
        return todo, []
    if "*** " in arguments:
        patched = [Action(at, "changed", one_line(path)) for path in dict.fromkeys(_PATCHED.findall(arguments))]
        if patched:
            return None, patched
    path = next((found[key] for key in _PATH_KEYS if isinstance(found.get(key), str)), None)
    if path and _EDITS.search(call.name) and found.get("command") != "view":
        return None, [Action(at, "changed", one_line(path)[:LONGEST_ITEM])]
    command = next((found[key] for key in _COMMAND_KEYS if found.get(key)), None)
    if isinstance(command, list):
        command = command[-1] if len(command) == 3 and command[1] in ("-c", "-lc") else " ".join(map(str, command))
    if isinstance(command, str) and not path:
        return None, [Action(at, "ran", one_line(command[: 2 * LONGEST_ITEM])[:LONGEST_ITEM].replace("`", "'"))]
    return None, []


def _keys(arguments: str) -> dict[str, Any]:
    if len(arguments) > _WHOLE_ARGUMENTS:
        ends = arguments[:4000] + "\n" + arguments[-1000:]
        return {key: orjson.loads(value) for key, value in _KEY.findall(ends) if value.isprintable()}
    try:
        found = orjson.loads(arguments)
    except orjson.JSONDecodeError:
        return {}
    return found if isinstance(found, dict) else {}


def _argument_text(call: ToolCall) -> str:
    """Give the values of a call as text: keys name nothing, and JSON's escapes would stick to the words behind them."""
    return _NAMED.sub(" ", call.arguments[:4000]).replace("\\n", "\n").replace("\\t", "\t")


def _open_tasks(found: dict[str, Any]) -> tuple[str, ...] | None:
    for key, text in (("todos", "content"), ("plan", "step"), ("items", "content"), ("tasks", "content")):
        rows = found.get(key)
        if isinstance(rows, list) and rows and all(isinstance(row, dict) and row.get(text) for row in rows):
            left = (row for row in rows if str(row.get("status", "")).lower() not in _DONE)
            return tuple(one_line(str(row[text]))[:LONGEST_ITEM] for row in left)
    return None


def _outcome(message: Message) -> str:
    content = message.content
    ends = content if len(content) <= 600 else content[:300] + "\n" + content[-300:]
    match = _EXIT.search(ends)
    status = int(match.group(1) or match.group(2)) if match else None
    if status:
        return f"exit {status}"
    if message.is_error:
        return "failed"
    return "" if status is None else "ok"


def _speech(content: str) -> Speech:
    if len(content) > _SPEECH_HEAD + _SPEECH_TAIL:
        content = f"{content[:_SPEECH_HEAD]}\n{content[-_SPEECH_TAIL:]}"
    if not _CUE.search(content.lower()):
        return Speech()
    decisions: list[str] = []
    failures: list[str] = []
    following: list[str] = []
    for match in _SENTENCE.finditer(content):
        lowered = match.group().lower()
        if not _CUE.search(lowered):
            continue
        sentence = one_line(match.group().lstrip(" -*#>"))[:LONGEST_ITEM]
        if any(cue in lowered for cue in _FAILED):
            failures.append(sentence)
        elif any(cue in lowered for cue in _DECIDED):
            decisions.append(sentence)
        else:
            following.append(sentence)
    return Speech(tuple(decisions), tuple(failures), tuple(following))
