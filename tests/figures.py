"""Reading a figure that a test rests on: one that was not measured would make many a comparison hold."""

from __future__ import annotations

from collections.abc import Mapping

from compactctl.measures import Measured


def known(measured: Mapping[str, Measured], key: str) -> float | int:
    """Give a figure that must have been measured."""
    found = measured[key]
    assert found.value is not None, f"{key} was not measured: {found.reason}"
    return found.value
