"""Writes what the reports give: one format on stdout, any number of files."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from compactctl.cli._say import note
from compactctl.errors import StoreError, UsageError
from compactctl.registry import plugin, plugins
from compactctl.reports._document import without_text
from compactctl.reports._paper import Paper
from compactctl.reports._spec import ReportSpec

ROOM = "compactctl.reports"


@dataclass(frozen=True, slots=True)
class Target:
    """One output: its format, and the file (None: stdout)."""

    report: ReportSpec
    path: Path | None


def targets(format: str | None, outputs: Sequence[str] | None) -> list[Target]:
    """Resolve ``--format`` and ``--output`` before the work begins, so that a wrong one fails at once.

    Raises UsageError for an unknown format, suffix or directory.
    """
    found = [Target(plugin(ROOM, ReportSpec, format or "table", "format"), None)]
    for output in outputs or ():
        if output == "-":
            continue
        path = Path(output)
        if not path.parent.is_dir():
            raise UsageError(f"--output {output}: the directory {path.parent} does not exist")
        found.append(Target(by_suffix(path), path))
    return found


def by_suffix(path: Path) -> ReportSpec:
    """Give the report whose suffix a file has; raises UsageError."""
    reports = plugins(ROOM, ReportSpec)
    for report in reports.values():
        if any(path.name.endswith(suffix) for suffix in report.suffixes):
            return report
    known = ", ".join(suffix for report in reports.values() for suffix in report.suffixes)
    raise UsageError(f"--output {path}: no format is known by its suffix; known: {known}")


def shown(document: Mapping[str, Any], *, include_text: bool) -> Mapping[str, Any]:
    """Give the document as it may be shared: without transcript text unless ``include_text``."""
    if include_text:
        return document
    return {**document, "sessions": [without_text(session) for session in document["sessions"]]}


def terminal_paper() -> Paper:
    """Give paper as wide as the terminal, in colour where it has any; as wide as its content where stdout is none."""
    terminal = sys.stdout.isatty()
    colour = terminal and "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb"
    return Paper(width=shutil.get_terminal_size().columns if terminal else None, colour=colour)


def on_terminal(paper: Paper) -> None:
    """Write what is on the paper to stdout at once."""
    sys.stdout.write(paper.text())
    sys.stdout.flush()


def write(document: Mapping[str, Any], wanted: Sequence[Target], *, include_text: bool, quiet: bool) -> None:
    """Render the document for each target and write it, and say to which files.

    Raises StoreError where one cannot be written.
    """
    bare = shown(document, include_text=include_text) if any(target.report.shared for target in wanted) else document
    for target in wanted:
        given = bare if target.report.shared else document
        if not target.report.details:
            given = {key: value for key, value in given.items() if key != "details"}
        content = target.report.render(given)
        if target.path is None:
            sys.stdout.flush()
            sys.stdout.buffer.write(content)
            sys.stdout.buffer.flush()
            continue
        try:
            target.path.write_bytes(content)
        except OSError as error:
            raise StoreError(f"--output {target.path}: {error.strerror}") from error
        note(f"wrote {target.path}", quiet=quiet)
