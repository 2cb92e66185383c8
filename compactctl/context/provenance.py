"""Where the words of an anchor come from, and whether they hold: the checks that make a summary verifiable.

The seed promises that anchors can be verified by a program. These are the verifications (reference metric M7): how
many of the five say something, whether their names occur in what was summarised (grounding), whether the user's
constraints were kept, and which anchors hold words that only a tool ever said.
"""

from __future__ import annotations

import re

_SENTENCE = re.compile(r"[^\n.!?]+(?:[.!?](?!\s)[^\n.!?]*)*[.!?]?")
_BINDING = re.compile(r"\b(?:must|never|always|do not|don't|only)\b", re.IGNORECASE)
_LONGEST_READ = 20_000  # characters of one message: a pasted log is not a list of rules


def constraint_sentences(text: str) -> tuple[str, ...]:
    """Give the sentences that bind: those with must, never, always, do not or only.

    >>> constraint_sentences("Fix the parser. Never touch the schema! Thanks.")
    ('Never touch the schema!',)
    """
    if len(text) > _LONGEST_READ:
        text = text[:_LONGEST_READ]
    if not _BINDING.search(text):
        return ()
    found = (sentence.group().strip() for sentence in _SENTENCE.finditer(text) if _BINDING.search(sentence.group()))
    return tuple(dict.fromkeys(found))
