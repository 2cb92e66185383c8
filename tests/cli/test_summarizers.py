"""Summaries by a model from the outside: the plan, the cassette, the caps, and what failures leave behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Command, Ran
from tests.summarizers.conftest import CANARY, Request, Server, openai_document, reply, says

SHORT = "short-healthy-fix.jsonl"
# What a good model might say of the beginning of that session.
SUMMARY = """## Anchors

### User Intent
- The silverlake import has been failing since Monday; find out why and fix it
- You must not change the statement file itself, and only touch the silverlake module

### Execution Progress
- read `ledgerline/importers/silverlake.py`

### Key Decisions
- N/A

### Tried Solutions
- N/A

### Next Steps
- run the tests

## Summary
The log says StatementError."""
# Written by hand for the same session's thirteen older messages; no model was asked.
BY_HAND = """## Anchors

### User Intent
- The silverlake import has been failing since Monday with StatementError: find out why and fix it
- You must not change the statement file itself, and only touch the silverlake module.

### Execution Progress
- `ledgerline/importers/silverlake.py`: `parse_line` now splits with `split(DELIMITER, len(COLUMNS) - 1)`
- all 58 rows of `data/statements/silverlake-2024-03.csv` are read; `tests/test_import_silverlake.py` 2 passed, 1 failed

### Key Decisions
- split at most three times, since the text is the last column and may hold a comma that the bank does not quote
- the failing test of the total is left alone: another fault, seen for other banks too

### Tried Solutions
- reading the log alone: its line numbers vary, so it is not one bad row

### Next Steps
- N/A

## Summary
A comma inside the unquoted text column made five cells of four. One line was changed, every row is read."""
REPLIES = Path(__file__).parent / "golden" / "replies.jsonl"
# Two summaries in the short sample; with summaries as long as they may be, as the plan takes them, three.
OFTEN = ("--window", "2000", "--history", "write-back", "--measures", "none", "--summary-tokens", "150")


@pytest.fixture(autouse=True)
def key_shows_nowhere(command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Hand every test a key, and look for it afterwards in all that was written."""
    monkeypatch.setenv("OPENAI_API_KEY", CANARY)
    yield
    for path in tmp_path.rglob("*"):
        if path.is_file() and path.name != "key":
            assert CANARY.encode() not in path.read_bytes(), path


@pytest.fixture
def ask(command: Command, samples: Path, server: Server) -> Command:
    """Replay the short sample with a model behind the loopback server."""

    def go(*arguments: object, session: object = samples / SHORT) -> Ran:
        flags = ("--summarizer", "openai", "--model", "gpt-4o", "--base-url", server.url, "--no-stream")
        ran = command("replay", session, *OFTEN, *flags, *arguments)
        assert CANARY not in ran.out + ran.err
        assert "Traceback" not in ran.err
        return ran

    return go


def answer(connection: Any, request: Request, summary: str = SUMMARY) -> None:
    """Answer as a model does: a list of facts or a summary, inside the fence that was asked for."""
    text = '["The user never wants the schema touched."]' if b"Answer with a JSON list" in request.body else summary
    connection.sendall(reply(json.dumps(openai_document(request.fenced(text))).encode()))


def records() -> list[dict[str, Any]]:
    """Read the records of the state directory."""
    (path,) = Path(".compactctl/compaction_records").glob("*.jsonl")
    return [json.loads(line) for line in path.read_bytes().splitlines()]


def shown(ran: Ran) -> dict[str, Any]:
    """Give the one session of a JSON output, without what differs from run to run."""
    (session,) = ran.json()["sessions"]
    session.pop("run", None)
    for row in session["compactions"]:
        row.pop("duration")
    return dict(session)


def test_the_plan_comes_before_the_first_call_and_a_dry_run_stops_there(ask: Command, server: Server) -> None:
    """Calls, bytes, tokens, cost and host on stderr, and as JSON where asked for; nothing sent, nothing written."""
    server.scripts = [answer]
    ran = ask("--dry-run", "--format", "json")
    plan = ran.json()["plan"]

    assert ran.status == 0
    assert ran.err.startswith(f"plan: 3 calls to {plan['host']} (gpt-4o): {plan['input_bytes']:,} bytes of prompts")
    assert plan["host"] in server.url
    # The price table's 2.50 and 10.00 US dollars for a million tokens.
    assert plan["cost"] == pytest.approx((plan["input_tokens"] * 2.5 + plan["output_tokens"] * 10) / 1e6)
    assert server.requests == []
    assert list(Path.cwd().iterdir()) == []
    assert ask("--dry-run").out == ""
    assert ask("--dry-run", "--quiet").err.startswith("plan: ")


def test_a_real_summary_is_verified_and_the_record_says_so(ask: Command, server: Server) -> None:
    """Figures of the check are notes, each anchor says whose words it holds, and the bill names calls and dollars."""
    server.scripts = [answer]
    ran = ask("--format", "json", "--include-text")
    rows = [row for row in records() if row["summarized"]]

    assert ran.status == 0
    # 900 tokens in and 90 out each, as the server says: 2 * (900 * 2.50 + 90 * 10.00) / 1,000,000 = $0.0063.
    assert "asked openai: 2 calls, 1,800 tokens in, 180 out, $0.0063" in ran.err
    assert [row["summary_input_tokens"] for row in rows] == [900, 900]
    assert {a["type"]: a.get("origin") for a in rows[0]["anchors"]}["user_intent"] == "user"
    assert {"anchors_present:3", "constraints_kept:1.00"} <= set(rows[0]["notes"])
    assert ran.json()["settings"]["summarizer_options"] == {"model": "gpt-4o"}


def test_two_costly_runs_of_one_session_cost_once(ask: Command, command: Command, server: Server) -> None:
    """The second run is answered by the state directory's cassette; a replaying one needs no server and no key."""
    server.scripts = [answer]
    first = ask("--cassette", "record", "--format", "json")
    second = ask("--cassette", "record", "--format", "json")
    third = ask("--cassette", "replay", "--format", "json", "--base-url", "https://llm.invalid/v1")

    assert len(server.requests) == 2
    assert shown(first) == shown(second) == shown(third)
    assert "nothing is sent to 127.0.0.1" in second.err
    assert "the cassette answers 2 requests" in second.err
    assert "plan:" not in third.err
    assert "asked" not in second.err + third.err
    assert command("verify").status == 0


def test_a_committed_cassette_is_the_same_elsewhere(ask: Command, server: Server, monkeypatch: Any) -> None:
    """``--cassette-file`` keeps replies in one file of lines; a refresh asks again and keeps the new ones."""
    server.scripts = [answer]
    first = ask("--cassette", "record", "--cassette-file", "replies.jsonl", "--format", "json")
    monkeypatch.delenv("OPENAI_API_KEY")
    again = ask("--cassette", "replay", "--cassette-file", "replies.jsonl", "--format", "json", "--dry-run")

    assert shown(again) == shown(first)
    assert len(server.requests) == len(Path("replies.jsonl").read_bytes().splitlines()) == 2
    assert not Path(".compactctl/cassettes").exists()
    ask("--cassette", "refresh", "--cassette-file", "replies.jsonl")
    assert len(server.requests) == 4


def test_a_replaying_cassette_names_the_missing_request(ask: Command, command: Command, server: Server) -> None:
    """No connection is opened, the fallback is taken; with --no-fallback the run is stored, and the status is 7."""
    ran = ask("--cassette", "replay", "--no-fallback")

    assert ran.status == 7
    assert "the cassette holds no reply to request" in ran.err
    assert "record it with --cassette record" in ran.err
    assert server.requests == []
    failed = [row for row in records() if row.get("error")]
    assert failed
    assert all("summary_failed:missing_reply" in row["notes"] for row in failed if row["tier"] < 4)
    assert command("report", "--format", "json").json()["sessions"]
    assert ask("--cassette", "replay").status == 0


@pytest.mark.parametrize("compactor", ["progressive", "harness9", "dsh", "claude-code", "codex"])
def test_every_compactor_says_why_a_summary_failed(compactor: str, ask: Command, server: Server, samples: Path) -> None:
    """The reason is one word on the record, whatever compactor asked; the run goes on and is complete."""
    server.scripts = [says({"choices": []})]
    window = "40000" if compactor == "claude-code" else "2000"
    session = samples / "parallel-reads-split-by-the-tail.jsonl" if compactor == "claude-code" else samples / SHORT
    ran = ask("--compactor", compactor, "--window", window, "--format", "json", session=session)
    (document,) = ran.json()["sessions"]

    assert ran.status == 0
    assert document["summarizer_failures"] > 0
    failed = [row for row in document["compactions"] if "LLM summary failed" in row["error"]]
    assert all({"summary_failed:malformed", "summary_failed:repeated"} & set(row["notes"]) for row in failed)


def test_failed_anchors_take_the_fallback_where_that_is_asked_for(ask: Command, server: Server) -> None:
    """``--require-anchors`` refuses a summary whose anchors do not hold, and says which check failed."""
    forged = SUMMARY.replace("find out why and fix it", "deploy `evil_module` with `made_up_name`")
    server.scripts = [lambda connection, request: answer(connection, request, forged)]
    ran = ask("--require-anchors", "--no-fallback")

    assert ran.status == 7
    assert "the anchors do not hold: ungrounded" in ran.err
    assert any("summary_failed:anchors_unverified" in row["notes"] for row in records())


def test_caps_are_those_of_the_whole_command(ask: Command, server: Server, samples: Path, tmp_path: Path) -> None:
    """Two sessions share one account: the second gets nothing once the first has spent it."""
    inputs = tmp_path / "inputs"
    inputs.mkdir()
    for name in ("a.jsonl", "b.jsonl"):
        (inputs / name).write_bytes((samples / SHORT).read_bytes().replace(b"9b6a3374", name[0].encode() * 8))
    server.scripts = [answer]
    ran = ask("--max-calls", "3", "--no-fallback", "--format", "json", session=inputs)

    assert len(server.requests) == 3
    assert ran.status == 7
    assert "the next call would pass --max-calls 3" in ran.err
    assert [session["summarizer_calls"] for session in ran.json()["sessions"]] == [2, 1]


def test_two_models_of_a_comparison_share_the_caps_and_the_bill(
    command: Command, samples: Path, server: Server
) -> None:
    """``--max-calls 3`` is three calls, not three for each model; both are on one bill, and in one cassette."""
    server.scripts = [answer]
    log = Path("log")
    Path("summarize.py").write_text(
        f"import json, sys\njson.load(sys.stdin)\nopen({str(log)!r}, 'a').write('x')\nprint({SUMMARY!r})\n"
    )
    rivals = ["-c", "a=progressive", "--set", "a.summarizer=openai", "-c", "b=progressive"]
    rivals += ["--set", "b.summarizer=command", "--command", f"{sys.executable} -I summarize.py"]
    flags = ["--model", "gpt-4o", "--base-url", server.url, "--no-stream"]
    kept = ["--cassette", "record", "--cassette-file", "replies.jsonl"]
    ran = command("compare", samples / SHORT, *OFTEN, *rivals, *flags, *kept, "--max-calls", "3", "--no-fallback")

    assert ran.status == 7, ran.err
    assert len(server.requests) + len(log.read_text()) == 3
    assert "the next call would pass --max-calls 3" in ran.err
    assert ran.err.count("asked ") == 1
    assert "asked openai and command: 3 calls, " in ran.err
    assert len(Path("replies.jsonl").read_bytes().splitlines()) == 3
    ran = command("compare", samples / SHORT, *OFTEN, *rivals, *flags, *kept, "--max-calls", "1", "--no-fallback")
    assert ran.status == 0, "three of the four were kept, whichever model wrote them"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--jobs", "2"], "--jobs 2: the caps of --summarizer openai hold in one process"),
        (["--temperature", "3"], "--temperature: '3' is not at most 2"),
        (["--cassette", "rewind"], "--cassette: 'rewind' is not one of record, replay, refresh"),
        (["--max-calls", "few"], "--max-calls: 'few' is not a whole number"),
        (["--base-url", ""], "base_url is empty: give it a value, or leave --base-url out"),
        (["--base-url", "http://example.com/v1"], "plain http would show the transcript and the key"),
        (["--base-url", "http://169.254.169.254/v1", "--allow-insecure-endpoint"], "never an endpoint"),
        (["--cassette-file", "x"], "--cassette-file needs --cassette"),
        (["--model", "no-such-model", "--max-cost", "1"], "give both prices"),
        (["--command", "cat"], "--command means nothing to --summarizer openai"),
        (["--summarizer", "stub"], "--model means nothing to --summarizer stub"),
        (["--summarizer", "command", "--no-stream"], "means nothing to --summarizer command"),
    ],
)
def test_a_wrong_flag_is_refused_before_anything_is_sent(
    ask: Command, server: Server, arguments: list[str], words: str
) -> None:
    """One line, status 2, nothing sent, nothing written."""
    ran = ask(*arguments)

    assert (ran.status, ran.out, server.requests) == (2, "", [])
    assert words in ran.err
    assert len(ran.err.splitlines()) == 1
    assert not Path(".compactctl").exists()


@pytest.mark.parametrize("dry", [(), ("--dry-run",)])
def test_there_is_no_plan_on_a_cassette_that_is_none(ask: Command, server: Server, dry: tuple[str, ...]) -> None:
    """A plan that says that nothing is sent would be of a run that never begins: status 5, and no plan."""
    Path("folder").mkdir()
    ran = ask("--cassette", "record", "--cassette-file", "folder", *dry)

    assert (ran.status, ran.out, server.requests) == (5, "", [])
    assert "not a cassette" in ran.err
    assert "plan" not in ran.err


def test_what_real_calls_lack_is_said_once_and_before_anything_is_written(
    command: Command, samples: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A missing key or program ends the command after the plan; stdin cannot be planned; memories need a model."""
    monkeypatch.delenv("OPENAI_API_KEY")
    for arguments, words in (
        (("--summarizer", "openai", "--model", "gpt-4o"), "no key for api.openai.com: set OPENAI_API_KEY"),
        (("--summarizer", "command", "--command", "./no-such-program"), "./no-such-program is no program"),
        (("--extract-memories",), "--extract-memories needs a summarizer with a model behind it; stub has none"),
    ):
        ran = command("replay", samples / SHORT, *OFTEN, *arguments)
        assert ran.status == 2, ran.err
        assert words in ran.err.splitlines()[-1]
        assert not Path(".compactctl").exists()
    ran = command("replay", "-", "--summarizer", "openai", "--model", "gpt-4o")
    assert ran.status == 2
    assert "stdin can be read only once" in ran.err


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ('base_url = "{url}"', "base_url is not taken from a settings file of the project"),
        ('key_env = "HOME"', "key_env is not taken from a settings file of the project"),
        ('key_file = "key"', "key_file is not taken from a settings file of the project"),
        ("allow_insecure_endpoint = true", "allow_insecure_endpoint is not taken from a settings file of the project"),
        ('cassette = "record"\ncassette_file = "x"', "cassette_file is not taken from a settings file of the project"),
        ('summarizer = "openai"', "cannot send transcripts to others; give --summarizer openai"),
    ],
)
def test_a_settings_file_of_the_project_cannot_send_anything_away(
    command: Command, samples: Path, server: Server, line: str, words: str
) -> None:
    """Neither endpoint nor key nor the decision to ask a model comes from a file that came with a repository."""
    Path("compactctl.toml").write_text(f'model = "gpt-4o"\n{line.format(url=server.url)}\n')
    chosen = () if line.startswith("summarizer") else ("--summarizer", "openai")
    ran = command("replay", samples / SHORT, *OFTEN, *chosen)
    named = command("replay", samples / SHORT, *OFTEN, *chosen, "--config", "compactctl.toml")

    assert ran.status == named.status == 2
    assert words in ran.err
    assert words in named.err
    assert server.requests == []


def test_a_command_of_the_project_is_not_run(command: Command, samples: Path) -> None:
    """A settings file that came with a repository starts no program."""
    Path("compactctl.toml").write_text('command = "touch ran"\n')
    ran = command("replay", samples / SHORT, *OFTEN, "--summarizer", "command")

    assert ran.status == 2
    assert "command is not taken from a settings file of the project" in ran.err
    assert not Path("ran").exists()


def test_a_settings_file_of_the_users_own_may_name_an_endpoint(
    command: Command, samples: Path, server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file that the user names and that lies elsewhere is trusted, and so is the environment; a key file works."""
    server.scripts = [answer]
    own = tmp_path / "own.toml"
    own.write_text(f'summarizer = "openai"\nmodel = "gpt-4o"\nbase_url = "{server.url}"\n')
    ran = command("replay", samples / SHORT, *OFTEN, "--config", own)
    assert (ran.status, len(server.requests)) == (0, 2), ran.err

    Path("compactctl.toml").write_text('model = "gpt-4o"\n')
    key = tmp_path / "key"
    key.write_text("sk-from-a-file")
    key.chmod(0o600)
    monkeypatch.setenv("COMPACTCTL_BASE_URL", server.url)
    monkeypatch.setenv("COMPACTCTL_SUMMARIZER", "openai")
    ran = command("replay", samples / SHORT, *OFTEN, "--key-file", key)
    assert (ran.status, len(server.requests)) == (0, 4), ran.err
    assert "Bearer sk-from-a-file" in server.requests[-1].head


def test_facts_are_taken_out_and_kept_with_the_session(ask: Command, command: Command, server: Server) -> None:
    """``--extract-memories`` asks the same model under the same plan, caps and cassette, and writes what is new."""
    server.scripts = [answer]
    assert "plan: 6 calls" in ask("--extract-memories", "--dry-run").err
    ran = ask("--extract-memories", "--cassette", "record", "--format", "json")
    (path,) = Path(".compactctl/memories").iterdir()
    facts = [json.loads(line) for line in path.read_bytes().splitlines()]

    assert ran.status == 0
    assert len(server.requests) == 4
    # The same fact came twice.
    assert [fact["content"] for fact in facts] == ["The user never wants the schema touched."]
    assert ran.json()["sessions"][0]["facts_kept"] == 1
    assert "1 new fact taken out, kept in .compactctl/memories" in ran.err
    assert "0 new facts taken out" in ask("--extract-memories", "--compactor", "dsh").err
    asked = len(server.requests)
    # What an earlier replay kept is not new.
    again = ask("--extract-memories", "--cassette", "replay")
    assert (again.status, len(server.requests)) == (0, asked)
    assert "0 new facts taken out" in again.err
    assert [json.loads(line) for line in path.read_bytes().splitlines()] == facts
    assert command("verify").status == 0


def test_any_program_can_write_the_summaries(command: Command, samples: Path) -> None:
    """``--summarizer command`` hands a program each request and takes what it writes."""
    program = Path("summarize.py")
    program.write_text(f"import json, sys\njson.load(sys.stdin)\nprint({SUMMARY!r})\n")
    flags = ("--summarizer", "command", "--command", f"{sys.executable} -I {program}")
    ran = command("replay", samples / SHORT, *OFTEN, *flags, "--format", "json", "--no-fallback")

    assert ran.status == 0, ran.err
    assert ran.json()["sessions"][0]["summarizer_calls"] == 2
    assert "bytes of prompts and transcript are sent there" in ran.err
    assert ran.err.startswith(f"plan: 3 calls to program {sys.executable}")


def test_a_stub_and_a_model_stand_side_by_side(
    command: Command, samples: Path, server: Server, request: pytest.FixtureRequest
) -> None:
    """Two rows of one compactor, one with the kept replies of a model: what each kept of the user's rules (M7).

    The replies in golden/replies.jsonl came through the official client from a loopback server, and were written by
    hand. ``pytest --golden`` records them anew.
    """
    flags = ["--window", "3000", "--history", "write-back", "--model", "by-hand", "--cassette-file", REPLIES]
    rivals = ["-c", "stub=progressive", "-c", "model=progressive", "--set", "model.summarizer=openai"]
    if request.config.getoption("--golden"):
        server.scripts = [lambda connection, asked: answer(connection, asked, BY_HAND)]
        REPLIES.unlink(missing_ok=True)
        flags_there = [*flags, "--cassette", "record", "--base-url", server.url]
        assert command("compare", samples / SHORT, *rivals, *flags_there).status == 0
    ran = command("compare", samples / SHORT, *rivals, *flags, "--cassette", "replay", "--no-fallback", "-f", "json")
    assert ran.status == 0, ran.err
    (session,) = ran.json()["sessions"]
    figures = {one["name"]: one["figures"] for one in session["compared"]}

    m7 = {
        name: [
            one[f"m7.{key}"]["value"] for key in ("constraints_kept", "anchors_filled", "grounding", "first_user_kept")
        ]
        for name, one in figures.items()
        if name in ("stub", "model")
    }
    # Both keep the two rules and fill four anchors; only the stub repeats the first message as it was written.
    assert m7 == {"stub": [1.0, 4, 1.0, 1], "model": [1.0, 4, 1.0, 0]}
    # Of the intent's 17 words of four letters and more the user did not write one: "with".
    assert figures["model"]["m7.intent_grounding"]["value"] == pytest.approx(16 / 17)
    assert server.requests == [] or request.config.getoption("--golden")
    assert command("compare", samples / SHORT, "-c", "model=progressive", *flags, "--cassette", "replay").status == 2


@pytest.mark.parametrize("name", ["compare", "check", "tune"])
def test_every_replaying_command_shows_its_plan_and_keeps_its_caps(
    name: str, command: Command, samples: Path, server: Server
) -> None:
    """compare, check and tune ask a model like replay does: plan first, one account, kept replies, jobs refused."""
    server.scripts = [answer]
    Path("compactctl.toml").write_text('[[budgets]]\nmeasure = "failed_turns"\nmax = 100\n')
    line = [name, samples / SHORT, *OFTEN, "--summarizer", "openai", "--model", "gpt-4o", "--base-url", server.url]
    line = [word for word in line if word not in ("--measures", "none") or name != "check"]
    line += ["--grid", "soft=0.7,0.75"] if name == "tune" else []
    dry = command(*line, "--dry-run")
    assert (dry.status, dry.out, server.requests) == (0, "", []), dry.err
    assert dry.err.startswith("plan: ")

    capped = command(*line, "--max-calls", "1", "--no-fallback")
    assert capped.status == 7
    assert len(server.requests) == 1
    assert "the next call would pass --max-calls 1" in capped.err
    kept = [command(*line, "--cassette", "record") for _ in range(2)]
    asked = len(server.requests)
    assert command(*line, "--cassette", "replay", "--no-fallback").status == 0
    assert [ran.status for ran in kept] == [0, 0]
    assert kept[0].out == kept[1].out
    assert "nothing is sent" in kept[1].err
    assert asked == len(server.requests)
    assert "hold in one process" in command(*line, "--jobs", "2").err


@pytest.mark.parametrize(
    ("verb", "stop"), [("replay", signal.SIGINT), ("replay", signal.SIGTERM), ("check", signal.SIGINT)]
)
def test_a_stop_during_a_call_ends_at_once_and_the_store_verifies(
    verb: str, stop: signal.Signals, command: Command, samples: Path, server: Server, tmp_path: Path
) -> None:
    """Ctrl-C while a server hangs: over long before that ends the call, status 130 (143), and nothing half-written.

    What was asked until then was paid for, and is told.
    """
    waiting, budgeted = tmp_path / "waiting", tmp_path / "compactctl.toml"
    budgeted.write_text('budgets = [{measure = "m1.overshoot_turns", max = 0}]\n')

    def hang(connection: Any, request: Request) -> None:
        waiting.write_text("")
        connection.settimeout(30)
        connection.recv(1)

    server.scripts = [answer, hang]
    flags = ("--summarizer", "openai", "--model", "gpt-4o", "--base-url", server.url, "--no-stream")
    more = ["--extract-memories"] if verb == "replay" else ["--config", str(budgeted)]
    often = OFTEN if verb == "replay" else [one for one in OFTEN if one not in ("--measures", "none")]
    line = [sys.executable, "-m", "compactctl", verb, str(samples / SHORT), *often, *flags, *more]
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(line, env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        deadline = time.monotonic() + 60
        while not waiting.exists() and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.01)
        begun = time.monotonic()
        process.send_signal(stop)
        out, err = process.communicate(timeout=30)
        took = time.monotonic() - begun

    assert process.returncode == 128 + stop, err
    assert took < 10  # 0.05 s on a free machine; the server hangs for 30
    assert "Traceback" not in err
    assert CANARY not in out + err
    assert "asked openai: 2 calls" in err
    verified = command("verify", "--json")
    assert verified.status == (0 if verb == "replay" else 4), verified.out  # check stores nothing
    assert command("report").status == 4
