"""The command ``verify``: check the store against what it promises."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from shlex import quote
from typing import TYPE_CHECKING, Annotated

import typer

from compactctl.cli._options import Config, NoConfig, PlainFormat, RecordsDir, StateDir, Wait, json_wanted, resolved
from compactctl.context.words import quantity
from compactctl.errors import BudgetError, LockedError, NotConfirmedError
from compactctl.reports._safe import safe

if TYPE_CHECKING:
    from compactctl.store import Store
    from compactctl.store.problems import Level, Problem
    from compactctl.store.repair import RepairStep
    from compactctl.store.verify import Verified

# So many sessions are named in one line.
_MOST_NAMED = 20


def verify(
    sessions: Annotated[
        list[str] | None, typer.Argument(help="Ids of the sessions to check, or how they begin. [default: all]")
    ] = None,
    repair: Annotated[
        bool,
        typer.Option(
            "--repair",
            help="Set torn last lines aside, remove stale temporaries, close modes; nothing else. Needs --yes.",
        ),
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Repair without asking.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Give the result as JSON.")] = False,
    format: PlainFormat = None,
    wait: Wait = None,
    state_dir: StateDir = None,
    records_dir: RecordsDir = None,
    config: Config = None,
    no_config: NoConfig = False,
) -> int:
    """Check that every record parses and every offloaded file is there as it was written; changes nothing.

    Levels: info is what a crash may leave, a warning wants a look, an error is damage and exit status 1. Sessions that
    are being written are not checked (exit status 6). What is damaged stays so, whatever is replayed after it: remove
    such a session with gc and replay it again.

    \b
      compactctl verify                       the whole store
      compactctl verify 4f1c2a --json         one session
      compactctl verify --repair              what a repair would do
      compactctl verify --repair --yes        do it
      compactctl verify --state-dir .harness9 --records-dir ~/.harness9/compaction_records
    """
    as_json = json_wanted("verify", as_json, format)
    from compactctl.cli._stored import names_of
    from compactctl.store import open_store
    from compactctl.store.repair import apply_repair, plan_repair
    from compactctl.store.verify import verify as check

    settings = resolved({"state_dir": state_dir, "records_dir": records_dir}, config, no_config)
    store = open_store(settings["state_dir"], settings["records_dir"])
    store.must_exist()
    chosen = names_of(store, sessions) if sessions else None
    steps = plan_repair(store, chosen) if repair else ()
    if steps:
        print("\n".join(f"{safe(step.path)}: {step.action}" for step in steps), file=sys.stderr)
        _confirm(yes)
        done = apply_repair(store, steps, wait)
        print(f"{done} of {len(steps)} repairs done", file=sys.stderr)
    found = check(store, chosen, wait)
    _answer(as_json, found, steps)
    flags = (("--state-dir", state_dir), ("--records-dir", records_dir))
    return _status(found, store, [f"{name} {quote(str(path))}" for name, path in flags if path is not None])


def _confirm(yes: bool) -> None:
    if yes:
        return
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise NotConfirmedError("nothing was repaired: give --yes to confirm")
    if not typer.confirm("Repair?", err=True):
        raise NotConfirmedError("nothing was repaired")


def _status(found: Verified, store: Store, flags: Sequence[str]) -> int:
    from compactctl.store.problems import Level

    if found.busy:
        raise LockedError(f"{quantity(len(found.busy), 'session')} in use and not checked: give --wait SECONDS")
    errors = found.count(Level.ERROR)
    if errors:
        different = sum(alike[0].level is Level.ERROR for alike in grouped(found.problems))
        places = quantity(errors, "place") + (f" ({different} different)" if different < errors else "")
        raise BudgetError(f"{str(store.layout.state_dir)!r} is damaged in {places}: {_cure(found, flags)}")
    return 0


def _cure(found: Verified, flags: Sequence[str]) -> str:
    """Say what makes the store whole: old records stay as they are and name what is lost, whatever is replayed."""
    parts = ["do by hand what the errors say, move it away or remove it"] if found.by_hand else []
    ours = [name for name in found.damaged if name not in found.recorded]
    if ours:
        named = " ".join(quote(name) for name in ours[:_MOST_NAMED])
        more = f" (and {len(ours) - _MOST_NAMED:,} more, see --json)" if len(ours) > _MOST_NAMED else ""
        then = "then " if parts else ""
        parts.append(
            f"{then}do `{' '.join(('compactctl gc', named, *flags))}`{more} and replay again what that removed"
        )
    if found.recorded:
        few = quantity(len(found.recorded), "session has", "sessions have")
        parts.append(f"{few} records of harness9, which no replay writes again: take them from a copy")
    return "; ".join(parts)


def _answer(as_json: bool, found: Verified, steps: Sequence[RepairStep]) -> None:
    if as_json:
        from compactctl.reports._document import root_document
        from compactctl.reports._json_bytes import encode

        more = {
            "checked": {
                "sessions": found.sessions,
                "runs": found.runs,
                "records": found.records,
                "lines": found.lines,
                "files": found.files,
                "bytes": found.bytes,
            },
            "problems": [problem.to_json() for problem in found.problems],
            "repairs": [step.to_json() for step in steps],
            "busy": found.busy,
            "damaged_sessions": found.damaged,
        }
        print(encode(root_document("verify", {}, [], **more), indent=True).decode())
        return
    for alike in grouped(found.problems):
        print(line_of(alike[0]) + (f" (here first, {len(alike)} times in all)" if len(alike) > 1 else ""))
    words = ((found.sessions, "session"), (found.runs, "run"), (found.records, "record"), (found.files, "file"))
    checked = ", ".join(quantity(number, word) for number, word in words)
    print(f"checked {checked}: " + ", ".join(f"{found.count(level)} {level}" for level in _levels()))


def grouped(problems: Iterable[Problem]) -> list[list[Problem]]:
    """Put what is said of one file in the same words together, in the order of the first: a place a record, often."""
    groups: dict[tuple[Level, str, str], list[Problem]] = {}
    for problem in problems:
        groups.setdefault((problem.level, problem.path, problem.text), []).append(problem)
    return list(groups.values())


def line_of(problem: Problem) -> str:
    """Give a problem as one line: level, place, text."""
    place = safe(problem.path) + ("" if problem.line is None else f":{problem.line} (byte {problem.offset})")
    return f"{problem.level}: {place}: {safe(problem.text)}"


def _levels() -> list[Level]:
    from compactctl.store.problems import Level

    return [Level.ERROR, Level.WARNING, Level.INFO]
