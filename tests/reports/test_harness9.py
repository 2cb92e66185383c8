"""Record files that harness9 itself wrote."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import orjson
import pytest

Command = Callable[..., CompletedProcess[bytes]]

ID = "7c1f0a52-3f5e-4a77-9d0e-2b1a5f6c7d8e"


def record(tier: int, before: int, after: int, **more: Any) -> dict[str, Any]:
    """Give a record under harness9's names and types: null arrays, an integer tier, nanoseconds."""
    return {
        "id": "b2f7a1de-0000-4000-8000-000000000001",
        "session_id": ID,
        "timestamp": "2026-05-04T10:11:12.123456789+08:00",
        "tier": tier,
        "tokens_before": before,
        "tokens_after": after,
        "msgs_before": 40,
        "msgs_after": 20,
        "anchors": None,
        "offloaded": None,
        "summarized": 0,
        "preserved_tail": 6,
        "summary_text": "",
        "compression_ratio": after / before,
        "duration": 1_234_567_890,
        **more,
    }


OFFLOADED = [
    {"tool_call_id": "call_1", "tool_name": "bash", "file_path": f"{ID}/call_1.txt", "bytes": 42_000, "lines": 900},
    {"tool_call_id": "call_2", "tool_name": "read", "file_path": f"{ID}/call_2.txt", "bytes": 8_000, "lines": 90},
]
LONG = "s" * 1_200_000
ANCHORS = [
    {"type": kind, "content": words}
    for kind, words in (
        ("user_intent", "move the parser"),
        ("execution_progress", "- changed a.go"),
        ("key_decision", "N/A"),
        ("tried_solution", "N/A"),
        ("next_step", "- run the tests"),
    )
]


@pytest.fixture
def records(tmp_path: Path) -> Path:
    """Records of harness9: a Warn, a Full with a summary above 1 MiB, a failed Full, an Emergency, a torn line."""
    home = tmp_path / "compaction_records"
    home.mkdir()
    rows = [
        record(1, 100_000, 60_000, offloaded=OFFLOADED),
        record(
            3, 110_000, 22_000, offloaded=OFFLOADED[:1], anchors=ANCHORS, summarized=30, summary_text="s" * 1_200_000
        ),
        record(3, 112_000, 90_000, error="LLM summary failed, fell back"),
        record(4, 126_000, 20_000, error="emergency fallback: forced truncation"),
    ]
    lines = b"".join(orjson.dumps(row) + b"\n" for row in rows)
    (home / f"{ID}.jsonl").write_bytes(lines + orjson.dumps(record(1, 9, 8))[:80])
    return home


def shown(command: Command, records: Path, *arguments: str | Path) -> CompletedProcess[bytes]:
    """Run a report over harness9's records alone."""
    return command("report", "--state-dir", records.parent / "none", "--records-dir", records, *arguments)


def test_document(records: Path, command: Command) -> None:
    """What the records hold is in the report; what they do not hold is null, never 0."""
    done = shown(command, records, "-f", "json", "-q", "--include-text")
    [session] = orjson.loads(done.stdout)["sessions"]

    assert done.returncode == 0
    assert session["compactions_by_tier"] == {"warn": 1, "soft": 0, "full": 2, "emergency": 1}
    # call_1 is in two records and counts once: 42,000 + 8,000
    assert (session["offloaded_files"], session["offloaded_bytes"]) == (2, 50_000)
    assert (session["summarizer_calls"], session["summarizer_failures"]) == (1, 1)
    for key in ("turns", "window", "tokens", "reduction", "peak_tokens", "without_compaction", "summary_input_tokens"):
        assert session[key] is None
    full = session["compactions"][1]
    assert full["reduction"] == pytest.approx(0.8)  # 1 - 22,000 / 110,000
    assert (full["turn"], full["trigger"], full["duration"], full["anchors_found"]) == (None, None, 1_234_567_890, 3)
    assert len(full["summary_text"]) == 1_200_000


def test_torn_line_is_told(records: Path, command: Command) -> None:
    """A torn last line is not used, and said with its size."""
    done = shown(command, records)

    assert done.returncode == 0
    assert b"the last line is torn (80 bytes) and not used" in done.stderr


def test_row_that_is_no_record_is_counted(records: Path, command: Command) -> None:
    """A row with a tier that does not exist, and one without tokens, are counted and the others shown."""
    path = records / f"{ID}.jsonl"
    path.write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in (record(1, 10, 5), record(9, 10, 5), {"tier": 1})))
    done = shown(command, records, "-f", "json")

    assert b"2 lines of its record file are no records" in done.stderr
    assert len(orjson.loads(done.stdout)["sessions"][0]["compactions"]) == 1


def test_terminal(records: Path, command: Command) -> None:
    """The overview says n/a for what is not there, and the session in depth numbers its records."""
    overview = shown(command, records, "-q").stdout.decode()
    line = next(line for line in overview.splitlines() if line.startswith(ID))

    assert line.split()[:6] == [ID, "n/a", "1w", "2F", "1E", "n/a"]
    assert "records written by harness9 hold compactions alone" in overview

    depth = shown(command, records, ID, "-q").stdout.decode()

    assert "record 2: [Full] 110.0K -> 22.0K tokens (80% reduction)" in depth
    assert "3 of 5 anchors | 1 offload(42KB) | 30 summarized | tail: 6 preserved" in depth
    assert "(1,199,680 more characters)" in depth  # 1,200,000 - 320 shown


def test_same_compactions_as_our_own(state: Path, command: Command, tmp_path: Path) -> None:
    """Records of a replay without what only compactctl writes give the same tiers, reductions and offloads."""
    home = tmp_path / "records"
    home.mkdir()
    theirs = record(1, 1, 1).keys() | {"error"}
    for log in (state / "compaction_records").iterdir():
        rows = [{k: v for k, v in orjson.loads(line).items() if k in theirs} for line in log.read_bytes().splitlines()]
        nulls = [row | {key: row[key] or None for key in ("anchors", "offloaded")} for row in rows]
        if rows:
            (home / log.name).write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in nulls))
    columns = (
        "session_id",
        "tier_name",
        "before_decision_tokens",
        "after_decision_tokens",
        "reduction_share",
        "offloaded_bytes",
        "error",
    )

    def rows_of(done: CompletedProcess[bytes]) -> list[list[str]]:
        assert done.returncode == 0
        return [[row[c] for c in columns] for row in csv.DictReader(io.StringIO(done.stdout.decode()))]

    ours = rows_of(command("report", "--state-dir", state, "-q", "-f", "csv", "--rows", "compactions"))
    read = rows_of(shown(command, home, "-q", "-f", "csv", "--rows", "compactions"))

    assert len(ours) > 50
    assert read == ours


@pytest.mark.parametrize("suffix", ["html", "md", "csv", "png", "svg", "jsonl", "txt"])
def test_every_format(suffix: str, records: Path, command: Command, tmp_path: Path) -> None:
    """Every format can be made of harness9's records alone, one session or all."""
    for sessions in ((), (ID,)):
        path = tmp_path / f"out.{suffix}"
        done = shown(command, records, *sessions, "-q", "-o", path)

        assert done.returncode == 0, done.stderr
        assert path.stat().st_size > 100
