"""What commands say on a terminal: tables that fit, one word a thing, messages that help."""

from __future__ import annotations

import csv
import io
import os
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import Command
from tests.pseudo_terminal import written_to_terminal

ROOT = Path(__file__).parents[2]
LONG = "long-migration-permanent-emergency"
LONG_ID = "b984967e-d0cc-46c7-ada9-6449f83fe2c3"


def on_terminal(width: int, *arguments: object) -> str:
    """Give what a command writes to a terminal of a width."""
    environment = {"PATH": os.environ["PATH"], "COLUMNS": str(width), "TERM": "xterm", "NO_COLOR": "1", "HOME": "/none"}
    command = [sys.executable, "-m", "compactctl", *map(str, arguments)]
    return written_to_terminal(command, environment).replace("\r\n", "\n")


@pytest.mark.parametrize("width", [80, 100])
def test_replay_fits_the_terminal(width: int) -> None:
    """Each session is one line however narrow the terminal, with an id that is cut where it stays the only one."""
    told = on_terminal(width, "replay", "sample_sessions", "-n", "-q", "--no-config")
    table = told[told.rindex("\nsession ") + 1 :].split("\n\n")[0].splitlines()

    assert [line for line in told.splitlines() if len(line) > width] == []
    assert len([line for line in table if line.startswith("b984967e… ")]) == 1
    assert "all 10 sessions" in told


def test_replay_and_report_show_one_table(command: Command, samples: Path) -> None:
    """The table and the findings of `report` are those of `replay`, to the letter."""
    parts = [
        command("replay", samples, "--state-dir", "s", "--no-config").out,
        command("report", "--state-dir", "s", "--no-config").out,
    ]
    tables = [part[part.index("\nsession ") :].split("\n\n")[0] for part in parts]
    findings = [part[part.index("What to look at") :].split("\n\n")[0] for part in parts]

    assert tables[0] == tables[1]
    assert findings[0] == findings[1]
    assert "  error summary-every-turn in 3 sessions, worst in b984967e" in findings[0]


def test_a_row_without_compaction_only_where_it_differs(command: Command, samples: Path) -> None:
    """A session in which nothing happened has no second row that says the same again."""
    quiet = command("replay", samples / "short-healthy-fix.jsonl", "-n").out
    busy = command("replay", samples / f"{LONG}.jsonl", "-n").out

    assert "\n  without compaction" not in quiet
    assert busy.count("\n  without compaction") == 1


def test_tokens_are_named(command: Command, samples: Path) -> None:
    """What is sent is told in real tokens and in decision tokens, each under its own name, with the cost."""
    told = command("replay", samples / "claude-code-automatic-compaction.jsonl", "-n").out
    rows = list(csv.DictReader(io.StringIO(command("replay", samples / f"{LONG}.jsonl", "-n", "-f", "csv").out)))
    heads = told[: told.index("\n02455a84", 1)].splitlines()[-2:]

    # 7.1 million as a provider counts, 3.2 million as the compactor does: the ratio 2.07 and the overhead.
    assert " 7.1M " in told.split("\n02455a84")[-1]
    assert heads[0].split().count("real") == 3
    assert heads[0].split().count("decision") == 3
    assert "cost" in heads[0]
    assert rows[0]["sent_real_tokens"] == rows[0]["m2.tokens_sent"]
    assert rows[0]["sent_decision_tokens"] != ""


def test_failed_turns_have_one_form(command: Command, samples: Path) -> None:
    """What a provider would refuse is `N failed` in the table, in Markdown, on the page and in its title."""
    out = ["-o", "r.md", "-o", "r.html"]
    path = samples / "codex-compacted-at-its-window.jsonl"
    told = command("replay", path, "-n", "--window", 30_000, *out)

    assert "  44, 8 failed  " in told.out
    assert "| 44, 8 failed |" in Path("r.md").read_text()
    assert ">44, 8 failed<" in Path("r.html").read_text()
    assert ", 8 failed</h1>" in Path("r.html").read_text()


def test_the_note_on_recall_is_told_once(command: Command, samples: Path) -> None:
    """Six sessions with measures need the disclaimer of M6 once."""
    assert command("replay", samples, "-n").out.count("keyword survival overstates recall") == 1


def test_runs_of_one_session_are_told_apart(command: Command, samples: Path) -> None:
    """`--all-runs` names run and compactor of each row, on the terminal, in Markdown and on the page."""
    path = samples / f"{LONG}.jsonl"
    for compactor in ("progressive", "truncate"):
        command("replay", path, "-c", compactor, "--state-dir", "s", "-q")
    told = command("report", "--all-runs", "--state-dir", "s", "-o", "r.md", "-o", "r.html", "-q").out
    rows = [line for line in told.splitlines() if line.startswith(LONG_ID)]

    assert sorted(row.split()[2] for row in rows) == ["progressive", "truncate"]
    for run in (row.split()[1] for row in rows):
        assert f"| {run} |" in Path("r.md").read_text()
        assert f"run {run}, " in Path("r.html").read_text()


def test_runs_are_counted_as_runs(command: Command, samples: Path) -> None:
    """Two runs of a session are one session and two runs, in the head, the totals, the findings and what is missing."""
    path = samples / "one-batch-none-to-emergency.jsonl"
    for history in ("view", "write-back"):
        command("replay", path, "--history", history, "--state-dir", "s", "-q")
    told = command("report", "--all-runs", "--state-dir", "s", "-o", "r.md", "-o", "r.html", "-q").out

    assert "  sessions     1 in 2 runs (messages)" in told
    assert "\nall 2 runs " in told
    assert "error task-gone in 2 runs, worst in " in told
    assert "(2 of 2 runs)" in told
    assert "## compactctl 0.1.0: 2 runs" in Path("r.md").read_text()
    assert "2 of 2 runs compact, 2 reach Emergency" in Path("r.html").read_text()


def test_a_run_with_fewer_measures_is_told_as_such(command: Command, samples: Path) -> None:
    """What a run left out is no zero: no summarizer cost is claimed, sums say whose they are, the rest is listed."""
    for name in (LONG, "short-healthy-fix", "one-batch-none-to-emergency"):
        command("replay", samples / f"{name}.jsonl", "--state-dir", "s", "-q")
    command("replay", samples / f"{LONG}.jsonl", "--set", "soft=0.6", "--measures", "m3", "--state-dir", "s", "-q")
    alone = command("report", LONG_ID, "--state-dir", "s").out
    together = command("report", "--state-dir", "s").out

    assert "of which n/a for the summarizer" in alone
    assert "m1, m2, m4, m5, m6, m7, m8: the run left it out (--measures)\n" in alone
    assert "of which at least 0.00 for the summarizer" in together
    assert "sums of those that have it: real tokens of 2 of 3 sessions\n" in together
    assert "the run left it out (--measures) (1 of 3 sessions)\n" in together


@pytest.mark.parametrize("format", ["csv", "markdown", "jsonl", "json"])
def test_inspect_in_other_formats(format: str, command: Command, samples: Path) -> None:
    """The facts of each session are there in every format that inspect has."""
    told = command("inspect", samples, "-f", format)

    assert told.status == 0
    assert LONG_ID in told.out
    if format == "csv":
        rows = {row["session_id"]: row for row in csv.DictReader(io.StringIO(told.out))}
        assert (rows[LONG_ID]["window_tokens"], rows[LONG_ID]["model_calls"]) == ("64000", "115")
        assert len(rows) == 10


@pytest.mark.parametrize("wanted", [("-f", "html"), ("-f", "png"), ("-o", "x.svg"), ("-o", "x.parquet")])
def test_inspect_refuses_what_it_cannot_give(wanted: tuple[str, str], command: Command, samples: Path) -> None:
    """One line that names what there is, status 2."""
    told = command("inspect", samples / f"{LONG}.jsonl", *wanted)

    assert (told.status, told.out) == (2, "")
    assert "inspect has no " in told.err
    assert "it has table, json, jsonl, csv, markdown" in told.err


@pytest.mark.parametrize("words", [("list", "meters"), ("config", "show"), ("verify",), ("gc", "--all", "-n")])
def test_format_json_is_json(words: tuple[str, ...], command: Command, samples: Path) -> None:
    """`--format json` is the same as `--json`, and another format is refused in one line."""
    command("replay", samples / "short-healthy-fix.jsonl", "-q")

    assert command(*words, "--format", "json").json() == command(*words, "--json").json()
    assert command(*words, "--format", "csv").status == 2


def test_an_unknown_command_suggests_the_nearest(command: Command) -> None:
    """A slip of the finger is answered with the command that was meant."""
    told = command("repaly", "x")

    assert told.status == 2
    assert "did you mean 'replay'?" in told.err


def test_a_directory_without_sessions_says_what_was_looked_at(command: Command) -> None:
    """How many files, that no format fits, and with -v which ones."""
    Path("d").mkdir()
    for name in "abcd":
        Path("d", f"{name}.txt").write_text("nothing\n")
    told = command("replay", "d", "-v")

    assert told.status == 4
    assert "d: 4 files looked at, and none holds a session in a format that is known" in told.err
    assert "left out: 4 no transcript: d/a.txt, d/b.txt, d/c.txt and 1 more" in told.err


def test_a_file_that_was_written_is_named(command: Command, samples: Path) -> None:
    """-o says on stderr which file it wrote, and nothing under -q."""
    path = samples / "short-healthy-fix.jsonl"

    assert "wrote x.csv\n" in command("replay", path, "-n", "-o", "x.csv").err
    assert command("replay", path, "-n", "-o", "x.csv", "-q").err == ""


def test_a_window_below_the_first_prompt_is_a_warning(command: Command, samples: Path) -> None:
    """A window that nothing fits is most likely a slip: the first prompt is named beside it."""
    told = command("replay", samples / "short-healthy-fix.jsonl", "-n", "-w", 10)

    assert "the window of 10 tokens is smaller than the first prompt (117 real tokens)" in told.err
