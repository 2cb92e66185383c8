"""Cassettes: a costly run is repeatable, offline and free the second time."""

from __future__ import annotations

import socket
from collections.abc import Mapping
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

    def complete(self, prompt: Prompt) -> Completion:
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
    with pytest.raises(SummarizerError, match="gpt-x, summary of 2 messages, prompt version 1") as caught:
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


def test_a_cassette_file_can_be_committed(tmp_path: Path) -> None:
    """The file is one JSON object a line in the order of the keys, and holds nothing of the transcript."""
    path = tmp_path / "cassettes" / "run.jsonl"
    model = Counting()
    summarizer = ModelSummarizer(CassetteChat(model, CassetteFile(path), CassetteMode.RECORD))
    texts = [summarizer.summarize(SummaryRequest(MESSAGES, budget=budget)).text for budget in (900, 300, 600)]
    rows = [orjson.loads(row) for row in path.read_bytes().splitlines()]
    assert [row["key"] for row in rows] == sorted(row["key"] for row in rows)
    assert {row["reply"]["prompt_version"] for row in rows} == {"1"}
    assert all(row["reply"]["nonce"] for row in rows)
    assert b"run the tests run" not in path.read_bytes()
    again = ModelSummarizer(CassetteChat(Counting(), CassetteFile(path), CassetteMode.REPLAY))
    assert [again.summarize(SummaryRequest(MESSAGES, budget=budget)).text for budget in (900, 300, 600)] == texts
    assert list(path.parent.iterdir()) == [path], "nothing temporary is left"


@pytest.mark.parametrize("damage", [b"{", b"[1]\n", b'{"key": "a"}\n', b"\xff\n"])
def test_a_damaged_cassette_file_is_named_with_its_line(damage: bytes, tmp_path: Path) -> None:
    """A damaged line is an error that names file and line, never an empty cassette that would be overwritten."""
    path = tmp_path / "c.jsonl"
    path.write_bytes(b'{"key": "b", "reply": {}}\n' + damage)
    with pytest.raises(StoreError, match=r"c\.jsonl:2"):
        CassetteFile(path).get("b")
    assert path.read_bytes().endswith(damage)


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
