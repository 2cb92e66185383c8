"""Comma-separated values for spreadsheets: one table, a row a session unless another table is asked for."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from typing import Any

from compactctl.reports._columns import Table
from compactctl.reports._decisions import decision_table
from compactctl.reports._facts import facts_table
from compactctl.reports._safe import safe
from compactctl.reports._spec import ReportSpec
from compactctl.reports._tables import table

# A cell that begins with one of these is a formula to some spreadsheet; the last four are their full-width forms.
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")


def render(document: Mapping[str, Any]) -> bytes:
    """Give the table with a line of column names; unknown values are empty, numbers are never quoted or prefixed."""
    made = _table(document)
    out = io.StringIO(newline="")
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([column.name for column in made.columns])
    writer.writerows([cell(value) for value in row] for row in made.rows)
    return out.getvalue().encode("utf-8", "backslashreplace")


def _table(document: Mapping[str, Any]) -> Table:
    if document["command"] == "inspect":
        return facts_table(document)
    return decision_table(document) or table(document)


def cell(value: Any) -> Any:
    """Give a value as a cell: text is never a formula and never holds a control character.

    >>> cell("=HYPERLINK()"), cell(-0.5), cell(None), cell(" +1")
    ("'=HYPERLINK()", -0.5, '', "' +1")
    """
    if value is None:
        return ""
    if not isinstance(value, str):
        return value
    begins = value.lstrip(" \u3000\u00a0")[:1] or value[:1]
    return ("'" if begins in _FORMULA and begins else "") + safe(value)


REPORT = ReportSpec("csv", "a table for spreadsheets", render, (".csv",), details=True)
