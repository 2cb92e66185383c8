"""The seed document's ProgressiveCompactor, section by section, by small cases worked out by hand."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Sequence

import pytest

from compactctl import (
    AnchorType,
    CompactionRecord,
    MemoryOffloader,
    Message,
    ProgressiveCompactor,
    SummarizerError,
    SummaryReply,
    SummaryRequest,
    Tier,
    ToolCall,
)
from compactctl.compactors._fallback import BudgetFallback
from compactctl.compactors.token_budget import TokenBudgetCompactor
from compactctl.context.offload import OffloaderBase
from compactctl.context.pairing import STAND_IN_TEXT
from compactctl.errors import OffloadError, StoreError
from compactctl.model import OffloadEntry
from compactctl.ports import Compactor, ForceCompactor, RecordedCompactor

ANSWER = """## Anchors

### User Intent
fix the build

### Execution Progress
- read the log

### Key Decisions
- N/A

### Tried Solutions
- pinning failed

### Next Steps
- bisect

## Summary
It is the linker."""


class Says:
    """A summarizer that answers from a list; the last answer repeats, None fails."""

    def __init__(self, *answers: str | None) -> None:
        self.answers = answers or (ANSWER,)
        self.requests: list[SummaryRequest] = []

    def summarize(self, request: SummaryRequest) -> SummaryReply:
        """Give the next answer."""
        self.requests.append(request)
        answer = self.answers[min(len(self.requests), len(self.answers)) - 1]
        if answer is None:
            raise SummarizerError("no route to the model")
        return SummaryReply(answer)


def text(size: int) -> str:
    """A text of so many bytes, in lines of 50."""
    return ("r" * 49 + "\n") * (size // 50) + "r" * (size % 50)


def pairs(count: int, size: int) -> list[Message]:
    """A system message of 4 bytes and ``count`` pairs: a call of 20 bytes, a result of ``size`` bytes in all."""
    messages = [Message("system", "syst")]
    for i in range(count):
        # 12 of text, 4 of id, 2 of name and 2 of arguments; the result's id is 4 of its ``size`` bytes.
        messages.append(Message("assistant", "a" * 12, (ToolCall(f"c{i:03d}", "sh", "{}"),)))
        messages.append(Message("tool", text(size - 4), tool_call_id=f"c{i:03d}", name="sh"))
    return messages


def exactly(tokens: int) -> list[Message]:
    """Ten messages that make exactly so many tokens."""
    messages = [Message("system", ""), *[Message("user", "x") for _ in range(9)]]
    messages[1] = Message("user", "x" * (tokens * 4 - 8))
    return messages


# -- 2.1, 2.2: tiers ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tokens", "tier"),
    [
        (599, Tier.NONE),
        (600, Tier.WARN),
        (699, Tier.WARN),
        (700, Tier.SOFT),
        (799, Tier.SOFT),
        (800, Tier.FULL),
        (949, Tier.FULL),
        (950, Tier.EMERGENCY),
        (2000, Tier.EMERGENCY),
    ],
)
def test_a_threshold_belongs_to_the_tier_above_it(tokens: int, tier: Tier) -> None:
    """At, just under and just over each edge of the default thresholds, in a window of 1,000 tokens."""
    _, record = ProgressiveCompactor(Says(), 1000).compact_with_record(exactly(tokens))

    assert record.tokens_before == tokens
    assert record.tier is tier


@pytest.mark.parametrize("window", [0, -1])
def test_without_a_window_nothing_is_done(window: int) -> None:
    """A window that is not known never compacts."""
    messages = exactly(5000)
    view, record = ProgressiveCompactor(Says(), window).compact_with_record(messages)

    assert view == messages
    assert record.tier is Tier.NONE


def test_tier_none_gives_the_messages_as_they_are() -> None:
    """Under 60 % the very same messages come back, and no summarizer is called."""
    summarizer = Says()
    messages = exactly(100)
    view, record = ProgressiveCompactor(summarizer, 1000).compact_with_record(messages)

    assert all(a is b for a, b in zip(view, messages, strict=True))
    assert (record.tokens_before, record.tokens_after, record.compression_ratio) == (100, 100, 1.0)
    assert summarizer.requests == []


def test_thresholds_are_configurable() -> None:
    """What is Warn by default is Full where full is set to 0.6."""
    compactor = ProgressiveCompactor(
        Says(), 1000, warn_threshold=0.5, soft_threshold=0.55, full_threshold=0.6, emergency_threshold=0.9
    )

    assert compactor.compact_with_record(exactly(650))[1].tier is Tier.FULL


# -- 2.3: what each tier does ------------------------------------------------------------------------------------------


def test_warn_offloads_the_head_and_keeps_every_message() -> None:
    """Large results of the head become placeholders; the tail keeps its own, and no model is called."""
    messages = pairs(6, 5000)  # 4 + 6 * 5,020 = 30,124 bytes = 7,531 tokens: 0.63 of 12,000
    offloader, summarizer = MemoryOffloader("s"), Says()
    view, record = ProgressiveCompactor(summarizer, 12_000, offloader=offloader).compact_with_record(messages)

    assert record.tier is Tier.WARN
    assert len(view) == len(messages)
    # 12 messages behind the system message less a tail of 6: the head holds three pairs.
    assert [entry.tool_call_id for entry in record.offloaded] == ["c000", "c001", "c002"]
    assert [m.content.startswith("[offloaded: tool_results/s/c00") for m in view if m.role == "tool"] == [True] * 3 + [
        False
    ] * 3
    assert (record.summarized, record.preserved_tail) == (0, 6)
    assert summarizer.requests == []
    # A placeholder shows ten of a hundred lines: it frees about 4,300 of 5,000 bytes, three of them over 3,000 tokens.
    assert record.tokens_after < record.tokens_before - 3 * 1_000


def test_a_preview_of_long_lines_can_be_larger_than_the_result() -> None:
    """The preview is counted in lines and has no cap in bytes: a fault of the design that a replay must show (W7)."""
    line = "x" * 9000
    offered = MemoryOffloader("s").offload(Message("tool", line, tool_call_id="c"), line)

    assert offered is not None
    assert len(offered[1]) > 9000


def test_soft_summarises_the_older_half_of_the_head() -> None:
    """[system, compaction message, newer half, tail]."""
    messages = pairs(11, 3000)  # 4 + 11 * 3,020 = 33,224 bytes = 8,306 tokens: 0.755 of 11,000
    view, record = ProgressiveCompactor(Says(), 11_000).compact_with_record(messages)

    # 22 behind the system message, tail 6, head 16: eight are summarised, eight and the tail stay.
    assert record.tier is Tier.SOFT
    assert (record.summarized, record.preserved_tail) == (8, 14)
    assert view[1].content.startswith("[Context Compaction]")
    assert list(view[2:]) == messages[9:]


def test_full_summarises_the_whole_head() -> None:
    """[system, compaction message, tail], and the message holds the five anchors and the prose."""
    messages = pairs(11, 3000)  # 8,306 tokens: 0.83 of 10,000
    view, record = ProgressiveCompactor(Says(), 10_000).compact_with_record(messages)

    assert record.tier is Tier.FULL
    assert (record.summarized, record.preserved_tail) == (16, 6)
    assert list(view[2:]) == messages[-6:]
    assert view[1].role == "user"
    for part in (
        "## Anchors",
        "### User Intent\nfix the build",
        "### Key Decisions\nN/A",
        "## Summary\nIt is the linker.",
    ):
        assert part in view[1].content
    assert record.summary_text == "It is the linker."
    assert [anchor.type for anchor in record.anchors] == list(AnchorType)


def test_full_lists_what_it_offloaded() -> None:
    """The compaction message names the files, so that the agent can read them back."""
    offloader = MemoryOffloader("s")
    view, record = ProgressiveCompactor(Says(), 8_500, offloader=offloader).compact_with_record(pairs(6, 5000))

    assert record.tier is Tier.FULL
    assert len(record.offloaded) == 3
    assert "## Offloaded References\n- tool_results/s/c000.txt (100 lines) - offloaded tool result\n" in view[1].content
    assert sorted(offloader.files) == [f"tool_results/s/c00{i}.txt" for i in range(3)]


def test_emergency_keeps_the_system_message_and_the_last_one() -> None:
    """No model is called; in an agent loop the last message is a result without its call, so the view is bare."""
    summarizer = Says()
    view, record = ProgressiveCompactor(summarizer, 8_000).compact_with_record(pairs(11, 3000))

    assert record.tier is Tier.EMERGENCY
    assert record.error == "emergency fallback: forced truncation"
    assert list(view) == [Message("system", "syst")]
    assert record.preserved_tail == 0
    assert summarizer.requests == []


@pytest.mark.parametrize(
    ("messages", "note"), [([Message("user", "x" * 4000)] * 3, "no_system_message"), (exactly(900)[:4], "head_empty")]
)
def test_a_tier_that_can_do_nothing_says_why(messages: list[Message], note: str) -> None:
    """Without a system message or a head the view stays; the record carries the tier and a note."""
    tokens = sum(len(m.content) for m in messages) // 4
    view, record = ProgressiveCompactor(Says(), tokens * 100 // 85).compact_with_record(messages)

    assert record.tier is Tier.FULL
    assert list(view) == messages
    assert record.notes == (note,)


# -- 3: offload --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("size", "moved"), [(4000, 0), (4001, 1)])
def test_a_result_must_be_larger_than_the_threshold(size: int, moved: int) -> None:
    """4,000 bytes stay, 4,001 go; bytes, not characters."""
    messages = [Message("system", ""), Message("assistant", "", (ToolCall("c", "sh"),))]
    messages += [Message("tool", "r" * size, tool_call_id="c"), *[Message("user", "x" * 2000)] * 6]
    tokens = ProgressiveCompactor(Says(), 1).compact_with_record(messages)[1].tokens_before
    record = ProgressiveCompactor(Says(), tokens * 100 // 65, offloader=MemoryOffloader("s")).compact_with_record(
        messages
    )[1]

    assert record.tier is Tier.WARN
    assert len(record.offloaded) == moved


def test_the_second_offload_of_a_result_writes_nothing_and_gives_the_same_placeholder() -> None:
    """Idempotent: later turns get the entry and the placeholder, the file is written once."""

    class Counts(MemoryOffloader):
        writes = 0

        def put(self, entry: OffloadEntry, text: str) -> None:
            self.writes += 1
            super().put(entry, text)

    offloader = Counts("s")
    compactor = ProgressiveCompactor(Says(), 12_000, offloader=offloader)
    first = compactor.compact_with_record(pairs(6, 5000))
    second = compactor.compact_with_record(pairs(6, 5000))

    assert first[0] == second[0]
    assert first[1].offloaded == second[1].offloaded
    assert offloader.writes == 3


def test_two_results_under_one_id_are_both_kept() -> None:
    """Providers restart their ids each turn; the second text gets a name of its own."""
    offloader = MemoryOffloader("s")
    message = Message("tool", "", tool_call_id="call_0")
    first = offloader.offload(message, "a" * 5000)
    second = offloader.offload(message, "b" * 5000)

    assert first is not None
    assert second is not None
    assert first[0].file_path == "tool_results/s/call_0.txt"
    assert second[0].file_path != first[0].file_path
    assert sorted(text[0] for text in offloader.files.values()) == ["a", "b"]


@pytest.mark.parametrize("text", ["[output saved to x.txt]" + "r" * 5000])
def test_what_was_offloaded_when_it_was_written_is_left_alone(text: str) -> None:
    """The OffloadHook's mark is respected (section 3.3)."""
    assert MemoryOffloader("s").offload(Message("tool", text, tool_call_id="c"), text) is None


def test_a_result_without_an_id_is_left_alone() -> None:
    """Nothing could name its file."""
    assert MemoryOffloader("s").offload(Message("tool", "r" * 5000), "r" * 5000) is None


# -- 4: anchors --------------------------------------------------------------------------------------------------------


def test_an_old_anchor_survives_a_summary_that_says_nothing() -> None:
    """Incremental merge: new values win, what is N/A keeps the old (section 4.5)."""
    second = "### User Intent\n- N/A\n### Next Steps\n- release\n## Summary\nmore"
    summarizer = Says(ANSWER, second)
    compactor = ProgressiveCompactor(summarizer, 10_000)
    compactor.compact_with_record(pairs(11, 3000))
    _, record = compactor.compact_with_record(pairs(11, 3000))
    anchors = {anchor.type: anchor.content for anchor in record.anchors}

    assert anchors[AnchorType.USER_INTENT] == "fix the build"
    assert anchors[AnchorType.NEXT_STEP] == "- release"
    assert summarizer.requests[0].previous == ""
    assert summarizer.requests[1].previous.startswith("### User Intent\nfix the build\n\n### Execution Progress")
    assert summarizer.requests[1].previous.endswith("## Summary\nIt is the linker.")


@pytest.mark.parametrize(
    ("answer", "note"), [("", "summary_empty"), ("   \n", "summary_empty"), ("Hm.", "anchors_missing")]
)
def test_an_answer_without_anchors_is_accepted_and_noted(answer: str, note: str) -> None:
    """The seed counts it as success; a person should know."""
    _, record = ProgressiveCompactor(Says(answer), 10_000).compact_with_record(pairs(11, 3000))

    assert record.error == ""
    assert note in record.notes
    assert {anchor.content for anchor in record.anchors} == {"N/A"}


def test_a_summary_that_does_not_shrink_the_view_is_noted() -> None:
    """The seed accepts it; the note keeps it from passing for progress."""
    _, record = ProgressiveCompactor(Says("## Summary\n" + "x" * 90_000), 10_000).compact_with_record(pairs(11, 3000))

    assert "not_smaller" in record.notes
    assert record.compression_ratio > 1


# -- 5, 7: records and interfaces --------------------------------------------------------------------------------------


class Keeps:
    """A record store in memory; ``broken`` makes it fail."""

    def __init__(self, broken: bool = False) -> None:
        self.records: list[CompactionRecord] = []
        self.broken = broken

    def append(self, record: CompactionRecord) -> None:
        """Keep a record."""
        if self.broken:
            raise StoreError("disk full")
        self.records.append(record)


def test_every_compaction_is_recorded_and_nothing_else() -> None:
    """Tier None leaves no record; every other does, under the session's id."""
    store = Keeps()
    compactor = ProgressiveCompactor(Says(), 10_000, record_store=store, session_id="s-1")
    compactor.compact(exactly(100))
    compactor.compact(pairs(11, 3000))

    assert [(record.session_id, record.tier) for record in store.records] == [("s-1", Tier.FULL)]


def test_a_record_that_cannot_be_stored_is_counted() -> None:
    """The compaction goes on (section 6.1), the count keeps it from being silent."""
    compactor = ProgressiveCompactor(Says(), 10_000, record_store=Keeps(broken=True))
    view, record = compactor.compact_with_record(pairs(11, 3000))

    assert compactor.records_not_stored == 1
    assert record.error == ""
    assert len(view) == 8


def test_whatever_a_store_raises_does_not_end_the_compaction() -> None:
    """A store of the user's own may fail in its own way: the compaction is done and the failure is counted."""

    class Full:
        def append(self, record: CompactionRecord) -> None:
            raise OSError(28, "No space left on device")

    compactor = ProgressiveCompactor(Says(), 10_000, record_store=Full())
    view, record = compactor.compact_with_record(pairs(11, 3000))

    assert (len(view), record.tier, record.error) == (8, Tier.FULL, "")
    assert compactor.records_not_stored == 1


def test_whatever_an_offloader_raises_leaves_the_result_in_the_view() -> None:
    """An offloader of the user's own may fail in its own way: the result stays, and the record says so."""

    class Full:
        def offload(self, message: Message, text: str) -> tuple[OffloadEntry, str] | None:
            raise OSError(28, "No space left on device")

    # 4 + 11 x 5,020 bytes = 13,806 tokens, 66 % of the window.
    messages = pairs(11, 5000)
    view, record = ProgressiveCompactor(Says(), 21_000, offloader=Full()).compact_with_record(messages)

    assert view == messages
    assert (record.tier, record.offloaded, record.notes) == (Tier.WARN, (), ("offload_failed",))


def test_an_entry_can_be_copied_and_sent_to_another_process() -> None:
    """Copies and pickles of an offloaded file's entry are the entry, with its text and its hash."""
    read = OffloadEntry("c1", "bash", "tool_results/s/c1.txt", 5, 1, sha256="ab" * 32)
    made = OffloadEntry("c1", "bash", "tool_results/s/c1.txt", 5, 1, text="a\ud800b")
    for entry in (read, made):
        for other in (copy.copy(entry), copy.deepcopy(entry), pickle.loads(pickle.dumps(entry))):
            assert other == entry
            assert (other.text, other.sha256) == (entry.text, entry.sha256)


@pytest.mark.parametrize("compactor", ["budget", "fallback"])
def test_what_a_stand_in_hides_is_dropped(compactor: str) -> None:
    """Five results gone and five made up in their place are five dropped, not none."""
    names = [f"c{i}" for i in range(5)]
    messages = [
        Message("system", "syst"),
        Message("user", "u" * 400),
        Message("assistant", "", tuple(ToolCall(name, "sh", "{}") for name in names)),
        *[Message("tool", "r" * 1000, tool_call_id=name) for name in names],
        Message("user", "go on"),
    ]
    # 4 + 400 + 5 x 6 + 5 x 1,002 + 5 = 5,449 bytes = 1,362 tokens, 85 % of 1,600: Full, whose summary fails.
    made: RecordedCompactor = TokenBudgetCompactor(200, 1)
    if compactor == "fallback":
        made = ProgressiveCompactor(None, 1600, min_tail_messages=1, fallback=BudgetFallback(200, 1))
    view, record = made.compact_with_record(messages)

    assert [message.content for message in view[3:8]] == [STAND_IN_TEXT] * 5
    assert (record.msgs_before, record.msgs_after, record.dropped, record.summarized) == (9, 9, 5, 0)


def test_the_three_interfaces_are_there() -> None:
    """compact, compact_force and compact_with_record over plain lists."""
    compactor = ProgressiveCompactor(Says(), 10_000)

    assert isinstance(compactor, Compactor)
    assert isinstance(compactor, ForceCompactor)
    assert isinstance(compactor, RecordedCompactor)
    assert (
        compactor.compact(pairs(11, 3000))
        == ProgressiveCompactor(Says(), 10_000).compact_with_record(pairs(11, 3000))[0]
    )


def test_force_truncates_whatever_the_thresholds_say() -> None:
    """The user's /compact is an Emergency (section 7)."""
    messages = [*exactly(10)[:9], Message("user", "last")]

    assert ProgressiveCompactor(Says(), 1_000_000).compact_force(messages) == [messages[0], messages[-1]]


# -- 6: fail-open ------------------------------------------------------------------------------------------------------


class FullDisk(OffloaderBase):
    """An offloader whose every write fails."""

    def put(self, entry: OffloadEntry, text: str) -> None:
        """Fail."""
        raise OffloadError("no space left on device")


def test_a_result_that_cannot_be_offloaded_stays_in_the_view() -> None:
    """Offload failure: original kept, summary goes on, the record says so."""
    messages = pairs(6, 5000)
    view, record = ProgressiveCompactor(Says(), 12_000, offloader=FullDisk("s")).compact_with_record(messages)

    assert list(view) == messages
    assert record.offloaded == ()
    assert "offload_failed" in record.notes


class Remembers:
    """A memory extractor that keeps what it was shown; ``broken`` makes it raise."""

    def __init__(self, broken: bool = False) -> None:
        self.seen: list[list[Message]] = []
        self.broken = broken

    def extract(self, messages: Sequence[Message]) -> None:
        """Look at the messages."""
        if self.broken:
            raise RuntimeError("model asleep")
        self.seen.append(list(messages))


def test_the_extractor_sees_the_head_before_it_is_offloaded() -> None:
    """Long-term facts come from the original text (section 2.3)."""
    extractor = Remembers()
    messages = pairs(6, 5000)
    ProgressiveCompactor(Says(), 8_500, offloader=MemoryOffloader("s"), memory_extractor=extractor).compact_with_record(
        messages
    )

    assert extractor.seen == [messages[1:7]]


def test_a_failing_extractor_changes_nothing_but_a_note() -> None:
    """LTM failure: skipped, and noted."""
    good = ProgressiveCompactor(Says(), 10_000).compact_with_record(pairs(11, 3000))
    view, record = ProgressiveCompactor(Says(), 10_000, memory_extractor=Remembers(broken=True)).compact_with_record(
        pairs(11, 3000)
    )

    assert view == good[0]
    assert record.notes == ("extractor_failed",)


@pytest.mark.parametrize("summarizer", [None, Says(None)])
def test_a_failed_summary_takes_the_fallback(summarizer: Says | None) -> None:
    """LLM failure: oldest head and tail that fit 80 % of the window, the cause in the record."""
    messages = pairs(11, 3000)  # 8,306 tokens in a window of 10,000: 8,000 are allowed
    view, record = ProgressiveCompactor(summarizer, 10_000).compact_with_record(messages)

    # One result less than half the way: dropping c007's result alone (750 tokens) gives 7,556; its stand-in joins.
    assert record.error.startswith("LLM summary failed in TierFull")
    assert record.tokens_after <= 8_000
    assert list(view[:3]) == messages[:3]
    assert list(view[-6:]) == messages[-6:]
    assert record.summarized == 0
    assert record.offloaded == ()


def test_a_fallback_may_be_handed_in() -> None:
    """Any object with the list face takes over when there is no summary."""

    class LastTwo:
        def compact(self, messages: Sequence[Message]) -> list[Message]:
            return [messages[0], *messages[-2:]]

    messages = pairs(11, 3000)
    view, record = ProgressiveCompactor(None, 10_000, fallback=LastTwo()).compact_with_record(messages)

    assert list(view) == [messages[0], *messages[-2:]]
    assert record.error


def test_active_tasks_join_the_compaction_message() -> None:
    """The todo injector adds its section (section 7)."""

    class Todos:
        def active_tasks(self) -> str:
            return "- [ ] bisect"

    view, _ = ProgressiveCompactor(Says(), 10_000, todo_injector=Todos()).compact_with_record(pairs(11, 3000))

    assert "\n\n## Active Tasks\n- [ ] bisect" in view[1].content


def test_parallel_results_split_by_the_tail_are_lost() -> None:
    """The seed counts messages and not pairs: of eight results in a batch the six in the tail lose their call (W6)."""
    calls = tuple(ToolCall(f"p{i}", "sh", "{}") for i in range(8))
    messages = [Message("system", "syst"), Message("user", "u" * 400), Message("assistant", "", calls)]
    messages += [Message("tool", "r" * 400, tool_call_id=call.id) for call in calls]
    # 4 + 400 + 8 * (2 + 2 + 2) + 8 * (400 + 2) = 3,668 bytes = 917 tokens: 0.83 of 1,100.
    view, record = ProgressiveCompactor(Says(), 1100).compact_with_record(messages)

    assert record.tier is Tier.FULL
    assert [m.role for m in view] == ["system", "user"]
    assert record.dropped == 6
