"""Commands that show sessions together say what they could not read: a figure over all must not hide a gap."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from compactctl.cli._hands import Failed, Worker
from compactctl.transcripts import find_inputs
from tests.cli.conftest import Command

LONG = "long-migration-permanent-emergency.jsonl"
COMMANDS = {
    "check": ("check", "in", "--config", "b.toml"),
    "tune": ("tune", "in", "--grid", "soft=0.7", "-n"),
    "compare": ("compare", "in"),
    "init": ("init", "in", "-o", "-"),
}


@pytest.fixture
def folder(samples: Path, command: Command) -> Path:
    """A folder with one good transcript, one that was cut within a line, an empty one and one that is none."""
    inputs = Path("in")
    inputs.mkdir()
    (inputs / "good.jsonl").write_bytes((samples / "short-healthy-fix.jsonl").read_bytes())
    (inputs / "cut.jsonl").write_bytes((samples / LONG).read_bytes()[:90_000])
    (inputs / "empty.jsonl").touch()
    (inputs / "noise.jsonl").write_bytes(bytes(range(256)) * 12)
    Path("b.toml").write_text('budgets = [{measure = "m5.faults", max = 0}]\n')
    return inputs


@pytest.mark.parametrize("name", COMMANDS)
def test_what_could_not_be_read_is_told(name: str, folder: Path, command: Command) -> None:
    """Skipped lines are told by session, files without a session by reason; -q leaves both out."""
    told = command(*COMMANDS[name])
    assert told.status == 0
    assert "b984967e-d0cc-46c7-ada9-6449f83fe2c3: 1 line skipped (`compactctl inspect` says which and why)" in told.err
    assert "left out: 1 no message: in/empty.jsonl\n" in told.err
    assert "left out: 1 no transcript: in/noise.jsonl\n" in told.err
    assert "left out" not in command(*COMMANDS[name], "-q").err


@pytest.mark.parametrize("line", [("replay", "in", "-n"), ("inspect", "in")])
def test_few_files_are_named_without_being_asked_for(line: tuple[str, ...], folder: Path, command: Command) -> None:
    """Commands that show sessions one by one name left out files as the others do, and of many only with --verbose."""
    told = command(*line)
    assert "left out: 1 no message: in/empty.jsonl\n" in told.err
    assert "left out: 1 no transcript: in/noise.jsonl\n" in told.err
    for name in "abc":
        (folder / f"{name}.txt").write_text("nothing\n")
    assert "left out: 1 no message, 4 no transcript (--verbose names the first)" in command(*line).err
    assert "left out: 4 no transcript: in/a.txt, in/b.txt, in/c.txt and 1 more" in command(*line, "-v").err


@pytest.mark.parametrize("name", ["check", "tune", "compare", "replay"])
def test_an_early_interrupt_is_no_lack_of_sessions(
    name: str, folder: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C before the first session is status 130, and nobody is told to name a transcript."""

    def interrupted(*arguments: object, **keywords: object) -> Iterator[object]:
        raise KeyboardInterrupt
        yield

    monkeypatch.setattr(f"compactctl.cli.{name}.each_session", interrupted)
    told = command(*(COMMANDS | {"replay": ("replay", "in", "-n")})[name])
    assert told.status == 130
    assert "interrupted" in told.err
    assert "no session" not in told.err


@pytest.mark.parametrize("name", ["check", "tune", "compare"])
def test_the_json_counts_them(name: str, folder: Path, command: Command) -> None:
    """`ignored_inputs` holds the files of a folder that gave no session, by reason."""
    found = command(*COMMANDS[name], "-f", "json").json()
    assert found["ignored_inputs"] == {"no message": 1, "no transcript": 1}


@pytest.mark.parametrize(
    "change", [b"", b"garbage", b'{"role":"user","content":"Other."}\n{"role":"assistant","content":"x"}\n']
)
def test_a_file_that_changes_between_the_two_readings_fails_alone(change: bytes, tmp_path: Path) -> None:
    """Large inputs are read twice; one that is another by then is told with its session, never mixed with the first."""
    path = tmp_path / "a.jsonl"
    path.write_text('{"role":"user","content":"Fix it."}\n{"role":"assistant","content":"Done."}\n')
    worker = Worker(lambda session, _: session.id, None, side_threads=False, held_bytes=0)
    (candidate,) = find_inputs([str(path)]).candidates
    named, account = worker.identify(candidate)
    assert (list(worker.perform(candidate, named)), account.problems) == ([named[0].id], [])
    path.write_bytes(change)
    (failed,) = worker.perform(candidate, named)

    assert isinstance(failed, Failed)
    assert (failed.session_id, failed.error.exit_status) == (named[0].id, 3)
    assert f"{path} changed while it was read" in str(failed.error)


def test_why_a_file_cannot_be_read_again_is_told(tmp_path: Path) -> None:
    """A file that is gone at the second reading is told as that, with the session that is lost by it."""
    path = tmp_path / "a.jsonl"
    path.write_text('{"role":"user","content":"Fix it."}\n{"role":"assistant","content":"Done."}\n')
    worker = Worker(lambda session, _: session.id, None, side_threads=False, held_bytes=0)
    (candidate,) = find_inputs([str(path)]).candidates
    named, _ = worker.identify(candidate)
    path.unlink()
    (failed,) = worker.perform(candidate, named)

    assert isinstance(failed, Failed)
    assert "does not exist" in str(failed.error) or "no such" in str(failed.error)
