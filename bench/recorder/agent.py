"""The scripted agent: a story tells it what to say and which tools to use; it uses them and keeps the conversation."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from .conversation import Call, Charge, Compaction, Conversation, Line
from .dice import Dice
from .workbench import Workbench


@dataclass(frozen=True, slots=True)
class Use:
    """A tool that the story asks for: its name and its arguments."""

    name: str
    arguments: dict[str, Any]


def bash(command: str, description: str = "") -> Use:
    """Run a shell command in the project."""
    return Use("bash", {"command": command, **({"description": description} if description else {})})


def read(path: str, offset: int = 0, limit: int = 0) -> Use:
    """Read a file, or ``limit`` lines of it from line ``offset``."""
    return Use("read_file", {"path": path, **({"offset": offset, "limit": limit} if offset else {})})


def grep(pattern: str, path: str = ".", glob: str = "*.py") -> Use:
    """Search files for an extended regular expression."""
    return Use("grep", {"pattern": pattern, "path": path, "glob": glob})


def edit(path: str, old: str, new: str) -> Use:
    """Replace a text that occurs exactly once in a file."""
    return Use("edit_file", {"path": path, "old": old, "new": new})


def write(path: str, content: str) -> Use:
    """Create or replace a file."""
    return Use("write_file", {"path": path, "content": content})


@dataclass(frozen=True, slots=True)
class Billing:
    """How the provider of a story counts: a fixed part, bytes a token, and where the harness compacts by itself."""

    overhead: int
    bytes_per_token: float
    cached_overhead: int = 0
    compact_at: int | None = None


class Agent:
    """Plays one story on one workbench; all times and ids follow from the story's name."""

    def __init__(self, name: str, bench: Workbench, start: int, billing: Billing | None = None) -> None:
        """Begin at ``start`` milliseconds since the epoch."""
        self.name = name
        self.bench = bench
        self.billing = billing
        self.summarise: Callable[[list[Line]], str] | None = None
        self.dice = Dice(int(hashlib.sha256(name.encode()).hexdigest()[:12], 16))
        self.now = start
        self.lines: list[Line] = []
        self.compactions: list[Compaction] = []
        self.id_prefix = "call_"
        self.id_length = 16
        self._calls = 0
        self._segment = 0  # index of the first line of the context that the model is sent now
        self._segment_bytes = 0
        self._cached = 0

    def system(self, text: str) -> None:
        """Open the session with a system message."""
        self._add(Line("system", text, self.now))

    def user(self, text: str, pause: int = 0) -> None:
        """Let the user say something, after a pause of seconds."""
        self._wait(pause or self.dice.between(25, 240), 1)
        self._add(Line("user", text.strip(), self.now))

    def turn(self, text: str, *uses: Use, thinking: str = "") -> list[str]:
        """Make one model call: the reply with its tool calls, then each result; gives the results' texts."""
        self._compact_if_due()
        self._wait(2 + len(text) // 90 + len(uses), 12)
        calls = tuple(Call(self._call_id(), use.name, use.arguments) for use in uses)
        reply = Line("assistant", text, self.now, calls, thinking=thinking)
        self._add(Line("assistant", text, self.now, calls, thinking=thinking, charge=self._charge(reply)))
        results = []
        for call in calls:
            outcome = self.bench.use(call.name, call.arguments)
            self._wait(0, 3 if call.name == "bash" else 1)
            self._add(Line("tool", outcome.text, self.now, (), call.id, call.name, outcome.is_error))
            results.append(outcome.text)
        return results

    def conversation(self, model: str, window: int, system: str = "") -> Conversation:
        """All that was said, ready for a writer."""
        return Conversation(self.name, model, window, tuple(self.lines), tuple(self.compactions), system)

    def _add(self, line: Line) -> None:
        self.lines.append(line)
        self._segment_bytes += line.weight

    def _wait(self, seconds: int, spread: int) -> None:
        self.now += seconds * 1000 + self.dice.between(80, 80 + spread * 1000)

    def _call_id(self) -> str:
        self._calls += 1
        return self.id_prefix + hashlib.sha256(f"{self.name}/call/{self._calls}".encode()).hexdigest()[: self.id_length]

    def _prompt(self) -> int:
        assert self.billing is not None
        # A provider's count is never a clean function of bytes: a few tokens of framing differ from call to call.
        framing = 3 * (len(self.lines) - self._segment) + self._calls * 7 % 23
        return self.billing.overhead + int(self._segment_bytes / self.billing.bytes_per_token) + framing

    def _charge(self, reply: Line) -> Charge | None:
        if self.billing is None:
            return None
        prompt = self._prompt()
        fresh = 3 + self._calls % 8
        read_back = self._cached or self.billing.cached_overhead
        output = int((reply.weight + len(reply.thinking.encode())) / self.billing.bytes_per_token) + 12
        self._cached = prompt - fresh
        return Charge(prompt, output, read_back, max(0, prompt - fresh - read_back))

    def _compact_if_due(self) -> None:
        limit = self.billing.compact_at if self.billing else None
        if limit is None or self.summarise is None or self._prompt() < limit:
            return
        before = self._prompt()
        summary = self.summarise(self.lines[self._segment :])
        self._wait(38, 30)
        self.compactions.append(Compaction(len(self.lines), self.now, before, summary))
        self._segment, self._segment_bytes, self._cached = len(self.lines), len(summary.encode()), 0
