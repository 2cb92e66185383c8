"""The bundled samples: recorded again they have the same bytes, and what their README says of them happens."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from itertools import groupby
from pathlib import Path

import pytest

from compactctl.compactors.dsh import DshCompactor
from compactctl.compactors.progressive import ProgressiveCompactor
from compactctl.context.offload import MemoryOffloader
from compactctl.meters.bytes4 import estimate_tokens
from compactctl.model import Message, Session, Tier
from compactctl.ports import HistoryMode
from compactctl.replay import replay
from compactctl.summarizers.stub import StubSummarizer
from compactctl.transcripts import load

ROOT = Path(__file__).resolve().parents[2]
SAMPLES = ROOT / "sample_sessions"
ROW = re.compile(r"\| `(?P<file>[^`]+)` \| (?P<format>[^|]+) \| (?P<happens>[^|]+) \| (?P<turns>\d+) \|")
ROWS = {found["file"]: found for found in ROW.finditer((SAMPLES / "README.md").read_text(encoding="utf-8"))}
FILES = sorted(path.name for path in SAMPLES.iterdir() if path.name != "README.md")
USES_GIT = {"claude-code-automatic-compaction.jsonl"}


def session_of(file: str) -> Session:
    """The one session of a sample."""
    (session,) = load(SAMPLES / file)
    return session


def tiers(file: str, history: HistoryMode) -> list[Tier]:
    """The tier of each turn under the progressive compactor, its defaults and the stub summarizer."""
    session = session_of(file)
    window = session.context_window or 200_000
    compactor = ProgressiveCompactor(StubSummarizer(), window, offloader=MemoryOffloader("s"), session_id="s")
    return [Tier(turn.record.tier) for turn in replay(session, compactor, history=history)]


def folded(found: list[Tier]) -> list[tuple[Tier, int]]:
    """Consecutive turns of one tier and their number."""
    return [(tier, len(list(group))) for tier, group in groupby(found)]


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All samples, recorded again."""
    place = tmp_path_factory.mktemp("samples")
    command = [sys.executable, "-m", "bench.recorder", "--output", str(place)]
    subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    return place


@pytest.mark.skipif(shutil.which("bash") is None, reason="the scripted agent runs its commands in bash")
@pytest.mark.parametrize("file", FILES)
def test_recording_again_gives_the_same_bytes(file: str, recorded: Path) -> None:
    """A sample is what the recorder makes, on any machine: nobody edited it and nothing of a machine is in it."""
    if file in USES_GIT and shutil.which("git") is None:
        pytest.skip("this story commits what it changes, and git is not installed")
    assert (recorded / file).read_bytes() == (SAMPLES / file).read_bytes()


def test_samples_stay_small() -> None:
    """A clone stays light: under 600 kB a sample and 3 MB together."""
    sizes = {file: (SAMPLES / file).stat().st_size for file in FILES}
    assert max(sizes.values()) < 600_000
    assert sum(sizes.values()) < 3_000_000


@pytest.mark.parametrize("file", FILES)
def test_samples_name_no_machine_and_no_person(file: str) -> None:
    """The only home directory in a sample is /home/dev/project, and there is no mail address."""
    text = (SAMPLES / file).read_text(encoding="utf-8", errors="replace")
    assert re.findall(r"/(?:home/(?!dev/project)|Users/|root\b|tmp/|work/|var/)\S*", text) == []
    assert re.findall(r"[\w.+-]+@[\w-]+\.\w+", text) == []


def test_readme_has_a_row_for_each_sample() -> None:
    """Whoever opens the folder finds every file explained, and no file that is not there."""
    assert sorted(ROWS) == FILES


@pytest.mark.parametrize("file", FILES)
def test_readme_counts_the_turns(file: str) -> None:
    """The turns that the README states are the model calls that a replay sees."""
    assert sum(message.role == "assistant" for message in session_of(file).messages) == int(ROWS[file]["turns"])


def test_long_sample_ends_in_permanent_emergency_in_view_mode() -> None:
    """The long sample reaches every tier once, in order, and then stays in Emergency to its end."""
    expected = [(Tier.NONE, 52), (Tier.WARN, 6), (Tier.SOFT, 6), (Tier.FULL, 15), (Tier.EMERGENCY, 36)]
    assert folded(tiers("long-migration-permanent-emergency.jsonl", HistoryMode.VIEW)) == expected


def test_long_sample_stays_healthy_with_write_back() -> None:
    """The same session with write-back is at Warn four times and never worse."""
    found = tiers("long-migration-permanent-emergency.jsonl", HistoryMode.WRITE_BACK)
    assert (found.count(Tier.NONE), found.count(Tier.WARN), len(found)) == (111, 4, 115)


def test_parallel_results_are_dropped_unread() -> None:
    """Of nine parallel results the last six are the tail at a Full turn; their call is gone, so they are dropped."""
    session = session_of("parallel-reads-split-by-the-tail.jsonl")
    batch = max((message for message in session.messages), key=lambda message: len(message.tool_calls))
    at = session.messages.index(batch)
    ids = {call.id for call in batch.tool_calls}
    turn = sum(message.role == "assistant" for message in session.messages[: at + 1])
    assert len(ids) == 9
    compactor = ProgressiveCompactor(StubSummarizer(), 28_000, offloader=MemoryOffloader("s"), session_id="s")
    found = list(replay(session, compactor, history=HistoryMode.VIEW))
    assert [Tier(found[number].record.tier) for number in (turn - 1, turn)] == [Tier.NONE, Tier.FULL]
    assert [message for message in found[turn].view if message.tool_call_id in ids] == []


def test_one_batch_jumps_over_tiers_that_offloading_would_have_kept() -> None:
    """None is followed by Emergency at once, though without the large results of the head it would be None again."""
    file, window = "one-batch-none-to-emergency.jsonl", 36_000
    session = session_of(file)
    assert folded(tiers(file, HistoryMode.VIEW)) == [(Tier.NONE, 8), (Tier.EMERGENCY, 6)]
    calls = [number for number, message in enumerate(session.messages) if message.role == "assistant"]
    before = session.messages[: calls[8]]

    def small(message: Message) -> bool:
        return message.role != "tool" or len(message.content.encode()) <= 4_000

    offloaded = [message for message in before[:-6] if small(message)] + list(before[-6:])
    large = len(before) - len(offloaded)
    # A placeholder previews at most ten lines, here of some 110 bytes each: far less than 2,000 bytes.
    assert estimate_tokens(offloaded) + large * 500 < 0.60 * window
    assert estimate_tokens(before) >= 0.95 * window


def test_healthy_twin_never_compacts() -> None:
    """The short sample has a system message and no turn above None in either mode."""
    file = "short-healthy-fix.jsonl"
    assert session_of(file).messages[0].role == "system"
    assert {*tiers(file, HistoryMode.VIEW), *tiers(file, HistoryMode.WRITE_BACK)} == {Tier.NONE}


def test_chinese_sample_weighs_three_bytes_a_character() -> None:
    """By bytes the Chinese sample reaches Soft; counted in characters it would never leave None."""
    file = "chinese-stock-bytes-against-tokens.jsonl"
    assert max(tiers(file, HistoryMode.VIEW)) == Tier.SOFT
    assert sum(len(message.content) for message in session_of(file).messages) / 4 < 0.60 * 20_000


def test_claude_code_sample_holds_its_own_compaction() -> None:
    """The automatic compaction is where the prompt would have reached 155,000 tokens; prompts are small after it."""
    session = session_of("claude-code-automatic-compaction.jsonl")
    (compaction,) = session.compactions
    prompts = [message.usage.prompt for message in session.messages if message.usage]
    assert (compaction.trigger, compaction.before_model_call, compaction.tokens_before) == ("auto", 36, 155_999)
    assert prompts[:36] == sorted(prompts[:36])
    assert prompts[35] < 155_000
    assert prompts[36] < prompts[35] / 2


def test_codex_sample_states_its_window_and_compacts_at_nine_tenths() -> None:
    """The window is recorded, and the compaction comes when the next prompt would be above nine tenths of it."""
    session = session_of("codex-compacted-at-its-window.jsonl")
    (compaction,) = session.compactions
    prompts = [message.usage.prompt for message in session.messages if message.usage]
    assert (session.context_window, compaction.before_model_call) == (96_000, 34)
    assert prompts[33] < 0.9 * 96_000
    assert prompts[34] < prompts[33] / 2


def test_dsh_sample_is_cleared_by_pruning() -> None:
    """dsh's ladder prunes at its threshold, is below it again and asks no model; without a pruner it must summarise."""
    session = session_of("dsh-pruning-alone-is-enough.jsonl")
    assert session.context_window == 40_960
    pruned = [turn.record for turn in replay(session, DshCompactor(None, 40_960), history=HistoryMode.WRITE_BACK)]
    acted = [record for record in pruned if record.tier != Tier.NONE]
    assert acted
    assert all((record.tier, record.summarized, record.error) == (Tier.WARN, 0, "") for record in acted)
    plain = DshCompactor(StubSummarizer(), 40_960, pruner=None)
    assert any(turn.record.summarized for turn in replay(session, plain, history=HistoryMode.WRITE_BACK))


def test_damaged_sample_loads_with_every_line_accounted_for() -> None:
    """Two lines are lost and counted with their reason; glued objects, NUL bytes and half a pair cost nothing."""
    session = session_of("claude-code-torn-glued-and-nul.jsonl")
    lines = session.lines
    assert lines.total == lines.used + lines.recovered + sum(lines.ignored.values()) + len(lines.skipped) + lines.blank
    assert [skipped.reason for skipped in lines.skipped] == ["not_json", "torn_tail"]
    assert lines.recovered >= 2
    assert any("text='ok \ufffd'" in message.content for message in session.messages)


def test_chat_sample_breaks_pairs_in_three_ways() -> None:
    """The chat array holds an orphan result, a call without result, and one id with two different results."""
    messages = session_of("chat-orphan-missing-and-repeated-ids.json").messages
    called = [call.id for message in messages for call in message.tool_calls]
    answered = [message.tool_call_id for message in messages if message.role == "tool"]
    assert set(answered) - set(called) == {"call_before_truncation"}
    assert len(set(called) - set(answered)) == 1
    (twice,) = {number for number in answered if answered.count(number) > 1}
    assert len({message.content for message in messages if message.tool_call_id == twice}) == 2
