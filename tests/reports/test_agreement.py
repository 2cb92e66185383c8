"""The same figure is the same in every format, and in `replay`."""

from __future__ import annotations

import csv
import io
import subprocess
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import orjson
import pytest

import compactctl
from compactctl.model import CompactionRecord
from compactctl.reports._document import compaction_document
from compactctl.reports._overview import worst_first
from compactctl.reports._stored import compaction_of
from compactctl.reports._words import percent, size, tokens
from compactctl.store import open_store

Replayed = tuple[Path, dict[str, Any]]
Report = Callable[..., bytes]
Command = Callable[..., subprocess.CompletedProcess[bytes]]


def by_id(document: dict[str, Any]) -> dict[str, Any]:
    """Give the sessions of a document by their ids."""
    return {session["session_id"]: session for session in document["sessions"]}


def test_report_says_what_replay_said(replayed: Replayed, report: Report) -> None:
    """`report --format json` holds the very objects of `replay --format json`, read from the state directory alone."""
    told = orjson.loads(report("-f", "json", "--include-text"))

    assert by_id(told) == by_id(replayed[1])
    assert told["settings"] == replayed[1]["settings"]
    assert told["settings_hash"] == replayed[1]["settings_hash"]


@pytest.mark.parametrize("form", ["table", "markdown", "html"])
def test_summarizer_tokens_are_those_that_its_cost_follows_from(replayed: Replayed, report: Report, form: str) -> None:
    """What a report says the summarizer read and wrote is what M4 says, in real tokens."""
    key = "summary_input_tokens"
    ident, session = next(
        (ident, session)
        for ident, session in by_id(replayed[1]).items()
        if tokens(session["measures"][f"m4.{key}"]["value"]) != tokens(session[key])
    )
    read, written = (session["measures"][f"m4.summary_{way}_tokens"]["value"] for way in ("input", "output"))

    assert f": {tokens(read)} real tokens read, {tokens(written)} written" in report(ident, "-f", form).decode()


def test_summarizer_tokens_without_measures_are_decision_tokens(command: Command, tmp_path: Path) -> None:
    """Of a run that computed no measure, what the summarizer read is in decision tokens, and is said to be."""
    arguments = ("sample_sessions/short-healthy-fix.jsonl", "--window", "3000", "--measures", "none")
    done = command("replay", *arguments, "--state-dir", tmp_path, "-f", "json", "-q")
    [session] = orjson.loads(done.stdout)["sessions"]
    read, written = session["summary_input_tokens"], session["summary_output_tokens"]

    shown = command("report", "--state-dir", tmp_path).stdout.decode()
    assert f": {tokens(read)} tokens read, {tokens(written)} written (decision tokens" in shown


def test_row_and_record_give_one_compaction(state: Path) -> None:
    """Reading a stored row and reading the record that it holds give the same compaction."""
    store = open_store(state)
    rows = [row for name in store.stored_names() for _, row in store.rows("compaction_records", name, _counts())]

    assert len(rows) > 50
    assert [compaction_of(row) for row in rows] == [compaction_document(CompactionRecord.from_json(r)) for r in rows]


def _counts() -> Any:
    from compactctl.store.lines import LogCounts

    return LogCounts()


def test_csv_agrees(replayed: Replayed, report: Report) -> None:
    """Each cell of the sessions' csv is the value of the JSON."""
    rows = {row["session_id"]: row for row in csv.DictReader(io.StringIO(report("-f", "csv").decode()))}

    for ident, session in by_id(replayed[1]).items():
        row = rows[ident]
        for column, value in {
            "turns": session["turns"],
            "failed_turns": session["failed_turns"],
            "turns_emergency": session["turns_by_tier"]["emergency"],
            "compactions_warn": session["compactions_by_tier"]["warn"],
            "compactions_full": session["compactions_by_tier"]["full"],
            "peak_occupancy_share": session["peak_occupancy"],
            "real_peak_tokens": session["real_peak_tokens"],
            "real_peak_occupancy_share": session["real_peak_occupancy"],
            "sent_decision_tokens": session["tokens"],
            "without_compaction_sent_decision_tokens": session["without_compaction"]["tokens"],
            "reduction_share": session["reduction"],
            "offloaded_files": session["offloaded_files"],
            "offloaded_bytes": session["offloaded_bytes"],
            "summarizer_calls": session["summarizer_calls"],
            "summary_output_tokens": session["summary_output_tokens"],
            **{key: measure["value"] for key, measure in session["measures"].items()},
        }.items():
            assert row[column] == ("" if value is None else str(value)), column


@pytest.mark.parametrize("table", ["sessions", "compactions", "turns", "offloads", "findings"])
def test_frame_agrees(table: str, state: Path, report: Report) -> None:
    """`compactctl.report_frame` gives the rows of the csv, with whole numbers whole and unknown ones unknown."""
    frame = compactctl.report_frame(table, state_dir=state)
    rows = list(csv.DictReader(io.StringIO(report("-f", "csv", "--rows", table, "--include-text").decode())))

    assert list(frame.columns) == list(rows[0])
    assert len(frame) == len(rows)
    for column in frame.columns:
        assert set(frame.attrs) == set(frame.columns)
        cells = ["" if missing else value for value, missing in zip(frame[column], frame[column].isna(), strict=True)]
        told = [row[column].removeprefix("'") for row in rows]
        assert [float(c) if isinstance(c, float) else str(c) for c in cells] == [
            float(t) if isinstance(c, float) else t for c, t in zip(cells, told, strict=True)
        ]


def test_parquet_agrees(state: Path, report: Report, tmp_path: Path) -> None:
    """A parquet file holds the frame."""
    duckdb = pytest.importorskip("duckdb", reason="parquet needs duckdb: pip install 'compactctl[parquet]'")
    path = tmp_path / "rows.parquet"
    report("-q", "--rows", "compactions", "-o", path)
    with duckdb.connect() as connection:
        rows = connection.execute(f"SELECT * FROM '{path}'").fetchall()
    frame = compactctl.report_frame("compactions", state_dir=state)
    expected = [
        tuple(None if missing else value for value, missing in zip(row, gone, strict=True))
        for row, gone in zip(frame.itertuples(index=False), frame.isna().itertuples(index=False), strict=True)
    ]

    assert rows == expected


def words(session: dict[str, Any]) -> list[str]:
    """Give a session's figures as people read them."""
    return [
        f"{session['turns']:,}",
        percent(session["peak_occupancy"]),
        percent(session["real_peak_occupancy"]),
        tokens(session["tokens"]),
        percent(session["reduction"]),
        str(session["offloaded_files"]),
        size(session["offloaded_bytes"]),
        f"{session['summarizer_calls']:,}",
    ]


@pytest.mark.parametrize("format", ["table", "markdown"])
def test_tables_for_people_agree(format: str, replayed: Replayed, report: Report) -> None:
    """A session's line on the terminal and in Markdown holds the figures of the JSON, the worst session first."""
    sessions = replayed[1]["sessions"]
    lines = report("-f", format).decode().splitlines()
    found = []
    for session in sessions:
        line = next(line for line in lines if session["session_id"] in line and ("|" in line or format == "table"))
        found.append(lines.index(line))
        cells = line.replace("|", " ").replace("(", " ").replace(")", " ").split()
        assert all(word in cells for word in words(session)), line
    ordered = sorted(range(len(sessions)), key=lambda place: sessions[place]["session_id"])
    stored = [sessions[place] for place in ordered]

    assert [stored[i]["session_id"] for i in worst_first(stored)] == [
        sessions[place]["session_id"] for place in sorted(range(len(sessions)), key=lambda place: found[place])
    ]


class Cells(HTMLParser):
    """Reads the values of the table of sessions."""

    def __init__(self) -> None:
        super().__init__()
        self.rows: list[list[str]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Begin a row at its first cell, and take the value that sorting goes by."""
        given = dict(attrs)
        if tag == "td" and given.get("class") == "id":
            self.rows.append([])
        elif tag == "td" and "data-value" in given:
            self.rows[-1].append(given["data-value"] or "")


def test_html_agrees(replayed: Replayed, report: Report, tmp_path: Path) -> None:
    """The values that the page's table sorts by are those of the JSON."""
    path = tmp_path / "page.html"
    report("-q", "-o", path)
    reader = Cells()
    reader.feed(path.read_text())
    rows = {row[-1]: row for row in reader.rows}

    for ident, session in by_id(replayed[1]).items():
        cost = session["measures"]["m3.cost_usd"]["value"]
        assert rows[ident][:2] == [str(len(session["findings"])), str(session["turns"])]
        assert rows[ident][3:13] == [
            str(session["real_peak_occupancy"]),
            str(session["without_compaction"]["real_peak_occupancy"]),
            str(session["measures"]["m2.tokens_sent"]["value"]),
            str(1 - session["measures"]["m2.share_of_uncompacted"]["value"]),
            str(session["peak_occupancy"]),
            str(session["tokens"]),
            str(session["reduction"]),
            str(session["offloaded_bytes"]),
            str(session["summarizer_calls"]),
            "" if cost is None else str(cost),
        ]
