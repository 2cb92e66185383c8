"""``check`` and ``init``: budgets in CI, from the same verdicts in every format."""

from __future__ import annotations

import json
import os
import tomllib
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from junitparser import JUnitXml

from tests.cli.conftest import Command

LONG = "long-migration-permanent-emergency.jsonl"

ROOT = Path(__file__).parents[2]
BUDGETS = """
[[budgets]]
measure = "m1.overshoot_turns"
max = 0

[[budgets]]
measure = "tokens"
aggregate = "sum"
max = 1000

[[budgets]]
measure = "summarizer_calls"
max = 1000
"""


@pytest.fixture
def sample(samples: Path) -> Path:
    """One short sample."""
    return samples / "short-healthy-fix.jsonl"


def settings(content: str) -> None:
    """Write the settings file of the working directory."""
    Path("compactctl.toml").write_text(content)


def test_one_set_of_verdicts_makes_text_json_junit_annotations_and_status(command: Command, sample: Path) -> None:
    """One broken budget of three: every output says so, and the status is 1."""
    settings(BUDGETS)
    ran = command("check", sample, "-o", "c.json", "-o", "c.junit.xml", "-o", "c.csv", "-o", "c.md")
    assert ran.status == 1
    assert "2 of 3 budgets held over 1 session, 1 FAILED" in ran.out
    assert "FAIL sum tokens must be at most 1000" in ran.out
    document = json.loads(Path("c.json").read_text())
    assert [(v["measure"], v["passed"], v["fails"]) for v in document["verdicts"]] == [
        ("m1.overshoot_turns", True, False),
        ("tokens", False, True),
        ("summarizer_calls", True, False),
    ]
    (suite,) = JUnitXml.fromfile("c.junit.xml")
    assert (suite.tests, suite.failures, suite.errors) == (3, 1, 0)
    failed = [case for case in suite if case.result]
    assert [case.classname for case in failed] == ["compactctl.tokens"]
    value = document["verdicts"][1]["value"]
    assert f"{value:,.0f}" in failed[0].result[0].message
    assert Path("c.csv").read_text().count("\n") == 4
    assert "1 FAILED" in Path("c.md").read_text()
    github = command("check", sample, "--format", "github")
    assert github.status == 1
    assert github.out.splitlines()[0].startswith("::error ")
    assert "title=compactctl%3A tokens::sum tokens must be at most 1000" in github.out


def test_the_step_summary_of_github_gets_the_verdicts(
    command: Command, sample: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Where GITHUB_STEP_SUMMARY is set, the verdicts are appended to what is there."""
    summary = tmp_path / "summary.md"
    summary.write_text("before\n")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))
    settings(BUDGETS)
    command("check", sample)
    assert summary.read_text().startswith("before\n## compactctl check")
    assert "1 FAILED" in summary.read_text()


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("", "no budget to check"),
        ('[[budgets]]\nmeasure = "m1.overshoot_turn"\nmax = 0\n', "Did you mean 'm1.overshoot_turns'?"),
        ('[[budgets]]\nmeasure = "tokens"\nmax = "many"\n', "is not a number"),
        ('budgets = "none"\n', "must be a list of tables"),
    ],
)
def test_a_wrong_budget_is_status_2_with_the_nearest_name(
    command: Command, sample: Path, content: str, told: str
) -> None:
    """A budget that would silently pass is an error instead."""
    settings(content)
    ran = command("check", sample)
    assert (ran.status, ran.out) == (2, "")
    assert told in ran.err


def test_a_warning_fails_only_where_asked(command: Command, sample: Path) -> None:
    """level = "warn" is shown with status 0; --fail-on warn makes it 1; JUnit shows it as skipped."""
    settings('[[budgets]]\nmeasure = "tokens"\nmax = 1\nlevel = "warn"\n')
    ran = command("check", sample, "-o", "w.junit.xml")
    assert ran.status == 0
    assert "1 broken as a warning" in ran.out
    (suite,) = JUnitXml.fromfile("w.junit.xml")
    assert (suite.failures, suite.skipped) == (0, 1)
    assert command("check", sample, "--fail-on", "warn").status == 1
    assert command("check", sample, "--fail-on", "never").status == 2


def test_a_baseline_is_small_stable_and_says_loudly_what_differs(command: Command, samples: Path) -> None:
    """The file is the same when written twice; other settings, windows and sessions are told, and an increase fails."""
    settings('[[budgets]]\nmeasure = "tokens"\naggregate = "sum"\nmax_increase = "5%"\n')
    one, two = samples / "one-batch-none-to-emergency.jsonl", samples / "short-healthy-fix.jsonl"
    base = ("--baseline", "b.json")
    assert command("check", one, two).status == 1
    assert command("check", one, two, *base).status == 2
    assert command("check", one, two, *base, "--update-baseline").status == 0
    first = Path("b.json").read_bytes()
    command("check", two, one, *base, "--update-baseline")
    assert Path("b.json").read_bytes() == first
    assert len(first) < 4000
    same = command("check", one, two, *base)
    assert (same.status, same.err) == (0, "")
    other = command("check", one, *base, "--window", "150000", "--set", "soft=0.6")
    assert "setting options.soft_threshold was 0.7 in the baseline and is 0.6" in other.err
    assert "of the baseline not replayed" in other.err
    assert "with another window than in the baseline" in other.err
    lower = json.loads(first)
    for session in lower["sessions"].values():
        session["figures"]["tokens"] = int(session["figures"]["tokens"] * 0.9)
    Path("b.json").write_text(json.dumps(lower))
    assert command("check", one, two, *base).status == 1


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[]",
        "{",
        '{"compactctl_baseline": 99, "settings": {}, "sessions": {}}',
        '{"compactctl_baseline": 1, "settings": {}, "sessions": {"a": {"figures": {"tokens": "1"}}}}',
        '{"compactctl_baseline": 1, "settings": 3, "sessions": []}',
    ],
)
def test_a_file_that_is_no_baseline_is_status_2(command: Command, sample: Path, content: str) -> None:
    """A damaged baseline is told with its name, never compared."""
    settings(BUDGETS)
    Path("b.json").write_text(content)
    ran = command("check", sample, "--baseline", "b.json")
    assert (ran.status, ran.out) == (2, "")
    assert "b.json" in ran.err
    assert "Traceback" not in ran.err


@pytest.mark.parametrize("more", [(), ("--update-baseline",)])
def test_a_baseline_that_never_ends_is_not_read(command: Command, sample: Path, more: tuple[str, ...]) -> None:
    """A device or a pipe in the place of the baseline is refused at once, and costs neither memory nor time."""
    settings(BUDGETS)
    os.mkfifo("pipe")
    for path in ("/dev/zero", "pipe"):
        ran = command("check", sample, "--baseline", path, *more)
        assert (ran.status, ran.out) == (2, "")
        assert "must be a regular file" in ran.err


def test_hostile_names_stay_text_in_annotations_and_junit(command: Command, tmp_path: Path) -> None:
    """A session id with line ends, markup and workflow commands makes no second command and no broken XML."""
    hostile = "x\n::error::forged\r%0A<b>&\"'\x1b[2J\x00\ud800"
    row = {"compactctl": 1, "session_id": hostile}
    message = {"role": "user", "content": "hi"}
    lines = [json.dumps(row), json.dumps(message), json.dumps({"role": "assistant", "content": "hello"})]
    (tmp_path / "h.jsonl").write_text("\n".join(lines) + "\n")
    settings('[[budgets]]\nmeasure = "tokens"\nmax = -1\n')
    ran = command("check", tmp_path / "h.jsonl", "--format", "github", "-o", "h.junit.xml")
    assert ran.status == 1
    assert [line[:8] for line in ran.out.splitlines() if line.startswith("::")] == ["::error "]
    assert "\x1b" not in ran.out
    (suite,) = JUnitXml.fromfile("h.junit.xml")
    assert suite.failures == 1
    assert ET.parse("h.junit.xml").getroot().tag == "testsuites"


def test_at_most_ten_annotations_of_a_kind_and_how_many_more(command: Command, sample: Path) -> None:
    """GitHub keeps ten of a kind: the rest is counted in one line."""
    settings('[[budgets]]\nmeasure = "tokens"\nmax = 0\n' * 13)
    out = command("check", sample, "--format", "github").out
    assert sum(line.startswith("::error ") for line in out.splitlines()) == 10
    assert "and 3 more of the level error" in out


def test_init_writes_budgets_that_the_same_sessions_hold(command: Command, samples: Path) -> None:
    """What init writes is valid, commented, and checks clean on the sessions it was taken from."""
    assert command("init", samples).status == 0
    written = Path("compactctl.toml").read_text()
    assert "[[budgets]]" in written
    assert "# soft_threshold = 0.7" in written
    assert command("check", samples).status == 0
    refused = command("init", samples)
    assert (refused.status, Path("compactctl.toml").read_text()) == (2, written)
    assert command("init", "--force", "--set", "soft=0.65").status == 0
    assert "\nsoft_threshold = 0.65\n" in Path("compactctl.toml").read_text()
    assert command("init", "--output", "-").out.startswith("# Settings of compactctl.")


def test_init_holds_what_must_never_happen_to_a_healthy_bound(command: Command, samples: Path) -> None:
    """A sample with faults and a spiral gets bounds of 0 and 2 as warnings that name today's value, not its own."""
    sample = samples / "long-migration-permanent-emergency.jsonl"
    today = command("replay", sample, "-n", "-f", "json").json()["sessions"][0]["measures"]
    assert today["m5.faults"]["value"] > 0
    assert today["m8.spiral"]["value"] > 2
    written = command("init", sample, "--output", "-").out
    faults = f"# broken today: {today['m5.faults']['value']} at worst, in 1 of 1 sessions; mend it, then drop the level"
    assert f'{faults}\n[[budgets]]\nmeasure = "m5.faults"\nmax = 0\nlevel = "warn"\n' in written
    assert 'measure = "m8.spiral"\nmax = 2\nlevel = "warn"\n' in written
    assert 'measure = "m1.overshoot_turns"\nmax = 0\n\n' in written


def test_init_writes_the_settings_that_it_was_given(command: Command, samples: Path) -> None:
    """Compactor, window, history, meter and options are in the file, so that check replays as init did."""
    given = ("-c", "harness9", "-w", "90000", "--history", "view", "--meter", "o200k_base", "--set", "soft=0.65")
    assert command("init", samples / "short-healthy-fix.jsonl", *given).status == 0
    checked = command("check", samples / "short-healthy-fix.jsonl", "-f", "json").json()["settings"]
    assert (checked["compactor"], checked["history"], checked["meter"]) == ("harness9", "view", "o200k_base")
    assert checked["options"]["soft_threshold"] == 0.65
    assert "\nwindow = 90000\n" in Path("compactctl.toml").read_text()


def test_sessions_that_hold_a_broken_budget_are_not_listed_under_it(command: Command, samples: Path) -> None:
    """Of two sessions one has faults: only that one is named under the budget that it breaks."""
    bad, good = samples / "long-migration-permanent-emergency.jsonl", samples / "short-healthy-fix.jsonl"
    settings('[[budgets]]\nmeasure = "m5.faults"\nmax = 0\n')
    ran = command("check", bad, good, "-o", "c.json")
    names = [session["session_id"] for session in json.loads(Path("c.json").read_text())["sessions"]]
    assert ran.status == 1
    assert names[0] in ran.out
    assert names[1] not in ran.out


def test_a_baseline_that_no_budget_looks_at_is_told(command: Command, samples: Path) -> None:
    """A baseline gates nothing by being there: without a budget against it, that is said."""
    Path("b.toml").write_text('budgets = [{measure = "m5.faults", max = 100}]\n')
    line = ("check", samples / "short-healthy-fix.jsonl", "--config", "b.toml", "--baseline", "b.json")
    told = "warning: no budget looks at the baseline; give one a max_increase or max_decrease (see `init`)\n"
    assert told in command(*line, "--update-baseline").err
    assert told in command(*line).err
    Path("b.toml").write_text('budgets = [{measure = "tokens", max_increase = "1%"}]\n')
    assert told not in command(*line, "--update-baseline").err


def test_a_dry_run_leaves_the_baseline_alone(command: Command, samples: Path) -> None:
    """--dry-run writes nothing, with --update-baseline neither a new file nor over an old one."""
    Path("b.toml").write_text('budgets = [{measure = "tokens", max_increase = "1%"}]\n')
    line = ("check", samples / LONG, "--config", "b.toml", "--baseline", "b.json", "--update-baseline")
    assert "nothing was written to b.json" in command(*line, "-n").err
    assert not Path("b.json").exists()
    command(*line)
    before = Path("b.json").read_bytes()
    ran = command(*line, "-n", "--history", "write-back")
    assert ran.status == 1
    assert Path("b.json").read_bytes() == before


def test_sessions_that_a_baseline_lacks_are_left_out_of_it(command: Command, samples: Path) -> None:
    """A session that is new, and that lacks the figure, breaks no budget against the baseline."""
    Path("b.toml").write_text('budgets = [{measure = "m3.cost_usd", aggregate = "sum", max_increase = "5%"}]\n')
    line = ("check", samples / LONG, "--config", "b.toml", "--baseline", "b.json")
    command(*line, "--update-baseline")
    ran = command(*line, samples / "chat-orphan-missing-and-repeated-ids.json")
    assert ran.status == 0, ran.out
    assert "1 session (chat-orphan-missing-and-repeated-ids-a696a35d) not in the baseline: left out" in ran.out


def test_init_writes_what_it_measured_under(command: Command, samples: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Settings of the environment decide the bounds, so they stand beside them; a hidden settings file is named."""
    for name, value in (("WINDOW", "60k"), ("RESERVE", "500"), ("HISTORY", "write-back")):
        monkeypatch.setenv(f"COMPACTCTL_{name}", value)
    Path("pyproject.toml").write_text("[tool.compactctl]\noverhead = 7\n")
    ran = command("init", samples / LONG)
    found = tomllib.loads(Path("compactctl.toml").read_text())
    assert {name: found[name] for name in ("window", "reserve", "history")} == {
        "window": 60_000,
        "reserve": 500,
        "history": "write-back",
    }
    assert "warning: compactctl.toml is read from now on, and not " in ran.err


def test_what_rose_is_shown_with_what_it_was(command: Command, samples: Path) -> None:
    """The sessions that moved most come first, each with its figure in the baseline, in text, JUnit and annotations."""
    Path("b.toml").write_text('budgets = [{measure = "tokens", aggregate = "sum", max_increase = "1%"}]\n')
    line = ("check", samples / LONG, samples / "short-healthy-fix.jsonl", "--config", "b.toml", "--baseline", "b.json")
    command(*line, "--update-baseline")
    worse = command(*line, "--history", "write-back", "-o", "c.junit.xml", "-o", "c.json")
    (worst,) = json.loads(Path("c.json").read_text())["verdicts"][0]["worst_sessions"]
    assert worst["value"] > worst["baseline"]
    words = f"b984967e-d0cc-46c7-ada9-6449f83fe2c3: {worst['value']:,.0f} (baseline {worst['baseline']:,.0f})"
    assert f"         {words}\n" in worse.out
    junit = Path("c.junit.xml").read_text()
    assert words in junit
    assert '<property name="not_the_same_as_the_baseline" value="setting history was view' in junit
    assert words in command(*line, "--history", "write-back", "-f", "github").out


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("{", "not valid JSON"),
        ("{}", "it has no 'compactctl_baseline'"),
        ("[]", "not a baseline of compactctl: it is no object"),
        ('{"compactctl_baseline": 1, "settings": {}, "sessions": []}', "its sessions are no object"),
    ],
)
def test_a_file_that_is_no_baseline_is_told_in_plain_words(
    content: str, words: str, command: Command, samples: Path
) -> None:
    """What is wrong with it, and how it is written anew; no name of a Python error."""
    Path("b.toml").write_text('budgets = [{measure = "tokens", max_increase = "1%"}]\n')
    Path("b.json").write_text(content)
    ran = command("check", samples / LONG, "--config", "b.toml", "--baseline", "b.json")
    assert ran.status == 2
    assert words in ran.err
    assert "--update-baseline" in ran.err
    assert "Error" not in ran.err


def test_the_committed_budgets_hold_and_a_worse_threshold_breaks_them(command: Command, samples: Path) -> None:
    """This project checks its own samples in CI: it passes as committed and fails when Emergency comes too late."""
    config = ROOT / ".ci" / "compactctl.toml"
    baseline = ROOT / ".ci" / "compactctl-baseline.json"
    arguments = ("check", samples, "--config", config, "--baseline", baseline)
    good = command(*arguments, "-o", "good.junit.xml")
    assert (good.status, good.err.splitlines()[-1]) == (0, "wrote good.junit.xml")
    assert "baseline" not in good.err
    assert all(suite.failures == 0 for suite in JUnitXml.fromfile("good.junit.xml"))
    worse = command(*arguments, "--set", "soft=0.05", "--set", "warn=0.02", "-o", "worse.junit.xml")
    assert worse.status == 1
    assert sum(suite.failures for suite in JUnitXml.fromfile("worse.junit.xml")) >= 1


RISE = 'budgets = [{measure = "tokens", aggregate = "sum", max_increase = "5%"}]\n'


def test_a_baseline_is_never_replaced_by_one_that_holds_less(command: Command, samples: Path, tmp_path: Path) -> None:
    """A session that cannot be read, or is not among the inputs, leaves the baseline as it was, and that fails."""
    Path("b.toml").write_text(RISE)
    one, two = tmp_path / "one.jsonl", tmp_path / "two.jsonl"
    one.write_bytes((samples / LONG).read_bytes())
    two.write_bytes((samples / "short-healthy-fix.jsonl").read_bytes())
    line = ("check", "--config", "b.toml", "--baseline", "b.json", "--update-baseline", "-q")
    assert command(*line, one, two).status == 0
    before = Path("b.json").read_bytes()
    gone = command(*line, one)
    assert gone.status == 1
    assert "b.json is left as it was: 1 session (" in gone.err
    assert "of it not among the inputs; remove the file to begin anew" in gone.err
    two.write_bytes(b"garbage")
    unread = command(*line, one, two)
    assert unread.status == 3
    assert "b.json is left as it was: not all could be judged that was asked for" in unread.err
    assert Path("b.json").read_bytes() == before
    Path("b.json").unlink()
    assert command(*line, one, two).status == 3
    assert not Path("b.json").exists()


def test_a_file_that_is_no_baseline_is_written_anew(command: Command, sample: Path) -> None:
    """--update-baseline does what the message about a damaged baseline says, and tells what was there."""
    Path("b.toml").write_text(RISE)
    Path("b.json").write_text("{")
    ran = command("check", sample, "--config", "b.toml", "--baseline", "b.json", "--update-baseline")
    assert ran.status == 0
    assert "warning: b.json: not valid JSON" in ran.err
    assert len(json.loads(Path("b.json").read_text())["sessions"]) == 1


def test_what_could_not_be_judged_is_told_in_every_format(command: Command, sample: Path, tmp_path: Path) -> None:
    """A file that cannot be read stands in JSON, JUnit, annotations, Markdown and text, not on stderr alone."""
    settings(BUDGETS)
    bad = tmp_path / "bad<1>.jsonl"
    bad.write_text("no transcript\n")
    ran = command("check", sample, bad, "-o", "c.json", "-o", "c.junit.xml", "-o", "c.md", "-f", "github")
    assert ran.status == 3
    (words,) = json.loads(Path("c.json").read_text())["failed"]
    assert words.startswith(str(bad))
    (suite,) = JUnitXml.fromfile("c.junit.xml")
    assert (suite.tests, suite.failures, suite.errors) == (4, 1, 1)
    (case,) = [case for case in suite if case.classname == "compactctl.inputs"]
    assert case.name == words
    assert f"NOT JUDGED: {bad}" in " ".join(Path("c.md").read_text().split())
    assert "::error title=compactctl%3A not judged::" in ran.out


def test_replay_tells_what_it_could_not_read_in_junit_and_json(command: Command, sample: Path, tmp_path: Path) -> None:
    """A CI that looks at the file alone sees that an input is missing; compare, tune and inspect say so, too."""
    bad = tmp_path / "bad.jsonl"
    bad.write_text("no transcript\n")
    assert command("replay", sample, bad, "-n", "-o", "r.junit.xml", "-o", "r.json").status == 3
    (suite,) = JUnitXml.fromfile("r.junit.xml")
    assert suite.errors == 1
    assert len(json.loads(Path("r.json").read_text())["failed"]) == 1
    assert len(command("inspect", sample, bad, "-f", "json").json()["failed"]) == 1
    assert len(command("compare", sample, bad, "-f", "json").json()["failed"]) == 1
    assert len(command("tune", sample, bad, "--grid", "soft=0.7", "-n", "-f", "json").json()["failed"]) == 1
    assert "NOT COMPARED: " in command("compare", sample, bad).out


def test_init_looks_where_it_will_write_before_the_work(command: Command, samples: Path) -> None:
    """A directory that is not there is usage, told before a session is read; so with a baseline and convert."""
    Path("b.toml").write_text(RISE)
    for line in (
        ("init", samples, "-o", "nowhere/x.toml"),
        ("check", samples, "--config", "b.toml", "--baseline", "nowhere/b.json", "--update-baseline"),
        ("convert", samples / LONG, "-o", "nowhere/x.jsonl"),
    ):
        ran = command(*line)
        assert (ran.status, ran.err.count("\n")) == (2, 1), ran.err
        assert "the directory nowhere does not exist" in ran.err
