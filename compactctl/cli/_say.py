"""What goes to stderr: progress on a terminal, warnings and notices; stdout holds the result alone."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from compactctl.context.words import quantity
from compactctl.errors import CompactctlError, worst
from compactctl.reports._safe import safe

if TYPE_CHECKING:
    from compactctl.model import Session
    from compactctl.transcripts import Account

MOST_WARNINGS = 20


def note(message: str, *, quiet: bool = False) -> None:
    """Write one line to stderr unless ``quiet``."""
    if not quiet:
        print(safe(message), file=sys.stderr)


def notes(messages: Iterable[str], *, quiet: bool = False) -> None:
    """Write lines to stderr; of many alike in number only the first, and how many more there are."""
    listed = list(messages)
    for message in listed[:MOST_WARNINGS]:
        note(f"warning: {message}", quiet=quiet)
    if len(listed) > MOST_WARNINGS:
        note(f"and {quantity(len(listed) - MOST_WARNINGS, 'more warning')}", quiet=quiet)


class Told(NamedTuple):
    """What there is to say of how a session was read."""

    session_id: str
    warnings: Sequence[str]
    skipped: int

    @classmethod
    def by(cls, session: Session) -> Told:
        """Say it of a session."""
        return cls(session.id, session.warnings, len(session.lines.skipped))

    @classmethod
    def within(cls, document: Mapping[str, Any]) -> Told:
        """Say it of a session's document."""
        return cls(document["session_id"], document["warnings"], document["lines_skipped"])


def input_notes(account: Account, sessions: Iterable[Told], *, quiet: bool = False) -> None:
    """Write what was not as it should be with the inputs: sessions with warnings or skipped lines, files without any.

    For the commands that show sessions together: a figure over them must not hide what is missing in one.
    """
    lines: list[str] = []
    for session in sessions:
        lines.extend(f"{session.session_id}: {words}" for words in session.warnings)
        if session.skipped:
            skipped = quantity(session.skipped, "line")
            lines.append(f"{session.session_id}: {skipped} skipped (`compactctl inspect` says which and why)")
    notes(lines, quiet=quiet)
    tell_left_out(account, quiet=quiet, verbose=True)


def tell_left_out(account: Account, *, quiet: bool = False, verbose: bool = False) -> None:
    """Write how many files gave no session and why, and name them where they are few.

    ``verbose`` names the first ones of each reason where they are many, too.
    """
    verbose = verbose or all(len(account.examples.get(why, ())) == count for why, count in account.ignored.items())
    for reason, count in sorted(account.ignored.items()) if verbose else ():
        named = account.examples.get(reason, [])
        more = f" and {count - len(named):,} more" if named and count > len(named) else ""
        note(f"left out: {count:,} {reason}{': ' if named else ''}{', '.join(named)}{more}", quiet=quiet)
    if account.ignored and not verbose:
        listed = ", ".join(f"{count:,} {reason}" for reason, count in sorted(account.ignored.items()))
        note(f"left out: {listed} (--verbose names the first)", quiet=quiet)


def problems(errors: Iterable[CompactctlError], statuses: Iterable[int] = ()) -> int:
    """Write each error as one line and give the exit status for all of them and ``statuses``."""
    found = set(statuses)
    for error in errors:
        print(f"compactctl: {safe(str(error))}", file=sys.stderr)
        found.add(error.exit_status)
    return worst(found)


@contextmanager
def progress(*, quiet: bool = False) -> Iterator[Callable[[int, int, str], None]]:
    """Show a bar on stderr while inputs are worked on, where stderr is a terminal and the inputs are not small."""
    if quiet or not sys.stderr.isatty():
        yield lambda done, total, label: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}", markup=False), BarColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("reading", total=None)

        def show(done: int, total: int, label: str) -> None:
            bar.update(task, completed=done, total=total, description=safe(label)[-40:])

        yield show
