"""Spilling: large results go to a file when they are written, before any compactor sees them (harness9.md, dsh.md).

It prevents pressure where compaction relieves it, so it stands in front of any compactor: the recorded messages are
changed once, and the replay goes over what the history would have been.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import StrEnum

from compactctl.context.offload import SPILL_MARKER, OffloaderBase, first_lines, line_count
from compactctl.errors import OffloadError
from compactctl.model import Message, OffloadEntry, byte_length, changed

DEFAULT_SPILL = 10_000
PREVIEW_LINES = 20
DEFAULT_EXEMPT = frozenset({"read_file", "write_file", "edit_file", "Read", "Write", "Edit"})


class SpillForm(StrEnum):
    """What is left of a spilled result."""

    FIRST_LINES = "first-lines"  # harness9's OffloadHook: a header and the first 20 lines
    HEAD_AND_TAIL = "head-and-tail"  # dsh: as much of both ends as fits under the threshold


@dataclass(frozen=True, slots=True)
class SpillRule:
    """Which results are spilled: longer than ``threshold`` bytes, of a tool that is not ``exempt``."""

    threshold: int = DEFAULT_SPILL
    exempt: frozenset[str] = DEFAULT_EXEMPT
    form: SpillForm = SpillForm.FIRST_LINES


@dataclass(frozen=True, slots=True)
class Spilled:
    """The messages as they would have been written; ``failed`` counts results that could not be stored and stayed."""

    messages: tuple[Message, ...]
    entries: tuple[OffloadEntry, ...] = ()
    failed: int = 0


def rule_for(compactor: str, threshold: int = DEFAULT_SPILL, protect: Collection[str] = ()) -> SpillRule:
    """Give the rule of the harness that a compactor follows; protected tools are exempt.

    harness9 exempts its three file tools, dsh its ``read`` alone. Other compactors get harness9's form, and their
    harness's names of the same file tools are exempt.
    """
    spared = frozenset(protect)
    if compactor == "dsh":
        return SpillRule(threshold, spared | {"read"}, SpillForm.HEAD_AND_TAIL)
    return SpillRule(threshold, spared | DEFAULT_EXEMPT)


def spilled(messages: Sequence[Message], rule: SpillRule, offloader: OffloaderBase) -> Spilled:
    """Spill what a rule asks for; a result that cannot be stored, or would not get smaller, stays as it is."""
    written: list[Message] = []
    entries: list[OffloadEntry] = []
    failed = 0
    called: dict[str, str] = {}
    for message in messages:
        called.update((call.id, call.name) for call in message.tool_calls)
        tool = message.name or called.get(message.tool_call_id, "")
        if not _is_large(message, rule) or tool in rule.exempt:
            written.append(message)
            continue
        try:
            done = _spill(message, tool, rule, offloader)
        except OffloadError:
            failed += 1
            done = None
        if done is None:
            written.append(message)
        else:
            entries.append(done[0])
            written.append(changed(message, content=done[1], parts=None))
    return Spilled(tuple(written), tuple(entries), failed)


def _is_large(message: Message, rule: SpillRule) -> bool:
    text = message.content
    return bool(message.tool_call_id) and byte_length(text) > rule.threshold and not text.startswith(SPILL_MARKER)


def _spill(message: Message, tool: str, rule: SpillRule, offloader: OffloaderBase) -> tuple[OffloadEntry, str] | None:
    text = message.content
    path = offloader.names.path(message.tool_call_id, text)
    entry = OffloadEntry(message.tool_call_id, tool, path, byte_length(text), line_count(text), text=text)
    shown = _ends(entry, text, rule.threshold) if rule.form is SpillForm.HEAD_AND_TAIL else _lines(entry, text)
    if shown is None or byte_length(shown) >= entry.bytes:
        return None
    offloader.keep(entry, text, shown)
    return entry, shown


def _lines(entry: OffloadEntry, text: str) -> str:
    preview = first_lines(text, PREVIEW_LINES)
    return (
        f"{SPILL_MARKER} {entry.file_path}, {entry.lines} lines / {entry.bytes} bytes. "
        f"Read it in parts with read_file.]\n{preview}\n... (cut off)"
    )


def _ends(entry: OffloadEntry, text: str, cap: int) -> str | None:
    """Give both ends and a notice within the cap; None where the notice alone has no room."""
    data = text.encode("utf-8", "surrogatepass")

    def notice(left_out: int) -> str:
        return f"\n\n({left_out} bytes left out; the whole result is in {entry.file_path}: read it there)"

    room = cap - len(notice(entry.bytes))
    if room <= 0:
        return None
    head = data[: room // 2].decode("utf-8", "ignore")
    tail = data[len(data) - (room - room // 2) :].decode("utf-8", "ignore")
    return head + tail + notice(entry.bytes - byte_length(head) - byte_length(tail))
