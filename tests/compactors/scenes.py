"""What the tests of compactors share: a summarizer that says what it is told, and sessions of known size."""

from __future__ import annotations

from compactctl.errors import SummarizerError
from compactctl.model import ASSISTANT, TOOL, USER, Message, ToolCall
from compactctl.ports import SummaryReply, SummaryRequest

ANCHORS = """## Anchors

### User Intent
fix the build

### Execution Progress
tests run

### Key Decisions
- N/A

### Tried Solutions
- N/A

### Next Steps
look at main.c

## Summary
All is well."""


class Says:
    """A summarizer that gives these answers, the last one again and again; None fails."""

    def __init__(self, *answers: str | None) -> None:
        self.answers = answers
        self.requests: list[SummaryRequest] = []

    def summarize(self, request: SummaryRequest) -> SummaryReply:
        """Give the next answer."""
        self.requests.append(request)
        answer = self.answers[min(len(self.requests), len(self.answers)) - 1]
        if answer is None:
            raise SummarizerError("no answer")
        return SummaryReply(answer)


def text(role: str, size: int) -> Message:
    """Give a message of so many bytes."""
    return Message(role, "t" * size)


def step(ident: str, size: int, tool: str = "bash", arguments: str = "{}") -> list[Message]:
    """Give a call and its result; with bytes / 4 they have ``size`` bytes together."""
    own = 2 * len(ident) + len(tool) + len(arguments)
    return [
        Message(ASSISTANT, "", (ToolCall(ident, tool, arguments),)),
        Message(TOOL, "r" * (size - own), tool_call_id=ident),
    ]


def task(size: int = 400) -> Message:
    """Give the user's task."""
    return text(USER, size)
