"""``compactctl report``: what the replays in the state directory gave, without reading a transcript again."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from compactctl.cli import _options as opt
from compactctl.cli._output import (
    Target,
    on_terminal,
    outputs_of,
    refuse_unsafe_files,
    shown,
    targets,
    terminal_paper,
    write,
    write_file,
)
from compactctl.cli._say import note, notes, problems, progress
from compactctl.cli._stored import Choice, Damage, names_of, read_sessions, read_timeline
from compactctl.errors import CompactctlError, NothingMatchedError, StoreError, UsageError
from compactctl.reports._overview import worst_first
from compactctl.reports._stored import StoredSession, report_document
from compactctl.reports._tables import TABLES
from compactctl.reports._terminal import in_depth, overview
from compactctl.reports._timeline import MOST
from compactctl.transcripts import Found
from compactctl.transcripts._stores import Stores

# Above this many sessions no output draws each one's turns.
_DRAWN = 20


def report(
    sessions: Annotated[
        list[str] | None, typer.Argument(metavar="[SESSION]...", help="Session ids, or how they begin. [default: all]")
    ] = None,
    run: Annotated[str | None, typer.Option(help="This run (its id or beginning), not the last complete one.")] = None,
    all_runs: Annotated[bool, typer.Option("--all-runs", help="Every complete run of each session.")] = False,
    state_dir: opt.StateDir = None,
    records_dir: opt.RecordsDir = None,
    format: opt.Format = None,
    output: opt.Output = None,
    include_text: opt.IncludeText = False,
    rows: Annotated[
        str | None, typer.Option(help=f"Rows of csv and parquet: {', '.join(TABLES)}. [default: sessions]")
    ] = None,
    config: opt.Config = None,
    no_config: opt.NoConfig = False,
    quiet: opt.Quiet = False,
    verbose: opt.Verbose = False,
) -> int:
    """Show what the last complete run of each session gave: one session in depth, or all, worst first.

    Reads nothing but the state directory. The directories of harness9 work too: name them with --state-dir and
    --records-dir; what its records do not hold is n/a.

    \b
    Examples:
      compactctl report
      compactctl report 4f0c2e81
      compactctl report -o report.html -o tiers.png -o sessions.csv
      compactctl report -o report/ --quiet
      compactctl report --rows compactions -o compactions.csv
      compactctl report --format markdown >> "$GITHUB_STEP_SUMMARY"
      compactctl report --records-dir ~/.harness9/compaction_records
    """
    settings = opt.resolved({"state_dir": state_dir, "records_dir": records_dir}, config, no_config, quiet=quiet)
    kept = settings["state_dir"], settings["records_dir"]
    wanted = targets(format, [name for name in output or () if not name.endswith("/")])
    sites = [Path(name) for name in output or () if name.endswith("/")]
    refuse_unsafe_files(outputs_of(wanted), Found(()), (), *kept)
    for site in sites:
        refuse_unsafe_site(site, *kept)
    from compactctl.store import open_store

    store = open_store(*kept)
    names = names_of(store, sessions or ())
    choice = Choice(all_runs, run)
    text = include_text or (bool(sessions) and any(not target.report.shared for target in wanted))
    if rows is not None and rows not in TABLES:
        raise UsageError(f"--rows {rows}: no such table; known: {', '.join(TABLES)}")
    points = sys.maxsize if rows == "turns" else MOST if len(names) <= _DRAWN else None
    damage = Damage()
    found: list[StoredSession] = []
    stored_as: list[str] = []
    with progress(quiet=quiet) as show:
        for place, stored in read_sessions(store, names, choice, damage, text=text, points=points):
            found.append(stored)
            stored_as.append(names[place])
            show(place + 1, len(names), names[place])
    notes(damage.warnings, quiet=quiet)
    errors = _unmatched(found, damage, run, named=bool(sessions))
    if found:
        if points is None and any(target.report.name == "html" for target in wanted):
            from compactctl.reports.html import most_drawn

            # A page draws the worst sessions, which are known only now; the terminal shows the named ones in depth.
            most = _DRAWN if sessions else most_drawn(len(found))
            for place in worst_first([stored.document for stored in found])[:most]:
                found[place].timeline = read_timeline(store, stored_as[place], found[place].document["run"])
        document = report_document(found) | ({"rows": rows} if rows else {})
        for site in sites:
            pages = read_sessions(store, names, choice, Damage(), text=include_text, points=MOST)
            try:
                write_site(site, document, pages, include_text=include_text)
            except StoreError as error:
                errors.append(error)
            else:
                note(f"wrote {site}/index.html and a page of each session", quiet=quiet)
        in_full = bool(sessions)
        errors += _show(document, wanted, in_full=in_full, include_text=include_text, verbose=verbose, quiet=quiet)
    return problems(errors)


def _show(
    document: dict[str, Any], wanted: Sequence[Target], *, in_full: bool, include_text: bool, verbose: bool, quiet: bool
) -> list[StoreError]:
    if wanted[0].report.name != "table":
        return write(document, wanted, include_text=include_text, quiet=quiet)
    failed = write(document, wanted[1:], include_text=include_text, quiet=quiet)
    paper = terminal_paper()
    if in_full:
        in_depth(document, paper, verbose=verbose)
    else:
        overview(document, paper)
    on_terminal(paper)
    return failed


# Numbers, not ids: an id comes out of a transcript and never becomes a path.
_PAGE = re.compile(r"session-[0-9]{5,}\.html", re.ASCII)


def refuse_unsafe_site(folder: Path, state_dir: str | None, records_dir: str | None) -> None:
    """See before the work begins that a directory of pages can be written, and that it is no store.

    Raises UsageError.
    """
    if not folder.is_dir() and (folder.exists() or not folder.parent.is_dir()):
        raise UsageError(f"--output {folder}/: this is no directory and none can be made there")
    if Stores(state_dir, records_dir).holds(str(folder)):
        raise UsageError(f"--output {folder}/: this lies in a state directory; write it elsewhere")
    try:
        there = sorted(_pages_in(folder))
    except OSError as error:
        raise UsageError(f"--output {folder}/: {error.strerror}") from error
    files = [("--output", folder / name) for name in ("index.html", *there)]
    refuse_unsafe_files(files if folder.is_dir() else (), Found(()), (), state_dir, records_dir)


def _pages_in(folder: Path) -> set[str]:
    """Name the pages of sessions in a directory: what an earlier report left, and nothing else."""
    return {path.name for path in folder.iterdir() if _PAGE.fullmatch(path.name)} if folder.is_dir() else set()


def write_site(
    folder: Path, document: Mapping[str, Any], again: Iterable[tuple[int, StoredSession]], *, include_text: bool
) -> None:
    """Write an index of all sessions and a page of each into a directory, which is made where it is missing.

    Pages that an earlier and larger report left there go. ``again`` gives the sessions in the document's order, so that
    only one is in memory in full. Raises StoreError where the directory cannot be written, or the sessions are others
    by now.
    """
    from compactctl.reports.html import index, render as page

    names = [f"session-{number:05}.html" for number in range(1, len(document["sessions"]) + 1)]
    pages = iter(again)
    try:
        folder.mkdir(exist_ok=True)
        for name, session in zip(names, document["sessions"], strict=True):
            _, stored = next(pages, (0, None))
            if stored is None or any(stored.document[key] != session[key] for key in ("session_id", "run")):
                raise StoreError(f"--output {folder}/: the store changed while its pages were written; do it again")
            content = page(shown(report_document([stored]), include_text=include_text))
            write_file(folder / name, [content])
        write_file(folder / "index.html", [index(shown(document, include_text=include_text), names)])
        for name in _pages_in(folder) - set(names):
            folder.joinpath(name).unlink()
    except OSError as error:
        raise StoreError(f"--output {folder}/: {error.strerror}") from error


def _unmatched(
    found: Sequence[StoredSession], damage: Damage, run: str | None, *, named: bool
) -> list[CompactctlError]:
    errors: list[CompactctlError] = []
    for name in damage.incomplete:
        if named or run is None:
            told = (
                f"session {name!r} has no {f'run {run!r}' if run else 'complete run'} and is not shown; replay it again"
            )
            errors.append(NothingMatchedError(told)) if named else note(f"warning: {told}")
    for name in damage.without_records:
        told = f"session {name!r} has files but no record and no run, and is not shown; `verify` looks into it"
        errors.append(NothingMatchedError(told)) if named else note(f"warning: {told}")
    if not found and not errors:
        errors.append(NothingMatchedError("no run to report; `compactctl replay PATH` makes one"))
    return errors
