"""How blocks of a transcript become lines."""

from __future__ import annotations

from hypothesis import given, strategies as st

from compactctl.transcripts._reader import _lines_of


@given(st.lists(st.sampled_from([b"\n", b"a", b"\r", b"b" * 300])).map(b"".join))
def test_a_block_is_split_on_newlines_alone(block: bytes) -> None:
    """Each line of a block is there once, also an empty one, and nothing but byte 10 ends a line."""
    assert _lines_of(block) == block.split(b"\n")
