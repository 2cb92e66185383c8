"""A fit of ``tokens = overhead + bytes / k`` to the usage that the session itself recorded (``_fit.py``)."""

from __future__ import annotations

from compactctl.errors import UsageError
from compactctl.meters._fit import Calibrated, fit_usage
from compactctl.model import Session
from compactctl.ports import MeterSpec, RankSource


def _make(session: Session | None, ranks: RankSource | None = None) -> Calibrated:
    fit = fit_usage(session) if session is not None else None
    if fit is None:
        raise UsageError(
            "the meter 'calibrated' needs recorded usage, and the session has none; take --meter bytes4 or o200k_base"
        )
    return Calibrated(fit)


METER = MeterSpec("calibrated", "overhead + bytes / k, fitted to the usage that the session recorded", _make)
