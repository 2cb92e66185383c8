"""Damaged lines: what is whole in them is used, what is not is counted, and nothing stops at the first bad one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given, settings, strategies as st

from compactctl.errors import InputError, UnreadableError
from compactctl.model import LineCounts, Session
from compactctl.transcripts import Limits, load
from compactctl.transcripts._damaged import recover

HUMAN = b'{"role":"user","content":"go"}'
REPLY = b'{"role":"assistant","content":"done"}'


def read(path: Path, data: bytes, limits: Limits | None = None) -> Session:
    """Write a file and load its session."""
    path.write_bytes(data)
    (session,) = load(path, limits=limits)
    return session


def adds_up(lines: LineCounts) -> bool:
    """Say whether every line has its place in the account."""
    ignored = sum(lines.ignored.values())
    return lines.total == lines.used + lines.recovered + ignored + len(lines.skipped) + lines.blank


DAMAGE = {
    "torn tail": (HUMAN + b"\n" + REPLY + b'\n{"role":"us', 2, 0, {"torn_tail": 1}),
    "two objects on one line": (HUMAN + REPLY + b"\n" + REPLY + b"\n", 3, 1, {}),
    "a torn stub before a whole object": (HUMAN + b'\n{"role":"user","con' + REPLY + b"\n", 2, 1, {}),
    "a stub with an inner object": (HUMAN + b'\n{"a":{"b":1},"c":"x' + REPLY + b"\n", 2, 1, {}),
    "a stub between whole objects": (HUMAN + b"\n" + HUMAN + b'{"role":"x' + REPLY + b"\n", 3, 1, {}),
    "a run of NUL alone": (HUMAN + b"\n" + b"\0" * 300 + b"\n" + REPLY + b"\n", 2, 0, {"nul_padding": 1}),
    "a run of NUL before an object": (HUMAN + b"\n" + b"\0" * 300 + REPLY + b"\n", 2, 1, {}),
    "a run of NUL within an object": (HUMAN + b'\n{"role":"us\0\0er"}\n' + REPLY + b"\n", 2, 0, {"nul_padding": 1}),
    "a mark of byte order": (b"\xef\xbb\xbf" + HUMAN + b"\n\xef\xbb\xbf" + REPLY + b"\n", 2, 2, {}),
    "carriage returns": (HUMAN + b"\r\n\r\n" + REPLY + b"\r\n", 2, 0, {}),
    "an invalid byte": (HUMAN + b'\n{"role":"assistant","content":"\xff"}\n', 2, 1, {}),
    "a number that is none": (HUMAN + b'\n{"role":"user","content":NaN}\n' + REPLY, 2, 0, {"not_json": 1}),
    "a number out of range": (HUMAN + b'\n{"role":"user","content":1e999}\n' + REPLY, 2, 0, {"not_json": 1}),
    "a number of 5,000 digits": (HUMAN + b'\n{"a":' + b"9" * 5000 + b"}\n" + REPLY, 2, 0, {}),
    "scalars and arrays": (HUMAN + b"\n12\n[1]\n" + REPLY, 2, 0, {"not_object": 2}),
    "words": (HUMAN + b"\nTraceback (most recent call last):\n" + REPLY, 2, 0, {"not_json": 1}),
    "a nesting of 300": (HUMAN + b'\n{"a":' + b"[" * 300 + b"]" * 300 + b"}\n" + REPLY, 2, 0, {"too_deep": 1}),
    "a nesting of 100,000": (HUMAN + b'\n{"a":' + b"[" * 100_000 + b"\n" + REPLY, 2, 0, {"too_deep": 1}),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_damage(tmp_path: Path, name: str) -> None:
    """Whatever one line holds, the other lines are used and each line has its place in the account."""
    data, messages, recovered, skipped = DAMAGE[name]

    session = read(tmp_path / "x", data)

    assert len(session.messages) == messages
    assert session.lines.recovered == recovered
    if name != "a number of 5,000 digits":  # a decoder may read it; it must not stop the file
        assert session.lines.skipped_by_reason() == skipped
    assert adds_up(session.lines)


CLAUDE = b'{"type":"user","uuid":"u1","parentUuid":null,"sessionId":"s","message":{"role":"user","content":"go"}}\n'
CODEX = b'{"type":"response_item","payload":{"type":"message","role":"user","content":[]}}\n'


@pytest.mark.parametrize(
    ("ours", "foreign"),
    [
        (CLAUDE, HUMAN + b"\n"),
        (CLAUDE, CODEX),
        (HUMAN + b"\n" + REPLY + b"\n", CLAUDE),
        (HUMAN + b"\n" + REPLY + b"\n", CODEX),
        (b'{"type":"session_meta","payload":{"id":"s"}}\n' + CODEX, CLAUDE),
    ],
)
def test_messages_of_another_format_are_told_as_lines_that_could_not_be_used(
    tmp_path: Path, ours: bytes, foreign: bytes
) -> None:
    """Of a file that two formats were written into each message is used, or named as one that could not be."""
    lines = read(tmp_path / "s.jsonl", ours + foreign + ours.replace(b"u1", b"u2")).lines
    assert lines is not None
    assert {line.reason for line in lines.skipped} <= {"other_format"}
    assert set(lines.ignored) <= {"session_meta"}
    assert adds_up(lines)


def test_a_torn_last_line_has_its_reason_only_without_a_newline(tmp_path: Path) -> None:
    """A broken line with a newline was written by something else than a crash at the end of the file."""
    session = read(tmp_path / "x", HUMAN + b'\n{"role":"us\n')

    assert session.lines.skipped_by_reason() == {"not_json": 1}


def test_half_an_emoji_does_not_lose_the_message(tmp_path: Path) -> None:
    """A surrogate without its other half is replaced, in keys and values at any depth, and the line is counted."""
    row = rb'{"role":"assistant","content":"a\ud83c","tool_calls":[{"id":"1","name":"n","arguments":"\udc00"}]}'

    session = read(tmp_path / "x", HUMAN + b"\n" + row + b"\n")

    assert session.messages[1].content == "a\ufffd"
    assert session.messages[1].tool_calls[0].arguments == "\ufffd"
    assert session.lines.recovered == 1


@pytest.mark.parametrize("mark", ["\u2028", "\u2029", "\u0085", "\v", "\f", "\r"])
def test_only_newlines_end_lines(tmp_path: Path, mark: str) -> None:
    """Characters that other tools take for the end of a line stay in the text."""
    text = f"one{mark}two"
    row = orjson.dumps({"role": "user", "content": text})

    session = read(tmp_path / "x", row + b"\n" + REPLY)

    assert session.messages[0].content == text
    assert session.lines.total == 2


def test_a_line_that_is_too_long_is_skipped_and_the_next_one_used(tmp_path: Path) -> None:
    """One huge line costs itself only; its number and place are told."""
    long = b'{"role":"user","content":"' + b"x" * 5000 + b'"}'

    session = read(tmp_path / "x", HUMAN + b"\n" + long + b"\n" + REPLY + b"\n" + long, Limits(line=1000))

    assert [m.content for m in session.messages] == ["go", "done"]
    assert [(s.line, s.offset, s.reason) for s in session.lines.skipped] == [
        (2, len(HUMAN) + 1, "line_too_long"),
        (4, len(HUMAN) + 1 + len(long) + 1 + len(REPLY) + 1, "line_too_long"),
    ]
    assert adds_up(session.lines)


def test_a_line_of_exactly_the_limit_is_read(tmp_path: Path) -> None:
    """The limit is the longest line that is read, its newline not counted."""
    session = read(tmp_path / "x", HUMAN + b"\n" + REPLY + b"\n", Limits(line=len(REPLY)))

    assert len(session.messages) == 2


def test_offsets_point_at_the_line(tmp_path: Path) -> None:
    """The byte offset of a skipped line leads to it in the file."""
    data = HUMAN + b"\n\n" + b"\xef\xbb\xbf" + REPLY + b"\nbad line\n"

    (skip,) = read(tmp_path / "x", data).lines.skipped

    assert data[skip.offset :] == b"bad line\n"
    assert skip.line == 4


def test_a_file_of_nothing_but_bad_lines_is_given_up(tmp_path: Path) -> None:
    """The account of bad lines cannot fill the memory."""
    path = tmp_path / "x"
    path.write_bytes(HUMAN + b"\n" + b"bad\n" * 11)

    with pytest.raises(UnreadableError, match="more than 10 lines"):
        list(load(path, limits=Limits(skipped=10)))


LINES = st.one_of(
    st.sampled_from([HUMAN, REPLY, b"", b"  ", b"[]", b"7", HUMAN + REPLY, b'{"x":' + REPLY, b"\0\0", b"\xff"]),
    st.binary(max_size=30),
)


@settings(max_examples=200)
@given(lines=st.lists(LINES, max_size=12), end=st.sampled_from([b"", b"\n"]))
def test_every_line_is_accounted_for(tmp_path_factory: pytest.TempPathFactory, lines: list[bytes], end: bytes) -> None:
    """Whatever bytes follow a good line, the account adds up to the number of lines, or the refusal has a reason."""
    data = b"\n".join([HUMAN, *lines]) + end

    try:
        session = read(tmp_path_factory.mktemp("lines") / "x", data)
    except InputError:
        return

    assert adds_up(session.lines)
    # Each newline ends a line, and what follows the last one is a line where it is not empty.
    assert session.lines.total == data.count(b"\n") + (not data.endswith(b"\n"))


class _Counting(json.JSONDecoder):
    """A decoder that adds up how far into the text its calls begin, which is what an error of it costs."""

    calls = 0
    work = 0

    def raw_decode(self, s: str, idx: int = 0) -> tuple[Any, int]:
        """Count and decode."""
        self.calls += 1
        self.work += idx
        return super().raw_decode(s, idx)


@pytest.mark.parametrize("stub", ['{"a":"b" ', '{"', '{"a":[1,', '{"a":{"b":1}', '{"a":"b"}{"', '{"a":1e999,'])
def test_a_hostile_line_costs_bounded_work(stub: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many objects seem to begin in a line, the attempts and the characters passed over are few."""
    for size in (100_000, 400_000):
        line = stub * (size // len(stub)) + "}"
        counting = _Counting()
        monkeypatch.setattr("compactctl.transcripts._damaged._DECODER", counting)

        recover(line.encode(), torn=False, depth=200)

        # 4,096 places are tried, and what is passed over is cut off each time it has cost a line: about
        # sqrt(2 * 4,096) = 90 times. Objects that are whole are decoded, at most five times each.
        assert counting.calls < 4_096 + 5 * line.count("}")
        assert counting.work < 100 * size + 5 * size * line.count("}")


def test_many_blank_lines_are_counted_one_by_one(tmp_path: Path) -> None:
    """Runs of blank lines, of any kind and across buffers, have each their place, and line numbers stay right."""
    blanks = b"\n" * 200_000 + b" \r\n\t   \n" * 40_000
    data = blanks + HUMAN + b"\n" + blanks + b"bad\n" + REPLY + b"\n"

    session = read(tmp_path / "x", data)

    assert [m.content for m in session.messages] == ["go", "done"]
    assert session.lines.blank == 560_000
    assert [(s.line, s.offset) for s in session.lines.skipped] == [(560_002, data.index(b"bad"))]
    assert adds_up(session.lines)
