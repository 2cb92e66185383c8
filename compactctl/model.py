"""The words of compactctl as data: messages, sessions, tiers, anchors and compaction records.

Everything here is frozen: a replay never changes what was recorded. What there are hundreds of thousands of is a
``msgspec.Struct``, which is a frozen, slotted class whose objects are made in C, in a tenth of a frozen dataclass's
time; ``changed`` gives a copy with other values. The neutral transcript format has the names of these fields, so its
lines are decoded straight into messages.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from typing import Annotated, Any

from msgspec import Meta, Struct, structs

SYSTEM, USER, ASSISTANT, TOOL = "system", "user", "assistant", "tool"
ROLES = (SYSTEM, USER, ASSISTANT, TOOL)


# What a transcript may say of a number of tokens; a number beyond is no count, and held to when it is decoded.
Count = Annotated[int, Meta(ge=0, le=2**53)]


class Tier(IntEnum):
    """How hard a compaction was, in the order of the seed document (section 2.1)."""

    NONE = 0
    WARN = 1
    SOFT = 2
    FULL = 3
    EMERGENCY = 4

    @property
    def label(self) -> str:
        """The tier's name as reports print it: ``Full``."""
        return self.name.capitalize()


class Trigger(StrEnum):
    """What made a compactor act."""

    PRESSURE = "pressure"
    CONTEXT_OVERFLOW = "context-overflow"
    MANUAL = "manual"


class Origin(StrEnum):
    """Who wrote a message that has the role of a user."""

    HUMAN = "human"
    HARNESS = "harness"
    RECORDED_SUMMARY = "recorded-summary"


class AnchorType(StrEnum):
    """The five kinds of anchor, in their fixed order (seed section 4.3)."""

    USER_INTENT = "user_intent"
    EXECUTION_PROGRESS = "execution_progress"
    KEY_DECISION = "key_decision"
    TRIED_SOLUTION = "tried_solution"
    NEXT_STEP = "next_step"


class Note(StrEnum):
    """What compactctl's own compactors and summarizers note in a record: a word each, as it is written to JSON.

    A note may be any other word too: figures of a check (``grounding:0.90``), why a summary failed
    (``summary_failed:timeout``), or what a user's compactor has to say.
    """

    NO_SYSTEM_MESSAGE = "no_system_message"  # nothing was done, since the view has no system message
    HEAD_EMPTY = "head_empty"  # nothing stands before the tail, so nothing was done
    NO_BALANCED_CUT = "no_balanced_cut"  # each cut would tear a tool call from its result
    TAIL_TOO_LARGE = "tail_too_large"  # even the newest call and its results do not fit
    NOT_SMALLER = "not_smaller"  # the view changed, and nothing was freed
    OFFLOAD_FAILED = "offload_failed"  # a result could not be written to its file and stays in the view
    OFFLOAD_SUFFICED = "offload_sufficed"  # after offloading nothing else was needed
    OFFLOAD_LOWERED_TIER = "offload_lowered_tier"  # after offloading a softer tier was enough
    EXTRACTOR_FAILED = "extractor_failed"  # the memory extractor raised, and the compaction went on without it
    SUMMARY_EMPTY = "summary_empty"  # the reply holds no text and was accepted
    ANCHORS_MISSING = "anchors_missing"  # the reply holds no anchor and was accepted
    OLDEST_LEFT_OUT = "oldest_left_out"  # the summarizer could not read the oldest messages: they did not fit
    RESET = "reset"  # all but the last message of the user went, without a summary
    MANUAL_MARK = "manual_mark"  # automatic compaction is off and the window is full
    REFILL_BREAKER = "refill_breaker"  # stopped: compactions freed too little, several times in a row
    FAILURE_BREAKER = "failure_breaker"  # stopped: several summaries in a row failed
    AS_RECORDED = "as_recorded"  # what the recorded harness itself had done at this turn was done
    REPLY_UNFENCED = "reply_unfenced"  # the reply does not stand in the fence that it was asked for
    FENCE_REPEATED = "fence_repeated"  # the reply opens its fence more than once; the first counts
    ANCHOR_CONFLICT = "anchor_conflict"  # the reply holds a heading twice; the first counts
    USAGE_INVALID = "usage_invalid"  # what the server charged is no possible count


class ToolCall(Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """One call that an assistant message makes; ``arguments`` is the recorded JSON text."""

    id: str
    name: str
    arguments: str = "{}"


class Usage(Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """What a provider charged for one model call, in tokens.

    ``prompt`` is the whole prompt, cached parts included (formats.md section 2). None means that it was not recorded.
    """

    prompt: Count
    output: Count
    cache_read: Count | None = None
    cache_write: Count | None = None


class Parts(Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """What a message holds beside its text: block texts, images and hidden thinking.

    ``texts`` are the text blocks one by one where the transcript has several (some meters price each block);
    ``content`` of the message is their join. ``images`` counts images, ``image_bytes`` their decoded size.
    """

    texts: tuple[str, ...] = ()
    images: Count = 0
    image_bytes: Count = 0
    thinking_chars: Count = 0


class Message(Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """One message of a conversation; a tool result is one message of role ``tool``."""

    role: str
    content: str
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str = ""
    name: str = ""
    is_error: bool = False
    timestamp: str | None = None
    model: str = ""
    usage: Usage | None = None
    parts: Parts | None = None
    origin: Origin | None = None


@dataclass(frozen=True, slots=True)
class RecordedCompaction:
    """A compaction that the harness itself made while the session was recorded.

    ``kind`` is ``full`` or ``micro``, ``trigger`` the transcript's own word. ``at`` is the index in the session's
    messages before which it happened, ``before_model_call`` the number of distinct model calls before it in file order.
    ``replacement`` is the history that the harness went on with, where the transcript tells (None: only what follows
    ``at``). For a micro compaction ``cleared`` are the ids of the tool calls whose results were cleared.
    """

    kind: str
    trigger: str
    at: int
    before_model_call: int
    tokens_before: int | None = None
    tokens_after: int | None = None
    replacement: tuple[Message, ...] | None = None
    cleared: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SkippedLine:
    """A line of a transcript that could not be used: its number (from 1), its byte offset and the reason."""

    line: int
    offset: int
    reason: str


@dataclass(frozen=True, slots=True)
class LineCounts:
    """Where every line of a transcript went: total = used + recovered + ignored + skipped + blank.

    ``recovered`` lines were damaged but gave at least one usable object. ``ignored`` counts lines by kind that carry no
    message of this session. A document that is not line-based counts its records instead of its lines.
    """

    total: int = 0
    used: int = 0
    recovered: int = 0
    blank: int = 0
    ignored: Mapping[str, int] = field(default_factory=dict)
    skipped: tuple[SkippedLine, ...] = ()

    def __add__(self, other: LineCounts) -> LineCounts:
        """Give the account of two parts of a file as one."""
        kinds = sorted(self.ignored.keys() | other.ignored.keys())
        return LineCounts(
            total=self.total + other.total,
            used=self.used + other.used,
            recovered=self.recovered + other.recovered,
            blank=self.blank + other.blank,
            ignored={kind: self.ignored.get(kind, 0) + other.ignored.get(kind, 0) for kind in kinds},
            skipped=self.skipped + other.skipped,
        )

    def skipped_by_reason(self) -> dict[str, int]:
        """Count the skipped lines by reason, in the order of the reasons' names."""
        counts: dict[str, int] = {}
        for skip in self.skipped:
            counts[skip.reason] = counts.get(skip.reason, 0) + 1
        return dict(sorted(counts.items()))


@dataclass(frozen=True, slots=True)
class Session:
    """One recorded run of an agent, as a loader found it.

    ``messages`` are in file order and hold no stub. ``context_window`` and ``overhead_tokens`` are None unless the
    transcript records them. ``input_sha256`` is the hash of the bytes that were read (hexadecimal, empty where the
    session was not read from a file). ``warnings`` are one-line sentences for the user.
    """

    id: str
    messages: tuple[Message, ...]
    format: str = ""
    path: str = ""
    harness: str = ""
    harness_version: str = ""
    model: str = ""
    context_window: int | None = None
    overhead_tokens: int | None = None
    compactions: tuple[RecordedCompaction, ...] = ()
    lines: LineCounts = field(default_factory=LineCounts)
    input_sha256: str = ""
    parent_id: str = ""
    warnings: tuple[str, ...] = ()

    @property
    def model_calls(self) -> int:
        """The number of model calls, which is the number of turns of a replay."""
        return [message.role for message in self.messages].count(ASSISTANT)


class Anchor(Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """One thing that a summary must not lose (seed section 4.3); content ``N/A`` says that nothing was found.

    ``origin`` says where its words came from once that was checked: ``user``, ``assistant``, ``tool`` (only there),
    or empty.
    """

    type: AnchorType
    content: str
    origin: str = ""


class OffloadEntry:
    """A tool result that was moved to a file: where, and how large it is (bytes, lines).

    ``file_path`` is relative to the state directory and the same in the view, the record and on disk. ``sha256`` is
    worked out when it is first asked for, since most replays never do.
    """

    __slots__ = ("_sha256", "_text", "bytes", "file_path", "lines", "tool_call_id", "tool_name")

    tool_call_id: str
    tool_name: str
    file_path: str
    bytes: int
    lines: int

    def __init__(
        self,
        tool_call_id: str,
        tool_name: str,
        file_path: str,
        bytes: int,
        lines: int,
        sha256: str = "",
        text: str | None = None,
    ) -> None:
        put = object.__setattr__
        put(self, "tool_call_id", tool_call_id)
        put(self, "tool_name", tool_name)
        put(self, "file_path", file_path)
        put(self, "bytes", bytes)
        put(self, "lines", lines)
        put(self, "_sha256", sha256)
        put(self, "_text", text)

    @property
    def sha256(self) -> str:
        """The hash of the offloaded bytes, hexadecimal; empty where neither it nor the text is known."""
        if not self._sha256 and self._text is not None:
            object.__setattr__(self, "_sha256", sha256_text(self._text))
        return self._sha256

    @property
    def text(self) -> str | None:
        """The offloaded text, None for an entry that was read from a record."""
        return self._text

    _sha256: str
    _text: str | None

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"an OffloadEntry is frozen: {name}")

    def __reduce__(self) -> tuple[object, ...]:
        # Copies and pickles are made as the entry was: by default they would be filled in name by name.
        return (OffloadEntry, (*self._key(), self._sha256, self._text))

    def _key(self) -> tuple[str, str, str, int, int]:
        return (self.tool_call_id, self.tool_name, self.file_path, self.bytes, self.lines)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, OffloadEntry) and self._key() == other._key() and self.sha256 == other.sha256

    def __hash__(self) -> int:
        return hash(self._key())

    def __repr__(self) -> str:
        return f"OffloadEntry({self.tool_call_id!r}, {self.file_path!r}, bytes={self.bytes}, lines={self.lines})"


# As harness9 words it: its own records tell by nothing else that a summary failed.
_SUMMARY_FAILED = "LLM summary failed"


def summary_failure(cause: str | None, tier: Tier | None = None) -> str:
    """Give the error of a record whose summary failed, with the tier where the compactor has tiers.

    >>> summary_failure("no answer"), summary_failure(None, Tier.FULL)
    ('LLM summary failed: no answer', 'LLM summary failed in TierFull')
    """
    where = "" if tier is None else f" in Tier{tier.label}"
    return f"{_SUMMARY_FAILED}{where}" + ("" if cause is None else f": {cause}")


def is_summary_failure(error: str) -> bool:
    """Whether the error of a record says that its summary failed, also where harness9 wrote it.

    >>> is_summary_failure(summary_failure("no answer")), is_summary_failure("emergency fallback: forced truncation")
    (True, False)
    """
    return _SUMMARY_FAILED in error


def has_acted(
    tokens_before: int, tokens_after: int, msgs_before: int, msgs_after: int, summarized: int, offloaded: int
) -> bool:
    """Whether a record with these figures is a compaction: one that only stood above a threshold changed nothing.

    >>> has_acted(900, 900, 12, 12, 0, 0), has_acted(900, 900, 12, 12, 0, offloaded=1)
    (False, True)
    """
    return tokens_after != tokens_before or msgs_after != msgs_before or bool(summarized or offloaded)


class SummaryCall(Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """One summary that a compactor was given, in tokens: as ``charged``, or its own count of what went in and out."""

    input_tokens: int
    output_tokens: int
    charged: bool = False


class CompactionRecord(Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """All that is known of one compaction (seed section 5.1).

    The names and JSON types up to ``error`` are harness9's, so that its own files load in ``report``; ``timestamp``
    (RFC 3339) and ``duration`` (nanoseconds) are None where a replay has no clock. ``compression_ratio`` is after /
    before. ``tokens_after_offload`` is what the view weighed when only its large results had been offloaded, before
    anything was summarised. ``summaries`` are the summarizer's calls that brought one, refused ones too. ``notes`` name
    what the seed counts as success but a user should know (``Note``); a user's compactor may note any other word.
    """

    tier: Tier
    tokens_before: int
    tokens_after: int
    msgs_before: int
    msgs_after: int
    anchors: tuple[Anchor, ...] = ()
    offloaded: tuple[OffloadEntry, ...] = ()
    summarized: int = 0
    preserved_tail: int = 0
    summary_text: str = ""
    compression_ratio: float = 0.0
    error: str = ""
    turn: int = 0
    compactor: str = ""
    trigger: Trigger = Trigger.PRESSURE
    history: str = ""
    meter: str = ""
    summaries: tuple[SummaryCall, ...] = ()
    tokens_after_offload: int | None = None
    dropped: int = 0
    notes: tuple[str, ...] = ()
    id: str = ""
    session_id: str = ""
    run: str = ""
    timestamp: str | None = None
    duration: int | None = None

    @property
    def tier_name(self) -> str:
        """The tier as a word: ``Full``."""
        return self.tier.label

    @property
    def summary_input_tokens(self) -> int | None:
        """The tokens that the summarizer read, in all calls; None where it gave no summary."""
        return sum(call.input_tokens for call in self.summaries) if self.summaries else None

    @property
    def summary_output_tokens(self) -> int | None:
        """The tokens that the summarizer wrote, in all calls; None where it gave no summary."""
        return sum(call.output_tokens for call in self.summaries) if self.summaries else None

    @property
    def summary_failed(self) -> bool:
        """Whether a summary was asked for and did not come or could not be used."""
        return is_summary_failure(self.error)

    @property
    def reduction(self) -> float:
        """The share of tokens that went away: 1 - compression_ratio; negative where the view grew."""
        return 1.0 - self.compression_ratio if self.tokens_before else 0.0

    @property
    def acted(self) -> bool:
        """Whether it is a compaction (``has_acted``)."""
        return has_acted(
            self.tokens_before,
            self.tokens_after,
            self.msgs_before,
            self.msgs_after,
            self.summarized,
            len(self.offloaded),
        )

    def stamped(self, history: str, timestamp: str | None, duration: int | None) -> CompactionRecord:
        """Give the record with what only the replay knows: history mode, time in the transcript, nanoseconds taken."""
        return changed(self, history=history, timestamp=timestamp, duration=duration)

    def to_json(self) -> dict[str, Any]:
        """Give the record as the JSON object that the store writes; arrays are never null."""
        out: dict[str, Any] = {
            "id": self.id,
            "session_id": self.session_id,
            "timestamp": self.timestamp,
            "tier": int(self.tier),
            "tokens_before": self.tokens_before,
            "tokens_after": self.tokens_after,
            "msgs_before": self.msgs_before,
            "msgs_after": self.msgs_after,
            "anchors": [
                {"type": str(a.type), "content": a.content, **({"origin": a.origin} if a.origin else {})}
                for a in self.anchors
            ],
            "offloaded": [
                {
                    "tool_call_id": e.tool_call_id,
                    "tool_name": e.tool_name,
                    "file_path": e.file_path,
                    "bytes": e.bytes,
                    "lines": e.lines,
                    "sha256": e.sha256,
                }
                for e in self.offloaded
            ],
            "summarized": self.summarized,
            "preserved_tail": self.preserved_tail,
            "summary_text": self.summary_text,
            "compression_ratio": self.compression_ratio,
            "duration": self.duration,
        }
        if self.error:
            out["error"] = self.error
        out.update(
            run=self.run,
            turn=self.turn,
            tier_name=self.tier_name,
            compactor=self.compactor,
            trigger=str(self.trigger),
            history=self.history,
            meter=self.meter,
            summary_input_tokens=self.summary_input_tokens,
            summary_output_tokens=self.summary_output_tokens,
            summary_calls=[
                {"input_tokens": c.input_tokens, "output_tokens": c.output_tokens, "charged": c.charged}
                for c in self.summaries
            ],
            tokens_after_offload=self.tokens_after_offload,
            dropped=self.dropped,
            notes=[str(note) for note in self.notes],
        )
        return out

    @classmethod
    def from_json(cls, row: Mapping[str, Any]) -> CompactionRecord:
        """Read a record as compactctl or harness9 wrote it (null arrays are accepted).

        Raises ValueError, KeyError or TypeError where the row is not a record.
        """
        return cls(
            id=str(row.get("id") or ""),
            session_id=str(row.get("session_id") or ""),
            timestamp=row.get("timestamp"),
            tier=Tier(row["tier"]),
            tokens_before=int(row["tokens_before"]),
            tokens_after=int(row["tokens_after"]),
            msgs_before=int(row["msgs_before"]),
            msgs_after=int(row["msgs_after"]),
            anchors=tuple(
                Anchor(AnchorType(a["type"]), str(a["content"]), str(a.get("origin") or ""))
                for a in row.get("anchors") or ()
            ),
            offloaded=tuple(
                OffloadEntry(
                    str(e["tool_call_id"]),
                    str(e.get("tool_name") or ""),
                    str(e["file_path"]),
                    int(e["bytes"]),
                    int(e["lines"]),
                    str(e.get("sha256") or ""),
                )
                for e in row.get("offloaded") or ()
            ),
            summarized=int(row.get("summarized") or 0),
            preserved_tail=int(row.get("preserved_tail") or 0),
            summary_text=str(row.get("summary_text") or ""),
            compression_ratio=float(row.get("compression_ratio") or 0.0),
            duration=row.get("duration"),
            error=str(row.get("error") or ""),
            run=str(row.get("run") or ""),
            turn=int(row.get("turn") or 0),
            compactor=str(row.get("compactor") or ""),
            trigger=Trigger(row.get("trigger") or Trigger.PRESSURE),
            history=str(row.get("history") or ""),
            meter=str(row.get("meter") or ""),
            summaries=_calls(row),
            tokens_after_offload=row.get("tokens_after_offload"),
            dropped=int(row.get("dropped") or 0),
            notes=tuple(row.get("notes") or ()),
        )


def _calls(row: Mapping[str, Any]) -> tuple[SummaryCall, ...]:
    """Read the summarizer's calls of a record; a row that has their sums alone is one call."""
    calls = row.get("summary_calls")
    if calls is None and row.get("summary_input_tokens") is not None:
        calls = [{"input_tokens": row["summary_input_tokens"], "output_tokens": row.get("summary_output_tokens") or 0}]
    return tuple(
        SummaryCall(int(call["input_tokens"]), int(call["output_tokens"]), bool(call.get("charged")))
        for call in calls or ()
    )


# Give a copy of one of these with some of its fields changed.
changed = structs.replace


def byte_length(text: str) -> int:
    """Give the length of a text in UTF-8 bytes; a lone surrogate counts three, as in the transcripts that hold one.

    >>> byte_length("abc"), byte_length("上下文")
    (3, 9)
    """
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def sha256_text(text: str) -> str:
    """Give the hexadecimal SHA-256 of a text's UTF-8 bytes."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def first_timestamp(messages: Iterable[Message]) -> str | None:
    """Give the first recorded time among these messages, None where there is none."""
    return next((m.timestamp for m in messages if m.timestamp), None)
