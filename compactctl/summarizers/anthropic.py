"""Summaries from Anthropic's Messages API through the official client."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from compactctl.model import Note, Usage
from compactctl.ports import BlobStore, SummarizerSpec
from compactctl.settings import ENDPOINT_OPTIONS, MODEL_OPTIONS
from compactctl.summarizers._build import model_summarizer
from compactctl.summarizers._calls import Attempt, CallError
from compactctl.summarizers._chat import Completion, Prompt, read_usage
from compactctl.summarizers._failure import Failure
from compactctl.summarizers._http import is_stream, json_object, sse_events
from compactctl.summarizers._model import ModelSummarizer
from compactctl.summarizers._remote import RemoteChat
from compactctl.summarizers._settings import RemoteSettings

DEFAULT_URL = "https://api.anthropic.com"
_STOPS = {
    "max_tokens": (Failure.TRUNCATED, "the model ran into its token cap; raise --max-output-tokens"),
    "model_context_window_exceeded": (Failure.TRUNCATED, "the request does not fit the model's window"),
    "tool_use": (Failure.NO_TEXT, "the model called a tool instead of writing"),
    "refusal": (Failure.REFUSED, "the model declined"),
    "pause_turn": (Failure.TRUNCATED, "the model paused in the middle of its answer"),
}


class AnthropicChat(RemoteChat):
    """A model behind the Messages API."""

    provider = "anthropic"
    extra = "anthropic"

    def ask(self, attempt: Attempt, prompt: Prompt) -> Completion:
        """Send one request with the official client and read its answer."""
        guard = self.guard(attempt)
        settings = self.settings
        arguments: dict[str, Any] = {
            "model": settings.model,
            "max_tokens": self.output_tokens(prompt),
            "system": prompt.system,
            "messages": [{"role": "user", "content": prompt.user}],
        }
        if settings.temperature is not None:
            arguments["temperature"] = settings.temperature
        if settings.stream:
            arguments["stream"] = True
        try:
            with (
                self.http_client(guard, attempt) as http,
                self.library.Anthropic(
                    api_key=self.key(), base_url=self.endpoint.url, http_client=http, max_retries=0
                ) as client,
                client.messages.with_streaming_response.create(**arguments) as response,
            ):
                return read_reply(guard.body(response), is_stream(response), prompt.nonce)
        except Exception as error:
            raise guard.explain(error) from None


def read_reply(body: bytes, streamed: bool, nonce: str) -> Completion:
    """Read a whole reply, streamed or not; raises CallError where it is not one finished text."""
    text, stop, stated = _read_stream(sse_events(body)) if streamed else _read_document(json_object(body))
    if stop in _STOPS:
        raise CallError(*_STOPS[stop])
    usage, notes = _usage(stated)
    return Completion(text, nonce, usage, notes)


def _read_document(found: Mapping[str, Any]) -> tuple[str, str, Mapping[str, Any]]:
    _raise_error(found)
    content = found.get("content")
    if not isinstance(content, list) or not all(isinstance(block, dict) for block in content):
        raise CallError(Failure.MALFORMED, "the reply has no list of content blocks")
    if any(block.get("type") == "tool_use" for block in content):
        raise CallError(Failure.NO_TEXT, "the model called a tool instead of writing")
    texts = [block.get("text") for block in content if block.get("type") == "text"]
    if not texts or not all(isinstance(text, str) for text in texts):
        raise CallError(Failure.NO_TEXT, "the reply holds no text")
    stated = found.get("usage")
    return "".join(map(str, texts)), str(found.get("stop_reason") or ""), stated if isinstance(stated, dict) else {}


def _read_stream(events: Iterator[Mapping[str, Any]]) -> tuple[str, str, Mapping[str, Any]]:
    pieces: list[str] = []
    stop = ""
    ended = text_seen = False
    stated: dict[str, Any] = {}
    for event in events:
        _raise_error(event)
        kind = event.get("type")
        if kind == "message_start":
            stated |= _part(_part(event, "message"), "usage")
        elif kind == "content_block_start":
            block = _part(event, "content_block")
            if block.get("type") == "tool_use":
                raise CallError(Failure.NO_TEXT, "the model called a tool instead of writing")
            text_seen = text_seen or block.get("type") == "text"
        elif kind == "content_block_delta":
            delta = _part(event, "delta")
            if delta.get("type") == "text_delta":
                if not isinstance(delta.get("text"), str):
                    raise CallError(Failure.MALFORMED, "a part of the stream holds no text")
                pieces.append(delta["text"])
                text_seen = True
        elif kind == "message_delta":
            stop = str(_part(event, "delta").get("stop_reason") or stop)
            stated |= {name: count for name, count in _part(event, "usage").items() if count is not None}
        elif kind == "message_stop":
            ended = True
    if not ended:
        raise CallError(Failure.DROPPED, "the stream ended before the model had finished", retry=True)
    if not text_seen and stop not in _STOPS:
        raise CallError(Failure.NO_TEXT, "the reply holds no text")
    return "".join(pieces), stop, stated


def _part(found: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    part = found.get(name)
    return part if isinstance(part, dict) else {}


def _usage(stated: Mapping[str, Any]) -> tuple[Usage | None, tuple[str, ...]]:
    """The whole prompt is what was read afresh, from the cache and into it."""
    read, written = stated.get("cache_read_input_tokens"), stated.get("cache_creation_input_tokens")
    usage, nonsense = read_usage(stated.get("input_tokens"), stated.get("output_tokens"), read, written)
    if usage is not None:
        whole = usage.prompt + (usage.cache_read or 0) + (usage.cache_write or 0)
        usage = Usage(whole, usage.output, usage.cache_read, usage.cache_write)
    return usage, (Note.USAGE_INVALID,) if nonsense else ()


def _raise_error(found: Mapping[str, Any]) -> None:
    if found.get("type") == "error" or found.get("error"):
        error = _part(found, "error")
        busy = error.get("type") in ("overloaded_error", "rate_limit_error", "api_error")
        reason = Failure.AUTH if error.get("type") == "authentication_error" else Failure.SERVER_ERROR
        raise CallError(reason, f"the server answered with an error: {error.get('message', '')}", retry=busy)


def _make(options: Mapping[str, Any], blobs: BlobStore | None) -> ModelSummarizer:
    settings = RemoteSettings.of(options, DEFAULT_URL, "ANTHROPIC_API_KEY")
    return model_summarizer(AnthropicChat(settings), settings.common, blobs)


SUMMARIZER = SummarizerSpec(
    name="anthropic",
    help="a model of Anthropic through the official client; needs the extra anthropic",
    make=_make,
    options=(*MODEL_OPTIONS, *ENDPOINT_OPTIONS),
    remote=True,
    extra="anthropic",
)
