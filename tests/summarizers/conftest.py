"""A server on this machine that answers as its script says, however badly."""

from __future__ import annotations

import contextlib
import json
import re
import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import pytest

CANARY = "sk-canary-7d1f0a9b3c5e"
ANCHOR_BLOCK = """## Anchors

### User Intent
- fix parse_row

### Execution Progress
- changed `src/parser.py`

### Key Decisions
- N/A

### Tried Solutions
N/A

### Next Steps
- run the tests

## Summary
All is well."""


@dataclass
class Request:
    """One request as it came: its head, its body, and what the prompt in it says."""

    head: str
    body: bytes

    @property
    def json(self) -> dict[str, object]:
        """The body as JSON."""
        found = json.loads(self.body)
        assert isinstance(found, dict)
        return found

    @property
    def nonce(self) -> str:
        """The nonce of the fence, taken from the prompt as a model would take it."""
        match = re.search(r"<<<answer (\w+)>>>", self.body.decode())
        assert match
        return match.group(1)

    def fenced(self, text: str) -> str:
        """Put an answer into the fence that the prompt asks for."""
        return f"<<<answer {self.nonce}>>>\n{text}\n<<<end answer {self.nonce}>>>"


Script = Callable[[socket.socket, Request], None]


@dataclass
class Server:
    """A loopback server; each connection is handled by the next script, the last one again and again."""

    url: str
    scripts: list[Script] = field(default_factory=list)
    requests: list[Request] = field(default_factory=list)

    def next(self) -> Script:
        """Give the script for the next request."""
        return self.scripts.pop(0) if len(self.scripts) > 1 else self.scripts[0]


@pytest.fixture
def server() -> Iterator[Server]:
    """Give a server on 127.0.0.1 that ends with the test, its open connections too."""
    listener = socket.create_server(("127.0.0.1", 0))
    found = Server(f"http://127.0.0.1:{listener.getsockname()[1]}/v1")
    open_connections: list[socket.socket] = []
    ended = threading.Event()

    def serve(connection: socket.socket) -> None:
        try:
            with connection:
                request = _read(connection)
                if request is not None:
                    found.requests.append(request)
                    found.next()(connection, request)
        except OSError:
            return

    def accept() -> None:
        while not ended.is_set():
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            open_connections.append(connection)
            threading.Thread(target=serve, args=(connection,), daemon=True).start()

    thread = threading.Thread(target=accept, daemon=True)
    thread.start()
    yield found
    ended.set()
    for end in (listener, *open_connections):
        with contextlib.suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)
        end.close()
    thread.join(5)


def _read(connection: socket.socket) -> Request | None:
    data = b""
    while b"\r\n\r\n" not in data:
        piece = connection.recv(65536)
        if not piece:
            return None
        data += piece
    head, _, body = data.partition(b"\r\n\r\n")
    match = re.search(rb"content-length: *(\d+)", head, re.IGNORECASE)
    while match and len(body) < int(match.group(1)):
        body += connection.recv(65536)
    return Request(head.decode("latin-1"), body)


def reply(body: bytes, status: str = "200 OK", kind: str = "application/json", extra: str = "") -> bytes:
    """Give a whole HTTP response."""
    return (
        f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n{extra}Connection: close\r\n\r\n"
    ).encode() + body


def says(body: object, status: str = "200 OK", extra: str = "") -> Script:
    """Answer with a JSON document."""
    return lambda connection, request: connection.sendall(reply(json.dumps(body).encode(), status, extra=extra))


def openai_document(text: str | None, finish: str = "stop", **message: object) -> dict[str, object]:
    """Give a chat completion."""
    return {
        "id": "x",
        "object": "chat.completion",
        "created": 1,
        "model": "m",
        "choices": [
            {"index": 0, "finish_reason": finish, "message": {"role": "assistant", "content": text, **message}}
        ],
        "usage": {"prompt_tokens": 900, "completion_tokens": 90, "prompt_tokens_details": {"cached_tokens": 300}},
    }


def anthropic_document(text: str, stop: str = "end_turn") -> dict[str, object]:
    """Give a reply of the Messages API."""
    return {
        "id": "x",
        "type": "message",
        "role": "assistant",
        "model": "m",
        "content": [{"type": "text", "text": text}],
        "stop_reason": stop,
        "usage": {"input_tokens": 600, "output_tokens": 90, "cache_read_input_tokens": 300},
    }


def sse(events: list[object], names: bool = False, done: bool = True) -> bytes:
    """Give a server-sent event stream."""
    rows = []
    for event in events:
        kind = f"event: {event['type']}\n" if names and isinstance(event, dict) else ""
        rows.append(f"{kind}data: {json.dumps(event)}\n\n")
    return ("".join(rows) + ("data: [DONE]\n\n" if done else "")).encode()


def openai_events(text: str, finish: str | None = "stop") -> list[object]:
    """Give the parts of a streamed chat completion, a few words each."""
    pieces = [text[at : at + 40] for at in range(0, len(text), 40)]
    events: list[object] = [
        {"id": "x", "choices": [{"index": 0, "delta": {"content": piece}, "finish_reason": None}]} for piece in pieces
    ]
    if finish:
        events.append({"id": "x", "choices": [{"index": 0, "delta": {}, "finish_reason": finish}]})
    events.append({"id": "x", "choices": [], "usage": {"prompt_tokens": 900, "completion_tokens": 90}})
    return events


def anthropic_events(text: str, stop: str = "end_turn") -> list[object]:
    """Give the parts of a streamed reply of the Messages API."""
    return [
        {"type": "message_start", "message": {"usage": {"input_tokens": 600, "cache_read_input_tokens": 300}}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "ping"},
        *(
            {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text[at : at + 40]}}
            for at in range(0, len(text), 40)
        ),
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": stop}, "usage": {"output_tokens": 90}},
        {"type": "message_stop"},
    ]
