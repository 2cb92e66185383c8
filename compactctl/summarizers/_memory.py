"""The memory extractor with a model behind it: facts worth keeping, taken out before messages are summarised."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

import orjson

from compactctl.context.fence import Fence, one_line, unfence
from compactctl.context.provenance import FROM_TOOL, Sources
from compactctl.model import Message
from compactctl.summarizers._chat import Completion, Prompt
from compactctl.summarizers._failure import Failure, failure
from compactctl.summarizers._model import fresh_nonce
from compactctl.summarizers._prompts import memory_prompt

CATEGORIES = ("preference", "project", "decision", "environment")
_MOST_FACTS, _LONGEST_TITLE, _LONGEST_CONTENT = 50, 120, 1000
_BUDGET = 1000
_CODE_FENCE = re.compile(r"\A\s*```[a-z]*\n(.*?)\n?```\s*\Z", re.DOTALL)

Fact = Mapping[str, Any]
T = TypeVar("T")


class Asks(Protocol):
    """What an extractor asks: a model, or what stands in for one while a plan is made."""

    def ask(self, prompt: Prompt, read: Callable[[Completion], T]) -> T:
        """Give what ``read`` makes of the answer; every failure raises SummarizerError."""


class ModelExtractor:
    """Asks a model for lasting facts and hands each new one to ``sink`` (title, content, category, importance, origin).

    A message is sent once, however often its head is compacted again, and a fact is kept once, whatever its case and
    spacing; ``known`` are those kept before. Every failure raises SummarizerError; the compactor notes it and goes on
    (fail-open, seed section 6.1).
    """

    def __init__(
        self,
        asker: Asks,
        sink: Callable[[Fact], None],
        *,
        known: Iterable[str] = (),
        nonces: Callable[[], str] = fresh_nonce,
    ) -> None:
        self._asker = asker
        self._sink = sink
        self._nonces = nonces
        self._kept = {_same(content) for content in known}
        self._sent: dict[int, Message] = {}  # the messages are held, so that an id stays that of its message

    def extract(self, messages: Sequence[Message]) -> None:
        """Send the messages not sent before, and hand on the facts that are new."""
        fresh = [message for message in messages if id(message) not in self._sent]
        if not fresh:
            return
        prompt = memory_prompt(fresh, self._nonces(), _BUDGET)
        facts = self._asker.ask(prompt, _facts_in)
        self._sent.update((id(message), message) for message in fresh)
        sources = Sources(fresh)
        for fact in facts:
            same = _same(fact["content"])
            if same not in self._kept:
                self._kept.add(same)
                origin = sources.origin(fact["content"])
                self._sink({**fact, "origin": origin, "only_from_tool": origin == FROM_TOOL})


def _facts_in(completion: Completion) -> list[dict[str, Any]]:
    body, _ = unfence(completion.text, Fence(completion.nonce))
    return read_facts(body)


def read_facts(body: str) -> list[dict[str, Any]]:
    """Read a JSON list of facts, also inside a code fence; a fact without content is left out.

    Raises SummarizerError (``malformed``) where it is no such list.
    """
    match = _CODE_FENCE.match(body)
    try:
        rows = orjson.loads((match.group(1) if match else body).strip().encode("utf-8", "replace"))
    except orjson.JSONDecodeError:
        raise failure(Failure.MALFORMED, "the facts are not a JSON list") from None
    if not isinstance(rows, list):
        raise failure(Failure.MALFORMED, "the facts are not a JSON list")
    facts: list[dict[str, Any]] = []
    for row in rows[:_MOST_FACTS]:
        if isinstance(row, str):
            row = {"content": row}
        if not isinstance(row, dict) or not isinstance(row.get("content"), str) or not row["content"].strip():
            continue
        importance = row.get("importance")
        facts.append(
            {
                "title": one_line(str(row.get("title") or ""))[:_LONGEST_TITLE],
                "content": one_line(row["content"])[:_LONGEST_CONTENT],
                "category": row.get("category") if row.get("category") in CATEGORIES else "project",
                "importance": importance if type(importance) is int and 1 <= importance <= 5 else None,
            }
        )
    return facts


def _same(content: str) -> str:
    return " ".join(content.casefold().split()).rstrip(".")
