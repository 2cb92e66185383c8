"""Cassettes: a costly run is repeatable, offline and free the second time."""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import orjson
import pytest

from compactctl.errors import SettingsError, StoreError, SummarizerError
from compactctl.model import Message, Usage
from compactctl.ports import SummaryFormat, SummaryRequest
from compactctl.summarizers import make_planner, make_summarizer
from compactctl.summarizers._cassette import CassetteChat, CassetteFile, CassetteMode
from compactctl.summarizers._chat import Completion, Prompt, request_key
from compactctl.summarizers._model import ModelSummarizer
from compactctl.summarizers._spending import Spending

from .conftest import ANCHOR_BLOCK

MESSAGES = (Message("user", "fix parse_row, run the tests " * 40), Message("assistant", "changed src/parser.py"))


class Blobs:
    """Keeps bytes in memory."""

    def __init__(self) -> None:
        self.kept: dict[str, bytes] = {}

    def get(self, key: str) -> bytes | None:
        """Give the bytes."""
        return self.kept.get(key)

    def put(self, key: str, value: bytes) -> None:
        """Keep the bytes."""
        self.kept[key] = value


class Counting:
    """A model that counts its calls; ``parameters`` are part of what it is."""

    host = "here"

    def __init__(self, **parameters: Any) -> None:
        self.calls = 0
        self.identity: Mapping[str, Any] = {"provider": "test", "model": "m", **parameters}

    def complete(self, prompt: Prompt, spending: Spending) -> Completion:
        """Answer in the fence."""
        self.calls += 1
        text = f"<<<answer {prompt.nonce}>>>\n{ANCHOR_BLOCK} {self.calls}\n<<<end answer {prompt.nonce}>>>"
        return Completion(text, prompt.nonce, Usage(10, 2))

    def stop(self) -> None:
        """Nothing runs."""


def test_the_second_run_costs_nothing_and_says_the_same() -> None:
    """A kept reply is read with the nonce it was made for, so a new nonce changes neither key nor summary."""
    blobs, model = Blobs(), Counting()
    first = ModelSummarizer(CassetteChat(model, blobs, CassetteMode.RECORD)).summarize(SummaryRequest(MESSAGES))
    again = ModelSummarizer(CassetteChat(model, blobs, CassetteMode.RECORD)).summarize(SummaryRequest(MESSAGES))
    offline = ModelSummarizer(CassetteChat(Counting(), blobs, CassetteMode.REPLAY)).summarize(SummaryRequest(MESSAGES))
    assert model.calls == 1
    assert first == again == offline
    assert len(blobs.kept) == 1


def test_a_paid_reply_is_kept_whatever_the_model_is_called() -> None:
    """A name that came from the command line may hold any bytes; the reply is kept, and found again under it."""
    blobs, model = Blobs(), Counting(model="gpt\udcff")
    first = ModelSummarizer(CassetteChat(model, blobs, CassetteMode.RECORD)).summarize(SummaryRequest(MESSAGES))
    again = ModelSummarizer(CassetteChat(model, blobs, CassetteMode.RECORD)).summarize(SummaryRequest(MESSAGES))
    assert (model.calls, len(blobs.kept)) == (1, 1)
    assert first == again


@pytest.mark.parametrize(
    "other",
    [
        SummaryRequest(MESSAGES[:1]),
        SummaryRequest(MESSAGES, budget=100),
        SummaryRequest(MESSAGES, previous=lambda: "### User Intent\nx"),
        SummaryRequest(MESSAGES, format=SummaryFormat.DSH),
    ],
    ids=["text", "budget", "previous", "format"],
)
def test_whatever_shapes_a_reply_is_in_its_key(other: SummaryRequest) -> None:
    """Another text, budget, earlier summary or form is another request."""
    summarizer = ModelSummarizer(Counting())
    assert request_key({}, summarizer.prompt(SummaryRequest(MESSAGES))) != request_key({}, summarizer.prompt(other))


def test_model_and_parameters_are_in_the_key_and_the_nonce_is_not() -> None:
    """Another model or temperature is another request; a fresh nonce is not."""
    summarizer = ModelSummarizer(Counting())
    one, two = summarizer.prompt(SummaryRequest(MESSAGES)), summarizer.prompt(SummaryRequest(MESSAGES))
    assert one.nonce != two.nonce
    assert request_key({"model": "a"}, one) == request_key({"model": "a"}, two)
    assert request_key({"model": "a"}, one) != request_key({"model": "b"}, two)
    assert request_key({"model": "a", "temperature": 0.1}, one) != request_key({"model": "a", "temperature": 0.2}, two)


def test_replay_names_what_is_missing_and_opens_no_connection(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In replay mode a reply that is not kept is a typed failure; no socket, key or client library is touched."""

    def refuse(*arguments: object, **keywords: object) -> None:
        raise AssertionError("replay must not connect")

    monkeypatch.setattr(socket, "socket", refuse)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    options = {"model": "gpt-x", "cassette_file": str(tmp_path / "c.jsonl")}
    summarizer = make_summarizer("openai", options, cassette_mode="replay")
    with pytest.raises(SummarizerError, match="gpt-x, summary of 2 messages, prompt version 2") as caught:
        summarizer.summarize(SummaryRequest(MESSAGES))
    assert caught.value.reason == "missing_reply"
    assert "--cassette record" in str(caught.value)


def test_refresh_asks_again_once() -> None:
    """Refreshing asks anew, keeps the new reply, and asks once for each request of a run."""
    blobs, model = Blobs(), Counting()
    ModelSummarizer(CassetteChat(model, blobs, CassetteMode.RECORD)).summarize(SummaryRequest(MESSAGES))
    refreshing = ModelSummarizer(CassetteChat(model, blobs, CassetteMode.REFRESH))
    replies = [refreshing.summarize(SummaryRequest(MESSAGES)).text for _ in range(2)]
    assert model.calls == 2
    assert replies == [f"{ANCHOR_BLOCK} 2"] * 2


@pytest.mark.parametrize("mode", [CassetteMode.RECORD, CassetteMode.REFRESH])
def test_nothing_is_asked_where_its_reply_could_not_be_kept(mode: CassetteMode, tmp_path: Path) -> None:
    """A file that is no cassette is refused before the first call, and stays as it is."""
    path, model = tmp_path / "notes.txt", Counting()
    path.write_text("my notes\n")
    with pytest.raises(StoreError, match="not a kept reply"):
        ModelSummarizer(CassetteChat(model, CassetteFile(path), mode)).summarize(SummaryRequest(MESSAGES))
    assert (model.calls, path.read_text()) == (0, "my notes\n")


def test_a_cassette_file_can_be_committed(tmp_path: Path) -> None:
    """The file is one JSON object a line in the order of asking, private, and holds nothing of the transcript."""
    path = tmp_path / "cassettes" / "run.jsonl"
    model = Counting()
    summarizer = ModelSummarizer(CassetteChat(model, CassetteFile(path), CassetteMode.RECORD))
    texts = [summarizer.summarize(SummaryRequest(MESSAGES, budget=budget)).text for budget in (900, 300, 600)]
    rows = [orjson.loads(row) for row in path.read_bytes().splitlines()]
    prompts = [summarizer.prompt(SummaryRequest(MESSAGES, budget=budget)) for budget in (900, 300, 600)]
    assert [row["key"] for row in rows] == [request_key(model.identity, prompt) for prompt in prompts]
    assert path.stat().st_mode & 0o777 == 0o600
    assert {row["reply"]["prompt_version"] for row in rows} == {"2"}
    assert all(row["reply"]["nonce"] for row in rows)
    assert {row["reply"]["host"] for row in rows} == {"here"}
    assert b"run the tests run" not in path.read_bytes()
    again = ModelSummarizer(CassetteChat(Counting(), CassetteFile(path), CassetteMode.REPLAY))
    assert [again.summarize(SummaryRequest(MESSAGES, budget=budget)).text for budget in (900, 300, 600)] == texts
    assert list(path.parent.iterdir()) == [path], "nothing temporary is left"


@pytest.mark.parametrize("damage", [b"{\n", b"[1]\n", b'{"key": "a"}\n', b"\xff\n", b"my notes"])
def test_a_damaged_cassette_file_is_named_with_its_line(damage: bytes, tmp_path: Path) -> None:
    """A damaged line is an error that names file and line, never an empty cassette that would be overwritten."""
    path = tmp_path / "c.jsonl"
    path.write_bytes(b'{"key": "b", "reply": {}}\n' + damage)
    with pytest.raises(StoreError, match=r"c\.jsonl:2"):
        CassetteFile(path).get("b")
    with pytest.raises(StoreError, match=r"c\.jsonl:2"):
        CassetteFile(path).put("b", b"{}")
    assert path.read_bytes().endswith(damage)


def test_two_writers_of_one_file_keep_each_others_replies(tmp_path: Path) -> None:
    """Two summarizers of one command, or two commands at once: what one paid for the other does not erase."""
    path = tmp_path / "c.jsonl"
    models = [ModelSummarizer(CassetteChat(Counting(at=n), CassetteFile(path), CassetteMode.RECORD)) for n in (1, 2)]
    for budget in (100, 200):
        for model in models:
            model.summarize(SummaryRequest(MESSAGES, budget=budget))
    assert len(path.read_bytes().splitlines()) == 4
    for n in (1, 2):
        offline = ModelSummarizer(CassetteChat(Counting(at=n), CassetteFile(path), CassetteMode.REPLAY))
        for budget in (100, 200):
            offline.summarize(SummaryRequest(MESSAGES, budget=budget))


WRITER = """
import sys
from pathlib import Path
from compactctl.summarizers._cassette import CassetteFile
for number in range(60):
    CassetteFile(Path(sys.argv[1])).put(f"{sys.argv[2]}-{number}", b'{"text": "' + b"x" * 70_000 + b'"}')
"""


def test_processes_that_write_at_once_lose_nothing(tmp_path: Path) -> None:
    """Several processes add to one file at the same time: every line is there and whole."""
    path = tmp_path / "c.jsonl"
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    writers = [subprocess.Popen([sys.executable, "-c", WRITER, str(path), name], env=environ) for name in "abc"]
    assert [writer.wait(60) for writer in writers] == [0, 0, 0]
    keys = {orjson.loads(row)["key"] for row in path.read_bytes().splitlines()}
    assert keys == {f"{name}-{number}" for name in "abc" for number in range(60)}


@pytest.mark.parametrize("torn", [b'{"key": "c", "rep', b'{"key": "c"}', b"{", b'{"key": "c", "' + b"x" * 200_000])
def test_a_line_that_a_crash_left_unfinished_costs_no_other(torn: bytes, tmp_path: Path) -> None:
    """A torn last line is ignored by who reads and taken off by who writes; the last line of a key counts."""
    path = tmp_path / "c.jsonl"
    whole = b'{"key":"a","reply":{"n":1}}\n{"key":"b","reply":{"n":2}}\n'
    path.write_bytes(whole + torn)
    kept = CassetteFile(path)
    assert (kept.get("a"), kept.get("b"), kept.get("c")) == (b'{"n":1}', b'{"n":2}', None)
    kept.put("a", b'{"n":3}')
    assert path.read_bytes() == whole + b'{"key":"a","reply":{"n":3}}\n'
    assert kept.get("a") == CassetteFile(path).get("a") == b'{"n":3}'


def test_a_file_that_an_editor_left_without_its_last_newline_is_whole(tmp_path: Path) -> None:
    """A last line that is a reply is one, with and without a newline behind it."""
    path = tmp_path / "c.jsonl"
    path.write_bytes(b'{"key":"a","reply":{"n":1}}')
    CassetteFile(path).put("b", b'{"n":2}')
    assert path.read_bytes() == b'{"key":"a","reply":{"n":1}}\n{"key":"b","reply":{"n":2}}\n'


def test_a_reply_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    """Where the file is no file, or its directory none, the command says so and overwrites nothing."""
    (tmp_path / "file").write_bytes(b"mine")
    for path in (tmp_path, tmp_path / "file" / "c.jsonl"):
        with pytest.raises(StoreError, match=r"must be a regular file|cannot be written"):
            CassetteFile(path).put("a", b"{}")
    with resource_limit(100), pytest.raises(StoreError, match="cannot be written"):
        CassetteFile(tmp_path / "c.jsonl").put("a", b'"' + b"x" * 200 + b'"')
    assert (tmp_path / "c.jsonl").read_bytes() == b"", "nothing half-written is left"
    assert (tmp_path / "file").read_bytes() == b"mine"


@contextlib.contextmanager
def resource_limit(largest: int) -> Iterator[None]:
    """Allow files of so many bytes only, as a full disk does."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (largest, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)


def test_a_damaged_reply_is_a_typed_failure() -> None:
    """A kept reply of another shape falls back instead of breaking the run."""
    blobs = Blobs()
    summarizer = ModelSummarizer(CassetteChat(Counting(), blobs, CassetteMode.REPLAY))
    key = request_key({"provider": "test", "model": "m"}, summarizer.prompt(SummaryRequest(MESSAGES)))
    for damaged in (b"{", b"[]", b'{"text": 1, "nonce": "x"}', b'{"text": "x"}'):
        blobs.kept[key] = damaged
        with pytest.raises(SummarizerError, match="damaged"):
            ModelSummarizer(CassetteChat(Counting(), blobs, CassetteMode.REPLAY)).summarize(SummaryRequest(MESSAGES))


def test_a_cassette_needs_a_place() -> None:
    """Without a state directory and a file there is nowhere to keep replies, and it says so."""
    with pytest.raises(SettingsError, match="--cassette-file"):
        make_summarizer("command", {"command": "cat", "cassette": "record"})


def test_the_plan_names_the_host_that_kept_replies_came_from(tmp_path: Path) -> None:
    """Two servers that both call their model ``default`` share kept replies, and the plan says so before any use."""
    path = tmp_path / "c.jsonl"
    options: dict[str, Any] = {"model": "default", "cassette": "record", "cassette_file": str(path)}
    there = make_summarizer("openai", options | {"base_url": "http://127.0.0.1:8001/v1"})
    assert isinstance(there, ModelSummarizer)
    planner = make_planner(there)
    assert planner is not None
    prompt = there.prompt(SummaryRequest(MESSAGES))
    reply = {"text": ANCHOR_BLOCK, "nonce": "0", "host": "127.0.0.1:8001"}
    CassetteFile(path).put(request_key(there.chat.identity, prompt), orjson.dumps(reply))
    planner.summarize(SummaryRequest(MESSAGES))
    assert planner.plan().kept_from == ()
    assert planner.plan().text().endswith("the cassette answers 1 request")
    here = make_planner(make_summarizer("openai", options | {"base_url": "http://127.0.0.1:8002/v1"}))
    assert here is not None
    assert here.summarize(SummaryRequest(MESSAGES)).text == ANCHOR_BLOCK
    said = "the cassette answers 1 request (recorded at 127.0.0.1:8001; --cassette refresh asks anew)"
    assert here.plan().text().endswith(said)
    here.summarize(SummaryRequest(MESSAGES, budget=100))
    assert "1 more from the cassette (recorded at 127.0.0.1:8001; " in here.plan().text()


def test_the_plan_counts_what_would_be_asked(tmp_path: Path) -> None:
    """The plan names host, calls, tokens and cost, counts what the cassette holds apart, and sends nothing."""
    options: dict[str, Any] = {"model": "m", "base_url": "https://llm.example.com/v1", "input_price": 3.0}
    options |= {"output_price": 15.0, "cassette": "record", "cassette_file": str(tmp_path / "c.jsonl")}
    summarizer = make_summarizer("openai", options)
    planner = make_planner(summarizer)
    assert planner is not None
    for budget in (100, 200, 200):
        planner.summarize(SummaryRequest(MESSAGES, budget=budget))
    plan = planner.plan()
    assert (plan.host, plan.calls, plan.kept, plan.output_tokens) == ("llm.example.com", 2, 1, 300)
    assert plan.cost == pytest.approx((plan.input_tokens * 3 + 300 * 15) / 1e6)
    sent = f"{plan.input_bytes:,} bytes of prompts and transcript are sent there"
    assert plan.text().startswith(f"2 calls to llm.example.com (m), 1 more from the cassette: {sent}, about ")
    assert not (tmp_path / "c.jsonl").exists()
    assert make_planner(make_summarizer("stub")) is None
