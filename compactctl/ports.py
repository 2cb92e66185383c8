"""The doors of the pure core: what compactors are asked, and what they may ask of the outside.

Disk, clock, network and models come in through these Protocols; the stub summarizer and the memory offloader that the
package ships are full implementations of them, so tests need no mocks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol, runtime_checkable

from msgspec import Struct

from compactctl.context.conversation import conversation_text
from compactctl.context.counting import Meter, MeterContext
from compactctl.context.passing import Leap, Pass
from compactctl.context.view import View
from compactctl.model import Anchor, CompactionRecord, Message, OffloadEntry, Session, Tier, Trigger, Usage

__all__ = [
    "ALONE",
    "BlobStore",
    "Clock",
    "Compactor",
    "CompactorSpec",
    "ForceCompactor",
    "HistoryMode",
    "MakeMeter",
    "MemoryExtractor",
    "Meter",
    "MeterContext",
    "MeterSpec",
    "Offloader",
    "Option",
    "Ports",
    "Quiet",
    "RankSource",
    "RecordStore",
    "RecordedCompactor",
    "RecordedMode",
    "Span",
    "Spread",
    "Step",
    "StepCompactor",
    "Summarizer",
    "SummarizerSpec",
    "SummaryFormat",
    "SummaryReply",
    "SummaryRequest",
    "TodoInjector",
    "Turn",
]


class HistoryMode(StrEnum):
    """Whether a compaction's view becomes the history of the next turns (DESIGN.md, Replay 2)."""

    VIEW = "view"
    WRITE_BACK = "write-back"


class RecordedMode(StrEnum):
    """What a replay does about the session's own compactions (DESIGN.md, Replay 6)."""

    IGNORE = "ignore"  # what-if over the whole history
    FOLLOW = "follow"  # applied where they really happened


class SummaryFormat(StrEnum):
    """The form in which a compactor wants its summary."""

    ANCHORS = "anchors"  # harness9's five anchors and prose
    DSH = "dsh"  # dsh's eight sections
    PROSE = "prose"  # free text under the compactor's own headings


class SummaryRequest:
    """What a summarizer is asked: the messages of a span, and what earlier summaries said.

    ``messages`` are those of the span in order, as the view holds them (large results already offloaded).
    ``conversation`` and ``previous`` are texts that are made when they are first asked for. ``previous`` is empty on
    the first call. ``anchors`` are those known so far. ``budget`` is the largest wanted answer in tokens.
    """

    __slots__ = ("_conversation", "_make_previous", "_previous", "anchors", "budget", "format", "messages")

    def __init__(
        self,
        messages: Sequence[Message],
        *,
        previous: Callable[[], str] | None = None,
        anchors: tuple[Anchor, ...] = (),
        format: SummaryFormat = SummaryFormat.ANCHORS,
        budget: int = 2000,
    ) -> None:
        self.messages = messages
        self.anchors = anchors
        self.format = format
        self.budget = budget
        self._make_previous = previous
        self._conversation: str | None = None
        self._previous: str | None = None

    @property
    def conversation(self) -> str:
        """The span as text, one ``[role]: ...`` line for each text, result and call."""
        if self._conversation is None:
            self._conversation = conversation_text(self.messages)
        return self._conversation

    @property
    def previous(self) -> str:
        """The anchors and prose of the last compaction as text; empty on the first call."""
        if self._previous is None:
            self._previous = self._make_previous() if self._make_previous else ""
        return self._previous

    @property
    def incremental(self) -> bool:
        """Whether an earlier summary is to be merged; does not make the text."""
        return self._make_previous is not None


class SummaryReply(Struct, frozen=True, gc=False):
    """What a summarizer answered; ``usage`` is None where nothing was charged or nothing is known.

    A summarizer that verified its answer says so for the record: ``notes`` hold the figures and whatever was odd,
    ``anchors`` are the five of ``text`` with their origin.
    """

    text: str
    usage: Usage | None = None
    notes: tuple[str, ...] = ()
    anchors: tuple[Anchor, ...] = ()


class Summarizer(Protocol):
    """Writes the summary of a span of messages."""

    def summarize(self, request: SummaryRequest) -> SummaryReply:
        """Give the summary; every failure raises SummarizerError."""


class Offloader(Protocol):
    """Moves large tool results to files and gives the placeholder that stays in the view."""

    def offload(self, message: Message, text: str) -> tuple[OffloadEntry, str] | None:
        """Store ``text`` as the result of ``message`` and give its entry and placeholder.

        None where it is not to be offloaded (too small, no id, already offloaded when it was written). Raises
        OffloadError where it could not be stored.
        """


class RecordStore(Protocol):
    """Keeps compaction records."""

    def append(self, record: CompactionRecord) -> None:
        """Store a record durably; raises StoreError."""


class BlobStore(Protocol):
    """Keeps bytes under a hash (summarizer cassettes)."""

    def get(self, key: str) -> bytes | None:
        """Give the bytes under a key, None where there are none."""

    def put(self, key: str, value: bytes) -> None:
        """Store bytes under a key; raises StoreError."""


class MemoryExtractor(Protocol):
    """Takes long-term facts out of messages before they are summarised (seed section 2.3)."""

    def extract(self, messages: Sequence[Message]) -> None:
        """Look at the original messages of the head; any failure is noted and the compaction goes on."""


class TodoInjector(Protocol):
    """Knows the tasks that are still open (seed section 7)."""

    def active_tasks(self) -> str:
        """Give the text for the section ``## Active Tasks``; empty for none."""


class Clock(Protocol):
    """Measures durations. Times of day come from the transcript."""

    def now(self) -> int:
        """Give a monotonic time in nanoseconds."""


@dataclass(frozen=True, slots=True)
class Spread:
    """How reading many messages is shared out among processes, of which there are so many.

    ``over`` does one thing with each of several pieces, as ``map`` does; what comes back is in the order of the pieces.
    """

    processes: int = 1
    over: Callable[[Callable[[Any], Any], Sequence[Any]], Iterable[Any]] = map


ALONE = Spread()


class Quiet(Struct, frozen=True, gc=False):
    """A promise of a compactor: how long the view may grow without ``step`` changing it.

    As long as the view only grows by recorded messages, weighs less than ``weight`` and holds fewer than ``messages``
    messages (None: no bound), another ``step`` would give the tier ``tier`` and the view unchanged. The replay uses it
    to skip turns when nobody wants their records; a property test holds skipping against not skipping. ``passing``
    promises more: that beyond these bounds it would at most offload what leaves the tail.
    """

    weight: int | None = None
    messages: int | None = None
    tier: Tier = Tier.NONE
    passing: Pass | None = None


class Step(Struct, frozen=True, gc=False):
    """What a compactor did in one step: the view to send, what is known of it, and whether it may be written back.

    ``quiet`` is a promise, or a function that works one out: most replays never ask for it.
    """

    view: View
    record: CompactionRecord
    write_back: bool = False
    quiet: Quiet | Callable[[], Quiet | None] | None = None

    def promise(self) -> Quiet | None:
        """Give the promise, None where there is none."""
        return self.quiet() if callable(self.quiet) else self.quiet


class Turn(Struct, frozen=True, gc=False):
    """One model call of a replay: what would have been sent, and what the compactor did for it.

    ``records`` are the records of all steps of this turn, in order. ``failed`` says that a provider would have
    rejected the view and the compactor had no way left (DESIGN.md, Replay 7).
    """

    turn: int
    records: tuple[CompactionRecord, ...]
    view: View
    failed: bool = False

    @property
    def record(self) -> CompactionRecord:
        """The last record of the turn."""
        return self.records[-1]


class Span(Struct, frozen=True, gc=False):
    """The turns ``turn`` to ``until`` - 1: at the first the compactor was asked, at the others it stayed quiet.

    ``view`` is what is sent at the first turn; each later turn sends the same and the recorded messages since.
    ``before`` is what the compactor was given at the first turn, ``quiet_tier`` the tier of the later turns. Where
    there is a ``leap``, the later turns went as it says, and their views are not given.
    """

    turn: int
    until: int
    records: tuple[CompactionRecord, ...]
    view: View
    failed: bool = False
    before: View | None = None
    quiet_tier: Tier = Tier.NONE
    leap: Leap | None = None

    @property
    def turns(self) -> int:
        """How many turns the span holds."""
        return self.until - self.turn

    @property
    def last_view(self) -> View:
        """The view that is sent at the last turn."""
        return self.view_at(self.until - 1) if self.leap is None else self.leap.view

    def view_at(self, turn: int) -> View:
        """Give the view that is sent at a turn of the span; it lacks the placeholders that a leap brings meanwhile."""
        return self.view if turn == self.turn else self.view.advanced(turn)


class StepCompactor(Protocol):
    """The face that the replay drives: one method holds the rules."""

    def step(self, view: View, trigger: Trigger) -> Step:
        """Give the view to send instead of ``view``, which is the history before the turn ``view.turn``."""


@runtime_checkable
class Compactor(Protocol):
    """The seed's oldest interface (section 7): messages in, messages out."""

    def compact(self, messages: Sequence[Message]) -> list[Message]:
        """Compact where needed."""


@runtime_checkable
class ForceCompactor(Protocol):
    """The seed's interface for a compaction that the user forced (section 7)."""

    def compact_force(self, messages: Sequence[Message]) -> list[Message]:
        """Compact whatever the thresholds say."""


@runtime_checkable
class RecordedCompactor(Protocol):
    """The seed's main interface (section 7): messages in, messages and a record out."""

    def compact_with_record(self, messages: Sequence[Message]) -> tuple[list[Message], CompactionRecord]:
        """Compact where needed and say what was done."""


@dataclass(frozen=True, slots=True)
class Option:
    """One setting of a plug-in: its keyword, default and meaning; ``short`` is an accepted short form.

    ``type`` is one of int, float, bool, str; ``minimum`` and ``maximum`` are inclusive bounds.
    """

    name: str
    default: Any
    help: str
    type: type = float
    short: str = ""
    minimum: float | None = None
    maximum: float | None = None
    choices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Ports:
    """What a compactor may use of the outside; each is handed in and may be absent."""

    summarizer: Summarizer | None = None
    offloader: Offloader | None = None
    meter: Meter | None = None
    context_window: int = 0
    clock: Clock | None = None
    memory_extractor: MemoryExtractor | None = None
    todo_injector: TodoInjector | None = None
    protect: frozenset[str] = frozenset()
    summary_tokens: int = 2000


@dataclass(frozen=True, slots=True)
class CompactorSpec:
    """A compactor plug-in.

    ``make(options, session, ports)`` builds a fresh compactor for one replay; ``options`` hold every declared option
    by name. ``check(options)`` gives sentences about impossible values together (thresholds out of order). ``models``
    names the system and version that it follows. ``meter`` names its native meter, ``history`` its own history mode.
    """

    name: str
    help: str
    make: Callable[[Mapping[str, Any], Session | None, Ports], StepCompactor]
    options: tuple[Option, ...] = ()
    check: Callable[[Mapping[str, Any]], Iterable[str]] = lambda options: ()
    models: str = ""
    meter: str = "bytes4"
    history: HistoryMode = HistoryMode.WRITE_BACK
    overflow_retries: int = 0
    needs_window: bool = False
    uses_summarizer: bool = False

    def option_names(self) -> dict[str, Option]:
        """Give the options by every name that a user may write, full and short."""
        return {name: option for option in self.options for name in (option.name, option.short) if name}

    def option(self, written: str) -> Option | None:
        """Give the option that a user means, with dashes for underscores too; None where there is none."""
        return self.option_names().get(written.strip().replace("-", "_"))


# Gives the rank file of an encoding by its name, None where it is not at hand.
RankSource = Callable[[str], bytes | None]


class MakeMeter(Protocol):
    """Builds a meter for a session.

    A session hands its recorded usage to the meters that need it, ``ranks`` the files of encodings to those that do.
    Raises UsageError where the meter cannot be had, saying what is missing.
    """

    def __call__(self, session: Session | None, ranks: RankSource | None = None) -> Meter:
        """Give the meter."""


@dataclass(frozen=True, slots=True)
class MeterSpec:
    """A meter plug-in."""

    name: str
    help: str
    make: MakeMeter


@dataclass(frozen=True, slots=True)
class SummarizerSpec:
    """A summarizer plug-in; ``make(options, blobs)`` builds it, ``options`` hold every declared option by name."""

    name: str
    help: str
    make: Callable[[Mapping[str, Any], BlobStore | None], Summarizer]
    options: tuple[Option, ...] = ()
    remote: bool = False
    extra: str = ""
