"""Hostile ids of sessions and tool calls, through every command, inside a tree in which nothing else may change."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Callable
from pathlib import Path

import pytest

from compactctl.cli.app import run
from compactctl.store import open_store
from compactctl.store.fs import Fs
from tests.store.hostile import IDS
from tests.store.scenes import around, damage, plant_decoys

Record = Callable[[str, object], None]


def transcript(session: str, call: str) -> str:
    """Give a transcript in the neutral format whose ids are these, and whose results are offloaded."""
    rows: list[dict[str, object]] = [
        {"compactctl": 1, "session_id": session, "context_window": 8000},
        {"role": "system", "content": "You are an agent."},
        {"role": "user", "content": "Fix it."},
    ]
    for turn in range(6):
        id = call if turn % 2 else f"{call}{turn}"
        rows.append({"role": "assistant", "content": "", "tool_calls": [{"id": id, "name": "read", "arguments": "{}"}]})
        rows.append({"role": "tool", "tool_call_id": id, "content": f"{turn} " + "x\n" * 2100})
    return "".join(json.dumps(row) + "\n" for row in rows)


def test_hostile_ids_through_every_command(
    disk: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], record_property: Record
) -> None:
    """Replay, report, verify and gc of more than 60 hostile ids change nothing around the state directory."""
    monkeypatch.chdir(disk)
    for number, id in enumerate(IDS):
        (disk / f"in/{number}.jsonl").parent.mkdir(exist_ok=True)
        (disk / f"in/{number}.jsonl").write_text(transcript(id, IDS[-number - 1]))
    decoys = plant_decoys(disk)
    state = ["--state-dir", str(disk / "state")]

    assert run(["replay", str(disk / "in"), "--quiet", "--measures", "none", "--set", "tail=2", *state]) == 0
    store = open_store(disk / "state")
    sessions = store.sessions()
    assert damage(store) == []
    assert len(sessions) == len(IDS)
    assert any((disk / "state/tool_results").rglob("*.txt"))

    assert run(["verify", *state]) == 0
    assert run(["report", "--quiet", *state]) == 0
    for session in sessions:
        assert run(["verify", *state, "--", session]) == 0
        assert run(["report", "--quiet", *state, "--", session]) == 0
        assert run(["gc", "--dry-run", *state, "--", session]) == 0
        if session.isprintable():
            assert run(["gc", *state, "--", session]) == 0
        else:
            assert run(["gc", *state, "--", store.resolve(session)[0]]) == 0
        assert around(disk) == decoys, session
    assert store.sessions() == []
    shown = capsys.readouterr()

    assert [c for c in shown.out + shown.err if not c.isprintable() and c != "\n"] == []
    record_property("store: hostile ids through every command", len(IDS))


def test_hostile_ids_that_are_not_there(
    disk: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Asking verify or gc for ids that are not in the store is exit status 4, whatever they look like."""
    monkeypatch.chdir(disk)
    (disk / "t.jsonl").write_text(transcript("s", "c"))
    assert run(["replay", "t.jsonl", "--quiet", "--state-dir", str(disk / "state")]) == 0
    decoys = plant_decoys(disk)
    before = list((disk / "state").rglob("*"))

    for id in IDS:
        for command in ("verify", "gc"):
            assert run([command, "--state-dir", str(disk / "state"), "--", id]) == 4, (command, id)

    assert around(disk) == decoys
    assert list((disk / "state").rglob("*")) == before
    shown = capsys.readouterr()
    assert "Traceback" not in shown.err
    assert [c for c in shown.err if not c.isprintable() and c != "\n"] == []


class Folding(Fs):
    """A file system to which names that differ in case or composition are one, as on macOS."""

    def _once(self, call, *args, **kwargs):  # type: ignore[no-untyped-def]  # wraps any call
        folded = [
            unicodedata.normalize("NFC", arg).casefold() if isinstance(arg, str) and "/" not in arg else arg
            for arg in args
        ]
        return call(*folded, **kwargs)


def test_twins_of_case_lose_nothing_where_case_makes_no_difference(disk: Path) -> None:
    """Ids of results that differ in case or composition only keep their contents apart on any file system."""
    store = open_store(disk / "state", fs=Folding())
    from compactctl.model import Message

    with store.writer("s", {}) as run_:
        offloader = run_.offloader()
        kept = {}
        for id in ("Case", "cASE", "case", "é", "e\u0301"):
            text = id + "x" * 5000
            done = offloader.offload(Message("tool", text, tool_call_id=id), text)
            assert done is not None
            kept[done[0].file_path] = text
        run_.end()

    assert len(kept) == 5
    for path, text in kept.items():
        assert (disk / "state" / path.casefold()).read_text() == text


def test_twins_of_case_among_sessions_are_refused_where_case_makes_no_difference(disk: Path) -> None:
    """A session whose files would be another's on this file system is refused, not mixed with it."""
    from compactctl.errors import StoreError

    store = open_store(disk / "state", fs=Folding())
    with store.writer("Case", {}) as run_:
        run_.end()

    with pytest.raises(StoreError, match="cannot tell"), store.writer("cASE", {}):
        pass
