"""The command ``gc``: remove what the store holds of sessions."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from compactctl.cli._options import Config, NoConfig, PlainFormat, RecordsDir, StateDir, Wait, json_wanted, resolved
from compactctl.context.words import quantity
from compactctl.errors import NotConfirmedError, StoreError, UsageError
from compactctl.reports._safe import safe
from compactctl.reports._words import size

if TYPE_CHECKING:
    from compactctl.store.gc import PlannedSession
    from compactctl.store.trash import Freed

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}


def gc(
    sessions: Annotated[
        list[str] | None, typer.Argument(help="Ids of the sessions to remove, or how they begin.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", "-n", help="Show what would go; write nothing.")] = False,
    older_than: Annotated[
        str | None, typer.Option(help="Only sessions last written longer ago than this: 14d, 12h, 2w. Needs --yes.")
    ] = None,
    keep_runs: Annotated[
        int | None,
        typer.Option(min=1, help="Keep each session with its newest N complete runs; remove other runs. Needs --yes."),
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="Every session of the store. Needs --yes.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="List every file as JSON.")] = False,
    format: PlainFormat = None,
    wait: Wait = None,
    state_dir: StateDir = None,
    records_dir: RecordsDir = None,
    config: Config = None,
    no_config: NoConfig = False,
) -> int:
    """Remove sessions from the store: their offloaded results, records, turns and memories.

    A named session goes at once and whole, never while a replay of it runs. An unknown id is an error, and then nothing
    is removed. Cassettes belong to no session and stay. In directories that harness9 made, only <session>/*.txt and
    <session>.jsonl go.

    \b
      compactctl gc 4f1c2a                   this session
      compactctl gc 4f1c2a --dry-run         what would go
      compactctl gc --older-than 14d --yes   what nobody replayed for two weeks
      compactctl gc --keep-runs 3 --yes      old runs of every session
      compactctl gc --state-dir .harness9 --records-dir ~/.harness9/compaction_records 4f1c2a
    """
    as_json = json_wanted("gc", as_json, format)
    from compactctl.cli._stored import names_of
    from compactctl.store import open_store
    from compactctl.store.gc import Selection, apply_gc, plan_gc

    settings = resolved({"state_dir": state_dir, "records_dir": records_dir}, config, no_config)
    store = open_store(settings["state_dir"], settings["records_dir"])
    chosen = names_of(store, sessions, half_gone=True, also="; nothing was removed") if sessions else ()
    selection = Selection(
        tuple(chosen),
        everything,
        None if older_than is None else seconds(older_than),
        keep_runs,
        time.time(),
    )
    plan = plan_gc(store, selection)
    lines = describe(plan)
    if dry_run:
        _answer(as_json, plan, None, [*lines, "nothing was removed (dry run)"])
        return 0
    if not as_json or not yes:
        print("\n".join(lines), file=sys.stderr)
    if everything or older_than is not None or keep_runs is not None:
        _confirm(plan, yes)
    freed = apply_gc(store, plan, wait)
    runs = sum(len(p.runs) for p in plan if p.runs is not None and p.session not in freed.stayed)
    for session in freed.stayed:
        print(f"{safe(session)}: stays, it was written after this was planned", file=sys.stderr)
    removed = [quantity(runs, "run")] * bool(runs) + [quantity(freed.files, "file")] * bool(freed.files or not runs)
    _answer(as_json, plan, freed, [f"removed {' and '.join(removed)}, freed {size(freed.bytes)}"])
    if freed.kept:
        raise StoreError(
            f"{quantity(len(freed.kept), 'entry')} that compactctl did not make were left: {freed.kept[0]!r}"
        )
    return 0


def seconds(text: str) -> float:
    """Give a duration as it is written on the command line in seconds.

    >>> seconds("14d"), seconds("90m")
    (1209600.0, 5400.0)
    """
    match = re.fullmatch(r"([0-9]{1,9})([smhdw])", text.strip().lower())
    if match is None:
        raise UsageError(f"--older-than {text!r}: give a number and one of s, m, h, d, w, for example 14d")
    return float(match[1]) * _UNITS[match[2]]


def describe(plan: Sequence[PlannedSession]) -> list[str]:
    """Give the plan as lines for a person."""
    lines = []
    for planned in plan:
        what = "" if planned.runs is None else f"{quantity(len(planned.runs), 'run')} of it, "
        begun = " (begun by an earlier gc)" if planned.unfinished else ""
        files = quantity(len(planned.files), "file")
        lines.append(f"{safe(planned.session)}: {what}{files}, {size(planned.bytes)}{begun}")
        lines.extend(f"  stays: {safe(path)}" for path in planned.foreign)
    whole = [planned for planned in plan if planned.runs is None]
    runs = sum(len(planned.runs) for planned in plan if planned.runs is not None)
    total = sum(len(planned.files) for planned in whole)
    freed = size(sum(planned.bytes for planned in plan))
    parts = [quantity(len(whole), "session"), quantity(total, "file")] if whole or not runs else []
    parts += [f"{quantity(runs, 'run')} of {quantity(len(plan) - len(whole), 'session')}"] if runs else []
    lines.append(f"to remove: {', '.join(parts)}, {freed}")
    return lines


def _confirm(plan: Sequence[PlannedSession], yes: bool) -> None:
    if yes or not plan:
        return
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise NotConfirmedError("nothing was removed: give --yes to confirm")
    if not typer.confirm("Remove them?", err=True):
        raise NotConfirmedError("nothing was removed")


def _answer(as_json: bool, plan: Sequence[PlannedSession], freed: Freed | None, lines: Sequence[str]) -> None:
    if not as_json:
        print("\n".join(lines))
        return
    from compactctl.reports._document import root_document
    from compactctl.reports._json_bytes import encode

    more: dict[str, Any] = {
        "dry_run": freed is None,
        "planned_bytes": sum(planned.bytes for planned in plan),
        "freed_files": None if freed is None else freed.files,
        "freed_bytes": None if freed is None else freed.bytes,
        "left": [] if freed is None else freed.kept,
        "stayed": [] if freed is None else freed.stayed,
    }
    print(encode(root_document("gc", {}, [planned.to_json() for planned in plan], **more), indent=True).decode())
