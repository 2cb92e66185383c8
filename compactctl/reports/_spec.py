"""What a report is: a function from the root document to bytes; one place of the cli writes them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class ReportSpec:
    """An output format. ``suffixes`` are the file names that choose it; ``shared`` files hold no transcript text.

    ``details`` says that it also draws what the document does not hold: turns and offloaded files, under ``details``
    (a ``StoredSession`` for each session), where the command has them. ``needs`` is a module that comes with the extra
    of the report's name alone.
    """

    name: str
    help: str
    render: Callable[[Mapping[str, Any]], bytes]
    suffixes: tuple[str, ...] = ()
    shared: bool = True
    details: bool = False
    needs: str = ""
