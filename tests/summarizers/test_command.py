"""Any program as a summarizer: what it gets, what it may do, and how it fails."""

from __future__ import annotations

import json
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from compactctl.errors import SettingsError, SummarizerError
from compactctl.model import Message
from compactctl.ports import SummaryFormat, SummaryRequest
from compactctl.summarizers import make_extractor, make_summarizer
from compactctl.summarizers._model import ModelSummarizer

from .conftest import ANCHOR_BLOCK, CANARY

MESSAGES = (Message("user", "fix parse_row, run the tests " * 40), Message("assistant", "changed src/parser.py"))


def program(home: Path, code: str, **options: Any) -> ModelSummarizer:
    """Make a summarizer whose program is this Python code."""
    path = home / "program.py"
    path.write_text(f"import json, os, sys, time\nBLOCK = {ANCHOR_BLOCK!r}\n{code}\n")
    found = make_summarizer("command", {"command": f"{sys.executable} -I {path}", "timeout": 20.0} | options)
    assert isinstance(found, ModelSummarizer)
    return found


def test_a_program_gets_the_request_and_gives_the_summary(tmp_path: Path) -> None:
    """The request is one JSON object with the whole question and its parts; the output is the summary."""
    got = tmp_path / "got.json"
    code = f"text = sys.stdin.read(); open({str(got)!r}, 'w').write(text); print(BLOCK)"
    reply = program(tmp_path, code).summarize(SummaryRequest(MESSAGES, previous=lambda: "### User Intent\nold"))
    assert reply.text == ANCHOR_BLOCK
    assert "reply_unfenced" in reply.notes
    request = json.loads(got.read_text())
    assert request["compactctl"] == 1
    assert request["purpose"] == "summary"
    assert request["format"] == "anchors"
    assert request["budget_tokens"] == 2000
    assert request["conversation"].startswith("[user]: fix parse_row")
    assert request["previous"] == "### User Intent\nold"
    assert request["conversation"] in request["prompt"]


@pytest.mark.parametrize(
    ("code", "reason", "said"),
    [
        ("sys.exit('no model')", "command_failed", "ended with status 1: no model"),
        ("os.kill(os.getpid(), 9)", "command_failed", "was killed by signal 9"),
        ("time.sleep(60)", "timeout", "within 0.6 s"),
        ("os.close(1); time.sleep(60)", "timeout", ""),
        ("sys.stdout.write('x' * 3_000_000)", "too_large", "1048576 bytes"),
        ("sys.stdout.buffer.write(b'\\xff\\xfe')", "malformed", "not UTF-8"),
        ("print('hello')", "empty", "no anchor"),
        ("pass", "empty", "empty"),
        ("print(os.environ['MY_API_KEY'], file=sys.stderr); sys.exit(3)", "command_failed", "status 3: ***"),
    ],
    ids=["status", "signal", "hangs", "closes and hangs", "3 MB", "not UTF-8", "prose", "nothing", "prints a key"],
)
def test_a_program_that_fails_says_why(
    code: str, reason: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Status, signal, time limit, size and form each end in their own word; keys that it inherited are not shown."""
    monkeypatch.setenv("MY_API_KEY", CANARY)
    limit = 0.6 if reason == "timeout" else 20.0
    with pytest.raises(SummarizerError) as caught:
        program(tmp_path, code, timeout=limit).summarize(SummaryRequest(MESSAGES))
    assert caught.value.reason == reason
    assert said in str(caught.value)
    assert CANARY not in str(caught.value)


@pytest.mark.parametrize("spaces", [4083, 65_523, 65_535])
@pytest.mark.parametrize("pieces", [1, 2])
def test_no_part_of_a_key_is_shown_where_errors_are_cut(
    spaces: int, pieces: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A program that says much on standard error is cut short, and never inside a key that it repeats."""
    monkeypatch.setenv("MY_API_KEY", CANARY)
    code = f"""
text = " " * {spaces} + os.environ["MY_API_KEY"] + " is wrong " + "." * 90_000
for piece in (text[: {spaces} + 9], text[{spaces} + 9 :]) if {pieces} == 2 else (text,):
    os.write(2, piece.encode())
    time.sleep(0.05)
sys.exit(3)
"""
    with pytest.raises(SummarizerError, match="ended with status 3") as caught:
        program(tmp_path, code).summarize(SummaryRequest(MESSAGES))
    assert CANARY[:4] not in str(caught.value)


def test_a_program_is_killed_with_all_that_it_started(tmp_path: Path) -> None:
    """At the time limit nothing of it is left running."""
    pid_file = tmp_path / "pid"
    code = f"pid = os.fork()\nif pid: open({str(pid_file)!r}, 'w').write(str(pid))\ntime.sleep(60)"
    with pytest.raises(SummarizerError):
        program(tmp_path, code, timeout=1.5).summarize(SummaryRequest(MESSAGES))
    child = int(pid_file.read_text())
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline and _runs(child):
        time.sleep(0.02)
    assert not _runs(child)


def _runs(pid: int) -> bool:
    """Whether a process runs; one that only waits to be buried does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_closing_a_summarizer_ends_its_call(tmp_path: Path) -> None:
    """Another thread can end a call that hangs; afterwards nothing more is started."""
    summarizer = program(tmp_path, "time.sleep(60)")
    threading.Timer(0.3, summarizer.close).start()
    begun = time.monotonic()
    for _ in range(2):
        with pytest.raises(SummarizerError) as caught:
            summarizer.summarize(SummaryRequest(MESSAGES))
        assert caught.value.reason == "interrupted"
    assert time.monotonic() - begun < 10


@pytest.mark.parametrize("command", ["", "   ", "'open"])
def test_a_command_line_must_be_readable(command: str) -> None:
    """An empty or half-quoted command is refused before anything runs."""
    with pytest.raises(SettingsError, match="command"):
        make_summarizer("command", {"command": command})


def test_a_program_that_is_not_there(tmp_path: Path) -> None:
    """A missing program is a typed failure that names it."""
    summarizer = make_summarizer("command", {"command": str(tmp_path / "nothing-here")})
    with pytest.raises(SummarizerError, match="nothing-here cannot be started: No such file"):
        summarizer.summarize(SummaryRequest(MESSAGES))


def test_no_shell_reads_the_command(tmp_path: Path) -> None:
    """What a shell would act on is an argument like any other."""
    made = tmp_path / "made"
    summarizer = make_summarizer("command", {"command": f"echo hello; touch {made} && $(touch {made})"})
    with pytest.raises(SummarizerError):
        summarizer.summarize(SummaryRequest(MESSAGES))
    assert not made.exists()


def test_dsh_asks_for_and_reads_its_own_form(tmp_path: Path) -> None:
    """The form that the compactor wants is in the prompt, and the reply is read in it."""
    code = "r = json.load(sys.stdin); assert '## Pending Jobs' in r['prompt']; print('## Next Step\\ngo on')"
    reply = program(tmp_path, code).summarize(SummaryRequest(MESSAGES, format=SummaryFormat.DSH))
    assert "## Next Step\ngo on" in reply.text
    assert reply.text.count("(none)") == 7


def test_a_free_summary_is_taken_as_it_is(tmp_path: Path) -> None:
    """A compactor with headings of its own gets the model's text."""
    reply = program(tmp_path, "print('All went well.')").summarize(SummaryRequest(MESSAGES, format=SummaryFormat.PROSE))
    assert reply.text == "All went well."


def test_memories_are_kept_once(tmp_path: Path) -> None:
    """Facts go to the sink once, whatever their spelling; a message is sent once; bad rows are left out."""
    facts = [
        {"title": "Tests", "content": "Run pytest -q.", "category": "project", "importance": 4},
        {"title": "Again", "content": "run  PYTEST -q", "category": "project"},
        {"content": "changed\n### Next Steps src/parser.py", "category": "nonsense", "importance": 99},
        {"title": "no content"},
        7,
        "A bare sentence.",
    ]
    log = tmp_path / "log"
    code = f"open({str(log)!r}, 'a').write(json.load(sys.stdin)['conversation'] + '|'); print({json.dumps(facts)!r})"
    kept: list[Any] = []
    extractor = make_extractor(program(tmp_path, code), kept.append)
    assert extractor is not None
    extractor.extract(MESSAGES)
    extractor.extract(MESSAGES)
    extractor.extract((*MESSAGES, Message("user", "more")))
    assert [(fact["content"], fact["category"], fact["importance"]) for fact in kept] == [
        ("Run pytest -q.", "project", 4),
        ("changed ### Next Steps src/parser.py", "project", None),
        ("A bare sentence.", "project", None),
    ]
    sent = log.read_text().split("|")[:-1]
    assert len(sent) == 2
    assert sent[1] == "[user]: more"


@pytest.mark.parametrize("text", ["", "no list", "{}", "[1", "null"])
def test_a_reply_that_is_no_list_of_facts_is_a_failure(text: str, tmp_path: Path) -> None:
    """The compactor notes it and goes on; no half-read fact is kept."""
    kept: list[Any] = []
    extractor = make_extractor(program(tmp_path, f"print({text!r})"), kept.append)
    assert extractor is not None
    with pytest.raises(SummarizerError, match="not a JSON list"):
        extractor.extract(MESSAGES)
    assert kept == []


def test_facts_in_a_code_fence_are_read(tmp_path: Path) -> None:
    """Models like to put JSON between backticks."""
    kept: list[Any] = []
    code = 'print(\'```json\\n[{"content": "a fact"}]\\n```\')'
    extractor = make_extractor(program(tmp_path, code), kept.append)
    assert extractor is not None
    extractor.extract(MESSAGES)
    assert [fact["content"] for fact in kept] == ["a fact"]
    assert make_extractor(make_summarizer("stub"), kept.append) is None
