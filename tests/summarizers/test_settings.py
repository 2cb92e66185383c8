"""Endpoints, keys, caps and settings: what is refused before anything is sent."""

from __future__ import annotations

import copy
import os
import pickle
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from compactctl.errors import SettingsError, SummarizerError, UnknownNameError
from compactctl.model import Message, Usage
from compactctl.ports import SummaryRequest
from compactctl.settings import SUMMARIZER_OPTIONS
from compactctl.summarizers import make_summarizer, names, spec
from compactctl.summarizers._calls import Caller, Limits
from compactctl.summarizers._chat import Completion, Prompt
from compactctl.summarizers._endpoint import check_endpoint
from compactctl.summarizers._model import ModelSummarizer
from compactctl.summarizers._secret import Redactor, Secret, read_secret
from compactctl.summarizers._spending import Caps, Price, Spending

from .conftest import ANCHOR_BLOCK, CANARY, Server, openai_document, says

MESSAGES = (Message("user", "fix parse_row, run the tests " * 40), Message("assistant", "changed src/parser.py"))


@pytest.mark.parametrize(
    "url",
    [
        "http://169.254.169.254/latest",
        "https://169.254.169.254/latest",
        "https://2852039166/v1",  # the same address as one number
        "https://0xA9FEA9FE/v1",
        "https://0251.0376.0251.0376/v1",
        "https://169.254.43518/v1",
        "https://[fe80::1]/v1",
        "https://[::ffff:169.254.169.254]/v1",
        "https://[64:ff9b::a9fe:a9fe]/v1",
        "https://[fd00:ec2::254]/v1",
        "https://100.100.100.200/v1",
        "https://metadata.google.internal/v1",
        "https://METADATA.google.internal./v1",
        "https://0.0.0.0/v1",
        "https://224.0.0.1/v1",
        "http://api.example.com/v1",
        "http://10.0.0.5/v1",
        "file:///etc/passwd",
        "ftp://example.com/v1",
        "//example.com/v1",
        "example.com/v1",
        "https://user:password@example.com/v1",
        "https://example.com@evil.example/v1",
        "https://example.com/v1?key=1",
        "https://example.com/v1#x",
        "https://exаmple.com/v1",  # the third letter is Cyrillic
        "https://example.com/v 1",
        "https://example.com\\@evil.example/v1",
        "https://exam\nple.com/v1",
        "https:///v1",
        "https://[::1/v1",
        "https://example.com:99999/v1",
        "",
    ],
)
def test_an_unsafe_address_is_refused(url: str) -> None:
    """Neither metadata services nor plain http, passwords, look-alikes or nonsense are an endpoint."""
    with pytest.raises(SettingsError):
        check_endpoint(url)


@pytest.mark.parametrize("url", ["http://169.254.169.254/v1", "https://[fe80::1%25eth0]/v1", "http://metadata/v1"])
def test_metadata_is_refused_even_where_insecure_is_allowed(url: str) -> None:
    """No switch opens a link-local or metadata address."""
    with pytest.raises(SettingsError, match="never an endpoint"):
        check_endpoint(url, allow_insecure=True)


@pytest.mark.parametrize(
    ("url", "host", "loopback"),
    [
        ("https://api.example.com/v1/", "api.example.com", False),
        ("https://10.0.0.5:8443/v1", "10.0.0.5:8443", False),
        ("http://localhost:11434/v1", "localhost:11434", True),
        ("http://127.0.0.1:8080/v1", "127.0.0.1:8080", True),
        ("http://[::1]:8080/v1", "::1:8080", True),
        ("https://xn--exmple-cua.com/v1", "xn--exmple-cua.com", False),
    ],
)
def test_a_safe_address_is_taken(url: str, host: str, loopback: bool) -> None:
    """https anywhere, and http on this machine."""
    endpoint = check_endpoint(url)
    assert (endpoint.host, endpoint.loopback) == (host, loopback)
    assert not endpoint.url.endswith("/")
    assert check_endpoint("http://10.0.0.5/v1", allow_insecure=True).host == "10.0.0.5"


def test_a_password_in_an_address_is_not_repeated() -> None:
    """However long it is, and however wrong the rest of the address."""
    with pytest.raises(SettingsError) as caught:
        check_endpoint("https://me:" + "secret" * 20 + "@example.com/v 1")
    assert "secret" not in str(caught.value)
    assert "example.com" in str(caught.value)


def test_a_key_shows_nowhere(tmp_path: Path) -> None:
    """A key prints as stars, cannot be copied into a file, and is taken out of texts in every form it may take."""
    secret = Secret('pass"word/+ü')
    assert f"{secret} {secret!r} {[secret]}" == "*** *** [***]"
    for copying in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError):
            copying(secret)
    redact = Redactor([secret, None, Secret("x")])
    for form in ('pass"word/+ü', 'pass\\"word/+\\u00fc', "pass%22word%2F%2B%C3%BC"):
        assert redact(f"a {form} x") == "a *** x"
    assert len(redact.shown("y" * 195 + 'pass"word/+ü')) < 210
    assert "pass" not in redact.shown("y" * 195 + 'pass"word/+ü')
    assert redact.cut("wrong key: " + "pass%22word%2F%2B%C3%B") == "wrong key:"
    assert Redactor([]).cut("as it is") == "as it is"
    assert redact.shown("a\x1b[2J\nb\u202ec") == "a [2J b c"


def test_a_key_comes_from_the_environment_or_a_private_file(tmp_path: Path) -> None:
    """A file that others can read, that is no file, or that holds more than a key is refused."""
    assert read_secret({}, "NAME") is None
    found = read_secret({"NAME": f" {CANARY}\n"}, "NAME")
    assert found is not None
    assert found.reveal() == CANARY
    path = tmp_path / "key"
    path.write_text(f"{CANARY}\n")
    path.chmod(0o644)
    with pytest.raises(SettingsError, match="chmod 600"):
        read_secret({}, "NAME", str(path))
    path.chmod(0o600)
    found = read_secret({"NAME": "other"}, "NAME", str(path))
    assert found is not None
    assert found.reveal() == CANARY
    for text in ("", "two words", "x" * 20_000):
        path.write_text(text)
        with pytest.raises(SettingsError):
            read_secret({}, "NAME", str(path))
    for bad in (tmp_path, tmp_path / "none"):
        with pytest.raises(SettingsError) as caught:
            read_secret({}, "NAME", str(bad))
        assert str(bad) in str(caught.value)


def test_no_key_for_another_machine_is_a_mistake_of_the_user(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a key nothing is sent, and the message says where to put one."""
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    summarizer = make_summarizer("openai", {"model": "m"})
    with pytest.raises(SettingsError, match="set OPENAI_API_KEY or name a file with --key-file"):
        summarizer.summarize(SummaryRequest(MESSAGES))


def test_every_summarizer_is_described() -> None:
    """Each has a line of help, each option too; all options stand in the one table of settings, each once."""
    assert names() == ["anthropic", "command", "opaque", "openai", "stub"]
    for name in names():
        assert spec(name).help
        assert set(spec(name).options) <= set(SUMMARIZER_OPTIONS)
    listed = SUMMARIZER_OPTIONS
    assert len({option.name for option in listed}) == len(listed)
    assert all(option.help for option in listed)


@pytest.mark.parametrize(
    ("name", "given", "said"),
    [
        ("openai", {}, "name one with --model"),
        ("openai", {"model": "m", "temprature": 1}, "Did you mean 'temperature'"),
        ("openai", {"model": "m", "temperature": 3}, "from 0 to 2"),
        ("openai", {"model": "m", "temperature": "hot"}, "must be float"),
        ("openai", {"model": "m", "timeout": float("nan")}, "finite"),
        ("openai", {"model": "m", "timeout": True}, "must be float"),
        ("openai", {"model": "m", "tries": 0}, "from 1 to 10"),
        ("openai", {"model": "m", "cassette": "rewind"}, "record, replay, refresh"),
        ("openai", {"model": "m", "max_cost": 1.0}, "give both prices"),
        ("openai", {"model": "m", "input_price": 1.0}, "come together"),
        ("openai", {"model": "m", "cassette_file": "x"}, "needs --cassette"),
        ("openai", {"model": "m", "base_url": "http://example.com/v1"}, "use https"),
        ("stub", {"model": "m"}, "unknown setting of summarizer stub"),
    ],
)
def test_a_wrong_setting_says_what_is_allowed(name: str, given: dict[str, Any], said: str) -> None:
    """A wrong name or value is refused at once with the way out."""
    with pytest.raises((SettingsError, UnknownNameError), match=said):
        make_summarizer(name, given)


def test_an_unknown_summarizer_lists_the_known_ones() -> None:
    """A misspelt name gets the nearest and all."""
    with pytest.raises(UnknownNameError, match=r"Did you mean 'openai'.*anthropic, command, opaque, openai, stub"):
        make_summarizer("opnai")


@pytest.mark.parametrize("option", ["base_url", "key_env", "key_file", "allow_insecure_endpoint", "cassette_file"])
def test_a_settings_file_of_the_project_cannot_send_the_key_away(option: str) -> None:
    """A repository that brings a settings file decides neither where transcript and key go nor what runs."""
    given = {"model": "m", option: True if option == "allow_insecure_endpoint" else "http://127.0.0.1/v1"}
    with pytest.raises(SettingsError, match="which may have come with it"):
        make_summarizer("openai", given | {"cassette": "record"}, untrusted={option, "model"})
    with pytest.raises(SettingsError, match="which may have come with it"):
        make_summarizer("command", {"command": "x"}, untrusted=["command"])


class Model:
    """A model that says what it used, and was allowed 500 tokens of output."""

    identity: Mapping[str, Any] = {"provider": "test", "model": "m"}
    host = "here"

    def __init__(self, usage: Usage | None) -> None:
        self.usage = usage
        self.calls = 0

    def complete(self, prompt: Prompt, spending: Spending) -> Completion:
        """Answer."""
        return Caller(Limits(), Redactor([])).run(
            lambda attempt: spending.charge(prompt.input_tokens, 500, lambda: self.answer(prompt))
        )

    def answer(self, prompt: Prompt) -> Completion:
        """Count and answer."""
        self.calls += 1
        return Completion(ANCHOR_BLOCK, prompt.nonce, self.usage)

    def stop(self) -> None:
        """Nothing runs."""


@pytest.mark.parametrize(
    ("caps", "allowed", "said"),
    [
        (Caps(calls=2), 2, "--max-calls 2"),
        (Caps(calls=0), 0, "--max-calls 0"),
        # Each call really takes 1,000 in and 100 out, $0.0045. It is estimated with 500 out, $0.0075, and 500 to 2,000
        # in, $0.0015 to $0.006: the second makes at most $0.018, the third more.
        (Caps(cost=0.018), 2, "--max-cost 0.018"),
        # 1,000 each; the next is estimated by its length, which is over 500 here.
        (Caps(input_tokens=2500), 2, "--max-input-tokens 2500"),
    ],
)
def test_caps_hold_before_the_call_that_would_pass_them(caps: Caps, allowed: int, said: str) -> None:
    """A run stops asking before it spends more than allowed, and then stays stopped."""
    model = Model(Usage(1000, 100))
    spending = Spending(caps, Price(3.0, 15.0))
    summarizer = ModelSummarizer(model, spending=spending)
    for budget in range(100, 100 + allowed):
        summarizer.summarize(SummaryRequest(MESSAGES, budget=budget))
    for budget in (900, 901):
        with pytest.raises(SummarizerError, match=said) as caught:
            summarizer.summarize(SummaryRequest(MESSAGES, budget=budget))
        assert caught.value.reason == "budget_spent"
    assert model.calls == allowed
    assert spending.cost == pytest.approx(0.0045 * allowed)


def test_cost_is_none_where_no_price_is_known() -> None:
    """What cannot be known is not zero."""
    spending = Spending(Caps())
    spending.charge(10, 10, lambda: Completion("", "", Usage(20, 5)))
    assert spending.cost is None
    assert (spending.calls, spending.input_tokens, spending.output_tokens) == (1, 20, 5)


HANGING = """
    import sys, time
    from compactctl.model import Message
    from compactctl.ports import SummaryRequest
    from compactctl.summarizers import make_summarizer
    options = {"model": "m", "base_url": sys.argv[1], "cassette": "record", "cassette_file": sys.argv[2]}
    summarizer = make_summarizer("openai", options)
    for budget in (100, 200):
        try:
            summarizer.summarize(SummaryRequest([Message("user", "run the tests " * 99)], budget=budget))
        except KeyboardInterrupt:
            print("interrupted", flush=True)
            sys.exit(130)
"""


@pytest.mark.parametrize("stop", [signal.SIGINT])
def test_ctrl_c_ends_a_call_long_before_the_server_does(stop: signal.Signals, server: Server, tmp_path: Path) -> None:
    """Ctrl-C in the middle of a call ends it at once, and what was kept before is whole."""
    cassette = tmp_path / "c.jsonl"
    waiting = tmp_path / "waiting"

    def hang(connection: Any, request: Any) -> None:
        waiting.write_text("")
        connection.settimeout(30)
        connection.recv(1)

    server.scripts = [says(openai_document(ANCHOR_BLOCK)), hang]
    command = [sys.executable, "-c", textwrap.dedent(HANGING), server.url, str(cassette)]
    environ = {**os.environ, "OPENAI_API_KEY": CANARY, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(command, env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        deadline = time.monotonic() + 60
        while not waiting.exists() and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.01)
        begun = time.monotonic()
        process.send_signal(stop)
        out, err = process.communicate(timeout=30)
        took = time.monotonic() - begun
    assert (process.returncode, out) == (130, "interrupted\n"), err
    assert took < 10  # 0.05 s on a free machine; the server hangs for 30
    assert "Traceback" not in err
    assert CANARY not in out + err + cassette.read_text()
    offline = make_summarizer("openai", {"model": "m", "cassette_file": str(cassette)}, cassette_mode="replay")
    kept = offline.summarize(SummaryRequest([Message("user", "run the tests " * 99)], budget=100))
    assert kept.text == ANCHOR_BLOCK
