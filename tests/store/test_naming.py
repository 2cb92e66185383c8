"""Names of files are made from a closed alphabet, and no two contents share one."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, strategies as st

from compactctl.context.naming import ResultNames, is_hashed, is_plain, result_file_name, safe_name
from compactctl.store.trash import result_name

TEXT = st.text(st.characters(), max_size=80)
SAFE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]{0,63}|[A-Za-z0-9_-]{0,32}~[0-9a-f]{24}")


@given(TEXT)
def test_no_id_leads_anywhere(raw: str) -> None:
    """Whatever a session is called, its name is one short, plain path component."""
    assert SAFE.fullmatch(safe_name(raw))


@given(TEXT, TEXT)
def test_two_ids_never_share_a_name(one: str, other: str) -> None:
    """Two different session ids always have different names."""
    assert (safe_name(one) == safe_name(other)) == (one == other)


@given(
    st.lists(st.tuples(st.sampled_from(["a", "A", "b/", "B/", "", "é", "e\u0301"]), st.sampled_from(["x", "y", "z"])))
)
def test_every_content_has_a_file_of_its_own(results: list[tuple[str, str]]) -> None:
    """Whichever ids come again with whichever texts, each file holds one text, even where case makes no difference."""
    names = ResultNames("s")
    held: dict[str, str] = {}
    for call, text in results:
        path = names.path(call, text)
        assert held.setdefault(path.casefold(), text) == text
        assert names.path(call, text) == path


@pytest.mark.parametrize("name", ["CON", "nul", "Com1", "lpt9", "aux"])
def test_devices_of_windows_are_no_names(name: str) -> None:
    """An id that is a device on Windows is never used as a name."""
    assert not is_plain(name)
    assert is_hashed(safe_name(name))


def test_a_plain_id_stays_readable() -> None:
    """Ordinary ids are their own file names, as in the seed's layout."""
    assert safe_name("toolu_01AbC-9") == "toolu_01AbC-9"
    assert result_file_name("toolu_01AbC-9", "text", {}) == "toolu_01AbC-9.txt"


@pytest.mark.parametrize(
    "path",
    [
        "",
        "c.txt",
        "/etc/passwd",
        "tool_results/other/c.txt",
        "tool_results/s/../c.txt",
        "tool_results/s/a/c.txt",
        "tool_results/s/c\0.txt",
    ],
)
def test_a_path_in_a_record_is_never_followed_out_of_its_session(path: str) -> None:
    """What a record calls a result file is looked for among that session's results only."""
    assert result_name(path, "s") is None


def test_the_paths_of_harness9_are_understood() -> None:
    """A record of harness9 names its files from the working directory; the last parts say which file it is."""
    assert result_name(".harness9/tool_results/s/call_1.txt", "s") == "call_1.txt"
