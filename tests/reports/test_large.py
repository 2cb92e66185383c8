"""Reports of large sessions, and of many, stay small."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest

from compactctl.model import CompactionRecord, Tier
from compactctl.reports import html, markdown
from compactctl.reports._stored import RunLines, StoredSession, report_document, stored_session
from compactctl.reports._timeline import MOST, Timeline
from compactctl.store import open_store

Command = Callable[..., CompletedProcess[bytes]]

WINDOW = 200_000


def turns(count: int) -> Iterator[dict[str, Any]]:
    """Give the turn lines of a run that fills its window again and again."""
    for turn in range(count):
        tokens = 20_000 + turn * 977 % 150_000
        parts = {"assistant": tokens // 4, "tool:bash": tokens // 2, "user": tokens // 4}
        yield {"turn": turn, "tier": turn % 5, "before": tokens + 9000, "tokens": tokens, "real": tokens + 7} | {
            "recorded": tokens + 100,
            "by": parts,
        }


def session(number: int, count: int, template: dict[str, Any], text: str = "x" * 4000) -> StoredSession:
    """Give a stored session of so many turns, four of five of which compact, each with a long summary."""
    rows = list(turns(count))
    records = [
        CompactionRecord(
            Tier(row["tier"]),
            row["before"],
            row["tokens"],
            90,
            30,
            summary_text=text,
            summarized=60,
            turn=row["turn"],
            compression_ratio=row["tokens"] / row["before"],
        ).to_json()
        for row in rows
        if row["tier"]
    ]
    end = template | {"session_id": f"session-{number:05}", "turns": count, "window": WINDOW}
    start = {"settings": {"compactor": "progressive", "options": {}}, "settings_hash": "0", "tool_version": "0"}
    return stored_session(RunLines(f"run-{number}", end["session_id"], start, end, rows, records))


@pytest.fixture(scope="module")
def template(replayed: tuple[Any, dict[str, Any]]) -> dict[str, Any]:
    """The document of a real session, to be taken as an end line."""
    return {key: value for key, value in replayed[1]["sessions"][0].items() if key not in ("compactions", "run")}


def test_page_of_4000_turns(template: dict[str, Any]) -> None:
    """A session of 4,000 turns, 3,200 of them compacting, is a page below 500 kB that counts what is left out."""
    page = html.render(report_document([session(0, 4000, template)]))

    assert len(page) < html.LIMIT
    assert b"more characters)" in page
    assert b"3,200" in page or b"more; <code>compactctl report --rows compactions" in page


def test_page_of_300_sessions(template: dict[str, Any]) -> None:
    """A page over 300 sessions is below 500 kB, and says how many sessions it does not draw."""
    one = [session(number, 40, template) for number in range(300)]
    page = html.render(report_document(one)).decode()

    assert len(page.encode()) < html.LIMIT
    assert "more sessions in the table only" in page


def test_page_of_more_sessions_than_are_drawn(template: dict[str, Any], command: Command, tmp_path: Path) -> None:
    """The turns of most of 25 sessions are left unread; the page has those of every session that it draws."""
    store = open_store(tmp_path / "state")
    for number in range(25):
        name = f"session-{number:05}"
        with store.writer(name, {"settings": {}}) as run:
            for row in turns(40):
                run.turn(row)
            run.end(template | {"session_id": name, "turns": 40, "window": WINDOW})
    page = command("report", "--state-dir", tmp_path / "state", "-f", "html").stdout.decode()

    assert len(re.findall(r'<section id="s\d+"', page)) == html.most_drawn(25)
    assert page.count("<h3>Occupancy over turns</h3>") == html.most_drawn(25)


def test_markdown_of_many_sessions(template: dict[str, Any]) -> None:
    """Markdown over 2,000 sessions stays below GitHub's limit for step summaries and counts those left out."""
    one = session(0, 5, template)
    document = report_document([one] * 2000)
    text = markdown.render(document)

    assert len(text) < 1 << 20
    assert b"and 1,800 more sessions, none of them worse" in text


def test_timeline_keeps_the_extremes() -> None:
    """However many turns become one point, the largest and the smallest view and the hardest tier are still there."""
    rows = list(turns(10_000))
    timeline = Timeline.of(rows)

    assert len(timeline.points) <= MOST
    assert (timeline.points[0].first, timeline.points[-1].last) == (0, 9_999)
    assert max(point.tokens for point in timeline.points) == max(row["tokens"] for row in rows)
    assert min(point.lowest for point in timeline.points) == min(row["tokens"] for row in rows)
    assert max(point.recorded or 0 for point in timeline.points) == max(row["recorded"] for row in rows)
    assert {point.tier for point in timeline.points} == {4}
    assert [b.first for b in timeline.points[1:]] == [a.last + 1 for a in timeline.points[:-1]]
