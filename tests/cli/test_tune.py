"""``tune`` from the command line: what it finds, writes, keeps and resumes."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
import xml.etree.ElementTree as ET
from collections.abc import Callable, Sequence
from pathlib import Path

import orjson
import pytest

from compactctl.cli._settings_file import SHAPING, Choice, with_choice
from compactctl.compactors._user import load_compactor
from compactctl.errors import SettingsError
from compactctl.ports import CompactorSpec
from compactctl.registry import plugin
from compactctl.settings import compactor_options, parse_file, setting_named
from tests.cli.conftest import Command
from tests.tuning import known

ROOT = Path(__file__).parents[2]
# Settings under which the sessions of the corpus have something to gain.
UNDER = (
    "--overhead",
    "4",
    "--summarizer",
    "opaque",
    "--summary-tokens",
    "50",
    "--set",
    "soft=0.6",
    "--set",
    "warn=0.5",
)
UNDER += ("--window", "20k")
GRID = ("--grid", "soft=0.60,0.70,0.80", "--grid", "full=0.60,0.70,0.80")


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    """Eight sessions that are told apart by their thresholds."""
    home = tmp_path / "corpus"
    home.mkdir()
    for number in range(8):
        known.matters(home / f"{number}.jsonl", number)
    return home


def test_json_holds_points_front_present_and_recommendation(command: Command, corpus: Path) -> None:
    """Of 9 points 3 are impossible; the present one is marked, and each holds options, figures and its place."""
    ran = command("tune", corpus, *GRID, "--summarizer", "opaque", "--summary-tokens", 50, "-f", "json")
    assert ran.status == 0, ran.err
    found = ran.json()
    assert found["command"] == "tune"
    assert found["grid"]["impossible"] == 3
    assert len(found["points"]) == 6
    assert [p["options"] for p in found["points"] if p["present"]] == [{"soft_threshold": 0.7, "full_threshold": 0.8}]
    for point in found["points"]:
        assert point["passes"] is not None
        assert set(point["objectives"]) == {o["name"] for o in found["objectives"]}
        assert "m1.overshoot_turns" in point["measures"]
    assert any(point["on_front"] for point in found["points"])
    assert found["recommendation"]["reason"]
    assert len(found["split"]["tuning"]) + len(found["split"]["held_out"]) == 8
    # soft = full = 0.60 summarises at 6,000 tokens: at the last three turns of each session, each anew (history view).
    # From 0.70 on nothing is ever summarised.
    sent = {tuple(p["options"].values()): p["measures"]["summarizer_calls"]["value"] for p in found["points"]}
    assert sent[(0.6, 0.6)] == 3 * 8
    assert sent[(0.7, 0.7)] == sent[(0.8, 0.8)] == 0


def test_the_known_best_is_found(command: Command, corpus: Path) -> None:
    """From a setting that forgets and costs more, tune finds the plateau that does neither, and it holds elsewhere."""
    ran = command(
        *("tune", corpus, *GRID, "--summarizer", "opaque", "--set", "soft=0.6", "--set", "full=0.6", "-f", "json"),
        *("--write", "compactctl.toml"),
    )
    found = ran.json()
    chosen = found["recommendation"]
    assert chosen["options"]["soft_threshold"] >= 0.7, chosen
    plateau = [p["number"] for p in found["points"] if p["options"]["soft_threshold"] >= 0.7]
    assert chosen["flat_region"]["points"] == plateau
    assert chosen["number"] in plateau
    for part in ("tuning", "held_out"):
        assert chosen["against_present"][part]["cost"]["high"] < 0
        assert chosen["against_present"][part]["recall"]["low"] > 0.3
    written = parse_file(Path("compactctl.toml").read_text(), "compactctl.toml")
    assert written["set"] == chosen["options"]
    assert "# tune: Chosen by compactctl tune" in Path("compactctl.toml").read_text()


def test_where_nothing_matters_it_says_so(command: Command, tmp_path: Path) -> None:
    """On sessions that come near no threshold, the result says that and recommends nothing."""
    home = tmp_path / "short"
    home.mkdir()
    for number in range(6):
        known.does_not_matter(home / f"{number}.jsonl", number)
    ran = command("tune", home, *GRID)
    assert ran.status == 0
    assert "Recommended: nothing" in ran.out
    assert "nothing here matters" in ran.out


def test_any_number_of_jobs_gives_the_same_bytes(command: Command, corpus: Path) -> None:
    """Two processes write what one writes."""
    arguments = ("tune", corpus, *GRID, "--summarizer", "opaque", "-f", "json", "-n")
    assert command(*arguments, "-j", 2).out == command(*arguments, "-j", 1).out


def test_every_format_is_written_from_one_search(command: Command, corpus: Path, tmp_path: Path) -> None:
    """Table, csv, Markdown, a heat map and Pareto plot come from one run; html says what there is instead."""
    files = [tmp_path / f"t.{suffix}" for suffix in ("csv", "md", "svg", "png", "json")]
    outputs = [part for file in files for part in ("-o", str(file))]
    ran = command("tune", corpus, *GRID, "--summarizer", "opaque", *outputs)
    assert ran.status == 0, ran.err
    assert "Pareto front" in ran.out
    # soft 0.7 and 0.8 give the same figures: one row stands for them.
    assert "more with the same figures" in ran.out
    rows = files[0].read_text().splitlines()
    assert len(rows) == 7
    assert rows[0].startswith("point,soft_threshold,full_threshold,present,recommended,on_front")
    assert "```text" in files[1].read_text()
    assert ET.fromstring(files[2].read_bytes()).tag.endswith("svg")
    assert files[3].read_bytes().startswith(b"\x89PNG")
    assert command("tune", corpus, *GRID, "-f", "html").status == 2


def chosen(
    options: dict[str, object],
    path: str = "compactctl.toml",
    fixed: dict[str, object] | None = None,
    **settings: object,
) -> Callable[[str], str]:
    """Write a choice of these options, under these settings, into the content of a file."""
    spec = plugin("compactctl.compactors", CompactorSpec, str(settings.get("compactor", "progressive")), "compactor")
    others = compactor_options(spec, {**(fixed or {}), **options})
    under = {name: settings.get(name, setting_named(name).default) for name in SHAPING}
    choice = Choice(spec, options, others, under)
    return lambda content: with_choice(content, path, choice, ["found by trying."]).content


def test_write_puts_the_choice_into_the_settings_file_and_leaves_the_rest() -> None:
    """--write changes the option's value under a comment of how it was found; place, spelling and comments stay."""
    before = '# mine\n[set]\ntail = 8\nsoft = 0.65 # short\n\n[[budgets]]\nmeasure = "tokens"\nmax = 1\n'
    after = chosen({"soft_threshold": 0.7}, fixed={"tail": 8})(before)
    assert after == (
        "# mine\n[set]\ntail = 8\n# tune: found by trying.\nsoft = 0.7 # short\n\n"
        '[[budgets]]\nmeasure = "tokens"\nmax = 1\n'
    )
    again = chosen({"soft_threshold": 0.72}, fixed={"tail": 8})(after)
    assert again == after.replace("0.7 ", "0.72 ")
    assert parse_file(chosen({"min_tail_messages": 4})(""), "x")["set"] == {"min_tail_messages": 4}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", "[set]\n# tune: found by trying.\nsoft_threshold = 0.7\n"),
        ("jobs = 2\n", "jobs = 2\n\n[set]\n# tune: found by trying.\nsoft_threshold = 0.7\n"),
        ("jobs = 2\r\n[set]\r\nsoft=0.66\r\n", "jobs = 2\r\n[set]\r\n# tune: found by trying.\r\nsoft=0.7\r\n"),
        ("\ufeffset = {soft = 0.66} # x\n", "\ufeff# tune: found by trying.\nset = {soft = 0.7} # x\n"),
        ("set.soft = 0.66 # x\n", "# tune: found by trying.\nset.soft = 0.7 # x\n"),
        (
            'set.soft = 0.66 # x\njobs = 2\nset."early.warn" = 0.4 # y\n',
            '# tune: found by trying.\nset.soft = 0.7 # x\njobs = 2\nset."early.warn" = 0.4 # y\n',
        ),
        (
            "[set]\nsoft = 0.66\n[set.early]\nwarn = 0.4",
            "[set]\n# tune: found by trying.\nsoft = 0.7\n[set.early]\nwarn = 0.4\n",
        ),
        (
            "budgets = [\n  # all\n  {measure = 'tokens', max = 1},\n]\n",
            "budgets = [\n  # all\n  {measure = 'tokens', max = 1},\n]\n\n"
            "[set]\n# tune: found by trying.\nsoft_threshold = 0.7\n",
        ),
    ],
)
def test_write_takes_a_file_however_it_is_written(before: str, after: str) -> None:
    """Tables, braces, dotted keys, line ends and a byte order mark stay; a second time changes no value."""
    write = chosen({"soft_threshold": 0.7})
    assert write(before) == after
    assert parse_file(write(after), "x") == parse_file(after, "x")


HEADS = ("", "\ufeff", "# mine\n")
HOMES = (
    "[tool]\ncompactctl = {{ {inline} }}\n",
    "tool.compactctl = {{ {inline} }}\n",
    '["tool"."compactctl"]\n{lines}',
    "[ tool . compactctl ]\n{lines}",
    "[tool]\n{dotted}",
    "[tool.other]\nx = 1\n[tool.compactctl]\n{lines}[[tool.more]]\ny = 2\n",
)
SAID = (
    {},
    {"window": "30000"},
    {"window": "30000", "history": "'view'", "meter": "'calibrated'"},
    {"set": "{ offload = 4000 }"},
    {"set.soft": "0.66", "set.tail": "8"},
    {'"set"."soft"': "0.66", "jobs": "2", "set.'a.b'": "1"},
)


@pytest.mark.parametrize("ends", [True, False])
@pytest.mark.parametrize("said", SAID)
@pytest.mark.parametrize("home", HOMES)
@pytest.mark.parametrize("head", HEADS)
def test_write_makes_what_replay_will_read_or_says_that_it_cannot(
    head: str, home: str, said: dict[str, str], ends: bool
) -> None:
    """However a pyproject is written, it holds the choice afterwards and all else as before, or is left alone."""
    pairs = [f"{name} = {value}" for name, value in said.items()]
    before = head + home.format(
        inline=", ".join(pairs),
        lines="".join(f"{pair}\n" for pair in pairs),
        dotted="".join(f"compactctl.{pair}\n" for pair in pairs),
    )
    before = before if ends else before.removesuffix("\n")
    write = chosen({"soft_threshold": 0.7}, "pyproject.toml")
    if "{dotted}" in home and "window" in said:
        with pytest.raises(SettingsError, match="without a loss"):
            write(before)
        return
    after = write(before)
    was, now = tomllib.loads(before.removeprefix("\ufeff")), tomllib.loads(after.removeprefix("\ufeff"))
    options = now["tool"]["compactctl"].pop("set")
    assert options.get("soft", options.get("soft_threshold")) == 0.7
    for table in (was["tool"].get("compactctl", {}), now["tool"]["compactctl"]):
        for name in ("set", *SHAPING):
            table.pop(name, None)
    was["tool"].setdefault("compactctl", {})
    assert now == was
    assert after.startswith("\ufeff") == before.startswith("\ufeff")


def test_write_tells_what_it_takes_out(command: Command, corpus: Path) -> None:
    """Options of another compactor cannot stay, and whoever wrote them hears of it."""
    Path("f.toml").write_text('compactor = "dsh"\n[set]\nretain-ratio = 0.2 # careful\n')
    ran = command("tune", corpus, *GRID, *UNDER, "--write", "f.toml", "-n")
    assert ran.status == 0
    assert "f.toml: taken out, since progressive has no such option: retain-ratio" in ran.err


def test_write_names_no_code_in_a_settings_file(command: Command, corpus: Path) -> None:
    """A choice for a user's own compactor is written without its name, which such a file may not give."""
    Path("mine.py").write_text(COUNTS.format(most=30))
    spec = load_compactor("mine.py:Keeps")
    under = {name: setting_named(name).default for name in SHAPING} | {"compactor": "mine.py:Keeps", "window": 9000}
    written = with_choice("[set]\nsoft = 0.66\n", "f.toml", Choice(spec, {"keep": 4}, {"keep": 4}, under), [])
    assert parse_file(written.content, "f.toml") == {"window": 9000, "set": {"keep": 4}}
    assert written.gone == ("soft",)
    Path("f.toml").write_text(written.content)
    replayed = command("replay", corpus, "-n", "--config", "f.toml", "--compactor", "mine.py:Keeps", "-f", "json")
    assert replayed.json()["settings"]["options"] == {"keep": 4}


def test_write_into_what_is_no_file_is_refused_at_once(command: Command, corpus: Path) -> None:
    """A pipe is not waited for."""
    os.mkfifo("f.toml")
    ran = command("tune", corpus, *GRID, "--write", "f.toml")
    assert (ran.status, ran.out) == (2, "")
    assert "f.toml" in ran.err


def test_write_never_loses_what_is_not_its_own() -> None:
    """What looks like an earlier comment in the text of another tool is kept, if only by writing nothing."""
    with pytest.raises(SettingsError, match="without a loss"):
        chosen({"soft_threshold": 0.7}, "pyproject.toml")("[tool.other]\ntext = '''\n# tune: mine\n'''\n")


def test_write_keeps_what_the_choice_was_made_under() -> None:
    """A choice holds under its meter, window, history, ...: these are written, and what the file said is replaced."""
    before = 'meter = "bytes4"\nwindow = "128k" # mine\noverhead = 50\n\n[set]\ntail = 8\n'
    under = {"meter": "calibrated", "window": 128_000, "history": "write-back"}
    after = chosen({"soft_threshold": 0.7}, fixed={"full": 0.9}, **under)(before)
    table = parse_file(after, "compactctl.toml")
    # overhead was 0 in the search; tail was 6, its default, and full was given.
    assert table == {
        "history": "write-back",
        "meter": "calibrated",
        "window": "128k",
        "overhead": 0,
        "set": {"tail": 6, "full_threshold": 0.9, "soft_threshold": 0.7},
    }
    assert 'window = "128k" # mine\n' in after


def test_a_replay_under_the_written_file_is_one_under_the_choice(command: Command, corpus: Path) -> None:
    """What `tune --write` leaves behind gives `check` and `replay` the very settings that were searched under."""
    ran = command("tune", corpus, *GRID, *UNDER, "--write", "compactctl.toml", "-n", "-f", "json")
    chosen = ran.json()["recommendation"]["options"]
    assert chosen is not None
    replayed = command("replay", corpus, "-n", "-f", "json", "--measures", "none").json()["settings"]
    searched = ran.json()["settings"]
    assert replayed["options"] == searched["options"] | chosen
    assert {**replayed, "options": {}} == {**searched, "options": {}}


def test_write_takes_prices_along() -> None:
    """A choice by cost holds under its prices: those the file lacks are written, others are never overwritten."""
    spec = plugin("compactctl.compactors", CompactorSpec, "progressive", "compactor")
    under = {name: setting_named(name).default for name in SHAPING}
    price = {"input": 50, "output": 250}
    choice = Choice(spec, {"soft_threshold": 0.7}, compactor_options(spec, {}), under, {"a model": price})
    after = with_choice("jobs = 2\n", "f.toml", choice, []).content
    assert parse_file(after, "f.toml") == {"jobs": 2, "set": {"soft_threshold": 0.7}, "prices": {"a model": price}}
    assert with_choice(after, "f.toml", choice, []).content == after
    for model in ("a model", "another"):
        with pytest.raises(SettingsError, match=f"another price of {model}"):
            with_choice(f'[prices."{model}"]\ninput = 1\noutput = 2\n', "f.toml", choice, [])


def test_write_takes_the_options_of_another_compactor_out() -> None:
    """A file that held another compactor's options would be refused with the new one."""
    before = 'compactor = "dsh"\n[set]\nprune = 0.2 # of dsh\nearly.warn = 0.4\n'
    after = chosen({"soft_threshold": 0.7}, compactor="harness9")(before)
    assert parse_file(after, "compactctl.toml") == {
        "compactor": "harness9",
        "set": {"early": {"warn": 0.4}, "soft_threshold": 0.7},
    }


OTHER = "[tool.other]\nx = 1\n"


@pytest.mark.parametrize("before", ["", OTHER, f"[tool.compactctl]\njobs = 2\n\n{OTHER}"])
def test_write_into_a_pyproject(before: str) -> None:
    """In a pyproject.toml settings and options stand in their tables, and other tools' tables stay."""
    after = chosen({"soft_threshold": 0.7}, "pyproject.toml", history="write-back")(before)
    found = dict(parse_file(after, "pyproject.toml"))
    assert found.pop("jobs", 2) == 2
    assert found == {"history": "write-back", "set": {"soft_threshold": 0.7}}
    assert (OTHER in after) == (OTHER in before)


def test_a_file_that_tune_cannot_change_is_told_before_the_replays(command: Command, corpus: Path) -> None:
    """What is wrong with the file is said in a line that names it, and it is left alone."""
    for words, told in (
        ("window = 'wide'\n", "window: 'wide' is not"),
        ("set = 3\n", "set must be a table"),
        ("=", "not valid TOML"),
    ):
        Path("bad.toml").write_text(words)
        ran = command("tune", corpus, *GRID, "--write", "bad.toml")
        assert (ran.status, ran.out) == (2, "")
        assert f"bad.toml: {told}" in ran.err
        assert Path("bad.toml").read_text() == words


COUNTS = """
class Keeps:
    def __init__(self, context_window, keep=2): self.keep = keep
    def compact(self, messages): return messages[:1] + messages[-self.keep:] if len(messages) > {most} else messages
"""


def test_resume_does_not_take_the_figures_of_other_code(command: Command, corpus: Path) -> None:
    """Figures of a user's compactor are known again as long as its file is the same, and no longer."""
    line = ("tune", corpus, "--compactor", "mine.py:Keeps", "--grid", "keep=2:5:1", "--state-dir", "s", "-f", "json")
    Path("mine.py").write_text(COUNTS.format(most=30))
    first = command(*line)
    again = command(*line, "--resume")
    assert again.out == first.out
    assert "40 replays were known from an earlier run" not in first.err
    assert "replays were known from an earlier run" in again.err
    Path("mine.py").write_text(COUNTS.format(most=20))
    other = command(*line, "--resume")
    assert other.out != first.out
    assert "known from an earlier run" not in other.err


def test_nothing_is_written_where_not_all_was_done(command: Command, corpus: Path, samples: Path) -> None:
    """A choice from a part of the sessions, here since others cannot be metered, does not become a setting."""
    inputs = (samples / "claude-code-automatic-compaction.jsonl", corpus)
    ran = command(
        "tune", *inputs, "--grid", "soft=0.3,0.7", "--meter", "calibrated", "--write", "f.toml", "-n", "-f", "json"
    )
    assert ran.status == 2
    assert ran.json()["complete"] is False
    assert [line.split(":")[1] for line in ran.err.splitlines() if "needs recorded usage" in line] == [
        f" matters-{number}" for number in range(8)
    ]
    assert "nothing was written to f.toml: not all was done that was asked for" in ran.err
    assert [words.split(":")[0] for words in ran.json()["failed"]] == [f"matters-{number}" for number in range(8)]
    assert not Path("f.toml").exists()


def test_nothing_is_written_where_nothing_is_recommended(command: Command, tmp_path: Path) -> None:
    """A search without a recommendation leaves the settings file as it is, and says so."""
    known.does_not_matter(tmp_path / "one.jsonl", 1)
    ran = command("tune", tmp_path / "one.jsonl", *GRID, "--write", "compactctl.toml")
    assert "nothing was written" in ran.err
    assert not Path("compactctl.toml").exists()


@pytest.mark.parametrize(
    ("arguments", "status", "told"),
    [
        ((), 2, "needs a --grid"),
        (("--grid", "sofd=0.6,0.7"), 2, "Did you mean 'soft'?"),
        (("--grid", "soft=0.6,0.7", "--trials", "0"), 2, "--trials 0"),
        (("--grid", "soft=0.6,0.7", "--prefer", "speed"), 2, "--prefer speed"),
        (("--grid", "soft=0.6,0.7", "--tolerance", "2"), 2, "--tolerance"),
        (("--grid", "soft=0.6,0.7", "--measures", "m99"), 2, "unknown measure"),
    ],
)
def test_mistakes_are_told_in_one_line(
    command: Command, corpus: Path, arguments: tuple[str, ...], status: int, told: str
) -> None:
    """A mistake in the options ends with status 2, before anything is shown on stdout."""
    ran = command("tune", corpus, *arguments)
    assert (ran.status, ran.out) == (status, "")
    assert told in ran.err
    assert "Traceback" not in ran.err


def test_a_missing_path_is_status_2_and_an_empty_directory_4(command: Command, tmp_path: Path) -> None:
    """Inputs are told as everywhere."""
    assert command("tune", tmp_path / "none.jsonl", *GRID).status == 2
    (tmp_path / "empty").mkdir()
    assert command("tune", tmp_path / "empty", *GRID).status == 4


# The command, interrupted by itself at the moment when it has kept the figures of two tasks and keeps those of a third.
STOPS = """
import os, signal, sys
kept = 0
def watch(event, arguments):
    global kept
    if event in ("os.rename", "os.link") and "tune-" in os.fsdecode(arguments[1]):
        kept += 1
        if kept == 3:
            os.kill(os.getpid(), signal.SIGINT)
sys.addaudithook(watch)
from compactctl.__main__ import main
main()
"""


def test_an_interrupted_search_shows_what_it_has_and_resumes_to_the_same_bytes(corpus: Path, tmp_path: Path) -> None:
    """Ctrl-C prints the sessions that are done and exits 130; --resume replays only the rest, with the same result."""
    arguments = ["tune", str(corpus), "--summarizer", "opaque", "-f", "json", "--no-config"]
    arguments += ["--grid", "soft=0.5:0.8:0.01", "--grid", "full=0.8,0.85,0.9", "--state-dir", str(tmp_path / "s")]

    def tuned(*words: str, by: Sequence[str] = ("-m", "compactctl")) -> subprocess.CompletedProcess[bytes]:
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        line = [sys.executable, *by, *arguments, *words]
        return subprocess.run(line, capture_output=True, env=environment, cwd=tmp_path, check=False)

    whole = tuned("-n")
    stopped = tuned(by=("-c", STOPS))
    again = tuned("--resume")

    assert stopped.returncode == 130, stopped.stderr
    assert b"interrupted" in stopped.stderr
    part = orjson.loads(stopped.stdout)
    assert part["complete"] is False
    assert 2 <= len(part["sessions"]) <= 3
    assert b"were known from an earlier run" in again.stderr
    assert again.stdout == whole.stdout


def test_a_search_interrupted_within_its_first_session_shows_the_points_that_are_done(tmp_path: Path) -> None:
    """Points that were not replayed are left out, the result is told to be incomplete, and nothing is written."""
    home = tmp_path / "corpus"
    home.mkdir()
    # So large that its points are several tasks.
    rows: list[dict[str, object]] = [
        {"role": "user", "content": "x" * 12_000_000},
        {"role": "assistant", "content": "y"},
    ]
    known.write(home / "large.jsonl", rows)
    line = ["tune", str(home), "--grid", "soft=0.70:0.79:0.001", "--no-config", "-f", "json", "--write", "f.toml"]
    line += ["--measures", "none", "--state-dir", str(tmp_path / "s")]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    ran = subprocess.run(
        [sys.executable, "-c", STOPS, *line], capture_output=True, env=environment, cwd=tmp_path, check=False
    )
    assert ran.returncode == 130, ran.stderr
    part = orjson.loads(ran.stdout)
    assert 1 < len(part["points"]) < 91
    assert part["complete"] is False
    assert not (tmp_path / "f.toml").exists()


def test_the_recommended_setting_is_in_the_table(command: Command, corpus: Path) -> None:
    """Whatever is recommended has a row with its sign, also where another one is a little better."""
    ran = command("tune", corpus, *GRID, "--summarizer", "opaque", "--set", "soft=0.6", "--set", "full=0.6", "-n")
    table = ran.out.partition("Pareto front")[2].partition(" on the front")[0]
    assert any(line.split()[:1] in (["*"], [">*"], [">"]) for line in table.splitlines())
    assert sum(line.lstrip().startswith(">") for line in table.splitlines()) == 1


def test_one_figure_has_one_value_whatever_else_is_measured(command: Command, samples: Path) -> None:
    """What tune and compare say of all sessions is the same for each figure, whichever measures are named."""
    measured = command("compare", samples, "--compactor", "progressive", "-f", "json").json()
    (overall,) = (one["figures"] for one in measured["overall"] if one["name"] == "progressive")
    for measures in ("m3", "m4", "all"):
        found = command("tune", samples, "--grid", "soft=0.7", "--measures", measures, "-f", "json", "-n").json()
        (point,) = found["points"]
        assert point["measures"] == {key: overall[key] for key in point["measures"]}


def test_what_is_known_from_an_earlier_run_has_the_same_figures(command: Command, samples: Path) -> None:
    """A resumed search replays nothing and pools its shares as the first run did."""
    arguments = ("tune", samples, "--grid", "soft=0.7", "-f", "json")
    first, again = command(*arguments), command(*arguments, "--resume")
    assert "10 replays were known from an earlier run" in again.err
    assert again.out == first.out


def test_gates_that_cannot_be_held_are_told(command: Command, corpus: Path) -> None:
    """Where --measures leaves out what a gate needs, a note names the gate."""
    ran = command("tune", corpus, *GRID, "--summarizer", "opaque", "--measures", "m3,m6.recall_visible", "-n")
    assert ran.status == 0, ran.err
    words = " ".join(ran.out.split())
    assert "not held as gates, since --measures leaves them out: turns above the window (m1.overshoot_turns)" in words
    assert "sessions with a compaction spiral (m8.spiral)" in words


def test_what_no_setting_is_free_of_stands_with_the_recommendation(command: Command, samples: Path) -> None:
    """Gates bend to the least that is reached: what is accepted with the choice is told beside its gain."""
    said = command("tune", samples, "--grid", "soft=0.6,0.8", "--no-config", "--dry-run").out
    recommended = said[said.index("Recommended") : said.index("Pareto front")]

    assert "accepted with it" in recommended
    assert "protocol faults at most" in recommended
