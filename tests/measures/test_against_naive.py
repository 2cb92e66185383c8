"""The measures are quick because they follow what changes; here they are held against looking at every view."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import Phase, given, settings, strategies as st

from compactctl.bound import uncompacted as uncompacted_spans
from compactctl.context.offload import MemoryOffloader, NullOffloader
from compactctl.context.scale import Scale
from compactctl.measures import Trace, measure_all
from compactctl.measures._cost import cached_tokens
from compactctl.measures._load import load_of, uncompacted
from compactctl.measures.m5 import KINDS, faults_of, unread_results
from compactctl.measures.m6 import recall_counts
from compactctl.meters import best_meter, make_meter
from compactctl.meters.dsh import Dsh
from compactctl.model import Message, Session, ToolCall
from compactctl.ports import CompactorSpec, HistoryMode, Meter, Ports
from compactctl.registry import plugin
from compactctl.replay import Limits, Plan, as_step_compactor, base_of, walk
from compactctl.summarizers.stub import StubSummarizer
from compactctl.transcripts import load
from tests.measures import naive

NAMES = ["src/app/main.py", "parse_line", "ValueError", "lib/io/reader.go", "tokenTable", "3f2a91bc77"]
WINDOW = 24_000
SAMPLES = Path(__file__).parents[2] / "sample_sessions"


def session_of(seed: int, longest: int = 24, late_results: float = 0.1, *, repeated: bool = False) -> Session:
    """Make a session with batches, late results, short and huge results, reminders, and names that come back.

    ``repeated`` numbers the calls anew at each step, as some harnesses do.
    """
    draw = Random(seed)
    messages = [Message("system", "Be careful."), Message("user", "Never touch data. Fix src/app/main.py.")]
    late: list[Message] = []
    for step in range(draw.randint(4, longest)):
        calls = tuple(
            ToolCall(f"call_{i}" if repeated else f"c{step}_{i}", "bash", '{"command": "' + draw.choice(NAMES) + '"}')
            for i in range(draw.randint(0, 3))
        )
        messages.append(Message("assistant", draw.choice(["", "ok", *NAMES]) or "go", calls))
        for call in calls:
            names = " ".join(draw.choices(NAMES, k=draw.randint(0, 3)))
            body = "a line of plain words\n" * (draw.choice([20, 300, 5000, 9000, 30_000]) // 22)
            content = f"{names}\n{body}" if draw.random() < 0.5 else f"{body}\n{names}"
            result = Message("tool", content, tool_call_id=call.id)
            (late if draw.random() < late_results else messages).append(result)
        if late and draw.random() < 0.5:
            messages.append(late.pop())
        if draw.random() < 0.15:
            messages.append(Message("user", draw.choice(NAMES)))
    messages.append(Message("assistant", "Done with " + " and ".join(NAMES)))
    # Some harnesses have several system messages, and put reminders between.
    for at in draw.choice([(), (), (), (1,), (1, 1), (len(messages) // 2,)]):
        messages.insert(at, Message("system", "Speak plainly."))
    return Session(f"naive-{seed}", tuple(messages))


def naming_session(seed: int) -> Session:
    """Make a session in which every reply takes up names that results gave long before."""
    draw = Random(seed)
    names = [f"src/part{i}/file_{i}.py" for i in range(20)] + [f"parse_item_{i}" for i in range(20)]
    messages = [Message("system", f"Be careful with {names[0]}."), Message("user", f"Never touch {names[1]}.")]
    for step in range(45):
        calls = tuple(ToolCall(f"c{step}_{i}", "bash", "{}") for i in range(draw.choice([1, 1, 2, 5])))
        messages.append(Message("assistant", "Look at " + ", ".join(draw.choices(names, k=3)), calls))
        for call in calls:
            said = " ".join(draw.choices(names, k=draw.randint(0, 4)))
            body = "a line of plain words\n" * (draw.choice([20, 300, 5000, 9000, 30_000]) // 22)
            content = f"{said}\n{body}" if draw.random() < 0.4 else f"{body}\n{said}"
            messages.append(Message("tool", content, tool_call_id=call.id))
        if draw.random() < 0.2:
            messages.append(Message("user", draw.choice(names)))
    messages.append(Message("assistant", "Done with " + ", ".join(names)))
    return Session(f"naming-{seed}", tuple(messages))


class Rough:
    """A user's compactor that cuts where it likes and leaves what it tore."""

    def compact(self, messages: Sequence[Message]) -> list[Message]:
        """Keep a few of the newest."""
        if len(messages) < 9:
            return list(messages)
        return [messages[0], Message("user", "so far: parse_line"), messages[2], *messages[-5:]]


class Holes:
    """A user's compactor whose first messages come and go, and that leaves out some of those between."""

    def compact(self, messages: Sequence[Message]) -> list[Message]:
        """Keep other messages at each length."""
        size = len(messages)
        head = 1 + size % 3
        return [m for i, m in enumerate(messages) if i < head or (i > head + size % 5 and i % 3) or i > size - 4]


def trace_of(
    session: Session,
    name: str,
    history: str,
    *,
    skip: bool = False,
    leap: bool = False,
    window: int = WINDOW,
    real: Meter | None = None,
) -> Trace:
    """Replay a session and give its trace."""
    options: dict[str, Any] = {}
    if name in ("rough", "holes"):
        driver: Any = as_step_compactor(Rough() if name == "rough" else Holes())
        counter = driver.meter
    else:
        spec = plugin("compactctl.compactors", CompactorSpec, name, "compactor")
        options = {option.name: option.default for option in spec.options}
        counter = make_meter(spec.meter, session)
        offloader = NullOffloader(session.id, threshold=0) if leap else MemoryOffloader(session.id, threshold=0)
        ports = Ports(StubSummarizer(), offloader, counter, window, summary_tokens=300)
        driver = spec.make(options, session, ports)
    real = real or best_meter(session)[0]
    base, _ = base_of(session, counter)
    scale = Scale(base, real)
    limits = Limits(window, real, scale=scale) if leap else None
    spans = tuple(walk(base, driver, Plan(HistoryMode(history), limits=limits, skip=skip or leap, leap=leap)))
    bound = Trace(session, base, uncompacted_spans(base, scale, window), scale, window)
    return Trace(session, base, spans, scale, window, options=options, summary_tokens=300, bound=bound)


RUNS = [
    ("progressive", "view", WINDOW),
    ("progressive", "write-back", WINDOW),
    ("progressive-safe", "view", 8_000),
    ("progressive-safe", "write-back", WINDOW),
    ("harness9", "view", 16_000),
    ("harness9", "write-back", 8_000),
    ("harness9", "write-back", WINDOW),
    ("dsh", "write-back", WINDOW),
    ("codex", "view", 16_000),
    ("codex", "write-back", WINDOW),
    ("clear-tool-uses", "view", WINDOW),
    ("mask", "write-back", 16_000),
    ("sliding-window", "view", 8_000),
    ("truncate", "write-back", 8_000),
    ("rough", "view", WINDOW),
    ("rough", "write-back", WINDOW),
    ("holes", "view", WINDOW),
]
# A failing seed is as good as a smaller one: shrinking would only look for other sessions.
FEW = settings(max_examples=12, derandomize=True, phases=(Phase.explicit, Phase.generate))
SEEDS = st.integers(0, 2**32 - 1)


@pytest.mark.parametrize(("name", "history", "window"), RUNS)
@FEW
@given(seed=SEEDS)
def test_quick_measures_say_what_looking_at_every_view_says(name: str, history: str, window: int, seed: int) -> None:
    """Sent and cached tokens, faults, unread results and recall are those of the whole views."""
    trace = trace_of(session_of(seed, 30), name, history, window=window)
    load = load_of(trace)
    assert load.tokens == [trace.scale.tokens(view) for view in naive.views(trace)]
    # The real meter counts bytes / 4 rounded down once, the naive sum counts bytes: they agree within a token a turn.
    assert abs(cached_tokens(load.tokens, load.cuts) - naive.cached(trace) / 4) <= len(load.tokens)
    counts = {kind: sum(f.count * f.turns for f in faults_of(trace) if f.kind == kind) for kind in KINDS}
    slow = naive.faults(trace)
    for kind in ("orphan_result", "unanswered_call", "duplicate_id", "system_only", "no_user", "first_not_user"):
        assert counts[kind] == slow[kind], kind
    assert sum(u.lost + u.cut for u in unread_results(trace)) == naive.unread(trace)
    assert recall_counts(trace) == naive.recall(trace)


@pytest.mark.parametrize(("name", "history", "window"), RUNS)
def test_recall_is_what_a_look_through_every_view_finds(name: str, history: str, window: int) -> None:
    """Where replies take up many names, each is counted where the view of its turn, or a file by then, has it."""
    found = [0, 0, 0, 0]
    for seed in range(12):
        trace = trace_of(naming_session(seed), name, history, window=window)
        counts = recall_counts(trace)
        assert counts == naive.recall(trace)
        found = [before + now for before, now in zip(found, counts, strict=True)]
    assert sum(found) > 300


@pytest.mark.parametrize(("name", "history", "window"), RUNS)
@FEW
@given(seed=SEEDS)
def test_repeated_ids_are_told_apart(name: str, history: str, window: int, seed: int) -> None:
    """Where many results have one id, sent tokens, unread results and recall are those of the whole views as well."""
    trace = trace_of(session_of(seed, 30, repeated=True), name, history, window=window)
    assert load_of(trace).tokens == [trace.scale.tokens(view) for view in naive.views(trace)]
    assert sum(u.lost + u.cut for u in unread_results(trace)) == naive.unread(trace)
    assert recall_counts(trace) == naive.recall(trace)


@pytest.mark.parametrize("window", [12_000, 16_000])
@pytest.mark.parametrize("name", ["harness9", "progressive", "progressive-safe"])
def test_files_that_a_summary_lists_are_reachable(window: int, name: str) -> None:
    """The name of a file is known in a summary whatever stands around it: recall on a sample is that of the views."""
    (session,) = load(SAMPLES / "long-migration-permanent-emergency.jsonl")
    trace = trace_of(session, name, "write-back", window=window)
    assert recall_counts(trace) == naive.recall(trace)


@pytest.mark.parametrize(("name", "history"), [("progressive", "write-back"), ("dsh", "write-back"), ("codex", "view")])
@FEW
@given(seed=SEEDS)
def test_skipped_turns_change_no_measure(name: str, history: str, seed: int) -> None:
    """A replay that skips quiet turns has the same figures as one that asks the compactor at each."""
    session = session_of(seed, 16)
    slow = measure_all(trace_of(session, name, history))
    quick = measure_all(trace_of(session, name, history, skip=True))
    assert quick == slow


@pytest.mark.parametrize("real", [None, Dsh()], ids=["same-meter", "another-meter"])
@pytest.mark.parametrize("window", [WINDOW, 3 * WINDOW])
def test_leapt_turns_change_no_measure(window: int, real: Meter | None) -> None:
    """A replay that leaps over turns which only offload has the same figures as one that makes each step."""
    leapt = 0
    for seed in range(20):
        session = session_of(seed, 60, late_results=0)
        slow = measure_all(trace_of(session, "progressive", "write-back", window=window, real=real))
        trace = trace_of(session, "progressive", "write-back", leap=True, window=window, real=real)
        assert measure_all(trace) == slow
        leapt += sum(len(list(span.leap.events())) for span in trace.spans if span.leap is not None)
    assert leapt > 10


@FEW
@given(seed=SEEDS)
def test_no_compaction_is_its_own_bound(seed: int) -> None:
    """The replay without compaction sends what the bound says, breaks no cache, and loses nothing."""
    trace = trace_of(session_of(seed, 16), "none", "view")
    measured = measure_all(trace)
    assert load_of(trace).tokens == uncompacted(trace)
    assert measured["m2.share_of_uncompacted"].value == 1.0
    assert measured["m3.rewrites_per_100"].value == 0
    assert measured["m5.faults"].value == 0
    assert measured["m6.recall_visible"].value in (None, 1.0)
    assert measured["m8.compactions"].value == 0
