"""The measures of one session as people read them: value, unit and meaning of each, or why there is none."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, NamedTuple


class Figure(NamedTuple):
    """A measure's key, its value in words (``n/a`` where there is none), its unit and what it means or lacks."""

    key: str
    value: str
    unit: str
    meaning: str


def figures(session: Mapping[str, Any]) -> list[Figure]:
    """Give all measures of a session in the order of their keys."""
    known = meanings()
    found = []
    for key, measured in sorted(session["measures"].items()):
        unit, meaning = known.get(key, ("", ""))
        value = measured["value"]
        if value is None:
            found.append(Figure(key, "n/a", "", str(measured.get("reason") or "no reason given")))
        else:
            found.append(Figure(key, f"{value:,}" if isinstance(value, int) else f"{value:,.3f}", unit, meaning))
    return found


@cache
def meanings() -> dict[str, tuple[str, str]]:
    """Give the unit and the meaning of every key of a measure."""
    from compactctl.measures._spec import MeasureSpec
    from compactctl.registry import plugins

    specs = plugins("compactctl.measures", MeasureSpec).values()
    return {key.key: (key.unit, key.help) for spec in specs for key in spec.keys}
