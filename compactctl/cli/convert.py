"""``compactctl convert``: any transcript as the documented neutral format."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from compactctl.cli import _options as opt
from compactctl.cli._output import refuse_unsafe_files, write_file
from compactctl.cli._say import notes, problems
from compactctl.errors import CompactctlError, StoreError, UsageError
from compactctl.model import Session
from compactctl.reports._json_bytes import printable
from compactctl.transcripts import Account, distinct_ids, find_inputs, load_inputs, write_neutral


def convert(
    path: Annotated[str, typer.Argument(help="A transcript; - for stdin.")],
    output: Annotated[str | None, typer.Option("--output", "-o", help="The file to write. [default: stdout]")] = None,
    session: Annotated[str | None, typer.Option(help="Which session, where the file holds several.")] = None,
    subagents: opt.Subagents = False,
    quiet: opt.Quiet = False,
) -> int:
    """Write a transcript in the neutral format: a header line, then a JSON object for each message.

    \b
    Examples:
      compactctl convert rollout.jsonl > session.jsonl
      compactctl convert runs.json --session task-7 -o task-7.jsonl
    """
    account, found = Account(), find_inputs([path])
    if output is not None and output != "-":
        refuse_unsafe_files([("--output", Path(output))], found, [path])
    sessions = distinct_ids(load_inputs(found, account, side_threads=subagents))
    errors: list[CompactctlError] = list(account.problems)
    chosen = _chosen(sessions, session, path) if sessions else None
    if chosen is not None:
        notes(chosen.warnings, quiet=quiet)
        lines = map(printable, write_neutral(chosen))
        if output is None or output == "-":
            sys.stdout.flush()
            for line in lines:
                sys.stdout.buffer.write(line)
        else:
            try:
                write_file(Path(output), lines)
            except StoreError as error:
                errors.append(error)
    return problems(errors)


def _chosen(sessions: list[Session], wanted: str | None, path: str) -> Session:
    if wanted is None and len(sessions) == 1:
        return sessions[0]
    found = [session for session in sessions if session.id == wanted]
    if len(found) == 1:
        return found[0]
    known = ", ".join(session.id for session in sessions[:5]) + (", ..." if len(sessions) > 5 else "")
    what = f"has no session {wanted!r}" if wanted else f"holds {len(sessions)} sessions"
    raise UsageError(f"{path}: {what}; choose one with --session, one of: {known}")
