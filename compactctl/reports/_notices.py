"""The seed's two lines for a compaction (section 5.4), consecutive turns of one tier folded into one notice."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from compactctl.reports._safe import safe
from compactctl.reports._words import percent, size, tokens

Compaction = Mapping[str, Any]
_NUMBERS = re.compile(r"\d+(?:[.,]\d+)*")


@dataclass(frozen=True, slots=True)
class Notice:
    """Compactions of one tier at consecutive turns: the rows, and where they are (``turns 52-57``), in words.

    Records of harness9 know no turns; each is a notice of its own, and ``where`` is its number.
    """

    rows: tuple[Compaction, ...]
    where: str

    @property
    def first(self) -> Compaction:
        """The first compaction."""
        return self.rows[0]

    @property
    def last(self) -> Compaction:
        """The last compaction, which holds the anchors and the summary that the model went on with."""
        return self.rows[-1]

    @property
    def tier(self) -> str:
        """The tier's name in small letters."""
        return str(self.first["tier_name"]).lower()

    @property
    def head(self) -> str:
        """The first line: where, tier, tokens and reduction. Safe for a terminal."""
        first, last = self.first, self.last
        times = f" (x{len(self.rows)})" if len(self.rows) > 1 else ""
        if not first["changed"]:
            before = tokens(first["tokens_before"])
            return f"{self.where}{times}: [{first['tier_name']}] nothing was changed at {before} tokens"
        trigger = "" if first["trigger"] in (None, "pressure") else f" {first['trigger']}"
        line = (
            f"{self.where}{times}: [{first['tier_name']}]{trigger} {tokens(first['tokens_before'])} -> "
            f"{tokens(first['tokens_after'])} tokens ({percent(first['reduction'])} reduction)"
        )
        if times:
            line += f", last {tokens(last['tokens_before'])} -> {tokens(last['tokens_after'])}"
        return line

    @property
    def details(self) -> str:
        """The second line: anchors, offloads, summary, tail and what went wrong. Safe for a terminal."""
        last = self.last
        most = max(self.rows, key=lambda row: row["offloaded_bytes"])
        parts = [f"{last['anchors_found']} of 5 anchors"] if last["summarized"] else []
        parts.append(f"{most['offloaded']} offload({size(most['offloaded_bytes'])})")
        parts.append(f"{last['summarized']} summarized" if last["summarized"] else "no summary")
        if last["dropped"]:
            parts.append(f"{last['dropped']} dropped")
        parts.append(f"tail: {last['preserved_tail']} preserved")
        if self.problems:
            parts.append(safe(", ".join(self.problems)))
        return " | ".join(parts)

    @property
    def problems(self) -> list[str]:
        """The different errors and notes of the compactions, sorted; foreign text.

        Of those that differ in numbers alone the first, and how many more there are.
        """
        alike: dict[str, list[str]] = {}
        for row in self.rows:
            for words in (row["error"], *map(str, row["notes"])):
                found = alike.setdefault(_NUMBERS.sub("#", words), [])
                if words and words not in found[:1]:
                    found.append(words)
        told = [(len({*words}) - 1, words[0]) for words in alike.values() if words]
        return sorted(words + (f" (and {more:,} more like it)" if more else "") for more, words in told)


def notices(compactions: Sequence[Compaction], *, verbose: bool = False) -> Iterator[Notice]:
    """Give the notices of a session's compactions in their order; ``verbose`` folds nothing."""
    run: list[Compaction] = []
    for number, row in enumerate(compactions, 1):
        if row["turn"] is None:
            yield Notice((row,), f"record {number}")
            continue
        if run and (verbose or not _follows(row, run[-1])):
            yield _notice(run)
            run = []
        run.append(row)
    if run:
        yield _notice(run)


def _follows(row: Compaction, last: Compaction) -> bool:
    alike = all(row[key] == last[key] for key in ("tier", "trigger", "changed"))
    return alike and bool(row["turn"] <= last["turn"] + 1)


def _notice(rows: Sequence[Compaction]) -> Notice:
    first, last = rows[0]["turn"], rows[-1]["turn"]
    return Notice(tuple(rows), f"turn {first}" if len(rows) == 1 else f"turns {first}-{last}")
