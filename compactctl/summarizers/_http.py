"""Guards around an official client: no redirect, no surprise address, no endless body, no key in an error.

The clients bring the request, the headers and the URL; what comes back is read here, byte by byte within limits,
before any of their parsing: a body of 10 MB or a stream without an end must not reach a parser.
"""

from __future__ import annotations

import email.utils
import ipaddress
import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Protocol

import orjson

from compactctl.summarizers._calls import Attempt, CallError
from compactctl.summarizers._endpoint import forbidden
from compactctl.summarizers._failure import Failure
from compactctl.summarizers._secret import Redactor

_ERROR_BYTES = 4096  # of an error's body; more is not read
_BUSY = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 520, 522, 524, 529})


class Response(Protocol):
    """What is used of a client's streamed response."""

    @property
    def status_code(self) -> int:
        """The HTTP status."""

    @property
    def headers(self) -> Mapping[str, str]:
        """The headers, by name in any case."""

    def iter_bytes(self) -> Iterator[bytes]:
        """Give the body as it comes."""


class Guard:
    """The hooks of one try, and what they found; make the client with ``hooks()``, then read with ``body()``."""

    def __init__(self, attempt: Attempt, redact: Redactor, now: Callable[[], float]) -> None:
        self._attempt = attempt
        self._redact = redact
        self._now = now
        self._failed: CallError | None = None

    def hooks(self) -> dict[str, list[Callable[..., Any]]]:
        """Give the event hooks for the client."""
        return {"request": [self._on_request], "response": [self._on_response]}

    def body(self, response: Response) -> bytes:
        """Read a whole body within the size and time limits; raises CallError."""
        return b"".join(self._pieces(response, self._attempt.limits.reply_bytes))

    def explain(self, error: BaseException) -> CallError:
        """Give the CallError for whatever a client raised."""
        if self._failed is not None:
            return self._failed
        if isinstance(error, CallError):
            return error
        seen: BaseException | None = error
        words: list[str] = []
        while seen is not None and len(words) < 40:
            if isinstance(seen, CallError):
                return seen
            words.extend(cls.__name__ for cls in type(seen).__mro__)
            seen = seen.__cause__ or seen.__context__
        name = type(error).__name__
        if any("Timeout" in word for word in words):
            where = "no connection" if "ConnectTimeout" in words else "nothing more came"
            unmade = "ConnectTimeout" in words
            return CallError(Failure.TIMEOUT, f"{where} within the time limit ({name})", free=unmade)
        if "ConnectError" in words:
            return CallError(Failure.CONNECTION, f"no connection: {_cause(error)}", retry=True, free=True)
        if any(word in words for word in ("RemoteProtocolError", "ReadError", "WriteError", "CloseError")):
            return CallError(Failure.DROPPED, f"the connection ended in the middle: {_cause(error)}", retry=True)
        if "APIConnectionError" in words:
            return CallError(Failure.CONNECTION, f"no connection: {_cause(error)}", retry=True)
        return CallError(Failure.MALFORMED, f"{name}: {error}")

    def _on_request(self, request: Any) -> None:
        self._attempt.remaining()
        # A compressed body could be a bomb; without compression the cap holds for what is kept in memory.
        request.headers["Accept-Encoding"] = "identity"
        request.extensions["trace"] = self._on_trace

    def _on_trace(self, event: str, info: Mapping[str, Any]) -> None:
        if not event.endswith(("connect_tcp.complete", "start_tls.complete")):
            return
        connection = info["return_value"].get_extra_info("socket")
        if connection is None:
            return
        self._attempt.hold(connection)
        address = ipaddress.ip_address(str(connection.getpeername()[0]).partition("%")[0])
        if forbidden(address):
            self._fail(
                CallError(
                    Failure.UNSAFE_ENDPOINT, f"the host resolves to {address}, which is never an endpoint", free=True
                )
            )

    def _on_response(self, response: Any) -> None:
        status = response.status_code
        if 200 <= status < 300:
            if response.headers.get("content-encoding", "identity").lower() not in ("", "identity"):
                self._fail(CallError(Failure.MALFORMED, "the body is compressed although that was not asked for"))
            return
        if 300 <= status < 400:
            self._fail(
                CallError(
                    Failure.REDIRECT, f"HTTP {status}: redirects are not followed; name the final address", free=True
                )
            )
        try:
            text = self._explanation(response)
        except Exception:  # the status says enough where its explanation cannot be read
            text = ""
        self._fail(_status_error(status, text, self._waiting(response.headers.get("retry-after"))))

    def _explanation(self, response: Any) -> str:
        """Give the server's words; the cap makes what lies behind it unknown, also whether a key goes on there."""
        body = b"".join(self._pieces(response, _ERROR_BYTES, cut=True))
        text = body.decode("utf-8", "replace")
        return _message(text) if len(body) < _ERROR_BYTES else self._redact.cut(text)

    def _pieces(self, response: Any, cap: int, cut: bool = False) -> Iterator[bytes]:
        size = 0
        pieces = response.iter_raw() if cut else response.iter_bytes()
        for piece in pieces:
            self._attempt.remaining()
            size += len(piece)
            if size > cap:
                if cut:
                    yield piece[: cap - size + len(piece)]
                    return
                raise CallError(Failure.TOO_LARGE, f"the reply is larger than {cap} bytes")
            yield piece

    def _waiting(self, value: str | None) -> float | None:
        """Read a Retry-After header: seconds or a date; None for nonsense."""
        if not value:
            return None
        try:
            seconds = float(value)
            return seconds if math.isfinite(seconds) and seconds >= 0 else None
        except ValueError:
            pass
        try:
            return max(email.utils.parsedate_to_datetime(value).timestamp() - self._now(), 0.0)
        except (ValueError, TypeError, OverflowError):
            return None

    def _fail(self, error: CallError) -> None:
        # Clients log what a hook raises, so the server's words must be clean before they leave this file.
        self._failed = error.said(self._redact.shown(error.text))
        raise self._failed


def sse_events(body: bytes) -> Iterator[dict[str, Any]]:
    """Give the JSON objects of a server-sent event stream, up to ``[DONE]``; raises CallError for broken JSON.

    >>> list(sse_events(b'data: {"a": 1}\\n\\ndata: [DONE]\\n\\n'))
    [{'a': 1}]
    """
    for block in body.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n\n"):
        data = b"\n".join(row[5:].lstrip(b" ") for row in block.split(b"\n") if row.startswith(b"data:"))
        if data.strip() == b"[DONE]":
            return
        if data:
            yield json_object(data)


def json_object(body: bytes) -> dict[str, Any]:
    """Read one JSON object; raises CallError (``malformed``) for anything else."""
    try:
        found = orjson.loads(body)
    except orjson.JSONDecodeError:
        raise CallError(Failure.MALFORMED, f"the reply is not JSON: {_whole(body)}") from None
    if not isinstance(found, dict):
        raise CallError(Failure.MALFORMED, f"the reply is not a JSON object: {_whole(body)}")
    return found


def _whole(body: bytes) -> str:
    # Not shortened here: a cut through a key would hide its rest from the redactor, which shortens afterwards.
    return body.decode("utf-8", "replace")


def is_stream(response: Response) -> bool:
    """Whether a body is a server-sent event stream; some servers answer a streamed request with one document."""
    return "text/event-stream" in response.headers.get("content-type", "").lower()


def _status_error(status: int, text: str, wait: float | None) -> CallError:
    said = f"HTTP {status}: {text}" if text else f"HTTP {status}"
    if status in (401, 403):
        return CallError(Failure.AUTH, said, free=True)
    if status == 429:
        return CallError(Failure.RATE_LIMITED, said, retry=True, wait=wait, free=True)
    if status >= 500 or status in _BUSY:
        return CallError(Failure.SERVER_ERROR, said, retry=True, wait=wait, free=True)
    return CallError(Failure.REJECTED, said, free=True)


def _message(text: str) -> str:
    """Give the sentence inside an error document, or the document."""
    try:
        found = orjson.loads(text)
        error = found.get("error", found)
        said = error.get("message") if isinstance(error, dict) else error
        return said if isinstance(said, str) else text
    except (orjson.JSONDecodeError, AttributeError):
        return text


def _cause(error: BaseException) -> str:
    while error.__cause__ is not None:
        error = error.__cause__
    return f"{type(error).__name__}: {error}"
