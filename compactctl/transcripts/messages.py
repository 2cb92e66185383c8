"""Lists of chat messages in any of the usual containers, the neutral format among them (formats.md 3.3, 3.4, 3.9)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from compactctl.errors import EmptyTranscriptError, InputError
from compactctl.model import LineCounts, Message, Session, SkippedLine
from compactctl.transcripts._blocks import as_text, behind_system, count_of, system_message
from compactctl.transcripts._chat import Chat, is_spoken
from compactctl.transcripts._lines import Row, Rows
from compactctl.transcripts._neutral import VERSION, NeutralLines
from compactctl.transcripts._spec import FormatSpec, Head, Input, Layout, collector_paused

# Where the list of messages lies in a document or a line; the first that holds one is taken.
_PLACES = ("messages", "history", "traj", "trajectory", "conversation", "conversations", "input", "items")
_IDS = ("session_id", "sessionId", "conversation_id", "trajectory_id", "instance_id", "id")
_MOST_KINDS = 5  # of what was left out that a warning names
_LOOK = 20  # messages of a list that are looked at to tell it from another list


@dataclass(slots=True)
class _Draft:
    """A session while it is read: what its container says of it, and its messages."""

    about: Row
    chat: Chat = field(default_factory=Chat)
    rows: int = 0  # of the lists that were taken
    ignored: dict[str, int] = field(default_factory=dict)  # those that carried no message, by kind

    def add_all(self, rows: list[Any]) -> None:
        """Take the rows of a list."""
        self.rows += len(rows)
        for row in rows:
            kind = self.chat.add(row) if isinstance(row, dict) else "not an object"
            if kind:
                self.ignored[kind] = self.ignored.get(kind, 0) + 1


def _place(container: Any) -> str | None:
    """Give the key under which a container holds its messages."""
    if not isinstance(container, dict):
        return None
    found = next((key for key in _PLACES if _is_conversation(container.get(key))), None)
    if found is None and isinstance(container.get("input"), str):
        # A request may be the prompt itself; it is one where a reply lies beside it.
        return "input" if any(_is_conversation(rows) for rows, _ in _replies(container, "input")) else None
    return found


def _is_conversation(value: Any) -> bool:
    return isinstance(value, list) and any(is_spoken(row) for row in value[:_LOOK])


def _many(document: Any) -> list[Any] | None:
    """Give the runs of a document that holds several: tau-bench's list, tau2's simulations, lists of lists."""
    if isinstance(document, dict):
        document = document.get("simulations")
    if not isinstance(document, list) or _is_conversation(document):
        return None
    held = [run for run in document if _place(run) or _is_conversation(run)]
    return document if held else None


def _sniff(head: Head) -> int:
    if head.layout is Layout.DOCUMENT:
        document = head.document
        return 60 if _is_conversation(document) or _place(document) or _many(document) is not None else 0
    if head.layout is Layout.LINES:
        if any("compactctl" in row and "session_id" in row for row in head.rows[:1]):
            return 100
        if any(is_spoken(row) or _place(row) or _many(row) is not None for row in head.rows):
            return 50
    return 0


def _parse(source: Input) -> Iterator[Session]:
    drafts = _of_lines(source) if source.head.layout is Layout.LINES else _of_document(source)
    found = False
    for session in drafts:
        found = True
        yield session
    if not found:
        raise EmptyTranscriptError(f"{source.label}: a list of messages without any message; name another file")


def _begins(row: Row) -> bool:
    """Say whether a line begins another session: it is a header, or holds whole sessions itself."""
    return "compactctl" in row or (row.get("role") is None and (_place(row) is not None or _many(row) is not None))


def _drafts(rows: Rows) -> Iterator[tuple[_Draft, LineCounts, bool]]:
    """Give the sessions of a file of JSON lines, the account of their lines, and whether one is the last.

    The account of lines that belong to no session goes to the session before them, at the beginning to the first one.
    That is why each is held until the next one is there.
    """
    held: list[tuple[_Draft, LineCounts]] = []
    early = LineCounts()
    try:
        for group, lines in _groups(rows):
            drafts = [draft for draft in group if draft.chat.messages]
            if drafts:
                yield from ((draft, counts, False) for draft, counts in held)
                held = [(draft, LineCounts()) for draft in drafts]
                held[0] = drafts[0], early + lines
                early = LineCounts()
            elif held:
                held[-1] = held[-1][0], held[-1][1] + lines
            else:
                early += lines
    except InputError:
        yield from ((draft, counts, False) for draft, counts in held)
        raise
    yield from ((draft, counts, place == len(held)) for place, (draft, counts) in enumerate(held, start=1))


def _groups(rows: Rows) -> Iterator[tuple[list[_Draft], LineCounts]]:
    """Give what each line that begins sessions begins, with or without messages, and the account of its lines."""
    each = rows.through(NeutralLines())
    begin: Row | None = None
    while True:
        with collector_paused():
            if begin is None or "compactctl" in begin:
                drafts = [_Draft(begin or {})]
                begin = _take_messages(drafts[0].chat, each, rows)
            else:
                drafts = [_Draft(container) for container in _containers(begin)]
                for draft in drafts:
                    _fill(draft, draft.about)
                begin = _next_beginning(each, rows)
        yield drafts, rows.counts(before=begin is not None)
        if begin is None:
            return


def _take_messages(chat: Chat, each: Iterator[Row | list[Message]], rows: Rows) -> Row | None:
    """Take messages up to the next line that begins a session; give that line, None at the end."""
    for row in each:
        if isinstance(row, list):
            chat.close()
            chat.messages += row
        elif _begins(row):
            chat.close()
            return row
        elif kind := chat.add(row):
            rows.leave(kind, row)
    chat.close()
    return None


def _next_beginning(each: Iterator[Row | list[Message]], rows: Rows) -> Row | None:
    """Go to the next line that begins a session; those between belong to none."""
    for row in each:
        if isinstance(row, list):
            rows.ignore("between sessions", len(row))
        elif _begins(row):
            return row
        else:
            rows.ignore("between sessions")
    return None


def _containers(value: Any) -> list[Row]:
    """Give the containers of a document's sessions, one for each."""
    runs = _many(value)
    listed = [value] if runs is None else runs
    return [item if isinstance(item, dict) else {"messages": item} for item in listed]


def _fill(draft: _Draft, container: Row) -> None:
    """Take the messages of a container, and the reply that some logs keep beside the request."""
    place = _place(container)
    if place:
        listed = container[place]
        draft.add_all([{"role": "user", "content": listed}] if isinstance(listed, str) else listed)
    draft.chat.close()  # a reply that ends the request is another one
    for rows, told in _replies(container, place):
        before = len(draft.chat.messages)
        draft.add_all(rows)
        draft.chat.charge(before, told.get("usage"), told.get("model"))


def _replies(container: Row, place: str | None) -> Iterator[tuple[list[Any], Row]]:
    """Give the rows of each reply beside the request, and the object that may say its usage and model."""
    if place == "input" and isinstance(container.get("output"), list):
        yield container["output"], container
    response = container.get("response")
    if not isinstance(response, dict):
        return
    choices, output = response.get("choices"), response.get("output")
    if isinstance(choices, list) and choices and isinstance(choices[0], dict):
        message = choices[0].get("message")
        if is_spoken(message):
            yield [message], response
    elif is_spoken(response):
        yield [response], response
    elif isinstance(output, list):
        yield output, response


def _of_lines(source: Input) -> Iterator[Session]:
    for number, (draft, lines, last) in enumerate(_drafts(source.rows()), start=1):
        only = last and number == 1
        yield _session(source, draft, lines, None if only else number)


def _of_document(source: Input) -> Iterator[Session]:
    document = source.head.document
    containers = _containers(document)
    many = _many(document) is not None
    for number, container in enumerate(containers, start=1):
        with collector_paused():
            draft, lines = _of_container(container, source.torn and number == len(containers))
        if draft.chat.messages:
            yield _session(source, draft, lines, number if many else None)


def _of_container(container: Row, torn: bool) -> tuple[_Draft, LineCounts]:
    """Read a container; the records of its lists are counted in place of lines."""
    draft = _Draft(container)
    _fill(draft, container)
    skipped = (SkippedLine(draft.rows + 1, 0, "torn_tail"),) if torn else ()
    counts = LineCounts(
        total=draft.rows + len(skipped),
        used=draft.rows - sum(draft.ignored.values()),
        ignored=dict(sorted(draft.ignored.items())),
        skipped=skipped,
    )
    return draft, counts


def _session(source: Input, draft: _Draft, lines: LineCounts, number: int | None) -> Session:
    about, chat = draft.about, draft.chat
    system = None
    if "compactctl" not in about and not (chat.messages and chat.messages[0].role == "system"):
        system = system_message(
            next((about[key] for key in ("system", "system_prompt", "instructions") if key in about), None)
        )
    messages, compactions = behind_system(system, chat.messages, chat.compactions)
    recorded = next((about[key] for key in _IDS if isinstance(about.get(key), str) and about[key]), "")
    model = as_text(about.get("model") or about.get("model_name"))
    if not model and "model" not in about:
        model = next((message.model for message in messages if message.model), "")
    warnings = [*chat.warnings(), *source.damage()]
    if draft.ignored and source.head.layout is Layout.LINES:  # an account of lines has no place for them
        kinds = ", ".join(f"{kind!r}" for kind in sorted(draft.ignored)[:_MOST_KINDS])
        warnings.append(f"{sum(draft.ignored.values())} entries of its list carry no message ({kinds})")
    version = about.get("compactctl", VERSION)
    if type(version) is not int or version != VERSION:
        told = f"version {version}" if type(version) is int else "an unknown version"
        warnings.append(f"{told} of the neutral format was read by the rules of version {VERSION}")
    return Session(
        id=recorded or source.session_id(number),
        messages=messages,
        format=FORMAT.name,
        path=source.path,
        harness=as_text(about.get("harness")),
        harness_version=as_text(about.get("harness_version")),
        model=model,
        context_window=count_of(about.get("context_window")),
        overhead_tokens=count_of(about.get("overhead_tokens")),
        compactions=compactions,
        lines=lines,
        input_sha256=source.sha256(),
        parent_id=as_text(about.get("parent_id")),
        warnings=tuple(warnings),
    )


FORMAT = FormatSpec(
    "messages",
    "the neutral format, OpenAI and Anthropic messages, Responses items, SWE-agent, tau-bench, Cline (JSON or lines)",
    _sniff,
    _parse,
)
