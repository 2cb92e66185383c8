"""Opening: what cannot be a transcript is refused in one line that names the path; archives are unpacked in bounds."""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import socket
from pathlib import Path

import pytest
import zstandard

from compactctl.errors import EmptyTranscriptError, MissingPathError, UnknownFormatError, UnreadableError
from compactctl.transcripts import Limits, load

ROW = b'{"role":"user","content":"%d"}\n'
DATA = b"".join(ROW % number for number in range(1000))


def texts(path: Path | str, limits: Limits | None = None) -> list[str]:
    """Load the one session and give its texts."""
    (session,) = load(path, limits=limits)
    return [message.content for message in session.messages]


def test_a_missing_path(tmp_path: Path) -> None:
    """A path that does not exist is a mistake of usage, not of the input."""
    with pytest.raises(MissingPathError, match=r"gone\.jsonl"):
        next(load(tmp_path / "gone.jsonl"))
    with pytest.raises(MissingPathError):
        next(load("a\0b"))


def test_an_empty_file(tmp_path: Path) -> None:
    """An empty file, or one of blanks, is never an empty success."""
    for number, data in enumerate((b"", b"\n\n \n", b"\xef\xbb\xbf")):
        path = tmp_path / f"{number}.jsonl"
        path.write_bytes(data)
        with pytest.raises(EmptyTranscriptError, match=path.name):
            next(load(path))


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no FIFO")
def test_a_fifo_is_refused_without_waiting(tmp_path: Path) -> None:
    """A FIFO without a writer does not hang the command."""
    os.mkfifo(tmp_path / "pipe")

    with pytest.raises(UnreadableError, match="FIFO"):
        next(load(tmp_path / "pipe"))


def test_a_directory_a_device_and_a_socket(tmp_path: Path) -> None:
    """Only regular files are read."""
    with pytest.raises(UnreadableError, match="directory"):
        next(load(tmp_path))
    if Path("/dev/zero").exists():
        with pytest.raises(UnreadableError, match="device"):
            next(load("/dev/zero"))
    if hasattr(socket, "AF_UNIX"):
        with socket.socket(socket.AF_UNIX) as listening:
            here = Path.cwd()
            os.chdir(tmp_path)  # the path of a socket may be no longer than about 100 bytes
            try:
                listening.bind("s")
            finally:
                os.chdir(here)
            with pytest.raises(UnreadableError, match="socket"):
                next(load(tmp_path / "s"))


def test_a_file_without_rights(tmp_path: Path) -> None:
    """A file that may not be read is named, with what is wrong."""
    path = tmp_path / "mine.jsonl"
    path.write_bytes(DATA)
    path.chmod(0)
    if os.access(path, os.R_OK):
        pytest.skip("this user may read everything")

    with pytest.raises(UnreadableError, match=r"mine\.jsonl"):
        next(load(path))


def test_gzip_of_several_members(tmp_path: Path) -> None:
    """Appended gzip files are read as one, whatever the name says."""
    path = tmp_path / "plain.jsonl"
    path.write_bytes(gzip.compress(DATA[: len(DATA) // 2]) + gzip.compress(DATA[len(DATA) // 2 :]) + b"\0" * 512)

    assert len(texts(path)) == 1000


def test_zstd_of_several_frames(tmp_path: Path) -> None:
    """A file of concatenated zstd frames, as dsh appends them, is read whole."""
    path = tmp_path / "x"
    frames = [zstandard.compress(DATA[at : at + 777]) for at in range(0, len(DATA), 777)]
    path.write_bytes(b"".join(frames))

    assert len(texts(path)) == 1000


@pytest.mark.parametrize("pack", [lambda data: gzip.compress(data), lambda data: zstandard.compress(data)])
def test_a_truncated_archive_gives_what_could_be_read(tmp_path: Path, pack: object) -> None:
    """Half an archive is half a session and a warning, not a failure."""
    noise = "".join(hashlib.sha256(bytes([n % 256, n // 256])).hexdigest() for n in range(9000))
    rows = b"".join(
        b'{"role":"user","content":"%s"}\n' % noise[at : at + 576].encode() for at in range(0, 576_000, 576)
    )
    packed: bytes = pack(rows)  # type: ignore[operator]  # parametrised as object
    path = tmp_path / "half"
    path.write_bytes(packed[: len(packed) * 2 // 3])

    (session,) = load(path)

    assert 0 < len(session.messages) < 1000
    assert any("ends too early" in warning for warning in session.warnings)


def test_damage_inside_gzip(tmp_path: Path) -> None:
    """Bytes that broke in the middle of an archive are told, and what lies before them is used."""
    packed = bytearray(gzip.compress(DATA, compresslevel=0))
    packed[-8:-4] = b"\1\2\3\4"  # the checksum
    path = tmp_path / "x.gz"
    path.write_bytes(packed)

    (session,) = load(path)

    assert len(session.messages) == 1000
    assert any("damaged" in warning for warning in session.warnings)


@pytest.mark.parametrize("pack", [lambda data: gzip.compress(data), lambda data: zstandard.compress(data)])
def test_a_bomb_is_stopped(tmp_path: Path, pack: object) -> None:
    """A small file that unpacks to a huge one is refused early, by its ratio or by its size."""
    packed: bytes = pack(ROW % 1 + b" " * (4 << 20))  # type: ignore[operator]  # parametrised as object
    path = tmp_path / "bomb"
    path.write_bytes(packed)

    with pytest.raises(UnreadableError, match="200 times its size"):
        next(load(path, limits=Limits(ratio_after=1 << 20)))
    with pytest.raises(UnreadableError, match="unpacks to more than"):
        next(load(path, limits=Limits(expanded=1 << 20)))


def test_an_archive_in_an_archive(tmp_path: Path) -> None:
    """Nested compression is named; it is not unpacked again and again."""
    path = tmp_path / "x.gz.gz"
    path.write_bytes(gzip.compress(gzip.compress(DATA)))

    with pytest.raises(UnknownFormatError, match="compressed twice"):
        next(load(path))


def test_a_stream(tmp_path: Path) -> None:
    """A stream is read like a file, packed or not; its id has its hash."""
    for data in (DATA, gzip.compress(DATA)):
        (session,) = load(io.BytesIO(data))

        assert len(session.messages) == 1000
        assert session.path == "-"
        assert session.id == f"stdin-{hashlib.sha256(data).hexdigest()[:8]}"


class _Broken(io.RawIOBase):
    def read(self, size: int = -1, /) -> bytes:
        raise OSError(5, "Input/output error")


def test_a_stream_that_breaks() -> None:
    """An error of the system while reading is one line too."""
    with pytest.raises(UnreadableError, match=r"standard input: reading failed \(Input/output error\)"):
        next(load(_Broken()))  # type: ignore[arg-type]  # no real stream, on purpose


def test_a_stream_without_end() -> None:
    """A stream of more than the limit is refused; it fills neither memory nor disk."""
    with pytest.raises(UnreadableError, match="standard input: more than 1,000 bytes"):
        next(load(io.BytesIO(DATA), limits=Limits(expanded=1000)))


def test_a_file_that_grows_is_read_as_it_was(tmp_path: Path) -> None:
    """What is appended after the opening is left to the next run: hash and messages belong together."""
    path = tmp_path / "live.jsonl"
    line = b'{"messages":[{"role":"user","content":"%s"}]}\n'
    before = b"".join(line % (b"x" * 1000) for _ in range(500))
    path.write_bytes(before)

    sessions = load(path)
    first = next(sessions)
    with path.open("ab") as more:
        more.write(line % b"late")
    rest = list(sessions)

    assert 1 + len(rest) == 500
    assert first.input_sha256 == rest[-1].input_sha256 == hashlib.sha256(before).hexdigest()


def test_the_hash_is_that_of_the_file(tmp_path: Path) -> None:
    """The hash of an archive is the hash of the archive, as any tool prints it."""
    packed = gzip.compress(DATA)
    path = tmp_path / "x.gz"
    path.write_bytes(packed)

    (session,) = load(path)

    assert session.input_sha256 == hashlib.sha256(packed).hexdigest()


@pytest.mark.parametrize("pack", [lambda data: gzip.compress(data), lambda data: zstandard.compress(data)])
@pytest.mark.parametrize("kept", [12, 40])
def test_an_archive_cut_before_its_first_line_is_not_called_empty(tmp_path: Path, pack: object, kept: int) -> None:
    """Nothing, or half a line, is what can be unpacked: the refusal says that the data was cut."""
    noise = "".join(hashlib.sha256(bytes([n])).hexdigest() for n in range(99))
    packed: bytes = pack(b'{"role":"user","content":"%s"}\n' % noise.encode())  # type: ignore[operator]  # parametrised as object
    path = tmp_path / "cut"
    path.write_bytes(packed[:kept])

    with pytest.raises(UnreadableError, match="ends too early"):
        next(load(path))


@pytest.mark.parametrize("first", [b"", ROW % 1])
@pytest.mark.parametrize("blank", [b"\n", b" \n", b"\r\n", b"    \n"])
def test_a_bomb_of_blank_lines_is_stopped(tmp_path: Path, first: bytes, blank: bytes) -> None:
    """Blank lines count like all else that an archive unpacks to, before and behind the first message."""
    path = tmp_path / "bomb"
    path.write_bytes(gzip.compress(first + blank * (4 << 20)))

    with pytest.raises(UnreadableError, match="200 times its size"):
        next(load(path, limits=Limits(ratio_after=1 << 20)))


def test_messages_behind_millions_of_blank_lines(tmp_path: Path) -> None:
    """What stands before the first message does not decide what a file is."""
    path = tmp_path / "x"
    path.write_bytes(b"\n" * 3_000_000 + DATA)

    assert len(texts(path)) == 1000
