"""Writes what the reports give: one format on stdout, any number of files."""

from __future__ import annotations

import errno
import os
import shutil
import stat
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from secrets import token_hex
from typing import Any

from compactctl.cli._say import note
from compactctl.errors import StoreError, UsageError
from compactctl.registry import plugin, plugins
from compactctl.reports._document import without_text
from compactctl.reports._paper import Paper
from compactctl.reports._spec import ReportSpec
from compactctl.transcripts import Found
from compactctl.transcripts._stores import Stores

ROOM = "compactctl.reports"


@dataclass(frozen=True, slots=True)
class Target:
    """One output: its format, and the file (None: stdout)."""

    report: ReportSpec
    path: Path | None


def targets(format: str | None, outputs: Sequence[str] | None) -> list[Target]:
    """Resolve ``--format`` and ``--output`` before the work begins, so that a wrong one fails at once.

    Raises UsageError for an unknown format, suffix or directory, and for a format whose extra is not installed.
    """
    found = [Target(plugin(ROOM, ReportSpec, format or "table", "format"), None)]
    for output in outputs or ():
        if output == "-":
            continue
        path = Path(output)
        found.append(Target(by_suffix(path), path))
    for report in (target.report for target in found):
        if report.needs and find_spec(report.needs) is None:
            raise UsageError(f"{report.name} needs {report.needs}: pip install 'compactctl[{report.name}]'")
    refuse_unsafe_files(outputs_of(found), Found(()))
    return found


def outputs_of(wanted: Iterable[Target]) -> list[tuple[str, Path]]:
    """Give the files among the targets, each with the option that names it."""
    return [("--output", target.path) for target in wanted if target.path is not None]


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


def write(
    document: Mapping[str, Any], wanted: Sequence[Target], *, include_text: bool, quiet: bool
) -> list[StoreError]:
    """Render the document for each target and write it, files first, and say to which files.

    What could not be written is given back, so that it takes no other output and no other error with it.
    """
    bare = shown(document, include_text=include_text) if any(target.report.shared for target in wanted) else document
    failed: list[StoreError] = []
    for target in sorted(wanted, key=lambda target: target.path is None):
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
            write_file(target.path, [content])
        except StoreError as error:
            failed.append(error)
        else:
            note(f"wrote {target.path}", quiet=quiet)
    return failed


def write_file(path: Path, pieces: Iterable[bytes], option: str = "--output") -> None:
    """Write a file beside and put it in place once it is whole, so that an earlier one is replaced or as it was.

    Raises StoreError where it cannot be written.
    """
    # A link stays one: what it leads to is replaced.
    place = Path(os.path.realpath(path))
    beside = place.parent / f".compactctl-{token_hex(8)}.tmp"
    try:
        before = place.stat().st_mode if place.exists() else None
        if before is not None and not os.access(place, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        # Not by tempfile, whose files nobody else may read whatever the user's mask says.
        file = beside.open("xb")
        try:
            with file:
                if before is not None:
                    os.fchmod(file.fileno(), stat.S_IMODE(before))
                file.writelines(pieces)
            beside.replace(place)
        except BaseException:
            beside.unlink(missing_ok=True)
            raise
    except OSError as error:
        raise StoreError(f"{option} {path}: {error.strerror}; check it or take another name") from error


def refuse_unsafe_files(
    files: Iterable[tuple[str, Path]],
    found: Found,
    arguments: Iterable[str] = (),
    state_dir: str | None = None,
    records_dir: str | None = None,
) -> None:
    """See before the work begins that files can be written: none is an input, in the store, or no regular file.

    ``files`` are what is to be written, each with the option that names it; ``arguments`` are the inputs as they were
    named, for the lists of paths among them. Raises UsageError.
    """
    listed = list(files)
    there: dict[tuple[int, int], str] = {}
    for option, path in listed:
        if Stores(state_dir, records_dir).holds(str(path)):
            raise UsageError(f"{option} {path}: this lies in a state directory; write it elsewhere")
        try:
            seen = path.stat()
        except (FileNotFoundError, NotADirectoryError):
            if not path.parent.is_dir():
                raise UsageError(f"{option} {path}: the directory {path.parent} does not exist") from None
            continue
        except OSError as error:
            raise UsageError(f"{option} {path}: {error.strerror}") from error
        if not stat.S_ISREG(seen.st_mode):
            raise UsageError(f"{option} {path}: this is not a regular file; take another name, or stdout")
        there[(seen.st_dev, seen.st_ino)] = f"{option} {path}"
    if not there:
        return
    lists = [argument[1:] for argument in arguments if argument.startswith("@")]
    for name in [*(candidate.path for candidate in found.candidates), *lists]:
        with suppress(OSError, ValueError):
            # stdin may well be one of these files.
            seen = os.fstat(0) if name == "-" else os.stat(name)  # noqa: PTH116 - may be any bytes
            if (seen.st_dev, seen.st_ino) in there:
                raise UsageError(f"{there[(seen.st_dev, seen.st_ino)]}: this is an input; write it elsewhere")
