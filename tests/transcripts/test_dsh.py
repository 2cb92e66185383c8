"""dsh sessions: the original messages, and what pruning and summaries made of them."""

from __future__ import annotations

import json
from pathlib import Path
from time import process_time
from typing import Any

import pytest
import zstandard

from compactctl.model import Origin, Parts, Session, ToolCall, Usage
from compactctl.transcripts import SideThreadError, load

HEADER = {"type": "session", "version": 0, "id": "s", "createdAt": 1}


def event(kind: str, data: dict[str, Any], op: Any = None, **more: Any) -> dict[str, Any]:
    """Make an event."""
    return {"type": kind, "data": data, **({"surfaceOp": op} if op else {}), **more}


def prompt(*texts: str, op: Any = "append", **source: Any) -> dict[str, Any]:
    """Make the event of a user message."""
    blocks = [{"type": "text", "text": text} for text in texts]
    return event("user/message", {"role": "user", "content": blocks, "source": source or {"kind": "user"}}, op)


def reply(*blocks: dict[str, Any], **usage: int) -> dict[str, Any]:
    """Make the event of a reply."""
    message = {"role": "assistant", "content": list(blocks), "source": {"kind": "model", "model": "deep"}}
    return event("assistant/message", {"message": message, "usage": usage}, "append", time=1_700_000_000_000)


def call(ident: str) -> dict[str, Any]:
    """Make the block of a call."""
    return {"type": "tool-call", "id": ident, "name": "bash", "arguments": '{"c":1}'}


def result(ident: str, text: str, op: Any = "append") -> dict[str, Any]:
    """Make the event of a result."""
    block = {"type": "tool-result", "toolCallId": ident, "content": [{"type": "text", "text": text}], "isError": False}
    return event("tool/result", {"message": {"role": "user", "content": [block]}}, op)


def read(path: Path, rows: list[Any], **options: Any) -> Session:
    """Write rows as a file and load its session."""
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    (session,) = load(path, **options)
    return session


WORK = [
    HEADER,
    prompt("go"),  # event 0
    event("request/header", {"header": {"system": "be good", "tools": []}}),  # 1
    event("request/context", {"model": "deep", "contextWindow": 128000}),  # 2
    event("text-chunks", {"texts": ["a", "b", "c"]}, seq0=3),  # 3, 4, 5
    reply(call("t1"), inputTokens=10, cacheReadTokens=5, outputTokens=2),  # 6
    result("t1", "long"),  # 7
]


def test_the_original_session(tmp_path: Path) -> None:
    """Prompt, reply and result, with the system prompt in front and the three buckets of the prompt as one number."""
    session = read(tmp_path / "x", WORK)

    assert [m.role for m in session.messages] == ["system", "user", "assistant", "tool"]
    first = session.messages[2]
    assert first.tool_calls == (ToolCall("t1", "bash", '{"c":1}'),)
    assert first.usage == Usage(15, 2, 5)
    assert first.timestamp == "2023-11-14T22:13:20.000Z"
    assert (session.context_window, session.model, session.harness) == (128000, "deep", "dsh")
    assert session.lines.ignored == {"session": 1, "text-chunks": 1}


def test_pruning_and_a_summary(tmp_path: Path) -> None:
    """The messages stay the original ones; each compaction tells the surface that the model saw from then on. Packed
    chunks count as the events they stand for: the result above is event 7."""
    rows = [
        *WORK,
        event("compaction/prune", {}),  # 8
        result("t1", "short", {"op": "replace", "start": 7, "end": 7}),  # 9
        event("compaction/start", {"turn": 1}),  # 10
        event("compaction/summary", {}),  # 11
        prompt("sum", "med", op={"op": "replace", "start": 0, "end": 9}, kind="plugin", compactionId="c"),  # 12
        event("compaction/end", {}),  # 13
        reply({"type": "text", "text": "done"}, inputTokens=3, outputTokens=1),  # 14
    ]

    session = read(tmp_path / "x", rows)

    assert [m.content for m in session.messages] == ["be good", "go", "", "long", "done"]
    prune, full = session.compactions
    assert (prune.kind, prune.at, prune.before_model_call, prune.cleared) == ("micro", 4, 1, ("t1",))
    assert prune.replacement is not None
    assert [m.content for m in prune.replacement] == ["be good", "go", "", "short"]
    assert prune.replacement[1] is session.messages[1]
    assert (full.kind, full.trigger, full.at) == ("full", "pressure", 4)
    assert full.replacement is not None
    assert [m.content for m in full.replacement] == ["be good", "summed"]
    assert full.replacement[1].origin is Origin.RECORDED_SUMMARY
    assert full.replacement[1].parts == Parts(("sum", "med"))


def test_why_it_compacted(tmp_path: Path) -> None:
    """An overflow and a command of the user are told from pressure."""
    failure = {"kind": "error", "failure": {"code": "CONTEXT_WINDOW_EXCEEDED"}}
    summary = prompt("sum", op={"op": "replace", "start": 0, "end": 7}, kind="plugin", compactionId="c")
    overflow = [*WORK, event("assistant/chunk", {"chunk": {"type": "finish", "reason": failure}})]
    manual = [*WORK, event("compaction/start", {"turn": None}), summary]

    forced = read(tmp_path / "a", [*overflow, event("compaction/start", {"turn": 1}), summary])
    asked = read(tmp_path / "b", manual)

    assert forced.compactions[0].trigger == "context-overflow"
    assert asked.compactions[0].trigger == "manual"


def test_operations_find_what_earlier_ones_moved(tmp_path: Path) -> None:
    """Prunes before and behind a summary are passes of their own, and later operations name what earlier ones made."""
    rows = [
        *WORK,
        result("t2", "long too"),  # 8
        result("t1", "short", {"op": "replace", "start": 7, "end": 7}),  # 9
        result("t2", "short too", {"op": "replace", "startSeq": 8, "endSeq": 8}),  # 10
        prompt("sum", op={"op": "replace", "start": 0, "end": 9}, kind="plugin", compactionId="c"),  # 11
        result("t2", "", {"op": "replace", "start": 10, "end": 10}),  # 12
        result("t3", "new"),  # 13
        prompt("all", op={"op": "replace", "start": 11, "end": 12}, kind="plugin", compactionId="d"),  # 14
        result("t3", "", {"op": "replace", "start": 13, "end": 13}),  # 15
    ]

    session = read(tmp_path / "x", rows)

    assert [(item.kind, item.at, item.cleared) for item in session.compactions] == [
        ("micro", 5, ("t1", "t2")),
        ("full", 5, ()),
        ("micro", 5, ("t2",)),
        ("full", 6, ()),
        ("micro", 6, ("t3",)),
    ]
    assert [[m.content for m in item.replacement or ()] for item in session.compactions] == [
        ["be good", "go", "", "short", "short too"],
        ["be good", "sum", "short too"],
        ["be good", "sum", ""],
        ["be good", "all", "new"],
        ["be good", "all", ""],
    ]


def test_prunes_cost_what_they_change(tmp_path: Path) -> None:
    """Four times the results in a pass of prunes take about four times as long, not sixteen times."""

    def seconds(results: int) -> float:
        made = [result(f"t{number}", "long") for number in range(results)]
        seqs = range(1, results + 1)
        pruned = [result(f"t{seq - 1}", "", {"op": "replace", "start": seq, "end": seq}) for seq in seqs]
        path = tmp_path / f"{results}"
        path.write_text("".join(json.dumps(row) + "\n" for row in [HEADER, prompt("go"), *made, *pruned]))
        begin = process_time()
        (session,) = load(path)
        took = process_time() - begin
        assert len(session.compactions[0].cleared) == results
        return took

    assert min(seconds(6000) for _ in range(3)) < 9 * min(seconds(1500) for _ in range(3))


def test_an_operation_that_does_not_fit(tmp_path: Path) -> None:
    """A replacement of what is not on the surface is left out and told."""
    session = read(tmp_path / "x", [*WORK, result("t1", "x", {"op": "replace", "start": 90, "end": 99})])

    assert session.compactions == ()
    assert any("does not fit" in warning for warning in session.warnings)


def test_zstd_frames(tmp_path: Path) -> None:
    """The usual file is a chain of zstd frames; a torn last one loses its own lines only."""
    packed = [zstandard.compress(json.dumps(row).encode() + b"\n") for row in WORK]
    path = tmp_path / "session.jsonl.zstd"
    path.write_bytes(b"".join(packed)[:-5])

    (session,) = load(path)

    assert [m.role for m in session.messages] == ["system", "user", "assistant"]
    assert any("ends too early" in warning for warning in session.warnings)


def test_children(tmp_path: Path) -> None:
    """A delegated session is a side thread, and the seed that it repeats from its parent is left out."""
    header = {**HEADER, "id": "child", "parentSession": "s", "seedLength": 1, "delegationDepth": 1}
    rows = [header, *WORK[1:]]

    with pytest.raises(SideThreadError):
        read(tmp_path / "x", rows)
    session = read(tmp_path / "x", rows, side_threads=True)

    assert session.parent_id == "s"
    assert [m.role for m in session.messages] == ["system", "assistant", "tool"]
    assert session.lines.ignored["parent's seed"] == 1


def test_another_version(tmp_path: Path) -> None:
    """A newer version of the format is read as far as it goes, with a warning."""
    session = read(
        tmp_path / "x", [{**HEADER, "version": 4}, *WORK[1:], event("new/kind", {}), {"type": "x", "data": 1}]
    )

    assert any("version 4" in warning for warning in session.warnings)
    assert session.lines.ignored["new/kind"] == 1
