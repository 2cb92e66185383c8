"""The benchmarks are entries that say whether they were held; what they measure is tried on a small scale."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.__main__ import TARGETS
from bench.data import session
from bench.report import report
from bench.tune import measured


def test_all_targets_of_speed_are_entries_of_one_command() -> None:
    """`just bench` measures the sweep and the report too."""
    assert {"replay", "tune", "report"} <= TARGETS.keys()


def test_a_report_is_held_to_its_gate(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What is returned is the verdict of the table, which is printed; other formats are reported."""
    held = report(tmp_path, 1, sessions=12)
    lines = capsys.readouterr().out.splitlines()
    assert [line.startswith("held") for line in lines if "report as table" in line] == [held]
    assert sum("(reported)" in line for line in lines) == 4


def test_a_missed_target_of_the_sweep_is_returned(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """On a session that is decoded in no time 200 settings are far from their gate, and the entry says so."""
    held = measured(str(session(tmp_path, "tiny", 0.0002)), 1)
    words = capsys.readouterr().out
    assert words.count("gate") == 4  # three verdicts, and the gate of two jobs in its second line
    assert held == ("MISSED" not in words)
