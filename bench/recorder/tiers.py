"""The seed's tier arithmetic, on its own: the recorder checks its stories with it before compactctl ever sees them."""

from __future__ import annotations

from itertools import groupby

from .conversation import Line

THRESHOLDS = ((0.95, "Emergency"), (0.80, "Full"), (0.70, "Soft"), (0.60, "Warn"))


def view_tiers(lines: list[Line], window: int) -> list[str]:
    """The tier of each model call when every turn is judged by the whole history before it."""
    tiers, total = [], 0
    for line in lines:
        if line.role == "assistant":
            ratio = total // 4 / window
            tiers.append(next((name for least, name in THRESHOLDS if ratio >= least), "None"))
        total += line.weight
    return tiers


def runs(tiers: list[str]) -> str:
    """Consecutive turns of one tier, folded: ``None x3, Warn x2``."""
    return ", ".join(f"{name} x{len(list(group))}" for name, group in groupby(tiers))
