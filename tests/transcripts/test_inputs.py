"""What the arguments of a command stand for, and the account of what they gave."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from compactctl.errors import (
    EmptyTranscriptError,
    MissingPathError,
    NothingMatchedError,
    UnknownFormatError,
    UnreadableError,
    UsageError,
)
from compactctl.model import Message, Session
from compactctl.transcripts import (
    Account,
    Limits,
    SideThreadError,
    distinct_ids,
    find_inputs,
    inspect_facts,
    load_inputs,
)

GOOD = '{"role":"user","content":"go"}\n{"role":"assistant","content":"done"}\n'
SIDE = '{"type":"user","uuid":"u","sessionId":"s","isSidechain":true,"message":{"role":"user","content":"go"}}\n'


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A directory as users have them: sessions, notes, a subagent's file, hidden and linked directories."""
    for name, text in {
        "b/two.jsonl": GOOD,
        "a.jsonl": GOOD,
        "notes.md": "# notes\n",
        "empty.jsonl": "",
        "b/subagents/agent.jsonl": SIDE,
        ".git/object": GOOD,
    }.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (tmp_path / "loop").symlink_to(tmp_path, target_is_directory=True)
    return tmp_path


def test_a_directory(tree: Path) -> None:
    """Files in the order of their names, deeper ones last; what is not entered is counted."""
    found = find_inputs([str(tree)])

    names = [Path(candidate.path).relative_to(tree).as_posix() for candidate in found.candidates]
    assert names == ["a.jsonl", "empty.jsonl", "notes.md", "b/two.jsonl", "b/subagents/agent.jsonl"]
    assert found.ignored == {"hidden directory": 1, "link to a directory": 1}
    assert found.problems == ()


def test_loading_a_directory(tree: Path) -> None:
    """Under a directory, files without a main thread are counted and ignored; with side threads they are loaded."""
    account, both = Account(), Account()

    sessions = list(load_inputs(find_inputs([str(tree)]), account))
    more = list(load_inputs(find_inputs([str(tree)]), both, side_threads=True))

    assert len(sessions) == account.loaded == 2
    assert account.problems == []
    assert account.ignored == {
        "hidden directory": 1,
        "link to a directory": 1,
        "no message": 1,
        "no transcript": 1,
        "side threads only": 1,
    }
    assert len(more) == 3


def test_named_files_that_give_nothing_are_problems(tree: Path) -> None:
    """A file that was named and cannot be used is reported; the others are still loaded."""
    named = [str(tree / name) for name in ("empty.jsonl", "notes.md", "b/subagents/agent.jsonl", "a.jsonl", "gone")]
    account = Account()

    sessions = list(load_inputs(find_inputs(named), account))

    assert len(sessions) == 1
    kinds = [type(problem) for problem in account.problems]
    assert kinds == [MissingPathError, EmptyTranscriptError, UnknownFormatError, SideThreadError]
    assert [problem.exit_status for problem in account.problems] == [2, 3, 3, 3]


def test_a_directory_without_a_session(tmp_path: Path) -> None:
    """A directory that holds no transcript, or no file, is told, once."""
    (tmp_path / "notes.md").write_text("x")
    (tmp_path / "void").mkdir()
    account = Account()

    assert list(load_inputs(find_inputs([str(tmp_path), str(tmp_path / "void")]), account)) == []

    assert [type(problem) for problem in account.problems] == [NothingMatchedError, NothingMatchedError]
    assert [problem.exit_status for problem in account.problems] == [4, 4]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no FIFO")
def test_a_fifo_under_a_directory(tree: Path) -> None:
    """A FIFO under a directory is counted, not opened."""
    os.mkfifo(tree / "pipe")

    assert find_inputs([str(tree)]).ignored["not a regular file"] == 1


def test_patterns(tree: Path) -> None:
    """Quoted patterns work as the shell's do, ** included; one that matches nothing is told."""
    found = find_inputs([str(tree / "**" / "two.jsonl"), str(tree / "*.nothing")])

    assert [Path(candidate.path).name for candidate in found.candidates] == ["two.jsonl"]
    (problem,) = found.problems
    assert isinstance(problem, NothingMatchedError)


def test_a_path_that_looks_like_a_pattern(tmp_path: Path) -> None:
    """A file of that very name is taken before the pattern."""
    path = tmp_path / "run[1].jsonl"
    path.write_text(GOOD)

    assert [candidate.path for candidate in find_inputs([str(path)]).candidates] == [str(path)]


def test_a_list_of_paths(tree: Path) -> None:
    """A list gives a path or pattern a line; it cannot name other lists or standard input."""
    listed = tree / "list.txt"
    listed.write_text(f"\ufeff# mine\n\n{tree / 'a.jsonl'}\r\n{tree}/b/*.jsonl\n@more\n-\n{tree / 'gone'}\n")

    found = find_inputs([f"@{listed}", "@missing"])

    assert [Path(candidate.path).name for candidate in found.candidates] == ["a.jsonl", "two.jsonl"]
    assert [type(problem) for problem in found.problems] == [UsageError, UsageError, MissingPathError, MissingPathError]


def test_inputs_named_twice(tree: Path) -> None:
    """A file that is reached in two ways is loaded once."""
    found = find_inputs([str(tree / "a.jsonl"), str(tree / "b" / ".." / "a.jsonl"), "-", "-"])

    assert [Path(candidate.path).name for candidate in found.candidates] == ["a.jsonl", "-"]
    assert found.ignored == {"named twice": 2}


def test_broken_files_under_a_directory(tree: Path) -> None:
    """A broken transcript is told; a broken file of another program is only counted among what is no transcript."""
    (tree / "settings.json").write_text('{\n  // comments are no JSON\n  "a": 1\n}\n')
    (tree / "task.json").write_text('{\n  "messages": [\n  {"role": "user", "content": "g')
    account = Account()

    sessions = list(load_inputs(find_inputs([str(tree)]), account))

    assert len(sessions) == 2
    assert account.ignored["no transcript"] == 2
    (problem,) = account.problems
    assert "task.json: damaged JSON" in str(problem)


def test_a_bomb_under_a_directory_is_a_problem(tree: Path) -> None:
    """What looks like data and cannot be read is never only counted."""
    import gzip

    (tree / "bomb.gz").write_bytes(gzip.compress(GOOD.encode() + b" " * (4 << 20)))
    account = Account()

    sessions = list(load_inputs(find_inputs([str(tree)]), account, limits=Limits(ratio_after=1 << 20)))

    assert len(sessions) == 2
    assert [type(problem) for problem in account.problems] == [UnreadableError]


def session(ident: str, digest: str) -> Session:
    """Make a session of that id and hash."""
    return Session(ident, (Message("user", "go"),), input_sha256=digest)


def test_sessions_with_one_id() -> None:
    """Each of them gets 8 digits of its input's hash and a warning; the others keep their ids."""
    told = distinct_ids([session("s", "a" * 64), session("own", "b" * 64), session("s", "c" * 64)])

    assert [one.id for one in told] == ["s-aaaaaaaa", "own", "s-cccccccc"]
    assert told[1].warnings == ()
    assert all("2 sessions have the id s" in one.warnings[0] for one in (told[0], told[2]))


def test_ids_are_distinct_whatever_they_were() -> None:
    """Sessions of one file with one id, and ids that look like made ones, end up apart too."""
    given = [
        session("s", "a" * 64),
        session("s", "a" * 64),
        session("s-aaaaaaaa", "b" * 64),
        session("s", ""),
        session("", ""),
    ]

    ids = [one.id for one in distinct_ids(given)]

    assert len(set(ids)) == len(ids)
    assert ids[2] == "s-aaaaaaaa"


def test_facts_of_a_session_without_usage() -> None:
    """What was not recorded is null, not zero; results without an id count each."""
    rows = (
        Message("tool", "x"),
        Message("tool", "y"),
        Message("tool", "a", tool_call_id="1"),
        Message("tool", "b", tool_call_id="1"),
    )

    facts = inspect_facts(Session("s", rows))

    assert facts["tool_results"] == 3
    assert facts["peak_prompt_tokens"] is None
    assert facts["model"] is None


def test_links_that_cannot_be_followed(tree: Path) -> None:
    """A link to itself, or into a directory without rights, is counted and costs no other file."""
    (tree / "self").symlink_to("self")
    (tree / "closed").mkdir()
    (tree / "into").symlink_to(tree / "closed" / "x")
    (tree / "closed").chmod(0)
    try:
        found = find_inputs([str(tree)])
    finally:
        (tree / "closed").chmod(0o700)

    assert len(found.candidates) == 5
    counted = found.ignored["link that cannot be followed"] + found.ignored.get("not a regular file", 0)
    assert counted == 2


def test_a_list_is_a_regular_file_of_bounded_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A FIFO, a device or a huge file in the place of a list is refused at once; a directory too."""
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "long").write_text("x\n" * 51)
    monkeypatch.setattr("compactctl.transcripts._inputs._LIST_SIZE", 100)

    found = find_inputs([f"@{tmp_path}/pipe", "@/dev/zero", f"@{tmp_path}", f"@{tmp_path}/long", "@a\0b"])

    assert [type(problem) for problem in found.problems] == [*[UnreadableError] * 4, MissingPathError]
    assert found.candidates == ()


def test_any_pattern_is_a_pattern(tmp_path: Path) -> None:
    """The home of a user that does not exist is a pattern without a match, not an error of the program."""
    (problem,) = find_inputs(["~no-such-user/*"]).problems

    assert isinstance(problem, NothingMatchedError)
