"""The seed's two lines for a compaction (section 5.4), consecutive turns of one tier folded into one notice."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from compactctl.reports._safe import safe
from compactctl.reports._words import percent, size, tokens

Compaction = Mapping[str, Any]


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
        return " | ".join([*parts, *map(safe, [", ".join(self.problems)] if self.problems else [])])

    @property
    def problems(self) -> list[str]:
        """The different errors and notes of the compactions, sorted; foreign text."""
        errors = {row["error"] for row in self.rows if row["error"]}
        return sorted(errors | {str(note) for row in self.rows for note in row["notes"]})


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
    return (row["tier"], row["trigger"]) == (last["tier"], last["trigger"]) and bool(row["turn"] <= last["turn"] + 1)


def _notice(rows: Sequence[Compaction]) -> Notice:
    first, last = rows[0]["turn"], rows[-1]["turn"]
    return Notice(tuple(rows), f"turn {first}" if len(rows) == 1 else f"turns {first}-{last}")
