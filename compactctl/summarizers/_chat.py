"""What goes between a summarizer and a model: the prompt, the answer, and the face that every model has."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import orjson

from compactctl.model import Usage
from compactctl.ports import SummaryFormat
from compactctl.summarizers._spending import Spending

MOST_TOKENS = 10**9  # a usage beyond this is not a count


@dataclass(frozen=True, slots=True)
class Prompt:
    """One question to a model: instructions, and the fenced text.

    ``material`` is all that shaped it except the nonce, so that its hash is the same on every run. ``conversation`` and
    ``previous`` are the parts inside the fence, ``budget`` the largest wanted answer in tokens of four bytes.
    """

    system: str
    user: str
    nonce: str
    purpose: str
    budget: int
    material: tuple[str, ...]
    conversation: str
    previous: str = ""
    messages: int = 0
    form: SummaryFormat = SummaryFormat.ANCHORS

    @property
    def input_bytes(self) -> int:
        """The size of the request's texts."""
        return len(self.system.encode("utf-8", "replace")) + len(self.user.encode("utf-8", "replace"))

    @property
    def input_tokens(self) -> int:
        """The estimated size of the request, four bytes a token."""
        return self.input_bytes // 4


@dataclass(frozen=True, slots=True)
class Completion:
    """A model's whole answer; ``nonce`` is that of the prompt that it answered."""

    text: str
    nonce: str
    usage: Usage | None = None
    notes: tuple[str, ...] = ()


class Chat(Protocol):
    """A model that answers prompts; every failure raises SummarizerError."""

    @property
    def identity(self) -> Mapping[str, Any]:
        """All settings that shape an answer: provider, model and parameters."""

    @property
    def host(self) -> str:
        """Where a prompt is sent, as shown to the user."""

    def complete(self, prompt: Prompt, spending: Spending) -> Completion:
        """Give the answer to a prompt; each try of it is charged to the account."""

    def prepare(self) -> None:
        """Make ready for the first call; raises SettingsError or UsageError where the key or the client is missing."""

    def stop(self) -> None:
        """End all calls, now and later."""


def request_key(identity: Mapping[str, Any], prompt: Prompt) -> str:
    """Give the hash of everything that shapes an answer: provider, model, parameters and text, not the nonce."""
    shaped = [dict(identity), prompt.purpose, str(prompt.form), prompt.budget, list(prompt.material)]
    plain = orjson.dumps(well_formed(shaped), option=orjson.OPT_SORT_KEYS)
    return hashlib.sha256(plain).hexdigest()


def read_usage(prompt: object, output: object, cache_read: object, cache_write: object) -> tuple[Usage | None, bool]:
    """Give the usage that a server states, and whether it was nonsense (negative, fractional, absurd).

    >>> read_usage(10, -1, None, None)
    (None, True)
    """
    counts = (prompt, output, cache_read, cache_write)
    if prompt is None and output is None:
        return None, False
    if any(n is not None and (type(n) is not int or not 0 <= n <= MOST_TOKENS) for n in counts):
        return None, True
    if not isinstance(prompt, int) or not isinstance(output, int):
        return None, True
    return (
        Usage(
            prompt,
            output,
            cache_read if isinstance(cache_read, int) else None,
            cache_write if isinstance(cache_write, int) else None,
        ),
        False,
    )


def well_formed(value: Any) -> Any:
    """Replace lone surrogates, which JSON cannot hold, in every text of a structure."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode("utf-8")
    if isinstance(value, dict):
        return {well_formed(key): well_formed(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [well_formed(item) for item in value]
    return value
