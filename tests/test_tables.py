"""Windows and prices: where each figure comes from, and what wins."""

from __future__ import annotations

import datetime
from dataclasses import replace

import pytest

from compactctl.context.window import choose_window
from compactctl.errors import SettingsError
from compactctl.model import Message, RecordedCompaction, Session, Usage
from compactctl.tables import check_prices, model_window, prices, rank_bytes


def session(
    prompt: int = 0, *, window: int | None = None, compacted: int | None = None, model: str = "claude-sonnet-4-5"
) -> Session:
    """A session with one call of that prompt."""
    usage = Usage(prompt, 1) if prompt else None
    compactions = () if compacted is None else (RecordedCompaction("full", "auto", 1, 1, tokens_before=compacted),)
    messages = (Message("user", "hi"), Message("assistant", "ho", usage=usage))
    return Session("s", messages, model=model, context_window=window, compactions=compactions)


def table(model: str) -> tuple[int, str] | None:
    """A table that knows one model."""
    return (400_000, "a table") if model == "known" else None


def test_the_window_comes_from_the_first_source_that_knows() -> None:
    """Flag, then recorded, then inferred, then the table, then 200,000."""
    everything = session(250_000, window=64_000, compacted=150_000, model="known")
    assert choose_window(8_000, everything, table) == (8_000, "flag")
    assert choose_window(None, everything, table) == (64_000, "recorded")
    assert choose_window(None, session(250_000, model="known"), table) == (1_000_000, "inferred")
    assert choose_window(None, session(90_000, compacted=156_000, model="known"), table) == (200_000, "inferred")
    assert choose_window(None, session(compacted=260_000, model="known"), table) == (1_000_000, "inferred")
    assert choose_window(None, session(90_000, model="known"), table) == (400_000, "table")
    assert choose_window(None, session(90_000, model="strange"), table) == (200_000, "assumed")
    claude = replace(session(90_000, model="known"), harness="claude-code")
    assert choose_window(None, claude, table) == (200_000, "inferred")
    assert choose_window(None, replace(session(250_000, model="known"), harness="claude-code"), table)[0] == 1_000_000
    assert choose_window(None, session(90_000, model="known")) == (200_000, "assumed")


def test_a_compaction_that_the_user_made_says_nothing_about_the_window() -> None:
    """Only automatic ones happen near the end of the window."""
    manual = RecordedCompaction("full", "manual", 1, 1, tokens_before=90_000)
    micro = RecordedCompaction("micro", "auto", 1, 1, tokens_before=60_000)
    made = Session("s", session().messages, model="strange", compactions=(manual, micro))
    assert choose_window(None, made, table) == (200_000, "assumed")


def test_the_table_names_its_source() -> None:
    """A known model has a window and prices with the package that they are from; routers' names work too."""
    known = model_window("claude-sonnet-4-5")
    assert known is not None
    assert known[0] == 200_000
    assert known[1].startswith("genai-prices ")
    found = prices("anthropic/claude-sonnet-4-5-20250929", "2025-11-02T10:00:00Z")
    assert found is not None
    assert (found.input, found.output, found.cache_read, found.cache_write) == (3.0, 15.0, 0.3, 3.75)
    assert found.source.startswith("genai-prices ")
    assert found.date == "2025-11-02"
    assert prices("no-such-model") is None
    assert model_window("no-such-model") is None
    assert prices("") is None


def test_own_prices_win_and_are_checked() -> None:
    """Prices of the settings file are taken as they are; what is no price is an error that names it."""
    own = {"mine": {"input": 1, "output": 2.5, "cache_read": 0.1, "date": "2026-01-01"}}
    found = prices("mine", own=own)
    assert found is not None
    assert (found.input, found.output, found.cache_read, found.cache_write) == (1.0, 2.5, 0.1, None)
    assert (found.source, found.date) == ("own prices", "2026-01-01")
    assert (found.cached, found.write) == (0.1, 1.0)
    for wrong in ({"input": "dear", "output": 1}, {"input": 1, "output": -1}, {"input": 1, "out": 2}, {"input": 1}):
        with pytest.raises(SettingsError, match="mine"):
            prices("mine", own={"mine": wrong})


def test_rank_files_come_from_a_package_or_not_at_all() -> None:
    """An unknown encoding is None, and a name is never a path."""
    assert rank_bytes("o200k_base")
    assert rank_bytes("no_such_encoding") is None
    assert rank_bytes("../../secret") is None


@pytest.mark.parametrize(
    "given",
    [
        5,
        [],
        {"input": float("nan"), "output": 1},
        {"input": float("inf"), "output": 1},
        {"input": 1, "output": 10**400},
        {"input": 1, "output": 1, "date": []},
        {"input": 1, "output": 1, "cached": 1},
        {"input": 1},
    ],
)
def test_impossible_prices_are_refused_whichever_models_are_met(given: object) -> None:
    """Own prices are looked at as a whole before any work, so that a mistake does not wait for its model."""
    good = {"input": 1, "output": 2, "date": datetime.date(2026, 1, 1)}

    check_prices({"good": good})
    with pytest.raises(SettingsError, match="prices of 'bad'"):
        check_prices({"good": good, "bad": given})
