"""The report's tables as pandas DataFrames, for notebooks: ``compactctl.report_frame``."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from os import PathLike
from typing import TYPE_CHECKING

from compactctl.cli._stored import Choice, Damage, names_of, read_sessions
from compactctl.errors import NothingMatchedError

if TYPE_CHECKING:
    import pandas


def report_frame(
    table: str = "sessions",
    sessions: Sequence[str] = (),
    *,
    state_dir: str | PathLike[str] = ".compactctl",
    records_dir: str | PathLike[str] | None = None,
    run: str | None = None,
    all_runs: bool = False,
) -> pandas.DataFrame:
    """Give a table of stored runs, the last complete one of each session unless told otherwise.

    ``table`` is ``sessions``, ``compactions``, ``turns``, ``offloads`` or ``findings``; the columns and their units are
    those of ``compactctl report --rows TABLE --format csv``; ``frame.attrs`` says what each means.

    Raises NothingMatchedError for an unknown session or run, UsageError for an unknown table, StoreError for an unsafe
    directory.
    """
    from compactctl.reports._stored import report_document
    from compactctl.reports._tables import frame, table as made
    from compactctl.store import open_store

    store = open_store(str(state_dir), None if records_dir is None else str(records_dir))
    names = names_of(store, sessions)
    points = sys.maxsize if table == "turns" else None
    read = read_sessions(store, names, Choice(all_runs, run), Damage(), text=False, points=points)
    found = [stored for _, stored in read]
    if not found:
        raise NothingMatchedError("no run to report; `compactctl replay PATH` makes one")
    rows = made(report_document(found), table)
    out: pandas.DataFrame = frame(rows)
    out.attrs = {column.name: column.help for column in rows.columns}
    return out
