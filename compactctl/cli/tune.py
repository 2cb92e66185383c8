"""``compactctl tune``: which settings cost least and lose nothing, on recorded sessions."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from compactctl.cli import _options as opt
from compactctl.cli._batch import each_session
from compactctl.cli._decide import decision_targets
from compactctl.cli._hands import Failed
from compactctl.cli._output import write, write_file
from compactctl.cli._say import Told, input_notes, note, problems
from compactctl.cli._summarizer import announce, bill, failed_summaries
from compactctl.cli._sweep import BATCH_CHARACTERS, Done, Figures, Memory, Plan, characters, sweep
from compactctl.cli._work import Work, make_summarizer, setup_of
from compactctl.compactors._user import is_user_code
from compactctl.context.words import quantity
from compactctl.errors import (
    CompactctlError,
    NothingMatchedError,
    StoreError,
    SummarizerError,
    UsageError,
    WorkerError,
)
from compactctl.model import Session
from compactctl.reports._document import root_document
from compactctl.reports._tuning import tuning_document
from compactctl.runs import Setup
from compactctl.settings import Resolved, one_of, whole
from compactctl.transcripts import Account, Found
from compactctl.tuning.choice import decide
from compactctl.tuning.grid import Grid, full_grid, parse_axes, sampled_grid
from compactctl.tuning.judging import Prefer

if TYPE_CHECKING:
    from compactctl.cli._settings_file import Written
    from compactctl.summarizers._plan import Planner

# The measures that the objectives and gates need.
_NEEDED = ("m1", "m3", "m5", "m6", "m8")


@opt.setting_flags()
def tune(
    paths: opt.Paths = None,
    grid: Annotated[
        list[str] | None,
        typer.Option("--grid", "-g", help="NAME=FIRST:LAST:STEP or NAME=VALUE,VALUE; repeatable, all combinations."),
    ] = None,
    trials: Annotated[
        str | None, typer.Option(help="Try only so many points of the grid, drawn with the seed.")
    ] = None,
    seed: Annotated[int, typer.Option(help="For the draws, the sessions kept back and the intervals.")] = 0,
    prefer: Annotated[str, typer.Option(help="What a recommendation must better: cost, recall or peak.")] = "cost",
    tolerance: Annotated[float, typer.Option(help="What counts as the same, as a share.")] = 0.01,
    write_: Annotated[
        Path | None, typer.Option("--write", help="Write the chosen options into this settings file.")
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on where an interrupted run stopped.")] = False,
    *,
    flags: Mapping[str, Any],
    set: opt.Set = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", "-n", help="Keep nothing for --resume; of a model, show the plan and stop.")
    ] = False,
    subagents: opt.Subagents = False,
    format: opt.Format = None,
    output: opt.Output = None,
    config: opt.Config = None,
    no_config: opt.NoConfig = False,
    quiet: opt.Quiet = False,
) -> int:
    """Try many settings on recorded sessions: what each costs, what it forgets, how full the window gets.

    Every point is a whole replay. The result is the Pareto front of cost, recall and peak, with the present setting
    marked. Of 6 sessions or more, a third (rounded up) is kept back to see whether the choice holds. Where nothing
    matters, it says so.

    \b
    Examples:
      compactctl tune sessions/ --grid soft=0.60:0.80:0.02 --grid full=0.75,0.80,0.85
      compactctl tune sessions/ --grid offload=1000:16000:1000 --grid tail=4,6,8 --trials 40
      compactctl tune sessions/ --grid soft=0.6:0.8:0.05 --write compactctl.toml
      compactctl tune sessions/ --grid soft=0.6:0.8:0.02 --grid full=0.8:0.9:0.02 -o tune.json -o tune.png
    """
    if not paths:
        raise UsageError("tune needs at least one transcript: a file, a directory, a pattern, or - for stdin")
    if not grid:
        raise UsageError("tune needs a --grid, for example --grid soft=0.60:0.80:0.02")
    if write_ is not None and write_.suffix != ".toml":
        raise UsageError(f"--write {write_}: a settings file ends in .toml; results go to --output")
    if write_ is not None and not write_.parent.is_dir():
        raise UsageError(f"--write {write_}: the directory {write_.parent} does not exist")
    settings = opt.resolved_for_replay(flags, config, no_config, set, quiet=quiet)
    wanted = decision_targets("tune", format, output)
    setup = setup_of(settings)
    preferred = Prefer(_read(one_of(*Prefer), prefer, "--prefer"))
    if not 0 <= tolerance < 1:
        raise UsageError(f"--tolerance {tolerance}: a share from 0 to below 1")
    made = _grid(grid, setup, None if trials is None else _read(whole(1), trials, "--trials"), seed)
    for axis in made.axes:
        if axis.short:
            note(axis.short, quiet=quiet)
    points, present = _with_present(made, setup)
    plan = Plan(settings, tuple(points), _measures(settings))
    make_summarizer(Work(settings))
    inputs = opt.inputs(paths, settings, wanted, [("--write", write_)] if write_ is not None else [])
    if write_ is not None:
        # What cannot be written is told before the work and not after it.
        _settings_with({axis.name: setup.options[axis.name] for axis in made.axes}, write_, setup, settings)
    memory = None if dry_run else _memory(settings, resume)
    found = _Found(len(points))
    account = Account()
    errors: list[CompactctlError] = []
    statuses: list[int] = []
    counted = Account()

    def count(planner: Planner) -> Iterator[object]:
        for batch in _batches(inputs, counted, subagents, _Found(0)):
            yield from sweep(batch, replace(plan, planner=planner), 1)

    try:
        if announce(settings, paths, count, dry_run=dry_run, quiet=quiet) is not None and dry_run:
            return problems(counted.problems)
        for batch in _batches(inputs, account, subagents, found, settings["jobs"]):
            _gather(batch, plan, settings["jobs"], memory, found, quiet=quiet)
    except KeyboardInterrupt:
        statuses.append(130)
    except WorkerError as error:
        errors.append(error)
        statuses.append(error.exit_status)
    failed = [*found.errors, *found.failed()]
    lacking = bool(failed or account.problems or statuses)
    errors += failed
    if memory is not None and memory.recalled:
        known = quantity(memory.recalled, "replay was", "replays were")
        note(f"{known} known from an earlier run", quiet=quiet)
    if memory is not None and memory.broken is not None:
        errors.append(memory.broken)
    bill(settings, quiet=quiet)
    if not settings["fallback"] and found.failures:
        errors.append(SummarizerError(failed_summaries(found.failures)))
    if not found.sessions and not account.problems and not errors and not statuses:
        errors.append(NothingMatchedError("no session to tune on; name a transcript"))
    sessions, numbers, rows = found.whole()
    nothing = not rows or present not in numbers
    if statuses:
        so_far = "nothing is done in whole yet" if nothing else "what was done so far is shown"
        why = "interrupted: " if 130 in statuses else ""
        note(f"{why}{so_far}" + (", and --resume goes on" if memory is not None else ""))
    if nothing:
        return problems([*account.problems, *errors], statuses)
    shown = _part_of(made, numbers)
    ids = [session.id for session in sessions]
    at = numbers.index(present)
    result = decide(shown, rows, ids, at, seed=seed, prefer=preferred, tolerance=tolerance, history=setup.mode)
    # Points are lacking only where something ended early, which is a status or an error.
    complete = not lacking
    options = [points[number] for number in numbers]
    body = tuning_document(shown, options, result, rows, ids, seed=seed, complete=complete)
    heads = [_head(session) for session in sessions]
    lost = {"ignored_inputs": dict(account.ignored), "failed": list(map(str, [*account.problems, *failed]))}
    document = root_document("tune", setup.settings(), heads, **body, **lost)
    errors += write(document, wanted, include_text=False, quiet=quiet)
    input_notes(account, map(Told.by, sessions), quiet=quiet)
    if write_ is not None and complete:
        try:
            _write_settings(write_, document, setup, settings)
        except StoreError as error:
            errors.append(error)
    elif write_ is not None:
        note(f"nothing was written to {write_}: not all was done that was asked for")
    return problems([*account.problems, *errors], statuses)


def _read(reader: Any, raw: Any, name: str) -> Any:
    try:
        return reader(raw)
    except ValueError as error:
        raise UsageError(f"{name} {raw}: not {error}") from error


def _measures(settings: Resolved) -> tuple[str, ...]:
    """Give the measures to compute; all of them, unless named, are those that objectives and gates need."""
    chosen: tuple[str, ...] = settings["measures"]
    return _NEEDED if chosen == ("all",) else chosen


def _grid(written: Sequence[str], setup: Setup, trials: int | None, seed: int) -> Grid:
    axes = parse_axes(written, setup.spec)
    if trials is None:
        return full_grid(axes, setup.spec, setup.options)
    return sampled_grid(axes, setup.spec, setup.options, trials, seed)


def _with_present(grid: Grid, setup: Setup) -> tuple[list[dict[str, Any]], int]:
    """Give the options of all points, and which of them is the present setting; it is added where the grid lacks it."""
    points = [grid.options(number) for number in range(len(grid.points))]
    now = {axis.name: setup.options[axis.name] for axis in grid.axes}
    if now not in points:
        points.append(now)
    return points, points.index(now)


def _part_of(grid: Grid, numbers: Sequence[int]) -> Grid:
    """Give the grid with those of its points that were replayed in every session."""
    kept = [number for number in numbers if number < len(grid.points)]
    if len(kept) == len(grid.points):
        return grid
    return Grid(
        grid.axes,
        tuple(grid.points[number] for number in kept),
        tuple(grid.places[number] for number in kept),
        grid.impossible,
        grid.of,
        sampled=True,
        why=grid.why,
    )


def _memory(settings: Resolved, resume: bool) -> Memory:
    from compactctl.store import FileBlobs, open_store

    return Memory(FileBlobs(open_store(settings["state_dir"]).layout), resume=resume)


@dataclass(slots=True)
class _Found:
    """What is known so far: the figures of each session by point."""

    points: int
    sessions: list[Session] = field(default_factory=list)
    rows: list[dict[int, Figures]] = field(default_factory=list)
    errors: list[CompactctlError] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    _bad: dict[int, tuple[int, CompactctlError]] = field(default_factory=dict)

    def add(self, offset: int, done: Done) -> None:
        """Take what a task gave; ``offset`` is the position of its batch's first session."""
        at = offset + done.task.session
        if done.error is not None:
            # Of several the first point's, whichever process was quicker.
            if at not in self._bad or done.task.first < self._bad[at][0]:
                self._bad[at] = done.task.first, done.error
            return
        self.failures.extend(done.failures)
        self.rows[at].update(enumerate(done.rows, done.task.first))

    def failed(self) -> list[CompactctlError]:
        """Give the errors of the sessions that raised one, in their order."""
        return [error.of(self.sessions[at].id) for at, (_, error) in sorted(self._bad.items())]

    def whole(self) -> tuple[list[Session], list[int], list[list[Figures]]]:
        """Give sessions and points of which everything is known: all sessions that are done, else points of some."""
        good = [at for at in range(len(self.sessions)) if at not in self._bad and self.rows[at]]
        done = [at for at in good if len(self.rows[at]) == self.points]
        if done:
            numbers = list(range(self.points))
        elif good:
            most = max(good, key=lambda at: len(self.rows[at]))
            done, numbers = [most], sorted(self.rows[most])
        else:
            numbers = []
        return [self.sessions[at] for at in done], numbers, [[self.rows[at][n] for at in done] for n in numbers]


def _batches(inputs: Found, account: Account, subagents: bool, found: _Found, jobs: int = 1) -> Iterator[list[Session]]:
    """Load sessions, as many at a time as may be held."""
    batch: list[Session] = []
    held = 0
    for session in each_session(inputs, account, _same, None, loaders=jobs, side_threads=subagents):
        if isinstance(session, Failed):
            found.errors.append(session.error.of(session.session_id))
            continue
        batch.append(session)
        held += characters(session)
        if held >= BATCH_CHARACTERS:
            yield batch
            batch, held = [], 0
    if batch:
        yield batch


def _same(session: Session, context: None) -> Session:
    return session


def _gather(
    batch: Sequence[Session], plan: Plan, jobs: int, memory: Memory | None, found: _Found, *, quiet: bool
) -> None:
    offset = len(found.sessions)
    # What is needed of a session once it was replayed is its name.
    found.sessions.extend(_bare(session) for session in batch)
    found.rows.extend({} for _ in batch)
    total, seen = len(batch) * len(plan.points), 0
    counting = sys.stderr.isatty() and not quiet
    try:
        for done in sweep(batch, plan, jobs, memory):
            found.add(offset, done)
            seen += done.task.last - done.task.first
            if counting:
                print(f"\r{seen:,} of {total:,} replays", end="", file=sys.stderr, flush=True)
    finally:
        if counting:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)


def _bare(session: Session) -> Session:
    return replace(session, messages=(), compactions=())


def _head(session: Session) -> dict[str, Any]:
    return {
        "session_id": session.id,
        "path": session.path,
        "format": session.format,
        "model": session.model,
        "input_sha256": session.input_sha256,
    }


def _write_settings(path: Path, document: dict[str, Any], setup: Setup, settings: Resolved) -> None:
    """Write the chosen options, if any, into a settings file, with all that they were chosen under."""
    from compactctl.reports._tuning import how_found

    chosen = document["recommendation"]["options"]
    if chosen is None:
        note(f"nothing was written to {path}: {document['recommendation']['reason']}")
        return
    written = _settings_with(chosen, path, setup, settings, how_found(document))
    write_file(path, [written.content.encode()], "--write")
    note(f"wrote {path}")
    if written.gone:
        note(f"{path}: taken out, since {setup.spec.name} has no such option: {', '.join(written.gone)}")
    if is_user_code(settings["compactor"]):
        note(f"the compactor is not written, since such a file runs no code: give --compactor {settings['compactor']}")
    if settings["summarizer"] not in ("stub", "opaque"):
        note(f"model and endpoint of {settings['summarizer']} are not written: they stay with the command line")


def _settings_with(
    chosen: Mapping[str, Any], path: Path, setup: Setup, settings: Resolved, told: Sequence[str] = ()
) -> Written:
    """Give what a settings file will hold with these options. Raises SettingsError where that cannot be."""
    from compactctl.cli._settings_file import SHAPING, Choice, with_choice

    try:
        before = path.read_bytes().decode() if path.exists() else ""
    except (OSError, UnicodeDecodeError) as error:
        raise StoreError(f"--write {path}: {error}") from error
    under = {name: settings[name] for name in SHAPING}
    return with_choice(before, str(path), Choice(setup.spec, chosen, setup.options, under, settings.prices), told)
