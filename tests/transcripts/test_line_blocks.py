"""How blocks of a transcript become lines, and what is read of many lines at once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from compactctl.model import LineCounts, Message
from compactctl.transcripts import _reader
from compactctl.transcripts._lines import Rows
from compactctl.transcripts._neutral import NeutralLines, neutral_message
from compactctl.transcripts._reader import _lines_of
from compactctl.transcripts._source import Limits, Source

_SAID = b'{"role":"user","content":"hello"}'
_LONG = b'{"role":"assistant","content":"%s"}' % (b"word " * 40)
_PIECES = (
    _SAID,
    _LONG,
    b'{"role":"tool","content":"a }\\n{ b","tool_call_id":"c1"}',
    b'{"role":"user",\n"content":"over two lines"}',
    b'{"role":"user","content":"x","usage":{"prompt":1,"output":2}\n}',
    _SAID + b" " + _SAID,
    _SAID + _SAID,
    b" " + _SAID + b"\r",
    b"",
    b" ",
    b"{",
    b"}",
    b"[1]",
    b'{"event":"other"}',
)


@given(st.lists(st.sampled_from([b"\n", b"a", b"\r", b"b" * 300])).map(b"".join))
def test_a_block_is_split_on_newlines_alone(block: bytes) -> None:
    """Each line of a block is there once, also an empty one, and nothing but byte 10 ends a line."""
    assert _lines_of(block) == block.split(b"\n")


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    lines=st.lists(st.sampled_from((_SAID, _LONG)) | st.sampled_from(_PIECES), max_size=12),
    end=st.sampled_from([b"", b"\n"]),
    chunk=st.sampled_from([7, 64, 4096]),
    longest=st.sampled_from([50, 150, 1 << 20]),
)
def test_lines_read_together_are_those_read_one_by_one(
    lines: list[bytes], end: bytes, chunk: int, longest: int, tmp_path: Path
) -> None:
    """Whatever stands in a line, reading many at once gives the same messages and the same account."""
    path = tmp_path / "lines.jsonl"
    path.write_bytes(b"\n".join(lines) + end)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_reader, "CHUNK", chunk)
        assert _read(path, longest, together=True) == _read(path, longest, together=False)


def _read(path: Path, longest: int, *, together: bool) -> tuple[list[Message | dict[str, Any]], LineCounts]:
    source = Source(str(path), Limits(line=longest))
    rows = Rows(source)
    found: list[Message | dict[str, Any]] = []
    for row in rows.through(NeutralLines()) if together else rows:
        found += row if isinstance(row, list) else [neutral_message(row) or row]
    source.close()
    return found, rows.counts()
