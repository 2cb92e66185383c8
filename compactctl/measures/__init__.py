"""Measures of a replay (reference metrics M1 to M8): one file each, each ends in one ``MEASURE`` constant.

``measure_all(trace, names)`` computes them, ``all_keys()`` lists every key that they fill.
"""

from __future__ import annotations

from collections.abc import Iterable

from compactctl.measures._spec import Direction, Key, Measured, MeasureSpec, Prices, Trace
from compactctl.registry import plugin, plugins

__all__ = ["Direction", "Key", "MeasureSpec", "Measured", "Prices", "Trace", "all_keys", "measure_all", "measures"]

_PACKAGE = "compactctl.measures"


def measures() -> dict[str, MeasureSpec]:
    """Give every measure by name, in the order of their names."""
    return plugins(_PACKAGE, MeasureSpec)


def all_keys() -> dict[str, Key]:
    """Give every key of every measure, in the order in which reports show them."""
    return {key.key: key for spec in measures().values() for key in spec.keys}


def measure_all(trace: Trace, names: Iterable[str] | None = None) -> dict[str, Measured]:
    """Compute measures of one replay; None takes them all, an empty list none.

    A key (``m3.cost_usd``) selects its measure. Every declared key of a measure is in the result. Raises
    UnknownNameError for a name that nothing has.
    """
    chosen = measures().values() if names is None else [_measure(name) for name in dict.fromkeys(map(_owner, names))]
    found: dict[str, Measured] = {}
    for spec in chosen:
        computed = spec.compute(trace)
        for key in spec.keys:
            found[key.key] = computed.get(key.key, Measured(None, "not measured"))
    return found


def _measure(name: str) -> MeasureSpec:
    return plugin(_PACKAGE, MeasureSpec, name, "measure")


def _owner(name: str) -> str:
    """Give the name of the measure that fills a key; any other name as it is."""
    return name.partition(".")[0] if name in all_keys() else name
