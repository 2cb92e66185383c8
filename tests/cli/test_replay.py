"""``compactctl replay`` from the outside: figures, files, dry runs, exit status."""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path
from typing import Any

import pytest

from compactctl.findings import FINDINGS
from tests.cli.conftest import Command

LONG = "long-migration-permanent-emergency.jsonl"
SHORT = "short-healthy-fix.jsonl"


def test_the_long_sample_reaches_every_tier_and_stays_in_emergency(command: Command, samples: Path) -> None:
    """With the seed's settings in view mode the sample shows what harness9's users met (issue 117)."""
    ran = command("replay", samples / LONG, "--format", "json", "--dry-run", "--measures", "none")
    session = ran.json()["sessions"][0]

    assert ran.status == 0
    assert session["turns"] == 115
    assert session["compactions_by_tier"] == {"warn": 6, "soft": 6, "full": 15, "emergency": 36}
    assert [row["turn"] for row in session["compactions"] if row["tier"] == 4] == list(range(79, 115))


@pytest.mark.parametrize("history", ["view", "write-back"])
def test_compactions_are_one_number_everywhere(command: Command, samples: Path, history: str) -> None:
    """By tier, as a measure and in the list of rows: what changed the view, and nothing that only looked on."""
    ran = command("replay", samples, "-n", "--format", "json", "--history", history, "--measures", "m8")
    for session in ran.json()["sessions"]:
        number = sum(session["compactions_by_tier"].values())
        assert session["measures"]["m8.compactions"]["value"] == number
        assert sum(row["changed"] for row in session["compactions"]) == number
        assert all(row["error"] or row["notes"] for row in session["compactions"] if not row["changed"])
        above = sum(count for tier, count in session["turns_by_tier"].items() if tier != "none")
        assert session["measures"]["m8.noop_turns"]["value"] == above - number


def test_the_tiers_stand_below_the_run_that_they_are_of(command: Command, samples: Path) -> None:
    """The row of the session without compaction has no marks of tiers."""
    lines = command("replay", samples / LONG, "-n").out.splitlines()
    [bound] = [line for line in lines if line.startswith("  without compaction")]
    [tiers] = [line for line in lines if line.startswith("  tiers")]

    assert "FE" not in bound
    assert "FE" in tiers
    assert lines.index(tiers) == lines.index(bound) - 1


def test_write_back_clears_the_permanent_emergency(command: Command, samples: Path) -> None:
    """The same session, written back: no Emergency, a few Warn turns."""
    ran = command("replay", samples / LONG, "--format", "json", "-n", "--measures", "none", "--history", "write-back")
    session = ran.json()["sessions"][0]

    assert session["compactions_by_tier"]["emergency"] == 0
    assert 0 < len(session["compactions"]) < 30


def test_a_converted_session_keeps_its_harness(command: Command, samples: Path, tmp_path: Path) -> None:
    """The head names who recorded the session, in whatever format it now is; inspect names both."""
    converted = tmp_path / "converted.jsonl"
    converted.write_bytes(command("convert", samples / "claude-code-torn-glued-and-nul.jsonl").out.encode())

    assert "  claude-code 2.1.17, 10 turns" in command("replay", converted, "-n").out
    assert "messages claude-code 2.1.17" in command("inspect", converted).out


def test_a_dry_run_gives_the_same_figures_and_writes_nothing(command: Command, samples: Path) -> None:
    """``--dry-run`` is the same replay without the store."""
    dry = command("replay", samples / LONG, "--dry-run", "--format", "json").json()["sessions"][0]
    assert list(Path.cwd().iterdir()) == []

    wet = command("replay", samples / LONG, "--format", "json").json()["sessions"][0]
    wet.pop("run")
    for session in (dry, wet):
        for row in session["compactions"]:
            row.pop("duration")

    assert wet == dry


def test_every_record_is_on_disk_and_every_file_it_names(command: Command, samples: Path) -> None:
    """The seed's layout: records as JSON lines, results as files with the stated bytes."""
    ran = command("replay", samples / LONG, "--format", "json")
    session = ran.json()["sessions"][0]
    state = Path(".compactctl")
    lines = (state / "compaction_records" / f"{session['session_id']}.jsonl").read_bytes().splitlines()
    records = [json.loads(line) for line in lines]

    assert [row["turn"] for row in records] == [row["turn"] for row in session["compactions"]]
    named = {entry["file_path"]: entry["bytes"] for row in records for entry in row["offloaded"]}
    assert len(named) == session["offloaded_files"] > 0
    assert {path: (state / path).stat().st_size for path in named} == named
    assert (state / ".gitignore").read_text() == "*\n"
    assert state.stat().st_mode & 0o777 == 0o700
    assert str(state) in ran.err


def test_the_table_shows_the_notices_and_the_bound(command: Command, samples: Path) -> None:
    """The seed's two lines, consecutive turns folded, and the same session without compaction below."""
    ran = command("replay", samples / LONG, "--dry-run", "--measures", "none")

    assert "turns 79-114 (x36): [Emergency]" in ran.out
    assert "offload(" in ran.out
    assert "tail: 6 preserved" in ran.out
    assert "without compaction" in ran.out
    assert ran.out.isprintable() or "\x1b" not in ran.out


def test_findings_that_are_not_looked_for_are_counted(command: Command, samples: Path) -> None:
    """Fewer measures find less: how many kinds of findings were looked for is said, unless all were."""
    told = {
        measures: command("replay", samples / LONG, "-n", "--measures", measures).err
        for measures in ("none", "m8", "all")
    }
    words = "kinds of findings were looked for: --measures leaves out what the others need"
    assert told["none"] == f"0 of {len(FINDINGS)} {words}\n"
    assert 0 < int(told["m8"].split()[0]) < len(FINDINGS)
    assert words not in told["all"]


def test_verbose_shows_each_compaction(command: Command, samples: Path) -> None:
    """``-v`` unfolds the notices."""
    ran = command("replay", samples / LONG, "--dry-run", "--measures", "none", "-v")

    assert ran.out.count("[Emergency]") == 36


def test_skipped_turns_change_no_figure(command: Command, samples: Path) -> None:
    """The quick path of a dry table (quiet turns skipped) shows the figures of the full one."""
    for name in (LONG, "parallel-reads-split-by-the-tail.jsonl"):
        arguments = ("replay", samples / name, "-n", "--measures", "none", "--history", "write-back")
        quick = command(*arguments).out.split("\n\n")[-1]
        full = command(*arguments, "-v").out.split("\n\n")[-1]

        assert quick == full


def test_two_runs_give_the_same_bytes(command: Command, samples: Path) -> None:
    """Same input and settings, same output."""
    first = command("replay", samples, "--dry-run", "--format", "json")
    second = command("replay", samples, "--dry-run", "--format", "json")

    assert first.out == second.out


def test_several_jobs_give_the_bytes_of_one(command: Command, samples: Path) -> None:
    """The order is that of the inputs, however many processes work."""
    one = command("replay", samples, "--dry-run", "--format", "json")
    two = command("replay", samples, "--dry-run", "--format", "json", "--jobs", "2")

    assert two.out == one.out
    assert two.status == one.status == 0


@pytest.mark.parametrize("words", ["replay", "compare -c harness9 -c codex", "tune --grid soft=0.6,0.7"])
def test_several_jobs_on_one_session_give_the_bytes_of_one(
    words: str, command: Command, samples: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A session that is alone is read by several processes, ahead and for the measures, and nothing shows it."""
    monkeypatch.setattr("compactctl.transcripts._source._WORTH_A_PROCESS", 1)
    monkeypatch.setattr("compactctl.measures._facts._CHARACTERS_WORTH_A_PROCESS", 1)
    forked: list[int] = []
    monkeypatch.setattr(os, "fork", lambda fork=os.fork: forked.append(1) or fork())
    line = (*words.split(), samples / "long-migration-permanent-emergency.jsonl", "--dry-run", "--format", "json")
    one = command(*line)
    assert not forked
    three = command(*line, "--jobs", "3")

    assert three.out == one.out
    assert three.status == one.status == 0
    # One reads ahead and two the text for the measures; a search has two more that replay.
    assert len(forked) >= 3 or not hasattr(os, "preadv")


def test_stdin_and_packed_files_are_read(
    command: Command, samples: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``-`` reads a transcript from standard input; ``.gz`` is unpacked."""
    packed = tmp_path / "s.jsonl.gz"
    packed.write_bytes(gzip.compress((samples / SHORT).read_bytes()))
    from_gz = command("replay", packed, "-n", "--format", "json").json()["sessions"][0]
    with (samples / SHORT).open("rb") as stream:
        monkeypatch.setattr("sys.stdin", type("Stdin", (), {"buffer": stream})())
        from_stdin = command("replay", "-", "-n", "--format", "json").json()["sessions"][0]

    assert from_gz["tokens"] == from_stdin["tokens"] > 0


def test_shared_formats_hold_no_transcript_text(command: Command, samples: Path) -> None:
    """JSON for sharing says that text was left out; ``--include-text`` puts it in."""
    bare = command("replay", samples / LONG, "-n", "--format", "json").json()["sessions"][0]
    full = command("replay", samples / LONG, "-n", "--format", "json", "--include-text").json()["sessions"][0]

    assert bare["text_omitted"] is True
    assert {row["summary_text"] for row in bare["compactions"]} == {None}
    assert any(row["summary_text"] for row in full["compactions"])


def test_a_manual_compaction_comes_where_it_is_asked_for(command: Command, samples: Path) -> None:
    """``--compact-at`` is repeatable."""
    ran = command("replay", samples / SHORT, "-n", "--format", "json", "--compact-at", 3, "--compact-at", 5)
    rows = ran.json()["sessions"][0]["compactions"]

    assert [(row["turn"], row["trigger"]) for row in rows] == [(3, "manual"), (5, "manual")]


def test_settings_come_from_the_nearest_file(command: Command, samples: Path) -> None:
    """A compactctl.toml above is found; a flag still wins."""
    Path("compactctl.toml").write_text("window = 30000\n[set]\nsoft = 0.65\n")
    nested = Path("a/b")
    nested.mkdir(parents=True)
    os.chdir(nested)
    ran = command("replay", samples / LONG, "-n", "--format", "json", "--window", "40k").json()

    assert ran["settings"]["options"]["soft_threshold"] == 0.65
    assert ran["sessions"][0]["window"] == 40_000


def test_options_of_the_files_own_compactor_do_not_hinder_another(command: Command, samples: Path) -> None:
    """What a file sets for its compactor is left out for one that lacks it, and told; a typing error is one still."""
    Path("compactctl.toml").write_text("[set]\nmin-tail-messages = 8\nfull = 0.7\n")
    line = ("replay", samples / SHORT, "-n", "-f", "json", "--measures", "none")
    other = command(*line, "--compactor", "dsh")
    assert other.status == 0
    # dsh calls another option of its own full: a short form means what it means to the file's compactor.
    assert other.json()["settings"]["options"]["threshold_ratio"] == 0.8
    assert (
        "compactctl.toml: left out, since they are options of progressive and not of dsh: full, min-tail-messages"
        in other.err
    )
    assert command(*line, "--compactor", "dsh", "-q").err == ""
    assert command(*line).json()["settings"]["options"]["min_tail_messages"] == 8

    Path("compactctl.toml").write_text("[set]\nmin_tale = 8\n")
    wrong = command(*line, "--compactor", "dsh")
    assert wrong.status == 2
    assert "compactctl.toml: dsh has no option 'min_tale'" in wrong.err

    Path("compactctl.toml").write_text('compactor = "dsh"\n[set]\nsoft = 0.7\n')
    assert "compactctl.toml: dsh has no option 'soft'" in command(*line).err


@pytest.mark.parametrize(
    ("arguments", "status", "words"),
    [
        (["replay"], 2, "needs at least one transcript"),
        (["replay", "nowhere.jsonl"], 2, "nowhere.jsonl"),
        (["replay", "*.nothing"], 4, "matches nothing"),
        (["replay", "empty"], 4, "empty"),
        (["replay", "{sample}", "--compactor", "progresive"], 2, "Did you mean 'progressive'"),
        (["replay", "{sample}", "--set", "sotf=0.7"], 2, "Did you mean 'soft'"),
        (["replay", "{sample}", "--set", "soft=0.9"], 2, "soft_threshold 0.9 is above full_threshold 0.8"),
        (["replay", "{sample}", "--window", "big"], 2, "--window: 'big' is not a whole number"),
        (["replay", "{sample}", "--window", "0"], 2, "at least 1"),
        (["replay", "{sample}", "--meter", "bytes5"], 2, "unknown meter 'bytes5'"),
        (["replay", "{sample}", "--summarizer", "sub"], 2, "unknown summarizer 'sub'"),
        (["replay", "{sample}", "--format", "yaml"], 2, "unknown format 'yaml'"),
        (["replay", "{sample}", "--output", "x.yaml"], 2, "no format is known by its suffix"),
        (["replay", "{sample}", "--output", "no/such/dir/x.json"], 2, "does not exist"),
        (["replay", "{sample}", "--config", "no.toml"], 2, "no such settings file"),
        (["replay", "{sample}", "--history", "both"], 2, "one of view, write-back"),
    ],
)
def test_a_users_mistake_is_one_line_and_its_exit_status(
    command: Command, samples: Path, arguments: list[str], status: int, words: str
) -> None:
    """No traceback: what is wrong, and what would do."""
    Path("empty").mkdir()
    ran = command(*(argument.format(sample=samples / SHORT) for argument in arguments))

    assert ran.status == status, ran.err
    assert words in ran.err
    assert "Traceback" not in ran.err
    assert len(ran.err.strip().splitlines()) == 1
    assert ran.out == ""


def test_a_session_whose_model_calls_are_all_damaged_is_told(command: Command, tmp_path: Path) -> None:
    """NaN, which some programs write, is no JSON: a replay of no turn says that lines are missing."""
    reply = '{"role":"assistant","content":"x","usage":{"prompt":NaN,"output":1}}'
    (tmp_path / "nan.jsonl").write_text('{"role":"user","content":"go"}\n' + f"{reply}\n" * 3)
    ran = command("replay", tmp_path / "nan.jsonl", "--dry-run")

    assert ran.status == 0
    assert "no model call is left in it, and so no turn to replay; 3 lines could not be used" in ran.err


def test_bad_input_never_hides_good_input(command: Command, samples: Path, tmp_path: Path) -> None:
    """Everything readable is replayed; the others are named, and the exit status is 3."""
    bad = tmp_path / "bad"
    bad.mkdir()
    (bad / "empty.jsonl").touch()
    (bad / "binary.jsonl").write_bytes(bytes(range(256)) * 20)
    (bad / "nested.jsonl").write_text("[" * 100_000)
    os.mkfifo(bad / "pipe")
    named = [bad / name for name in ("empty.jsonl", "binary.jsonl", "nested.jsonl", "pipe")]
    ran = command("replay", *named, samples / SHORT, "-n", "--format", "json")

    assert ran.status == 3
    assert len(ran.json()["sessions"]) == 1
    for path in named:
        assert sum(str(path) in line for line in ran.err.splitlines()) == 1, ran.err


def test_two_inputs_with_one_id_are_told_apart(command: Command, samples: Path, tmp_path: Path) -> None:
    """Both get digits of their input's hash, and a warning says so."""
    text = (samples / SHORT).read_text()
    (tmp_path / "a.jsonl").write_text(text)
    (tmp_path / "b.jsonl").write_text(text + '{"role": "user", "content": "and once more"}\n')
    ran = command("replay", tmp_path / "a.jsonl", tmp_path / "b.jsonl", "-n", "--format", "json")
    ids = [session["session_id"] for session in ran.json()["sessions"]]

    assert len(set(ids)) == 2
    assert all(ran.err.count(id) >= 1 for id in ids)


def test_the_window_is_named_with_its_source(command: Command, samples: Path) -> None:
    """Recorded, given, or assumed: the output says which."""

    def window(*arguments: Any) -> tuple[int, str]:
        session = command("replay", *arguments, "-n", "--format", "json").json()["sessions"][0]
        return session["window"], session["window_source"]

    assert window(samples / SHORT) == (128_000, "recorded")
    assert window(samples / SHORT, "--window", "64k") == (64_000, "flag")


def test_a_state_directory_that_cannot_be_written_is_exit_5(command: Command, samples: Path) -> None:
    """The store is the product of a replay: where it cannot be written, the command says so and fails."""
    Path(".compactctl").write_text("in the way")
    ran = command("replay", samples / SHORT)

    assert ran.status == 5
    assert ".compactctl" in ran.err
    assert "Traceback" not in ran.err


def test_a_compactor_that_tears_tool_pairs_is_seen_by_verify(command: Command, samples: Path) -> None:
    """What a view did to tool pairs is stored with its turn, and verify warns of it."""
    Path("tears.py").write_text(
        '"""Keeps the newest messages, whatever they are."""\n\n\nclass Tears:\n'
        "    def compact(self, messages):\n        return messages[-3:] if len(messages) > 10 else messages\n"
    )
    sample = samples / "parallel-reads-split-by-the-tail.jsonl"
    assert command("replay", sample, "--compactor", "tears.py:Tears", "--measures", "none").status == 0
    torn = command("verify")

    assert "do not belong together" in torn.out + torn.err
    assert command("replay", sample, "--state-dir", "whole", "--measures", "none").status == 0
    assert "do not belong together" not in command("verify", "--state-dir", "whole").out


def test_a_replay_says_where_it_kept_its_results_and_looks_at_nothing_else(command: Command, samples: Path) -> None:
    """The last notice names the state directory; what other processes have in it at that moment is not looked at."""
    odd = Path(".compactctl")
    odd.mkdir(mode=0o700)
    (odd / "turns").mkdir()
    (odd / "other").mkdir(mode=0o000)
    ran = command("replay", samples / "short-healthy-fix.jsonl")

    assert ran.status == 0, ran.err
    assert ran.err.splitlines()[-1] == "results, records and turns: .compactctl"


def test_a_run_never_takes_the_name_of_another(command: Command, samples: Path) -> None:
    """Where the turns of a run were lost and its records are left, the next one has a number of its own."""
    line = ("replay", samples / "parallel-reads-split-by-the-tail.jsonl", "--window", "5000", "-f", "json")
    first = command(*line).json()["sessions"][0]["run"]
    for log in Path(".compactctl/turns").iterdir():
        log.unlink()
    second = command(*line).json()["sessions"][0]["run"]
    assert (first.rpartition("-")[2], second.rpartition("-")[2]) == ("1", "2")
    verified = command("verify")
    assert f"run {first} has no start line" in verified.out
    assert second not in verified.out
