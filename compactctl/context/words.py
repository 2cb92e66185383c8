"""Numbers with their words, the same in findings, reports and messages."""

from __future__ import annotations


def quantity(number: int | float, one: str, many: str = "") -> str:
    """Give a number with its word, in singular or plural; ``many`` is for what is no noun at its end.

    >>> quantity(1, "finding"), quantity(1200, "summary"), quantity(2, "replay was", "replays were")
    ('1 finding', '1,200 summaries', '2 replays were')
    """
    return f"{number:,} {one if number == 1 else many or plural(one)}"


def plural(word: str) -> str:
    """Give the regular plural of an English noun.

    >>> [plural(word) for word in ("turn", "reply", "replay", "batch", "flush", "miss", "index")]
    ['turns', 'replies', 'replays', 'batches', 'flushes', 'misses', 'indexes']
    """
    if word.endswith("y") and word[-2:-1] not in ("a", "e", "i", "o", "u", ""):
        return word.removesuffix("y") + "ies"
    return word + ("es" if word.endswith(("ch", "sh", "s", "x")) else "s")
