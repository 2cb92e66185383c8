"""The summarizer without a model: writes what a model is asked for out of the messages themselves.

Deterministic and extractive. Anchors hold only words of the user and the assistant, the arguments of calls and whether
they failed; never the text of a tool result, which nobody vouches for. The prose behind them lists the names that the
span mentions, since a later call most often needs a name that it can no longer see (metrics.md, M6).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from compactctl.context.anchors import HEADERS, MISSING, SUMMARY_HEADING, parse_anchors_and_summary
from compactctl.context.authors import is_summary
from compactctl.context.fence import neutralise, one_line
from compactctl.context.sections import DSH_HEADINGS, DSH_NOTHING, DSH_TAG
from compactctl.model import ASSISTANT, AnchorType, byte_length
from compactctl.ports import BlobStore, SummarizerSpec, SummaryFormat, SummaryReply, SummaryRequest
from compactctl.summarizers._facts import Ledgers, Span

BYTES_PER_TOKEN = 4
# How far back names are counted, and how many speeches are read for decisions: what is older is in the last summary.
_NAMES_BACK, _SPEECHES_BACK = 400, 200
_LEFT_OUT = "- (earlier lines left out)"
_PATHS, _NAMES, _ERRORS = "Paths: ", "Identifiers: ", "Errors: "

INTENT, PROGRESS, DECISIONS, TRIED, NEXT = AnchorType
# Shares of the budget; what one section leaves goes to the list of names.
_SHARES = {INTENT: 0.3, PROGRESS: 0.14, DECISIONS: 0.09, TRIED: 0.09, NEXT: 0.06}
_GOAL = 0.5  # of the share of the intent, kept at the front for the first request
_CONSTRAINTS = 0.4  # of the share of the intent, for the newest sentences that bind

_PROSE_HEADINGS = {INTENT: "Request", PROGRESS: "Done", DECISIONS: "Decisions", TRIED: "Failures", NEXT: "Next"}
_DSH_SECTION = dict(zip((INTENT, PROGRESS, TRIED, NEXT, DECISIONS), (0, 2, 3, 6, 7), strict=True))


class StubSummarizer:
    """Summarises without a model; one object should serve all replays of a session, which then share what it found."""

    def __init__(self) -> None:
        self._ledgers = Ledgers()

    def summarize(self, request: SummaryRequest) -> SummaryReply:
        """Give a summary of at most ``request.budget`` tokens of four bytes (the bare headings where that is less)."""
        span = self._ledgers.span(request.messages)
        room = request.budget * BYTES_PER_TOKEN
        known, prose = _known(request)
        skeleton = byte_length(_render(request.format, {}, ""))
        free = max(room - skeleton, 0)
        sections = {kind: writer(span, known.get(kind, ""), int(free * _SHARES[kind])) for kind, writer in _WRITERS}
        used = sum(map(byte_length, sections.values()))
        return SummaryReply(_render(request.format, sections, _prose(span, prose, free - used)))


# -- the five sections -----------------------------------------------------------------------------------------------


def _intent(span: Span, known: str, room: int) -> str:
    """The first request in full as far as it fits, then the constraints, then the newest words of the user."""
    ledger = span.ledger
    users = [ledger.users[i] for i in span.positions(ledger.users)]
    goal = int(room * _GOAL)
    lines = known.split("\n") if known else []
    fresh: list[str] = []
    if users and not known:
        lines = f"- {neutralise(_clip(ledger.messages[users[0]].content.strip(), goal - 2))}".split("\n")
    said = "\n".join(lines)
    size = 0
    for _, sentence in span.newest(ledger.constraints):
        sentence = one_line(sentence).lstrip("-*# ")
        line = f"- Constraint: {sentence}"
        if sentence in said or line in fresh:
            continue
        if size + byte_length(line) + 1 > int(room * _CONSTRAINTS):
            break
        fresh.append(line)
        size += byte_length(line) + 1
    for at in reversed(users[1:] if not known else users):
        if size > room:
            break
        text = neutralise(_clip(ledger.messages[at].content.strip(), max(room // 4, 40)))
        if text and text not in said:
            fresh.append(f"- {text}")
            size += byte_length(text) + 3
    return _bounded(lines, [row for item in reversed(fresh) for row in item.split("\n")], goal, room)


def _progress(span: Span, known: str, room: int) -> str:
    fresh: dict[str, str] = {}
    size = 0
    for action, outcome in span.newest_actions():
        line = f"- {action.kind} `{action.what}`"
        if line not in fresh:
            fresh[line] = line + (f" -> {outcome}" if outcome else "")
            size += byte_length(fresh[line]) + 1
            if size > room:
                break
    return _merged(known, reversed(fresh.values()), room)


def _decisions(span: Span, known: str, room: int) -> str:
    return _merged(known, _spoken(span, lambda at: span.ledger.facts(at).speech.decisions, room), room)


def _tried(span: Span, known: str, room: int) -> str:
    failed: dict[str, None] = {}
    size = 0
    for _, index in span.newest(span.ledger.failures):
        action, outcome = span.ledger.actions[index], span.ledger.outcomes[index]
        if action.position < span.lo or outcome is None:
            continue
        line = f"- {action.kind} `{action.what}` -> {outcome.text}"
        if line not in failed:
            failed[line] = None
            size += byte_length(line) + 1
            if size > room // 2:
                break
    spoken = _spoken(span, lambda at: span.ledger.facts(at).speech.failures, room - size)
    return _merged(known, [*reversed(failed), *spoken], room)


def _next(span: Span, known: str, room: int) -> str:
    """The open tasks as last written down, else what the assistant last said that it would do."""
    for _, tasks in span.newest(span.ledger.todos):
        return _merged("", [f"- {task}" for task in tasks], room)
    spoken = _spoken(span, lambda at: span.ledger.facts(at).speech.following, room)
    return _merged("", spoken[-3:], room) if spoken else _merged(known, (), room)


_WRITERS: tuple[tuple[AnchorType, Callable[[Span, str, int], str]], ...] = (
    (INTENT, _intent),
    (PROGRESS, _progress),
    (DECISIONS, _decisions),
    (TRIED, _tried),
    (NEXT, _next),
)


def _spoken(span: Span, read: Callable[[int], tuple[str, ...]], room: int) -> list[str]:
    """Give the newest sentences of one kind that fit, oldest first."""
    lines: dict[str, None] = {}
    size = 0
    speeches = span.positions(span.ledger.speeches)
    for index in reversed(speeches[-_SPEECHES_BACK:]):
        for sentence in reversed(read(span.ledger.speeches[index])):
            line = f"- {sentence}"
            if line not in lines:
                size += byte_length(line) + 1
                lines[line] = None
        if size > room:
            break
    return list(reversed(lines))


def _merged(known: str, fresh: Iterable[str], room: int) -> str:
    """Add lines behind the known ones; a line about the same thing replaces the older one."""
    lines: dict[str, str] = {}
    for line in (*(known.split("\n") if known else ()), *fresh):
        about = line.rpartition("` -> ")[0] or line
        lines.pop(about, None)
        lines[about] = line
    return _bounded([], list(lines.values()), 0, room)


def _bounded(first: Sequence[str], last: Sequence[str], front: int, room: int) -> str:
    """Keep lines from the front up to ``front`` bytes, then the newest up to ``room``; say where some are missing."""
    lines = [line for line in (*first, *last) if line != _LEFT_OUT and line.strip()]
    if sum(byte_length(line) + 1 for line in lines) <= room:
        return "\n".join(lines)
    room -= len(_LEFT_OUT) + 2
    head: list[str] = []
    size = 0
    for line in lines:
        if size + byte_length(line) + 1 > front:
            break
        head.append(line)
        size += byte_length(line) + 1
    tail: list[str] = []
    for line in reversed(lines[len(head) :]):
        if size + byte_length(line) + 1 > room:
            break
        tail.append(line)
        size += byte_length(line) + 1
    if not head and not tail:
        return _clip(lines[-1], room) if room > 0 else ""
    return "\n".join((*head, _LEFT_OUT, *reversed(tail)))


# -- the prose -------------------------------------------------------------------------------------------------------


def _prose(span: Span, known: str, room: int) -> str:
    ledger = span.ledger
    results = len(span.positions(ledger.results))
    speeches = span.positions(ledger.speeches)
    lines = [f"Covers {span.hi - span.lo} messages, {results} of them tool results."]
    if speeches:
        last = one_line(ledger.messages[ledger.speeches[speeches[-1]]].content[-1200:])
        lines.append(f"The assistant said last: {_clip_front(last, min(400, room // 5))}")
    left = room - sum(byte_length(line) + 1 for line in lines)
    if left < 80:
        return lines[0] if byte_length(lines[0]) <= room else ""
    paths, names, errors = _mentioned(span)
    for label, found, separator, share in (
        (_ERRORS, errors, " | ", 0.2),
        (_PATHS, paths, ", ", 0.55),
        (_NAMES, names, ", ", 1.0),
    ):
        before = next((row[len(label) :].split(separator) for row in known.split("\n") if row.startswith(label)), [])
        line = _listed(label, [*found, *before], separator, int(left * share))
        if line:
            lines.append(line)
            left -= byte_length(line) + 1
    return "\n".join(lines)


def _mentioned(span: Span) -> tuple[list[str], list[str], list[str]]:
    """Give the paths, identifiers and errors of the newest messages, those named by most messages first."""
    counts: tuple[Counter[str], Counter[str]] = (Counter(), Counter())
    errors: dict[str, None] = {}
    ledger = span.ledger
    for at in range(span.hi - 1, max(span.lo, span.hi - _NAMES_BACK) - 1, -1):
        named = ledger.facts(at).mentions
        # What the assistant itself wrote is what it will most likely name again.
        weight = 2 if ledger.messages[at].role == ASSISTANT else 1
        for counter, found in zip(counts, (named.paths, named.names), strict=True):
            for name in found:
                counter[name] += weight
        errors.update(dict.fromkeys(named.errors))
    paths, names = ([name for name, _ in counter.most_common()] for counter in counts)
    return paths, names, list(errors)


def _listed(label: str, items: Iterable[str], separator: str, room: int) -> str:
    """Give as many items on one line as fit, each once; empty where none fits."""
    kept: dict[str, None] = {}
    size = len(label)
    for item in items:
        if separator in item:
            item = item.replace(separator, " ")
        if item in kept:
            continue
        size += byte_length(item) + len(separator)
        if size > room:
            break
        kept[item] = None
    return label + separator.join(kept) if kept else ""


# -- the forms -------------------------------------------------------------------------------------------------------


def _known(request: SummaryRequest) -> tuple[dict[AnchorType, str], str]:
    """Give what earlier summaries said: by section, and their prose."""
    if request.format is SummaryFormat.ANCHORS:
        text = request.previous
        anchors = request.anchors or (parse_anchors_and_summary(text)[0] if text else ())
        return {a.type: a.content for a in anchors if a.content != MISSING}, text
    text = request.previous or next((m.content for m in request.messages[:4] if is_summary(m)), "")
    if not text:
        return {}, ""
    # The tags of a dsh checkpoint stand on the lines of the text that they enclose.
    text = text.replace(DSH_TAG, "\n").replace("</compacted-summary>", "\n")
    rows = _by_heading(text)
    if request.format is SummaryFormat.DSH:
        return {kind: rows.get(DSH_HEADINGS[at], "") for kind, at in _DSH_SECTION.items()}, text
    return {kind: rows.get(heading, "") for kind, heading in _PROSE_HEADINGS.items()}, text


def _by_heading(text: str) -> dict[str, str]:
    found: dict[str, list[str]] = {}
    current: list[str] = []
    for row in text.split("\n"):
        if row.startswith("## "):
            current = found.setdefault(row[3:].strip(), [])
        elif row not in ("", DSH_NOTHING) and not row.startswith((_PATHS, _NAMES, _ERRORS)):
            current.append(row)
    return {heading: "\n".join(rows) for heading, rows in found.items()}


def _render(form: SummaryFormat, sections: Mapping[AnchorType, str], prose: str) -> str:
    if form is SummaryFormat.ANCHORS:
        blocks = "\n\n".join(f"### {HEADERS[kind]}\n{sections.get(kind) or MISSING}" for kind in AnchorType)
        return f"## Anchors\n\n{blocks}\n\n{SUMMARY_HEADING}\n{prose}"
    if form is SummaryFormat.DSH:
        bodies = {DSH_HEADINGS[at]: sections.get(kind, "") for kind, at in _DSH_SECTION.items()}
        names = [row for row in prose.split("\n") if row]
        for label, heading in ((_PATHS, "Files and Code"), (_ERRORS, "Errors and Fixes"), (_NAMES, "Critical Context")):
            for row in [row for row in names if row.startswith(label)]:
                names.remove(row)
                bodies[heading] = f"{bodies[heading]}\n{row}".strip()
        bodies["Current Work"] = "\n".join(names)
        return "\n\n".join(f"## {heading}\n{bodies.get(heading) or DSH_NOTHING}" for heading in DSH_HEADINGS)
    parts = [(_PROSE_HEADINGS[kind], sections.get(kind)) for kind in AnchorType] + [("Overview", prose)]
    return "\n\n".join(f"## {heading}\n{body or DSH_NOTHING}" for heading, body in parts)


def _clip(text: str, room: int) -> str:
    """Cut a text to so many bytes, at a word where there is one, and mark the cut."""
    if byte_length(text) <= room:
        return text
    cut = text.encode("utf-8", "surrogatepass")[: max(room - 6, 0)].decode("utf-8", "ignore")
    return f"{cut[: cut.rfind(' ') if cut.rfind(' ') > len(cut) * 3 // 4 else len(cut)]} [...]"


def _clip_front(text: str, room: int) -> str:
    if byte_length(text) <= room:
        return text
    return "... " + text.encode("utf-8", "surrogatepass")[-max(room - 4, 1) :].decode("utf-8", "ignore")


def _make(options: Mapping[str, Any], blobs: BlobStore | None) -> StubSummarizer:
    return StubSummarizer()


SUMMARIZER = SummarizerSpec(
    name="stub",
    help="no model: goal, constraints, changes, outcomes, decisions and the names seen, out of the messages",
    make=_make,
)
