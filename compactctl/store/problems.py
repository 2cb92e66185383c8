"""What verify finds: problems, each with a level and a place."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class Level(StrEnum):
    """How bad a problem is."""

    INFO = "info"  # what a crash may leave, and what is merely not known
    WARNING = "warning"  # somebody should look at it
    ERROR = "error"  # damage: something is lost or not as it was written


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is not as it should be; ``line`` counts from 1, ``offset`` is in bytes.

    ``path`` and ``text`` may hold foreign names and go to a terminal through ``reports._safe.safe``.
    """

    level: Level
    path: str
    text: str
    line: int | None = None
    offset: int | None = None

    def to_json(self) -> dict[str, Any]:
        """Give the problem as ``verify --json`` lists it."""
        return {
            "level": str(self.level),
            "path": self.path,
            "line": self.line,
            "offset": self.offset,
            "text": self.text,
        }
