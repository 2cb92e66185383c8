"""What a recorded session is before any format: lines, calls, recorded compactions, and what a call was charged."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from typing import Any

PROJECT_HOME = "/home/dev/project"


@dataclass(frozen=True, slots=True)
class Call:
    """One tool call of an assistant reply."""

    id: str
    name: str
    arguments: dict[str, Any]

    @property
    def arguments_json(self) -> str:
        """The arguments as the JSON text that a transcript holds."""
        return json.dumps(self.arguments, ensure_ascii=False)


@dataclass(frozen=True, slots=True)
class Charge:
    """What the provider charged for one model call, in tokens; ``prompt`` includes what the cache answered."""

    prompt: int
    output: int
    cache_read: int
    cache_write: int


@dataclass(frozen=True, slots=True)
class Line:
    """One message of the session, with the time in milliseconds since the epoch at which it was complete."""

    role: str
    text: str
    at: int
    calls: tuple[Call, ...] = ()
    call_id: str = ""
    tool: str = ""
    is_error: bool = False
    thinking: str = ""
    charge: Charge | None = None

    @property
    def weight(self) -> int:
        """UTF-8 bytes of all that the model is sent of this message: the numerator of the bytes / 4 estimate."""
        calls = sum(len((call.id + call.name + call.arguments_json).encode()) for call in self.calls)
        return len(self.text.encode(errors="surrogatepass")) + calls + len(self.call_id.encode())


@dataclass(frozen=True, slots=True)
class Compaction:
    """A compaction that the recorded harness made itself, before the line with index ``at``."""

    at: int
    time: int
    tokens_before: int
    summary: str


@dataclass(frozen=True, slots=True)
class Conversation:
    """A whole recorded session, ready to be written in any format."""

    name: str
    model: str
    window: int
    lines: tuple[Line, ...]
    compactions: tuple[Compaction, ...] = ()
    system: str = ""
    notes: dict[str, str] = field(default_factory=dict)

    def ident(self, what: str, length: int = 32) -> str:
        """A hexadecimal identifier that is the same in every run of the recorder."""
        return hashlib.sha256(f"{self.name}/{what}".encode()).hexdigest()[:length]

    def uuid(self, what: str) -> str:
        """The same identifier in the shape of a version 4 UUID."""
        digits = self.ident(what)
        return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-a{digits[17:20]}-{digits[20:32]}"


def iso(milliseconds: int) -> str:
    """Write a time in milliseconds since the epoch as RFC 3339 with milliseconds.

    >>> iso(1710756000250)
    '2024-03-18T10:00:00.250Z'
    """
    import datetime as dt

    moment = dt.datetime.fromtimestamp(milliseconds // 1000, tz=dt.UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{milliseconds % 1000:03d}Z"
