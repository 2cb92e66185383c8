"""Whatever a transcript says, an output shows it as text."""

from __future__ import annotations

import csv
import io
import json
import xml.etree.ElementTree as ET
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from subprocess import CompletedProcess

import orjson
import pytest
from hypothesis import given, strategies as st

from compactctl.reports._pictures import curves_figure, label, picture
from compactctl.reports.csv import cell
from compactctl.reports.markdown import text as markdown_text

Command = Callable[..., CompletedProcess[bytes]]

EVIL = (
    "=cmd|'/C calc'!A0 [/red][link=http://x.example]y[/link] <script>alert(1)</script></script><img src=x onerror=a> "
    "$\\frac{x}$ \x1b[2J\x1b]52;c;aGk=\x07 \u202egnp.exe \ud83c @everyone #1 [a](javascript:b) |c| `d` {{ 7 * 7 }}"
)


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory, command: Command) -> Path:
    """The state directory of a session in which id, model, tools, calls, texts and errors are hostile."""
    home = tmp_path_factory.mktemp("hostile")
    rows: list[dict[str, object]] = [
        {"compactctl": 1, "session_id": EVIL, "model": EVIL, "context_window": 4000},
        {"role": "user", "content": f"You must never do this: {EVIL}"},
    ]
    for turn in range(12):
        calls = [{"id": f"{turn}{EVIL}", "name": f"tool{EVIL}", "arguments": "{}"}]
        rows.append({"role": "assistant", "content": EVIL, "tool_calls": calls})
        rows.append({"role": "tool", "content": f"{EVIL}\n" * 40, "tool_call_id": f"{turn}{EVIL}"})
    rows.append({"role": "assistant", "content": "done"})
    transcript = home / "session.jsonl"
    transcript.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    done = command("replay", transcript, "--state-dir", home / "state", "-q", "--set", "offload=1000")
    assert done.returncode == 0, done.stderr
    return home / "state"


def written(command: Command, state: Path, path: Path, *arguments: str) -> bytes:
    """Give a file that `report` writes with all its text."""
    done = command("report", "--state-dir", state, "-q", "--include-text", "-o", path, *arguments)
    assert done.returncode == 0, done.stderr
    return path.read_bytes()


@pytest.mark.parametrize("suffix", ["txt", "md", "csv", "html", "svg"])
def test_no_control_characters(suffix: str, hostile: Path, command: Command, tmp_path: Path) -> None:
    """No format of text holds an escape, a bell, a direction override or a lone surrogate, with or without its text."""
    name = str(next((hostile / "turns").glob("*.jsonl")).stem)
    for arguments in ((), (name,)):
        content = written(command, hostile, tmp_path / f"evil.{suffix}", *arguments).decode()

        assert "/C calc" in content or suffix == "svg"
        assert [c for c in content if not c.isprintable() and c != "\n"] == []


class Tags(HTMLParser):
    """Collects the tags of a page and every attribute that could run or load something."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.dangerous: list[tuple[str, str | None]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Collect one tag."""
        self.tags.append(tag)
        for name, value in attrs:
            local = name == "href" and (value or "").startswith("#")
            if name.startswith("on") or name in ("src", "style", "srcset", "action") or (name == "href" and not local):
                self.dangerous.append((name, value))


def test_html_runs_nothing(hostile: Path, command: Command, tmp_path: Path) -> None:
    """The page holds its own script and no other, and no attribute that runs or loads anything."""
    page = written(command, hostile, tmp_path / "evil.html").decode()
    reader = Tags()
    reader.feed(page)

    assert reader.tags.count("script") == 1
    assert "img" not in reader.tags
    assert reader.dangerous == []
    assert "{{ 7 * 7 }}" in page


def test_svg_is_well_formed(hostile: Path, command: Command, tmp_path: Path) -> None:
    """A picture of hostile names is well-formed XML, with no script in it and dollars shown as they are."""
    picture_ = ET.fromstring(written(command, hostile, tmp_path / "evil.svg"))

    assert [e.tag for e in picture_.iter() if e.tag.endswith(("script", "image", "foreignObject"))] == []


def test_csv_holds_no_formula(hostile: Path, command: Command, tmp_path: Path) -> None:
    """No cell of any table begins like a formula, and numbers stay numbers."""
    for rows in ("sessions", "compactions", "offloads", "findings"):
        content = written(command, hostile, tmp_path / "evil.csv", "--rows", rows).decode()
        for row in csv.reader(io.StringIO(content)):
            for value in row:
                assert value[:1] not in ("=", "+", "@")
                assert not value.startswith("-") or float(value) < 0


@given(st.text())
def test_csv_cell(words: str) -> None:
    """Any text becomes a cell that no spreadsheet takes for a formula and that holds no control character."""
    made = cell(words)

    assert not made.lstrip(" ").startswith(("=", "+", "-", "@", "＝", "＋", "－", "＠"))
    assert made.isprintable()


@given(st.text())
def test_markdown_text(words: str) -> None:
    """Any text becomes Markdown of one line without a tag, a cell border or a link."""
    made = markdown_text(words)

    assert "\n" not in made
    assert "<" not in made
    assert ">" not in made
    assert "://" not in made
    assert "|" not in made.replace("\\|", "")


@given(st.text(min_size=1, max_size=30))
def test_label_never_breaks_a_picture(words: str) -> None:
    """Any text can be the title, the axis and the legend of a picture: no mathtext, no missing glyph, no warning."""
    assert "$" not in label(words).replace("\\$", "")


def test_dollars_in_a_title() -> None:
    """A title with dollars is drawn as it stands."""
    drawn = picture(curves_figure("$\\frac{x}$", "$", "库存", {"$a$": [(0, 1), (1, 2)]}), "svg").decode()

    assert "$\\frac{x}$" in drawn
    assert "\\u5e93\\u5b58" in drawn


def test_nothing_of_the_transcript_without_asking(
    replayed: tuple[Path, dict[str, object]], command: Command, tmp_path: Path
) -> None:
    """Without --include-text no shared file holds a summary, an anchor or the name of an offloaded file."""
    state, document = replayed
    secrets = set()
    for session in document["sessions"]:  # type: ignore[attr-defined]  # a JSON value
        for row in session["compactions"]:
            secrets.update(row["files"])
            secrets.update(line for line in row["summary_text"].splitlines() if len(line) > 40)
            secrets.update(line for a in row["anchors"] for line in a["content"].splitlines() if len(line) > 40)
    assert len(secrets) > 100
    outputs = [tmp_path / f"shared.{suffix}" for suffix in ("json", "jsonl", "csv", "md", "html", "svg")]
    done = command("report", "--state-dir", state, "-q", *(word for path in outputs for word in ("-o", str(path))))

    assert done.returncode == 0
    for path in outputs:
        content = path.read_text()
        assert [secret for secret in secrets if secret in content] == [], path
    assert all(s["text_omitted"] for s in orjson.loads((tmp_path / "shared.json").read_bytes())["sessions"])
    for suffix in ("md", "html"):
        assert "--include-text" in (tmp_path / f"shared.{suffix}").read_text()
