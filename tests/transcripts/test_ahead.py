"""How a large input is read by a process of its own: the same bytes, and no process that outlives its reading."""

from __future__ import annotations

import hashlib
import multiprocessing
import os
import signal
import time
from io import BufferedReader
from pathlib import Path

import pytest

from compactctl.errors import UnreadableError
from compactctl.transcripts import Limits, _ahead, _source, load
from compactctl.transcripts._ahead import is_possible, read_ahead

pytestmark = pytest.mark.skipif(not is_possible(), reason="processes are not forked on this system: it is never used")
_LINE = b'{"role":"user","content":"line %05d"}\n'


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let small files be read ahead, in small blocks."""
    monkeypatch.setattr(_ahead, "_BLOCK", 1000)
    monkeypatch.setattr(_source, "_WORTH_A_PROCESS", 1)


def read(path: Path, size: int) -> tuple[bytes, list[str]]:
    """Read a file to its end; give what was read and the hashes that were told."""
    told: list[str] = []
    with path.open("rb") as file, BufferedReader(read_ahead(file.fileno(), size, "f", told.append)) as stream:
        return stream.read(), told


def all_ended() -> None:
    """Wait a moment for processes that have nothing left to do."""
    until = time.monotonic() + 10
    while multiprocessing.active_children() and time.monotonic() < until:
        time.sleep(0.01)
    assert not multiprocessing.active_children()


@pytest.mark.parametrize("size", [0, 1, 999, 1000, 1001, 4000, 4001, 9000, 123_456])
def test_all_bytes_come_in_order_with_their_hash(size: int, tmp_path: Path) -> None:
    """Whatever the size is against that of the blocks, the bytes and their hash are those of the file."""
    data = bytes(i * 7 % 251 for i in range(size))
    (tmp_path / "f").write_bytes(data)
    assert read(tmp_path / "f", size) == (data, [hashlib.sha256(data).hexdigest()])
    all_ended()


def test_a_file_that_grew_or_was_cut_ends_where_it_was_opened_or_ends(tmp_path: Path) -> None:
    """No more is read than there was when the file was opened, and a file that became shorter is no error."""
    data = b"x" * 2500
    (tmp_path / "f").write_bytes(data)
    for size in (1500, 9000):
        assert read(tmp_path / "f", size) == (data[:size], [hashlib.sha256(data[:size]).hexdigest()])


def test_sessions_are_the_same_with_more_cores(tmp_path: Path) -> None:
    """Sessions, hashes and ids do not depend on who reads, also where ids are made from the hash in between."""
    log = tmp_path / "log.jsonl"
    log.write_bytes(b"".join(_LINE % i for i in range(500)))
    many = tmp_path / "many.jsonl"
    many.write_bytes(b"".join(b'{"messages":[%s]}\n' % (_LINE % i).strip() for i in range(300)))
    for path in (log, many):
        sessions = list(load(path, limits=Limits(cores=2)))
        assert sessions == list(load(path))
        assert sessions[0].input_sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
    assert len(sessions) == 300


def test_a_reading_that_is_given_up_leaves_no_process(tmp_path: Path) -> None:
    """Whoever takes the first session only, or meets an error, has no process left that reads on."""
    path = tmp_path / "many.jsonl"
    path.write_bytes(b"".join(b'{"messages":[%s]}\n' % (_LINE % i).strip() for i in range(3000)))
    sessions = load(path, limits=Limits(cores=2))
    next(sessions)
    assert len(multiprocessing.active_children()) == 1
    sessions.close()  # type: ignore[attr-defined]  # load is a generator; its type says only what it gives
    all_ended()
    with pytest.raises(UnreadableError, match="lines cannot be used"):
        list(load(_bad(tmp_path), limits=Limits(cores=2, skipped=3)))
    all_ended()


def _bad(room: Path) -> Path:
    path = room / "bad.jsonl"
    path.write_bytes(b"".join(_LINE % i + b"{ no json\n" for i in range(3000)))
    return path


def test_a_process_that_is_ended_from_outside_is_told(tmp_path: Path) -> None:
    """A reader that was killed is one line that says what to do, and no endless wait or half a session."""
    (tmp_path / "f").write_bytes(b"x" * 50_000)
    with (tmp_path / "f").open("rb") as file, read_ahead(file.fileno(), 50_000, "f", str) as stream:
        assert stream.readinto(bytearray(10)) == 10
        (child,) = multiprocessing.active_children()
        os.kill(child.pid or 0, signal.SIGKILL)
        with pytest.raises(UnreadableError, match=r"^f: the process that reads it was ended from outside; try again"):
            stream.readall()


def test_an_error_of_the_disk_is_raised_where_it_is_read(tmp_path: Path) -> None:
    """What goes wrong in the other process is an error here, as if this one had read."""
    handle = os.open(tmp_path, os.O_RDONLY)
    try:
        with read_ahead(handle, 5000, "f", str) as stream, pytest.raises(IsADirectoryError):
            stream.readinto(bytearray(10))
    finally:
        os.close(handle)
    all_ended()


def test_without_a_process_the_file_is_read_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where no process is to be had, this one reads by itself."""

    def none_left() -> int:
        raise BlockingIOError(11, "Resource temporarily unavailable")

    path = tmp_path / "log.jsonl"
    path.write_bytes(b"".join(_LINE % i for i in range(500)))
    monkeypatch.setattr(os, "fork", none_left)
    (session,) = load(path, limits=Limits(cores=2))
    assert len(session.messages) == 500


def _messages_of(path: Path) -> int:
    return sum(len(session.messages) for session in load(path, limits=Limits(cores=2)))


def test_a_process_of_a_pool_reads_by_itself(tmp_path: Path) -> None:
    """Where no process may have children, a session can be loaded all the same."""
    path = tmp_path / "log.jsonl"
    path.write_bytes(b"".join(_LINE % i for i in range(500)))
    with multiprocessing.get_context("fork").Pool(1) as pool:
        assert pool.apply(_messages_of, (path,)) == 500


def test_one_core_starts_no_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody who did not ask for it gets a second process."""
    path = tmp_path / "log.jsonl"
    path.write_bytes(_LINE % 1)
    monkeypatch.setattr(os, "fork", lambda: pytest.fail("forked"))
    assert len(list(load(path))) == 1
