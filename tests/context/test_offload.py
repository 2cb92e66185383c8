"""What stays of a result in the view."""

from __future__ import annotations

from hypothesis import given, strategies as st

from compactctl.context.offload import first_lines

TEXTS = st.lists(st.sampled_from(["\n", "a", "上", "b" * 700])).map("".join)


@given(TEXTS, st.integers(0, 12))
def test_the_first_lines_are_those_of_a_plain_split(text: str, count: int) -> None:
    """A preview is the first lines of the result however long they are, and nothing for no lines."""
    assert first_lines(text, count) == "\n".join(text.split("\n")[:count])
