"""Meters count tokens: one file a meter, each ends in one ``METER`` constant.

``make_meter(name, session, ranks)`` builds one by name, ``best_meter(session)`` chooses the truest for real tokens.
"""

from __future__ import annotations

from compactctl.context.counting import Meter
from compactctl.model import Session
from compactctl.ports import MeterSpec, RankSource
from compactctl.registry import plugin


def make_meter(name: str, session: Session | None, ranks: RankSource | None = None) -> Meter:
    """Build a meter by name; ``ranks`` gives the rank files of exact tokenizers.

    Raises UnknownNameError for a name that nothing has, UsageError where the session or a rank file lacks what the
    meter needs.
    """
    return plugin("compactctl.meters", MeterSpec, name, "meter").make(session, ranks)


def best_meter(session: Session) -> tuple[Meter, str]:
    """Give the truest meter for a session's real tokens, and a sentence that says what it rests on."""
    from compactctl.meters._choose import best_meter as choose

    return choose(session)
