"""A picture as SVG: one session over its turns, or tiers and reductions over all."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from compactctl.reports._decisions import decision_figure
from compactctl.reports._pictures import figure_of, picture
from compactctl.reports._spec import ReportSpec


def render(document: Mapping[str, Any]) -> bytes:
    """Give the picture."""
    return picture(decision_figure(document) or figure_of(document), "svg")


REPORT = ReportSpec("svg", "a picture (SVG)", render, (".svg",), details=True)
