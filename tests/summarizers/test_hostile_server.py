"""A server that behaves badly in every way we know: each call ends within its limits, with the right word for it."""

from __future__ import annotations

import contextlib
import json
import logging
import socket
import time
import traceback
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from compactctl.errors import SummarizerError
from compactctl.model import Message
from compactctl.ports import SummaryReply, SummaryRequest
from compactctl.summarizers import anthropic, make_extractor, openai
from compactctl.summarizers._build import model_summarizer
from compactctl.summarizers._model import ModelSummarizer
from compactctl.summarizers._options import resolve
from compactctl.summarizers._remote import RemoteChat
from compactctl.summarizers._settings import RemoteSettings

from .conftest import (
    ANCHOR_BLOCK,
    CANARY,
    Request,
    Script,
    Server,
    anthropic_document,
    anthropic_events,
    openai_document,
    openai_events,
    reply,
    says,
    sse,
)

MESSAGES = (
    Message("user", "Please fix parse_row in src/parser.py. " + "It breaks on empty rows. " * 40),
    Message("assistant", "I will run the tests."),
)
CHATS: dict[str, tuple[type[RemoteChat], Any]] = {
    "openai": (openai.OpenAIChat, openai.SUMMARIZER),
    "anthropic": (anthropic.AnthropicChat, anthropic.SUMMARIZER),
}


@pytest.fixture(scope="module", autouse=True)
def clients() -> None:
    """Import the official clients before any time is taken."""
    for name in CHATS:
        import_module(name)


def summarizer(name: str, url: str, waits: list[float], home: Path, **options: Any) -> ModelSummarizer:
    """Make a real summarizer with short limits whose key is the canary."""
    chat_type, spec = CHATS[name]
    short: dict[str, Any] = {"timeout": 20.0, "idle_timeout": 10.0, "connect_timeout": 5.0, "model": "m"}
    given = short | {"base_url": url if name == "openai" else url.removesuffix("/v1")} | options
    given |= {"cassette": "record", "cassette_file": str(home / "cassette.jsonl")}
    settings = RemoteSettings.of(resolve(spec, given), "", f"{name.upper()}_API_KEY")
    environ = {f"{name.upper()}_API_KEY": CANARY}
    chat = chat_type(settings, environ=environ, now=lambda: 1_000_000.0, sleep=waits.append, jitter=lambda: 0.5)
    return model_summarizer(chat, settings.common, None)


def hang(connection: socket.socket, request: Request) -> None:
    """Say nothing until the other side goes away."""
    connection.settimeout(20)
    connection.recv(1)


def hang_after(data: bytes) -> Script:
    """Say something, then nothing."""

    def script(connection: socket.socket, request: Request) -> None:
        connection.sendall(data)
        hang(connection, request)

    return script


def drip(head: bytes, piece: bytes) -> Script:
    """Send a little again and again, always before the idle limit, without an end."""

    def script(connection: socket.socket, request: Request) -> None:
        connection.sendall(head)
        while True:
            connection.sendall(piece)
            time.sleep(0.1)

    return script


def flood(head: bytes) -> Script:
    """Send without an end as fast as it goes."""

    def script(connection: socket.socket, request: Request) -> None:
        connection.sendall(head)
        while True:
            connection.sendall(b"x" * 65536)

    return script


def raw(data: bytes) -> Script:
    """Send exactly these bytes and close."""
    return lambda connection, request: connection.sendall(data)


def echo_key(status: str) -> Script:
    """Repeat the request's head, key and all, in the error, so that a cut could fall inside the key."""

    def script(connection: socket.socket, request: Request) -> None:
        said = {"error": {"message": "x" * 190 + f" wrong key {CANARY} in {request.head}"}}
        connection.sendall(reply(json.dumps(said).encode(), status))

    return script


def echo_key_behind(spaces: int, status: str = "200 OK") -> Script:
    """Answer with no JSON and the key behind so many spaces, where somebody may cut the text."""
    return lambda connection, request: connection.sendall(
        reply(b" " * spaces + CANARY.encode() + b" was refused " + b"." * 5000, status, "text/plain")
    )


def stream(events: list[Any], done: bool = True, **keywords: Any) -> Script:
    """Send a whole event stream."""
    return raw(reply(sse(events, done=done), kind="text/event-stream", **keywords))


def cut(data: bytes, at: int) -> Script:
    """Promise more than is sent."""
    return raw(data[:at])


OK_JSON = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n"
OK_STREAM = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"
CALL = [{"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}]
TWO = openai_document(ANCHOR_BLOCK)
TWO["choices"] = [*TWO["choices"], *TWO["choices"]]  # type: ignore[misc]  # a JSON value

# name -> (script, the word for it, further options)
OPENAI: dict[str, tuple[Script, str, Mapping[str, Any]]] = {
    "hangs before headers": (hang, "timeout", {}),
    "hangs inside the headers": (hang_after(b"HTTP/1.1 200 OK\r\nContent-"), "timeout", {}),
    "hangs after the headers": (hang_after(OK_JSON), "timeout", {}),
    "hangs inside the body": (hang_after(OK_JSON + b'{"choices": ['), "timeout", {}),
    "hangs inside the stream": (hang_after(OK_STREAM + sse(openai_events("abc")[:1], done=False)), "timeout", {}),
    "drips headers": (drip(b"HTTP/1.1 200 OK\r\n", b"X-A: b\r\n"), "timeout", {"timeout": 0.7}),
    "drips a body": (drip(OK_JSON, b" "), "timeout", {"timeout": 0.7}),
    "drips comments": (drip(OK_STREAM, b": ping\n\n"), "timeout", {"timeout": 0.7}),
    "429": (says({"error": {"message": "slow down"}}, "429 Too Many"), "rate_limited", {}),
    "429, Retry-After absurd": (says({}, "429 Too Many", "Retry-After: 99999\r\n"), "rate_limited", {"timeout": 100.0}),
    "429, Retry-After negative": (says({}, "429 Too Many", "Retry-After: -5\r\n"), "rate_limited", {}),
    "429, Retry-After a word": (says({}, "429 Too Many", "Retry-After: soon\r\n"), "rate_limited", {}),
    "429, Retry-After nan": (says({}, "429 Too Many", "Retry-After: nan\r\n"), "rate_limited", {}),
    "500": (says({"error": "down"}, "500 Broken"), "server_error", {}),
    "503 with HTML": (raw(reply(b"<html>down</html>", "503 Down", "text/html")), "server_error", {}),
    "529": (says({}, "529 Overloaded"), "server_error", {}),
    "500 with a body without end": (flood(b"HTTP/1.1 500 X\r\n\r\n"), "server_error", {"tries": 1}),
    "301 to another host": (raw(reply(b"", "301 M", extra="Location: http://127.0.0.2:9/x\r\n")), "redirect", {}),
    "307 to another host": (raw(reply(b"", "307 T", extra="Location: https://example.com/x\r\n")), "redirect", {}),
    "400": (says({"error": {"message": "bad request"}}, "400 Bad"), "rejected", {}),
    "404": (says({}, "404 No"), "rejected", {}),
    "401, key repeated": (echo_key("401 No"), "auth", {}),
    "403": (says({}, "403 No"), "auth", {}),
    "400, key repeated": (echo_key("400 No"), "rejected", {}),
    "400, key at the end of what is read": (echo_key_behind(4082, "400 No"), "rejected", {}),
    "500, key at the end of what is read": (echo_key_behind(4082, "500 No"), "server_error", {}),
    "no JSON, key behind 386 spaces": (echo_key_behind(386), "malformed", {}),
    "no JSON in the stream, key behind 380 spaces": (
        raw(reply(b"data: {" + b" " * 380 + CANARY.encode() + b"\n\n", kind="text/event-stream")), "malformed", {}),
    "a JSON list with the key": (raw(reply(b"[" + b" " * 380 + b'"' + CANARY.encode() + b'"]')), "malformed", {}),
    "closes at once": (raw(b""), "dropped", {}),
    "speaks no HTTP": (raw(b"SSH-2.0-x\r\n"), "dropped", {}),
    "body shorter than promised": (cut(reply(json.dumps(openai_document("x" * 99)).encode()), 200), "dropped", {}),
    "stream without its end": (stream(openai_events(ANCHOR_BLOCK, None), done=False), "dropped", {}),
    "empty body": (raw(reply(b"")), "malformed", {}),
    "wrong JSON": (raw(reply(b'{"choices": [')), "malformed", {}),
    "HTML": (raw(reply(b"<html>hello</html>", kind="text/html")), "malformed", {}),
    "a JSON list": (raw(reply(b"[1]")), "malformed", {}),
    "broken JSON in the stream": (raw(reply(b"data: {oops\n\n", kind="text/event-stream")), "malformed", {}),
    "a compressed body": (raw(reply(b"\x1f\x8b00", extra="Content-Encoding: gzip\r\n")), "malformed", {}),
    "no choices": (says({"choices": []}), "malformed", {}),
    "choices of another type": (says({"choices": "x"}), "malformed", {}),
    "an error with status 200": (says({"error": {"message": f"key {CANARY}"}}), "server_error", {}),
    "an error in the stream": (stream([{"error": {"message": "overloaded"}}]), "server_error", {}),
    "10 MB": (raw(reply(b'{"a": "' + b"x" * 10_000_000 + b'"}')), "too_large", {}),
    "endless JSON": (flood(OK_JSON), "too_large", {}),
    "endless stream": (flood(OK_STREAM), "too_large", {}),
    "an empty text": (says(openai_document("")), "empty", {}),
    "white space": (says(openai_document(" \n\n ")), "empty", {}),
    "prose without headings": (says(openai_document("All went well.")), "empty", {}),
    "nothing but N/A": (says(openai_document("## Anchors\n\n### User Intent\n- N/A\n\n## Summary\n")), "empty", {}),
    "a null text": (says(openai_document(None)), "no_text", {}),
    "a tool call": (says(openai_document(None, "tool_calls", tool_calls=CALL)), "no_text", {}),
    "a tool call beside text": (says(openai_document(ANCHOR_BLOCK, tool_calls=CALL)), "no_text", {}),
    "two choices": (says(TWO), "several_choices", {}),
    "cut by the token cap": (says(openai_document(ANCHOR_BLOCK, "length")), "truncated", {}),
    "a stream cut by the cap": (stream(openai_events(ANCHOR_BLOCK, "length")), "truncated", {}),
    "a refusal": (says(openai_document(None, refusal="I cannot")), "refused", {}),
    "a content filter": (says(openai_document("x", "content_filter")), "refused", {}),
    "longer than what it replaces": (says(openai_document(ANCHOR_BLOCK + "word " * 400)), "not_smaller", {}),
    "anchors after the summary": (says(openai_document("## Summary\nx\n### User Intent\ny")), "anchor_conflict", {}),
    "a fence of its own": (
        says(openai_document(f"<<<answer 00>>>\n{ANCHOR_BLOCK}\n<<<end answer 00>>>")), "anchor_conflict", {}),
    "no fence where one must be": (says(openai_document(ANCHOR_BLOCK)), "malformed", {"strict_fence": True}),
    "anchors that do not hold": (
        says(openai_document("## Anchors\n### User Intent\n- write `foo_bar.py` for the moon\n## Summary\nx")),
        "anchors_unverified", {"require_anchors": True}),
}  # fmt: skip
ANTHROPIC: dict[str, tuple[Script, str, Mapping[str, Any]]] = {
    "hangs before headers": (hang, "timeout", {}),
    "hangs inside the stream": (hang_after(OK_STREAM + sse(anthropic_events("a")[:2], True, False)), "timeout", {}),
    "529": (says({"type": "error", "error": {"type": "overloaded_error"}}, "529 Overloaded"), "server_error", {}),
    "401, key repeated": (echo_key("401 No"), "auth", {}),
    "302": (raw(reply(b"", "302 F", extra="Location: http://127.0.0.2:9/x\r\n")), "redirect", {}),
    "400, key at the end of what is read": (echo_key_behind(4082, "400 No"), "rejected", {}),
    "wrong JSON": (raw(reply(b"{")), "malformed", {}),
    "no JSON, key behind 386 spaces": (echo_key_behind(386), "malformed", {}),
    "a tool call": (says(anthropic_document("x") | {"content": [{"type": "tool_use", "id": "a", "name": "b",
                    "input": {}}], "stop_reason": "tool_use"}), "no_text", {}),
    "no text": (says(anthropic_document("x") | {"content": []}), "no_text", {}),
    "content of another type": (says(anthropic_document("x") | {"content": "text"}), "malformed", {}),
    "cut by the token cap": (says(anthropic_document(ANCHOR_BLOCK, "max_tokens")), "truncated", {}),
    "a refusal": (stream(anthropic_events("x", "refusal"), done=False), "refused", {}),
    "stream without its end": (stream(anthropic_events(ANCHOR_BLOCK)[:-1], done=False), "dropped", {}),
    "an error in the stream": (stream([{"type": "error", "error": {"type": "overloaded_error", "message": "x"}}]),
                               "server_error", {}),
    "10 MB": (raw(reply(b'{"a": "' + b"x" * 10_000_000 + b'"}')), "too_large", {}),
    "endless stream": (flood(OK_STREAM), "too_large", {}),
}  # fmt: skip
CASES = [("openai", name, *case) for name, case in OPENAI.items()]
CASES += [("anthropic", name, *case) for name, case in ANTHROPIC.items()]


def all_that_is_shown(error: BaseException) -> str:
    """Give everything that a traceback of an error could show, the values of all variables too, except this file's."""
    shown = [repr(error)]
    seen: BaseException | None = error
    while seen is not None:
        told = traceback.TracebackException.from_exception(seen, capture_locals=True)
        told.stack[:] = [frame for frame in told.stack if frame.filename != __file__]
        shown.append("".join(told.format()))
        seen = seen.__cause__ or seen.__context__
    return "".join(shown)


@pytest.mark.parametrize(("api", "name", "script", "reason", "options"), CASES, ids=[f"{c[0]}: {c[1]}" for c in CASES])
def test_every_bad_reply_ends_in_its_own_word_within_the_limit(
    api: str,
    name: str,
    script: Script,
    reason: str,
    options: Mapping[str, Any],
    server: Server,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """However a server misbehaves, the call ends in time with a typed error that never shows the key."""
    caplog.set_level(logging.DEBUG)
    server.scripts = [script]
    waits: list[float] = []
    if reason == "timeout":
        options = {"idle_timeout": 0.25, **options}
    begun = time.monotonic()
    with pytest.raises(SummarizerError) as caught:
        summarizer(api, server.url, waits, tmp_path, **options).summarize(SummaryRequest(MESSAGES))
    took = time.monotonic() - begun
    assert caught.value.reason == reason, str(caught.value)
    assert took < 10, "the limits are 0.25 s between two pieces, or 0.7 s in total, where nothing else ends the call"
    assert CANARY in server.requests[0].head, "the key must reach the endpoint, or this test shows nothing"
    everything = all_that_is_shown(caught.value) + caplog.text + "".join(capfd.readouterr())
    everything += "".join(file.read_text() for file in tmp_path.rglob("*") if file.is_file())
    assert CANARY not in everything
    assert CANARY[:8] not in everything, "nor a part of it"
    retried = reason in ("rate_limited", "server_error", "dropped") and options.get("tries") != 1
    assert len(server.requests) == (3 if retried else 1), "only what may pass by itself is tried again"
    assert all(0 <= wait <= 60 for wait in waits)


def answer(api: str, text: str) -> dict[str, object]:
    """Give a good reply."""
    return openai_document(text) if api == "openai" else anthropic_document(text)


@pytest.mark.parametrize(
    ("first", "waited"),
    [
        (says({}, "429 X", "Retry-After: 7\r\n"), 7.0),
        (says({}, "429 X", "Retry-After: Mon, 12 Jan 1970 13:47:10 GMT\r\n"), 30.0),  # 1,000,030 s; now is 1,000,000
        (says({}, "429 X", "Retry-After: 99999\r\n"), 60.0),
        (says({}, "503 X"), 0.75),  # 1 s, and of its second half the share 0.5
        (raw(b""), 0.75),
    ],
    ids=["seconds", "date", "absurd", "none", "dropped"],
)
def test_a_second_try_helps_and_waits_as_asked(first: Script, waited: float, server: Server, tmp_path: Path) -> None:
    """What may pass is tried again after the time that the server names, at most a minute."""
    server.scripts = [first, says(openai_document(ANCHOR_BLOCK))]
    waits: list[float] = []
    found = summarizer("openai", server.url, waits, tmp_path, timeout=100.0).summarize(SummaryRequest(MESSAGES))
    assert found.text.startswith("## Anchors")
    assert waits == [waited]


def test_no_wait_that_would_pass_the_total_limit(server: Server, tmp_path: Path) -> None:
    """Where the server asks for more patience than the call has left, the call ends at once."""
    server.scripts = [says({}, "429 X", "Retry-After: 50\r\n")]
    waits: list[float] = []
    with pytest.raises(SummarizerError, match="rate_limited"):
        summarizer("openai", server.url, waits, tmp_path, timeout=5.0).summarize(SummaryRequest(MESSAGES))
    assert waits == []
    assert len(server.requests) == 1


@pytest.mark.parametrize("usage", [{"prompt_tokens": -5, "completion_tokens": 1}, {"prompt_tokens": 10**18},
                                   {"prompt_tokens": "many", "completion_tokens": 2}, "none", None])  # fmt: skip
def test_nonsense_usage_is_ignored(usage: object, server: Server, tmp_path: Path) -> None:
    """A negative, absurd or missing usage counts as not known, never as a number."""
    server.scripts = [says(openai_document(ANCHOR_BLOCK) | {"usage": usage})]
    found = summarizer("openai", server.url, [], tmp_path).summarize(SummaryRequest(MESSAGES))
    assert found.usage is None
    assert ("usage_invalid" in found.notes) == isinstance(usage, dict)


def test_a_key_in_a_reply_reaches_neither_summary_nor_cassette(server: Server, tmp_path: Path) -> None:
    """A model that repeats the key cannot put it into a record."""
    server.scripts = [says(openai_document(ANCHOR_BLOCK + f" The key is {CANARY}."))]
    found = summarizer("openai", server.url, [], tmp_path).summarize(SummaryRequest(MESSAGES))
    assert "The key is ***." in found.text
    assert CANARY not in (tmp_path / "cassette.jsonl").read_text()


@pytest.mark.parametrize("reason", ["auth", "redirect"])
def test_after_a_refused_key_nothing_more_is_sent(reason: str, server: Server, tmp_path: Path) -> None:
    """A wrong key is not tried a thousand times."""
    server.scripts = [says({}, "401 No") if reason == "auth" else raw(reply(b"", "301 M"))]
    found = summarizer("openai", server.url, [], tmp_path)
    for budget in (100, 200, 300):
        with pytest.raises(SummarizerError) as caught:
            found.summarize(SummaryRequest(MESSAGES, budget=budget))
        assert caught.value.reason == reason
    assert len(server.requests) == 1


def test_a_span_that_failed_for_good_is_not_paid_for_twice(server: Server, tmp_path: Path) -> None:
    """The same request, once answered uselessly, is not sent again; another one is."""
    server.scripts = [says(openai_document(None))]
    found = summarizer("openai", server.url, [], tmp_path)
    reasons = []
    for budget in (100, 100, 200):
        with pytest.raises(SummarizerError) as caught:
            found.summarize(SummaryRequest(MESSAGES, budget=budget))
        reasons.append(caught.value.reason)
    assert reasons == ["no_text", "repeated", "no_text"]
    assert len(server.requests) == 2


WHOLE = stream(openai_events(ANCHOR_BLOCK))
HALF = cut(reply(sse(openai_events(ANCHOR_BLOCK)), kind="text/event-stream"), 400)
PRICES: dict[str, Any] = {"input_price": 0.0, "output_price": 1000.0}  # a tenth of a cent for a token of output


@pytest.mark.parametrize(
    ("scripts", "calls", "output"),
    [
        ([WHOLE := stream(openai_events(ANCHOR_BLOCK))], 1, 90),
        # Each try that broke off may have cost what it was allowed: twice the budget of 100 and 512.
        ([HALF, HALF, WHOLE], 3, 2 * 712 + 90),
        ([HALF], 3, 3 * 712),
        # Nothing was written for a status that refuses, nor where nobody answered.
        ([says({}, "429 X"), says({}, "503 X"), WHOLE], 3, 90),
        ([says({}, "401 No")], 1, 0),
        # All of the reply came, and was of no use.
        ([stream(openai_events(ANCHOR_BLOCK, "length"))], 1, 712),
    ],
    ids=["at once", "dropped twice", "dropped each time", "busy twice", "refused", "useless"],
)
def test_every_try_is_on_the_bill(
    scripts: list[Script], calls: int, output: int, server: Server, tmp_path: Path
) -> None:
    """Each request is a call; what a broken-off one may have cost stays on the account, a refused one is free."""
    server.scripts = list(scripts)
    found = summarizer("openai", server.url, [], tmp_path, **PRICES)
    with contextlib.suppress(SummarizerError):
        found.summarize(SummaryRequest(MESSAGES, budget=100))
    assert len(server.requests) == found.spending.calls == calls
    assert found.spending.output_tokens == output
    assert (found.spending.input_tokens == 0) == (output == 0)
    assert found.spending.cost == pytest.approx(output / 1000)


@pytest.mark.parametrize(
    ("caps", "requests", "said"),
    [
        # A token of output costs a tenth of a cent; a request with the budget 100 may write 712.
        ({"max_cost": 0.711}, 0, "--max-cost 0.711"),
        ({"max_cost": 0.712}, 1, "--max-cost 0.712; the one before failed: "),
        ({"max_cost": 1.424}, 2, "--max-cost 1.424; the one before failed: "),
        ({"max_output_tokens": 50, "max_cost": 0.05}, 1, "--max-cost 0.05; the one before failed: "),
        ({"max_calls": 1}, 1, "--max-calls 1; the one before failed: "),
        ({"max_calls": 2}, 2, "--max-calls 2; the one before failed: "),
        ({"max_input_tokens": 10}, 0, "--max-input-tokens 10"),
    ],
)
def test_caps_hold_before_the_try_that_would_pass_them(
    caps: dict[str, Any], requests: int, said: str, server: Server, tmp_path: Path
) -> None:
    """A cap counts what a request is allowed, and every try of it: no retry spends more than was permitted."""
    server.scripts = [HALF]
    found = summarizer("openai", server.url, [], tmp_path, **(PRICES | caps))
    for budget in (100, 90):
        with pytest.raises(SummarizerError, match=said) as caught:
            found.summarize(SummaryRequest(MESSAGES, budget=budget))
        assert caught.value.reason == "budget_spent"
    assert len(server.requests) == requests


@pytest.mark.parametrize("first", ["summary", "facts"])
def test_summaries_and_facts_share_what_a_refused_key_taught(first: str, server: Server, tmp_path: Path) -> None:
    """After a refused key neither asks again; a list of facts that was none is not asked for twice either."""
    server.scripts = [says({}, "401 No")]
    found = summarizer("openai", server.url, [], tmp_path)
    extractor = make_extractor(found, lambda fact: None)
    assert extractor is not None
    asks: list[Callable[[], object]] = [
        lambda: found.summarize(SummaryRequest(MESSAGES)),
        lambda: extractor.extract(MESSAGES),
    ]
    for ask in (asks if first == "summary" else asks[::-1]) * 2:
        with pytest.raises(SummarizerError) as caught:
            ask()
        assert caught.value.reason == "auth"
    assert len(server.requests) == 1
    server.scripts = [says(openai_document("no list"))]
    extractor = make_extractor(summarizer("openai", server.url, [], tmp_path), lambda fact: None)
    assert extractor is not None
    reasons = []
    for messages in (MESSAGES, MESSAGES, MESSAGES[:1]):
        with pytest.raises(SummarizerError) as caught:
            extractor.extract(messages)
        reasons.append(caught.value.reason)
    assert reasons == ["malformed", "repeated", "malformed"]
    assert len(server.requests) == 3


def test_no_server_is_a_typed_failure(tmp_path: Path) -> None:
    """Nobody listening is told as such after three tries."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    waits: list[float] = []
    with pytest.raises(SummarizerError) as caught:
        summarizer("openai", f"http://127.0.0.1:{port}/v1", waits, tmp_path).summarize(SummaryRequest(MESSAGES))
    assert caught.value.reason == "connection"
    assert waits == [0.75, 1.5]


def streamed(api: str, text: str) -> Script:
    """Give a good reply as a stream."""
    if api == "openai":
        return stream(openai_events(text))
    return raw(reply(sse(anthropic_events(text), names=True, done=False), kind="text/event-stream"))


@pytest.mark.parametrize("api", list(CHATS))
@pytest.mark.parametrize("pieces", [True, False], ids=["streaming", "whole"])
@pytest.mark.parametrize("fenced", [True, False], ids=["fenced", "bare"])
def test_real_clients_read_a_real_reply(api: str, pieces: bool, fenced: bool, server: Server, tmp_path: Path) -> None:
    """Both official clients, streaming and not, give the exact text, the whole usage and the figures of the check."""

    def script(connection: socket.socket, request: Request) -> None:
        text = request.fenced(ANCHOR_BLOCK) if fenced else ANCHOR_BLOCK
        send: Callable[[str, str], Script] = streamed if pieces else lambda a, t: says(answer(a, t))
        send(api, text)(connection, request)

    server.scripts = [script]
    found: SummaryReply = summarizer(api, server.url, [], tmp_path, stream=pieces).summarize(SummaryRequest(MESSAGES))
    assert found.text == ANCHOR_BLOCK
    assert found.usage is not None
    assert (found.usage.prompt, found.usage.output) == (900, 90)
    assert ("reply_unfenced" in found.notes) != fenced
    assert "anchors_present:3" in found.notes
    assert [anchor.origin for anchor in found.anchors] == ["user", "user", "", "", "assistant"]
    sent = server.requests[0].json
    assert sent["model"] == "m"
    assert bool(sent.get("stream")) == pieces


def test_a_document_is_read_where_a_stream_was_asked_for(server: Server, tmp_path: Path) -> None:
    """A server that does not stream is understood all the same."""
    server.scripts = [says(openai_document(ANCHOR_BLOCK))]
    found = summarizer("openai", server.url, [], tmp_path, stream=True).summarize(SummaryRequest(MESSAGES))
    assert found.text == ANCHOR_BLOCK
