"""What a table of plain values is: named and explained columns, and rows under them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Column:
    """A column: its name, the type of its values (None beside it where not known) and what they mean."""

    name: str
    type: type
    help: str


@dataclass(frozen=True, slots=True)
class Table:
    """Rows under columns, ready to be written or made a DataFrame."""

    name: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Any, ...], ...]
