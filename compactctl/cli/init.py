"""``compactctl init``: a settings file with budgets for the sessions at hand."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from compactctl.cli import _options as opt
from compactctl.cli._batch import each_session
from compactctl.cli._hands import Failed
from compactctl.cli._output import write_file
from compactctl.cli._say import Told, input_notes, note, problems, progress
from compactctl.cli._settings_file import SHAPING, toml_value
from compactctl.cli._work import Work, make_summarizer, setup_of, workbench
from compactctl.context.words import quantity
from compactctl.errors import CompactctlError, NothingMatchedError, StoreError, UsageError
from compactctl.measures._spec import Measured
from compactctl.model import Session
from compactctl.runs import run
from compactctl.settings import Resolved
from compactctl.summarizers import DEFAULT
from compactctl.transcripts import Account
from compactctl.tuning.figures import figures_of

# What a budget is written for: the figure, how it is taken, which way it is bounded, how much room is left, and why.
# Figures with a healthy bound (_HEALTHY) get that bound, whatever the sessions have today.
_BUDGETS: tuple[tuple[str, str, str, float, str], ...] = (
    ("m1.overshoot_turns", "worst", "max", 0.0, "turns whose request would not have fitted the window"),
    ("m5.faults", "worst", "max", 0.0, "requests that the compactor made invalid"),
    ("m6.recall_visible", "mean", "min", 0.05, "what the model still sees of what it refers to later"),
    ("m7.first_user_kept", "worst", "min", 0.0, "the user's first message is still there at the end"),
    ("m8.spiral", "worst", "max", 0.0, "compactions at most 3 turns apart; a chain of 3 is a spiral"),
    ("m3.cost_usd", "sum", "max", 0.05, "what all sessions together cost"),
)
_INCREASES = (("m3.cost_usd", "sum", "5%"),)


def init(
    paths: opt.Paths = None,
    write: Annotated[Path, typer.Option("--output", "-o", help="The file to write; - for stdout.")] = Path(
        "compactctl.toml"
    ),
    force: Annotated[bool, typer.Option("--force", help="Replace the file if there is one.")] = False,
    compactor: opt.Compactor = None,
    window: opt.Window = None,
    history: opt.History = None,
    meter: opt.Meter = None,
    set: opt.Set = None,
    jobs: opt.Jobs = None,
    subagents: opt.Subagents = False,
    quiet: opt.Quiet = False,
) -> int:
    """Write a commented compactctl.toml; with sessions, its budgets are what these sessions hold today.

    What must never happen (faults, requests above the window, spirals, a lost first message) is held to its healthy
    bound: where it happens today, the budget is a warning and says so. The settings given here are written, too.

    \b
    Examples:
      compactctl init
      compactctl init sessions/
      compactctl init sessions/ --compactor harness9 --set soft=0.65 --output harness9.toml
      compactctl init sessions/ --meter calibrated --window 128k
      compactctl init sessions/ --output -
    """
    if str(write) != "-" and write.exists() and not force:
        raise UsageError(f"{write} is there already; --force replaces it, --output takes another name")
    # No model is asked here, whatever the environment says: a budget needs figures that cost nothing to find again.
    flags = {
        "compactor": compactor,
        "window": window,
        "history": history,
        "meter": meter,
        "jobs": jobs,
        "summarizer": DEFAULT,
    }
    settings = opt.resolved(flags, None, True, set)
    hidden = opt.find_settings(None)
    setup = setup_of(settings)
    found = opt.inputs(paths or (), settings, also=[("--output", write)] if str(write) != "-" else [])
    account = Account()
    rows: list[Mapping[str, Measured]] = []
    told: list[Told] = []
    errors: list[CompactctlError] = []
    with progress(quiet=quiet) as show:
        for result in (
            each_session(
                found,
                account,
                _task,
                settings,
                jobs=settings["jobs"],
                side_threads=subagents,
                progress=show,
            )
            if paths
            else ()
        ):
            if isinstance(result, Failed):
                errors.append(result.error.of(result.session_id))
            else:
                rows.append(result.figures)
                told.append(result.told)
    if paths and not rows and not account.problems and not errors:
        errors.append(NothingMatchedError("no session to take budgets from; name a transcript"))
    if not paths or rows:
        content = "\n".join(_lines(settings, setup.options, rows)) + "\n"
        if str(write) == "-":
            sys.stdout.write(content)
        elif _written_to(write, content, errors):
            note(f"wrote {write}; `compactctl check` holds sessions to it", quiet=quiet)
            if hidden is not None and hidden.resolve() != write.resolve() and write.name == opt.SETTINGS_FILES[0]:
                note(f"warning: {write} is read from now on, and not {hidden}, whose settings it does not hold")
    input_notes(account, told, quiet=quiet)
    return problems([*account.problems, *errors])


def _written_to(path: Path, content: str, errors: list[CompactctlError]) -> bool:
    """Write the file and say whether that was possible; the error goes to the others."""
    try:
        write_file(path, [content.encode()])
    except StoreError as error:
        errors.append(error)
        return False
    return True


@dataclass(frozen=True, slots=True)
class _Held:
    """What a session holds today."""

    told: Told
    figures: Mapping[str, Measured]


def _task(session: Session, settings: Resolved) -> _Held:
    bench = workbench(settings, session)
    outcome = run(
        bench,
        setup_of(settings),
        summarizer=make_summarizer(Work(settings)),
        measures=("all",),
        skip=True,
        figures_only=True,
    )
    return _Held(Told.by(session), figures_of(outcome))


def _lines(settings: Resolved, options: Mapping[str, Any], rows: Sequence[Mapping[str, Measured]]) -> Iterator[str]:
    yield "# Settings of compactctl. A flag wins over COMPACTCTL_* variables, these over this file."
    yield "# `compactctl config show` prints every setting and where it came from; `compactctl list` the names."
    yield ""
    if opt.is_foreign_code(settings["compactor"]):
        yield f"# compactor: a settings file runs no code; give --compactor {settings['compactor']} with each command"
    else:
        yield f"compactor = {toml_value(settings['compactor'])}"
    if settings["window"] is not None:
        yield f"window = {settings['window']}"
    else:
        yield "# window = 200000            # default: what the session recorded, else the model's"
    for name, words in (("history", "how the compactor works by itself"), ("meter", "the compactor's own")):
        if settings[name]:
            yield f"{name} = {toml_value(settings[name])}"
        else:
            yield f"# {name}: default: {words}"
    # What comes from the environment was measured under, too.
    for name in SHAPING:
        shown = name in ("compactor", "window", "history", "meter", "summarizer")
        if not shown and settings.values[name].origin != "default":
            yield f"{name} = {toml_value(settings[name])}"
    yield '# summarizer = "stub"         # no model is called; "opaque" is the lower bound'
    yield ""
    yield "# The options of the compactor; `compactctl tune --write compactctl.toml` chooses them on your sessions."
    yield "[set]"
    for name, value in options.items():
        chosen = name in _written(settings)
        yield f"{'' if chosen else '# '}{name} = {toml_value(value)}"
    yield ""
    if rows:
        held = f"what {quantity(len(rows), 'session')} held when this file was written"
        yield f"# Budgets: {held}, and some room where figures may move."
    else:
        yield "# Budgets that every session should hold; `compactctl init PATH...` takes them from your own."
    yield "# aggregate: worst (default; mean against a baseline), mean, median, p10, p90, sum, min, max."
    yield "# level: error (default) or warn."
    for measure, aggregate, bound, room, why in _BUDGETS:
        yield ""
        yield f"# {why}"
        yield from _budget(measure, aggregate, bound, room, rows)
    for measure, aggregate, limit in _INCREASES:
        yield ""
        yield "# against a baseline: compactctl check PATH... --baseline compactctl-baseline.json --update-baseline"
        yield "# [[budgets]]"
        yield f'# measure = "{measure}"'
        yield f'# aggregate = "{aggregate}"'
        yield f'# max_increase = "{limit}"'


def _written(settings: Resolved) -> frozenset[str]:
    """Give the full names of the options that were set on the command line."""
    spec = setup_of(settings).spec
    return frozenset(option.name for name in settings.options if (option := spec.option(name)))


def _budget(
    measure: str, aggregate: str, bound: str, room: float, rows: Sequence[Mapping[str, Measured]]
) -> Iterator[str]:
    """Write one budget: at what the sessions hold with some room, or commented out where that is not known."""
    from compactctl.budgets import WORST, Bound, Budget

    broken = False
    healthy = _HEALTHY.get(measure)
    values = [row[measure].value for row in rows]
    known = [value for value in values if value is not None]
    skips = measure in _SKIPPABLE and len(known) < len(values)
    if known and (skips or len(known) == len(values)):
        budget = Budget(measure, aggregate, Bound(bound), 0.0)
        held = budget.take(known)
        limit = held * (1 + room) if bound == "max" else held * (1 - room)
        sign = ""
        if healthy is not None:
            limit, broken = healthy, held > healthy if bound == "max" else held < healthy
            if broken:
                count = sum(value > healthy if bound == "max" else value < healthy for value in known)
                where = f"in {count} of {len(values)} sessions"
                yield f"# broken today: {held:g} at worst, {where}; mend it, then drop the level"
    elif rows:
        reason = next((row[measure].reason for row in rows if row[measure].value is None), "")
        yield f"# not measured in {len(values) - len(known)} of {len(values)} sessions: {' '.join(reason.split())}"
        limit, sign = _ASSUMED[measure] if healthy is None else healthy, "# "
    else:
        limit, sign = _ASSUMED[measure] if healthy is None else healthy, "# " if measure == "m3.cost_usd" else ""
    yield f"{sign}[[budgets]]"
    yield f'{sign}measure = "{measure}"'
    if aggregate != WORST:
        yield f'{sign}aggregate = "{aggregate}"'
    yield f"{sign}{bound} = {_rounded(limit, up=bound == 'max')}"
    if broken:
        yield f'{sign}level = "warn"'
    if measure in _SKIPPABLE:
        yield f'{sign}level = "warn"'
        yield f"{sign}skip_unmeasured = true  # a short session has nothing to recall"


# Figures that a short session need not have.
_SKIPPABLE = ("m6.recall_visible",)
# Bounds of what must never happen: a state that breaks them is not what later ones should be held to.
_HEALTHY = {"m1.overshoot_turns": 0.0, "m5.faults": 0.0, "m7.first_user_kept": 1.0, "m8.spiral": 2.0}
# Bounds where no session says better.
_ASSUMED = {"m6.recall_visible": 0.5, "m3.cost_usd": 1.0}


def _rounded(limit: float, *, up: bool) -> str:
    """Give a limit in few digits, never tighter than it is.

    >>> _rounded(0.123456, up=True), _rounded(0.98765, up=False), _rounded(3.0, up=True)
    ('0.124', '0.987', '3')
    """
    import math

    if float(limit).is_integer():
        return str(int(limit))
    step = 10.0 ** (math.floor(math.log10(abs(limit))) - 2)
    whole = math.ceil(limit / step) if up else math.floor(limit / step)
    return f"{whole * step:.10g}"
