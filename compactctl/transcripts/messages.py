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
_LOOK = 20  # messages of a list that are looked at to tell it from another list


@dataclass(slots=True)
class _Draft:
    """A session while it is read: what its container says of it, and its messages."""

    about: Row
    chat: Chat = field(default_factory=Chat)

    def add_all(self, rows: list[Any]) -> dict[str, int]:
        """Take the rows of a list; give how many carried no message, by kind."""
        ignored: dict[str, int] = {}
        for row in rows:
            kind = self.chat.add(row) if isinstance(row, dict) else "not an object"
            if kind:
                ignored[kind] = ignored.get(kind, 0) + 1
        return dict(sorted(ignored.items()))


def _place(container: Any) -> str | None:
    """Give the key under which a container holds its messages."""
    if not isinstance(container, dict):
        return None
    return next((key for key in _PLACES if _is_conversation(container.get(key))), None)


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
            rows.ignore(kind)
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


def _fill(draft: _Draft, container: Row) -> dict[str, int]:
    """Take the messages of a container, and the reply that some logs keep beside the request."""
    place = _place(container)
    ignored = draft.add_all(container[place]) if place else {}
    if place == "input" and isinstance(container.get("output"), list):
        draft.add_all(container["output"])
    response = container.get("response")
    if isinstance(response, dict):
        for reply in _replies(response):
            draft.chat.add(reply)
    draft.chat.close()
    return ignored


def _replies(response: Row) -> list[Row]:
    told = {"usage": response.get("usage"), "model": response.get("model")}
    choices = response.get("choices")
    if isinstance(choices, list) and choices and isinstance(choices[0], dict):
        message = choices[0].get("message")
        return [told | message] if isinstance(message, dict) and is_spoken(message) else []
    if is_spoken(response):
        return [response]
    output = response.get("output")
    return [item for item in output if isinstance(item, dict)] if isinstance(output, list) else []


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
    """Read a container; the records of its list are counted in place of lines."""
    draft = _Draft(container)
    ignored = _fill(draft, container)
    place = _place(container)
    records = len(container[place]) if place else 0
    skipped = (SkippedLine(records + 1, 0, "torn_tail"),) if torn else ()
    counts = LineCounts(
        total=records + len(skipped), used=records - sum(ignored.values()), ignored=ignored, skipped=skipped
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
    version = about.get("compactctl", VERSION)
    if version != VERSION:
        warnings.append(f"version {as_text(version)} of the neutral format was read by the rules of version {VERSION}")
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
