"""Every point of a search is the replay that one would get by itself, however it was sped up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from compactctl.cli._sweep import Done, Memory, Plan, Task, _Bench, sweep, tasks_of
from compactctl.cli._work import Work, make_summarizer, setup_of, workbench
from compactctl.errors import StoreError, WorkerError
from compactctl.meters.bytes4 import Bytes4
from compactctl.meters.dsh import Dsh
from compactctl.model import CompactionRecord, Session, changed
from compactctl.ports import CompactorSpec, HistoryMode, Meter, Spread
from compactctl.registry import names, plugin
from compactctl.runs import Outcome, Setup, Window, Workbench, run
from compactctl.settings import compactor_options, parse_file, resolve
from compactctl.summarizers.opaque import OpaqueSummarizer
from compactctl.transcripts import load
from compactctl.tuning.figures import figures_of
from tests.tuning.sessions import long_session, sessions

SAMPLES = Path(__file__).parents[2] / "sample_sessions"
TIERED = ("progressive", "harness9", "progressive-safe")


def setup(compactor: str, history: HistoryMode | None = None, meter: str | None = None, **options: object) -> Setup:
    """Give a setup of a compactor with some options set."""
    spec = plugin("compactctl.compactors", CompactorSpec, compactor, "compactor")
    return Setup(spec, compactor_options(spec, options), history, meter=meter, summary_tokens=100)


def acted(outcome: Outcome) -> list[CompactionRecord]:
    """Give the records of steps that changed the view or failed, without what a sweep does not stamp them with."""
    return [
        record.stamped("", None, None)
        for record in outcome.tally.compactions
        if record.error or record.offloaded or record.summarized or record.msgs_after != record.msgs_before
    ]


def same(skipped: Outcome, whole: Outcome) -> None:
    """Hold a replay that skipped against one that did not."""
    assert acted(skipped) == acted(whole)
    alike(skipped, whole)


def alike(skipped: Outcome, whole: Outcome) -> None:
    """Hold the figures of a replay against those of one that looked at every turn."""
    one, other = skipped.tally, whole.tally
    assert one.turns_by_tier == other.turns_by_tier
    assert one.compactions_by_tier == other.compactions_by_tier
    assert figures_of(skipped) == figures_of(whole)
    assert (one.peak, one.real_peak, one.tokens_sent) == (other.peak, other.real_peak, other.tokens_sent)
    assert (one.turns, one.failed_turns, one.summarizer_calls) == (
        other.turns,
        other.failed_turns,
        other.summarizer_calls,
    )
    assert one.offloaded == other.offloaded


@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(
    sessions(),
    st.sampled_from(names("compactctl.compactors")),
    st.sampled_from(list(HistoryMode)),
    st.sampled_from([600, 2000, 5000]),
    st.data(),
)
def test_skipping_equals_not_skipping(
    session: Session, compactor: str, history: HistoryMode, window: int, data: st.DataObject
) -> None:
    """Quiet turns may be skipped: what was changed, what was sent and the peaks with their turns stay the same."""
    options: dict[str, object] = {}
    if compactor in TIERED:
        low, high = sorted(data.draw(st.tuples(st.integers(2, 18), st.integers(2, 18))))
        options = {"warn": low / 40, "soft": low / 20, "full": high / 20, "offload": 400, "tail": 3}
        options |= {"target": 0} if compactor != "harness9" else {}
    # The usage meter needs what these sessions mostly lack.
    needs_usage = plugin("compactctl.compactors", CompactorSpec, compactor, "compactor").meter == "usage"
    made = setup(compactor, history, "bytes4" if needs_usage else None, **options)
    bench = Workbench(session, Window(window, "flag"))
    whole = run(bench, made, summarizer=OpaqueSummarizer())
    skipped = run(bench, made, summarizer=OpaqueSummarizer(), skip=True)
    same(skipped, whole)
    # A sweep goes further: it leaps over turns that only offload, whose records it then does not have.
    alike(run(bench, made, summarizer=OpaqueSummarizer(), skip=True, figures_only=True), whole)


@settings(max_examples=60)
@given(
    st.integers(0, 10**6),
    st.sampled_from(["progressive", "harness9"]),
    st.sampled_from([(0.3, 0.3), (0.3, 0.5), (0.45, 0.46), (0.5, 0.8)]),
    st.sampled_from([1500, 3000, 6000]),
    st.integers(1, 8),
    st.integers(0, 4),
)
def test_leaping_equals_not_leaping(
    seed: int, compactor: str, shares: tuple[float, float], window: int, tail: int, real: int
) -> None:
    """Stretches at no tier or at Warn are leapt over: figures, peaks and files stay those of a replay turn by turn."""
    warn, soft = shares
    made = setup(compactor, HistoryMode.WRITE_BACK, warn=warn, soft=soft, full=0.85, offload=300, tail=tail)
    made = replace(made, reserve=real * window // 20)
    # Real tokens by another meter than the compactor's, and by the same one.
    meter: Meter = Dsh() if real % 2 else Bytes4()
    bench = Workbench(long_session(seed), Window(window, "flag"), real=(meter, "told"))
    whole = run(bench, made, summarizer=OpaqueSummarizer(), measures=("all",))
    leapt = run(bench, made, summarizer=OpaqueSummarizer(), measures=("all",), skip=True, figures_only=True)
    alike(leapt, whole)


@settings(max_examples=30, suppress_health_check=[HealthCheck.too_slow])
@given(sessions(), st.lists(st.tuples(st.integers(4, 14), st.integers(14, 19)), min_size=2, max_size=5))
def test_a_point_does_not_depend_on_the_points_before_it(
    session: Session, thresholds: Sequence[tuple[int, int]]
) -> None:
    """A bench that replayed other settings gives what a fresh one gives: shared placeholders are no shared state."""
    shared = Workbench(session, Window(2000, "flag"))
    for soft, full in thresholds:
        made = setup("progressive", HistoryMode.WRITE_BACK, warn=0.2, soft=soft / 20, full=full / 20, offload=400)
        fresh = Workbench(session, Window(2000, "flag"))
        one = run(shared, made, summarizer=OpaqueSummarizer(), skip=True)
        other = run(fresh, made, summarizer=OpaqueSummarizer())
        same(one, other)
        alike(run(shared, made, summarizer=OpaqueSummarizer(), skip=True, figures_only=True), other)
        whole = run(fresh, made, summarizer=OpaqueSummarizer(), measures=("all",))
        for _ in range(2):
            point = run(shared, made, summarizer=OpaqueSummarizer(), measures=("all",), skip=True, figures_only=True)
            alike(point, whole)


@pytest.mark.parametrize("sample", sorted(SAMPLES.glob("*.json*")), ids=lambda path: path.name)
def test_every_point_is_the_replay_with_those_settings(sample: Path) -> None:
    """On the samples, each point has the records and figures of ``replay`` with the same settings and summarizer."""
    resolved = resolve({"window": "40000", "summarizer": "stub"}, {})
    points = ({"soft_threshold": 0.65}, {"full_threshold": 0.9}, {"offload_threshold": 1000, "min_tail_messages": 3})
    measures = ("m1", "m3", "m6")
    (session,) = load(sample)
    done = list(sweep([session], Plan(resolved, points, measures), 1))
    rows = [row for one in done for row in one.rows]
    for point, row in zip(points, rows, strict=True):
        made = setup_of(resolved)
        made = replace(made, options={**made.options, **point})
        outcome = run(workbench(resolved, session), made, summarizer=make_summarizer(Work(resolved)), measures=measures)
        assert row == figures_of(outcome)
        swept = run(workbench(resolved, session), made, summarizer=make_summarizer(Work(resolved)), skip=True)
        assert acted(swept) == acted(outcome)


def small(count: int) -> list[Session]:
    """Give the shortest sample under several ids."""
    (session,) = load(SAMPLES / "one-batch-none-to-emergency.jsonl")
    return [replace(session, id=f"s{number}") for number in range(count)]


PLAN = Plan(
    resolve({"window": "20000", "summarizer": "opaque"}, {}),
    tuple({"soft_threshold": 0.6 + n / 100} for n in range(12)),
    ("m1",),
)


def by_task(done: Sequence[Done]) -> list[tuple[object, object]]:
    """Give what was done in the order of the tasks."""
    return sorted(((one.task, one.rows) for one in done), key=lambda pair: (pair[0].session, pair[0].first))


def test_any_number_of_processes_gives_the_same() -> None:
    """Two processes give what one gives."""
    assert by_task(list(sweep(small(3), PLAN, 2))) == by_task(list(sweep(small(3), PLAN, 1)))


def test_readers_that_are_gone_are_no_fault_of_the_session() -> None:
    """Where the processes that read a session's text end early, the search ends and no session is said to be bad."""

    def gone(function: object, pieces: object) -> list[object]:
        raise WorkerError("a worker process was ended from outside")

    bench = _Bench(small(1), replace(PLAN, measures=("m6",)))
    with pytest.raises(WorkerError, match="ended from outside"):
        bench.perform(Task(0, 0, 1), Spread(2, gone))


def test_large_sessions_are_cut_into_shares_of_points() -> None:
    """A large session is work for several processes, in shares that become small; a small one is one task."""
    (session,) = small(1)
    large = replace(session, messages=(changed(session.messages[0], content="x" * 150_000_000), *session.messages[1:]))
    first, *shares = tasks_of([session, large], 100)
    assert first == Task(0, 0, 100)
    assert [at for task in shares for at in range(task.first, task.last)] == list(range(100))
    lengths = [task.last - task.first for task in shares]
    assert lengths == sorted(lengths, reverse=True)
    assert (lengths[0], lengths[-1]) == (10, 1)
    assert sum(lengths[-4:]) <= 100 / 8


def test_the_last_sessions_end_in_small_tasks_unless_they_are_small_themselves() -> None:
    """No task is more than a part of what is left, and none is cut finer than is worth it."""
    (session,) = small(1)
    middle = replace(session, messages=(changed(session.messages[0], content="x" * 1_300_000), *session.messages[1:]))
    tasks = tasks_of([middle, middle, session], 40)
    assert [(task.session, task.last - task.first) for task in tasks[:2]] == [(0, 10), (0, 9)]
    assert min(task.last - task.first for task in tasks) == 2
    assert tasks[-2:] == [Task(2, 0, 22), Task(2, 22, 40)]


def test_a_store_that_takes_no_more_costs_no_result() -> None:
    """A full disk ends the keeping, not the search: all figures are given, and why nothing was kept is known."""

    class Full(Shelf):
        def put(self, key: str, value: bytes) -> None:
            raise StoreError("no space left")

    memory = Memory(Full(), resume=False)
    assert by_task(list(sweep(small(3), PLAN, 1, memory))) == by_task(list(sweep(small(3), PLAN, 1)))
    assert str(memory.broken) == "no space left"


class Shelf:
    """Blobs in memory."""

    def __init__(self) -> None:
        self.held: dict[str, bytes] = {}

    def get(self, key: str) -> bytes | None:
        """Give the bytes."""
        return self.held.get(key)

    def put(self, key: str, value: bytes) -> None:
        """Keep the bytes."""
        self.held[key] = value


def test_what_is_done_is_recalled_and_other_settings_are_not() -> None:
    """A resumed run replays nothing that is known; another window, input, price or grid shares nothing with it."""
    priced = [parse_file(f"[prices.gpt-5]\ninput = {dollars}\noutput = 9\n", "f.toml") for dollars in (1, 2)]
    at_one, at_two = (
        replace(PLAN, settings=resolve({"window": "20000", "summarizer": "opaque"}, {}, table)) for table in priced
    )
    shelf = Shelf()
    first = list(sweep(small(2), PLAN, 1, Memory(shelf, resume=False)))
    again = Memory(shelf, resume=True)
    assert by_task(list(sweep(small(2), PLAN, 1, again))) == by_task(first)
    assert again.recalled == 24
    for plan, given_ in (
        (replace(PLAN, settings=resolve({"window": "30000", "summarizer": "opaque"}, {})), small(2)),
        (replace(PLAN, points=PLAN.points[:5]), small(2)),
        (replace(PLAN, measures=()), small(2)),
        (PLAN, [replace(session, input_sha256="other") for session in small(2)]),
    ):
        other = Memory(shelf, resume=True)
        list(sweep(given_, plan, 1, other))
        assert other.recalled == 0
    list(sweep(small(2), at_one, 1, Memory(shelf, resume=False)))
    for plan, recalled in ((at_one, 24), (at_two, 0)):
        other = Memory(shelf, resume=True)
        list(sweep(small(2), plan, 1, other))
        assert other.recalled == recalled


def test_the_prices_of_every_model_that_made_a_call_count() -> None:
    """Recorded usage is priced by each call's own model: another price of one of them is another figure."""
    (session,) = small(1)
    messages = [changed(m, model="gpt-5") if m.role == "assistant" else m for m in session.messages]
    mixed = replace(session, model="claude-sonnet-4", messages=tuple(messages))
    at_one, at_two = (
        replace(
            PLAN,
            settings=resolve(
                {"window": "20000", "summarizer": "opaque"},
                {},
                parse_file(f"[prices.gpt-5]\ninput = {dollars}\noutput = 9\n", "f.toml"),
            ),
        )
        for dollars in (1, 2)
    )
    shelf = Shelf()
    list(sweep([mixed], at_one, 1, Memory(shelf, resume=False)))
    for plan, recalled in ((at_one, 12), (at_two, 0)):
        memory = Memory(shelf, resume=True)
        list(sweep([mixed], plan, 1, memory))
        assert memory.recalled == recalled


def test_what_a_failed_summary_left_is_not_kept(tmp_path: Path) -> None:
    """A later run asks the model again: figures of its fallback are not those of the settings."""
    fails = tmp_path / "fails"
    fails.write_text("#!/bin/sh\nexit 1\n")
    fails.chmod(0o755)
    told = {"window": "6000", "summarizer": "command", "command": str(fails)}
    shelf = Shelf()
    plan = replace(PLAN, settings=resolve(told, {}), points=PLAN.points[:1])
    (done,) = sweep([long_session(1)], plan, 1, Memory(shelf, resume=False))
    assert done.failures
    assert not shelf.held


def test_a_run_that_is_not_resumed_recalls_nothing() -> None:
    """Without --resume everything is replayed anew."""
    shelf = Shelf()
    list(sweep(small(1), PLAN, 1, Memory(shelf, resume=False)))
    memory = Memory(shelf, resume=False)
    list(sweep(small(1), PLAN, 1, memory))
    assert memory.recalled == 0
