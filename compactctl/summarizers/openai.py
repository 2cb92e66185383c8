"""Summaries from any server that speaks OpenAI's chat completions: OpenAI, vLLM, Ollama, llama.cpp, ..."""

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

DEFAULT_URL = "https://api.openai.com/v1"
_OWN_HOST = "api.openai.com"


class OpenAIChat(RemoteChat):
    """A model behind the chat completions API."""

    provider = "openai"
    extra = "openai"

    def ask(self, attempt: Attempt, prompt: Prompt) -> Completion:
        """Send one request with the official client and read its answer."""
        guard = self.guard(attempt)
        settings = self.settings
        arguments: dict[str, Any] = {
            "model": settings.model,
            "messages": [{"role": "system", "content": prompt.system}, {"role": "user", "content": prompt.user}],
            # Newer models of OpenAI itself know only the second name, other servers often only the first.
            "max_completion_tokens" if self.host == _OWN_HOST else "max_tokens": self.output_tokens(prompt),
        }
        if settings.temperature is not None:
            arguments["temperature"] = settings.temperature
        if settings.stream:
            arguments |= {"stream": True, "stream_options": {"include_usage": True}}
        try:
            with (
                self.http_client(guard, attempt) as http,
                self.library.OpenAI(
                    api_key=self.key(), base_url=self.endpoint.url, http_client=http, max_retries=0
                ) as client,
                client.chat.completions.with_streaming_response.create(**arguments) as response,
            ):
                return read_reply(guard.body(response), is_stream(response), prompt.nonce)
        except Exception as error:
            raise guard.explain(error) from None


def read_reply(body: bytes, streamed: bool, nonce: str) -> Completion:
    """Read a whole reply, streamed or not; raises CallError where it is not one finished text."""
    text, finish, usage, notes = _read_stream(sse_events(body)) if streamed else _read_document(json_object(body))
    if finish == "length":
        raise CallError(Failure.TRUNCATED, "the model ran into its token cap; raise --max-output-tokens")
    if finish == "content_filter":
        raise CallError(Failure.REFUSED, "a filter stopped the reply")
    if finish in ("tool_calls", "function_call"):
        raise CallError(Failure.NO_TEXT, "the model called a tool instead of writing")
    return Completion(text, nonce, usage, notes)


def _read_document(found: Mapping[str, Any]) -> tuple[str, str, Usage | None, tuple[str, ...]]:
    _raise_error(found)
    choices = found.get("choices")
    if not isinstance(choices, list) or not choices or not isinstance(choices[0], dict):
        raise CallError(Failure.MALFORMED, "the reply has no choices")
    if len(choices) > 1:
        raise CallError(Failure.SEVERAL_CHOICES, f"the reply has {len(choices)} choices, one was asked for")
    message = choices[0].get("message")
    if not isinstance(message, dict):
        raise CallError(Failure.MALFORMED, "the reply has no message")
    if message.get("tool_calls") or message.get("function_call"):
        raise CallError(Failure.NO_TEXT, "the model called a tool instead of writing")
    if message.get("refusal"):
        raise CallError(Failure.REFUSED, f"the model declined: {message['refusal']}")
    usage, notes = _usage(found.get("usage"))
    return _text(message.get("content")), str(choices[0].get("finish_reason") or ""), usage, notes


def _read_stream(events: Iterator[Mapping[str, Any]]) -> tuple[str, str, Usage | None, tuple[str, ...]]:
    pieces: list[str] = []
    finish = ""
    stated: object = None
    for event in events:
        _raise_error(event)
        stated = event.get("usage") or stated
        choices = event.get("choices") or ()
        if not isinstance(choices, list | tuple):
            raise CallError(Failure.MALFORMED, "a part of the stream has no list of choices")
        for choice in choices:
            if not isinstance(choice, dict) or not isinstance(choice.get("delta", {}), dict):
                raise CallError(Failure.MALFORMED, "a part of the stream is no choice")
            if choice.get("index"):
                raise CallError(Failure.SEVERAL_CHOICES, "the stream has several choices, one was asked for")
            delta = choice.get("delta") or {}
            if delta.get("tool_calls") or delta.get("function_call"):
                raise CallError(Failure.NO_TEXT, "the model called a tool instead of writing")
            if delta.get("refusal"):
                raise CallError(Failure.REFUSED, "the model declined")
            if delta.get("content") is not None:
                pieces.append(_text(delta["content"]))
            finish = str(choice.get("finish_reason") or finish)
    if not finish:
        raise CallError(Failure.DROPPED, "the stream ended before the model had finished", retry=True)
    usage, notes = _usage(stated)
    return "".join(pieces), finish, usage, notes


def _text(content: object) -> str:
    if isinstance(content, str):
        return content
    if isinstance(content, list) and all(isinstance(part, dict) for part in content):
        return "".join(part["text"] for part in content if isinstance(part.get("text"), str))
    raise CallError(Failure.NO_TEXT, "the reply holds no text")


def _usage(stated: object) -> tuple[Usage | None, tuple[str, ...]]:
    if not isinstance(stated, dict):
        return None, ()
    details = stated.get("prompt_tokens_details")
    cached = details.get("cached_tokens") if isinstance(details, dict) else None
    usage, nonsense = read_usage(stated.get("prompt_tokens"), stated.get("completion_tokens"), cached, None)
    return usage, (Note.USAGE_INVALID,) if nonsense else ()


def _raise_error(found: Mapping[str, Any]) -> None:
    error = found.get("error")
    if error:
        said = error.get("message", error) if isinstance(error, dict) else error
        raise CallError(Failure.SERVER_ERROR, f"the server answered with an error: {said}", retry=True)


def _make(options: Mapping[str, Any], blobs: BlobStore | None) -> ModelSummarizer:
    settings = RemoteSettings.of(options, DEFAULT_URL, "OPENAI_API_KEY")
    return model_summarizer(OpenAIChat(settings), settings.common, blobs)


SUMMARIZER = SummarizerSpec(
    name="openai",
    help="a model behind any OpenAI-compatible server (--base-url); needs the extra openai",
    make=_make,
    options=(*MODEL_OPTIONS, *ENDPOINT_OPTIONS),
    remote=True,
    extra="openai",
)
