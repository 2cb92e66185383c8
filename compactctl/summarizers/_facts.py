"""What the stub takes out of messages: found once for each message of a session, however many replays ask.

A replay asks for hundreds of summaries over overlapping spans of one session. So the messages are put into one ledger
in order, each kind of fact is a list sorted by position, and a summary reads the newest facts of its span until its
budget is full. Facts that come late (the outcome of a call, the words of a speech) are worked out when first read.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from operator import is_
from typing import Any, NamedTuple

import orjson

from compactctl.context.authors import is_human, is_summary
from compactctl.context.fence import one_line
from compactctl.context.mentions import Mentions, mentions
from compactctl.context.provenance import constraint_sentences
from compactctl.model import ASSISTANT, Message, ToolCall

LONGEST_ITEM = 240  # characters of one decision, command or failure
_MOST_LEDGERS = 8
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


class CallFacts(NamedTuple):
    """What a call does: the open tasks that it writes (None: it writes none), and what it changes or runs."""

    id: str
    todo: tuple[str, ...] | None = None
    actions: tuple[tuple[str, str], ...] = ()


class Speech(NamedTuple):
    """What an assistant message says: decisions with their reasons, failures, and what comes next."""

    decisions: tuple[str, ...] = ()
    failures: tuple[str, ...] = ()
    following: tuple[str, ...] = ()


class MessageFacts:
    """What one message says and does; each part is worked out when it is first asked for."""

    __slots__ = ("_calls", "_mentions", "_speech", "message")

    def __init__(self, message: Message) -> None:
        self.message = message  # held, so that its id stays its own
        self._calls: tuple[CallFacts, ...] | None = None
        self._mentions: Mentions | None = None
        self._speech: Speech | None = None

    @property
    def calls(self) -> tuple[CallFacts, ...]:
        """What each call of the message changes, runs or plans."""
        if self._calls is None:
            self._calls = tuple(map(_read_call, self.message.tool_calls))
        return self._calls

    @property
    def mentions(self) -> Mentions:
        """The names that the message mentions."""
        if self._mentions is None:
            calls = map(_argument_text, self.message.tool_calls)
            self._mentions = mentions("\n".join((self.message.content, *calls)))
        return self._mentions

    @property
    def speech(self) -> Speech:
        """What an assistant message says."""
        if self._speech is None:
            self._speech = _speech(self.message.content)
        return self._speech


class Ledger:
    """The facts of one run of messages, in order; it only grows at its end."""

    def __init__(self, facts: dict[int, MessageFacts]) -> None:
        self.messages: list[Message] = []
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
        self._facts = facts  # shared with the session's other ledgers

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
                for call in self.facts(at).calls if message.tool_calls else ():
                    self._add_call(at, call)
            elif is_human(message):
                self.users.append(at)
                self.constraints.extend((at, sentence) for sentence in constraint_sentences(message.content))

    def facts(self, at: int) -> MessageFacts:
        """Give the facts of the message at a position."""
        message = self.messages[at]
        found = self._facts.get(id(message))
        if found is None:
            found = self._facts[id(message)] = MessageFacts(message)
        return found

    def _add_call(self, at: int, call: CallFacts) -> None:
        if call.todo is not None:
            self.todos.append((at, call.todo))
        for kind, what in call.actions:
            self._open.setdefault(call.id, []).append(len(self.actions))
            self.actions.append(Action(at, kind, what))
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
    """Finds the span of a request in a ledger of its session; makes a ledger where none holds it.

    Replays of one session may hold different messages at one place (a result, or the placeholder of its file), so each
    sequence has a ledger of its own; what was found in a message is shared by all of them.
    """

    def __init__(self) -> None:
        self._facts: dict[int, MessageFacts] = {}
        self._ledgers: list[Ledger] = []  # the last used first

    def span(self, messages: Sequence[Message]) -> Span:
        """Give the span of these messages."""
        # A summary that an earlier compaction left stands in front of the recorded messages and is not one of them.
        first = 0
        while first < min(len(messages), 4) and is_summary(messages[first]):
            first += 1
        wanted = messages[first:] if first else messages
        if not wanted:
            return Span(Ledger({}), 0, 0)
        for ledger in self._ledgers:
            lo = _place(ledger, wanted)
            if lo is not None:
                break
        else:
            seen = any(id(message) in ledger.position for ledger in self._ledgers for message in wanted)
            if first and self._ledgers and not seen:
                # Behind a summary comes what no other replay has read yet: the session goes on.
                ledger = self._ledgers[0]
            else:
                if not seen:  # another session: the last one's messages are let go
                    self._facts, self._ledgers = {}, []
                ledger = Ledger(self._facts)
                self._ledgers.append(ledger)
            lo = len(ledger.messages)
        self._ledgers.remove(ledger)
        self._ledgers = [ledger, *self._ledgers[: _MOST_LEDGERS - 1]]
        ledger.extend(wanted[len(ledger.messages) - lo :])
        return Span(ledger, lo, lo + len(wanted))


def _place(ledger: Ledger, wanted: Sequence[Message]) -> int | None:
    """Give where a ledger holds these messages, or their beginning as its end; None where it does not."""
    lo = ledger.position.get(id(wanted[0])) if wanted else None
    if lo is None:
        return None
    held = ledger.messages[lo : lo + len(wanted)]
    return lo if all(map(is_, held, wanted)) else None


def _read_call(call: ToolCall) -> CallFacts:
    arguments = call.arguments
    found = _keys(arguments)
    todo = _open_tasks(found)
    if todo is not None:
        return CallFacts(call.id, todo)
    if "*** " in arguments:
        patched = tuple(("changed", one_line(path)) for path in dict.fromkeys(_PATCHED.findall(arguments)))
        if patched:
            return CallFacts(call.id, None, patched)
    path = next((found[key] for key in _PATH_KEYS if isinstance(found.get(key), str)), None)
    if path and _EDITS.search(call.name) and found.get("command") != "view":
        return CallFacts(call.id, None, (("changed", one_line(path)[:LONGEST_ITEM]),))
    command = next((found[key] for key in _COMMAND_KEYS if found.get(key)), None)
    if isinstance(command, list):
        command = command[-1] if len(command) == 3 and command[1] in ("-c", "-lc") else " ".join(map(str, command))
    if isinstance(command, str) and not path:
        return CallFacts(
            call.id, None, (("ran", one_line(command[: 2 * LONGEST_ITEM])[:LONGEST_ITEM].replace("`", "'")),)
        )
    return CallFacts(call.id)


def _keys(arguments: str) -> dict[str, Any]:
    if len(arguments) > _WHOLE_ARGUMENTS:
        ends = arguments[:4000] + "\n" + arguments[-1000:]
        pairs = ((key, _json_string(value)) for key, value in _KEY.findall(ends))
        return {key: text for key, text in pairs if text is not None}
    try:
        found = orjson.loads(arguments)
    except orjson.JSONDecodeError:
        return {}
    return found if isinstance(found, dict) else {}


def _json_string(written: str) -> str | None:
    """Read a string as JSON writes it; None for what only looks like one: arguments may be any text (a patch, code)."""
    try:
        return str(orjson.loads(written))
    except orjson.JSONDecodeError:
        return None


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
