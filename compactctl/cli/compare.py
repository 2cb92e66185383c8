"""``compactctl compare``: several compactors on the same sessions, with the bounds beside them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any

import typer

from compactctl.cli import _options as opt
from compactctl.cli._batch import Failed, each_session
from compactctl.cli._decide import decision_targets
from compactctl.cli._output import write
from compactctl.cli._say import note, notes, problems, progress
from compactctl.cli._work import Work, make_summarizer, setup_of, workbench
from compactctl.errors import CompactctlError, NothingMatchedError, SettingsError, SummarizerError, UsageError
from compactctl.measures._spec import Measured
from compactctl.model import Session
from compactctl.ports import CompactorSpec
from compactctl.registry import names, plugin
from compactctl.reports._comparison import compared_document, mark_best
from compactctl.reports._document import root_document
from compactctl.runs import Setup, run
from compactctl.settings import Resolved, Value, compactor_options, nearest
from compactctl.transcripts import Account, find_inputs, inspect_facts
from compactctl.tuning.figures import figures_of, known_keys, pooled_figures

BOUNDS = ("none", "truncate")
_ROOM = "compactctl.compactors"


def compare(
    paths: opt.Paths = None,
    compactor: Annotated[
        list[str] | None,
        typer.Option("--compactor", "-c", help="A compactor, or NAME=COMPACTOR to name it; repeatable."),
    ] = None,
    set: Annotated[
        list[str] | None,
        typer.Option("--set", help="NAME.OPTION=VALUE for one of them, OPTION=VALUE for all that have it; repeatable."),
    ] = None,
    window: opt.Window = None,
    history: opt.History = None,
    recorded: opt.Recorded = None,
    meter: opt.Meter = None,
    summarizer: opt.SummarizerName = None,
    summary_tokens: opt.SummaryTokens = None,
    measures: opt.Measures = None,
    overhead: opt.Overhead = None,
    reserve: opt.Reserve = None,
    spill: opt.Spill = None,
    protect: opt.Protect = None,
    no_fallback: opt.NoFallback = False,
    jobs: opt.Jobs = None,
    subagents: opt.Subagents = False,
    format: opt.Format = None,
    output: opt.Output = None,
    config: opt.Config = None,
    no_config: opt.NoConfig = False,
    quiet: opt.Quiet = False,
) -> int:
    """Put compactors side by side on the same sessions: one table of figures, the best of each column marked.

    The bounds are always in it: `none` does nothing, `truncate` only drops the oldest. Each session is loaded and
    measured once for all of them. Nothing is written to the state directory.

    \b
    Examples:
      compactctl compare session.jsonl --compactor progressive --compactor claude-code
      compactctl compare sessions/ -c progressive -c harness9 --set progressive.soft=0.65
      compactctl compare sessions/ -c now=progressive -c early=progressive --set early.warn=0.4 -o curves.png
    """
    if not paths:
        raise UsageError("compare needs at least one transcript: a file, a directory, a pattern, or - for stdin")
    flags = {
        "window": window,
        "history": history,
        "recorded": recorded,
        "meter": meter,
        "summarizer": summarizer,
        "summary_tokens": summary_tokens,
        "measures": measures,
        "overhead": overhead,
        "reserve": reserve,
        "spill": spill,
        "protect": protect,
        "fallback": False if no_fallback else None,
        "jobs": jobs,
    }
    settings = opt.resolved(flags, config, no_config, set)
    wanted = decision_targets("compare", format, output)
    chosen = compactor or [settings["compactor"]]
    setups = rivals(chosen, settings)
    job = _Job(Work(settings), tuple(setups.items()))
    account = Account()
    documents: list[dict[str, Any]] = []
    figures: list[list[Mapping[str, Measured]]] = []
    errors: list[CompactctlError] = []
    statuses: list[int] = []
    failed = 0
    try:
        with progress(quiet=quiet) as show:
            for result in each_session(
                find_inputs(paths), account, _task, job, jobs=settings["jobs"], side_threads=subagents, progress=show
            ):
                if isinstance(result, Failed):
                    errors.append(type(result.error)(f"{result.session_id}: {result.error}"))
                    continue
                documents.append(result.document)
                figures.append(result.figures)
                failed += result.summaries_failed
                notes(result.warnings, quiet=quiet)
    except KeyboardInterrupt:
        statuses.append(130)
        note("interrupted; what was done so far is shown")
    if failed and not settings["fallback"]:
        errors.append(SummarizerError("a summary failed and --no-fallback was given"))
    if not documents and not account.problems and not errors and not statuses:
        errors.append(NothingMatchedError("no session to compare on; name a transcript"))
    if documents:
        write(_document(setups, documents, figures), wanted, include_text=False)
    return problems([*account.problems, *errors], statuses)


@dataclass(frozen=True, slots=True)
class Rival:
    """One compactor of a comparison under its name there; a bound is always in it."""

    setup: Setup
    bound: bool


def rivals(chosen: Sequence[str], settings: Resolved) -> dict[str, Rival]:
    """Give the setup of each compactor by its name in the comparison, the bounds last.

    Raises UnknownNameError, SettingsError for options that none of them has, UsageError for a name given twice.
    """
    specs: dict[str, CompactorSpec] = {}
    for written in chosen:
        name, separator, of = written.partition("=")
        name, of = name.strip(), (of if separator else name).strip()
        if name in specs:
            raise UsageError(f"--compactor {written}: {name} is there already; name one, as in other={of}")
        specs[name] = plugin(_ROOM, CompactorSpec, of, "compactor")
    bounds = [name for name in BOUNDS if name in names(_ROOM) and name not in specs]
    own: dict[str, dict[str, Value]] = {name: {} for name in specs}
    for written, value in settings.options.items():
        name, separator, option = written.partition(".")
        if separator:
            if name not in specs:
                raise SettingsError(f"--set {written}: no compactor {name!r} is compared.{nearest(name, specs)}")
            own[name][option] = value
            continue
        having = [name for name, spec in specs.items() if _has(spec, written)]
        if not having and value.origin == "flag":
            options = {option.name for spec in specs.values() for option in spec.options}
            raise SettingsError(f"--set {written}: none of the compactors has it.{nearest(written, options)}")
        for name in having:
            own[name].setdefault(written, value)
    base = setup_of(replace(settings, values={**settings.values, "compactor": Value("none", "default")}, options={}))
    found = {
        name: Rival(replace(base, spec=spec, options=compactor_options(spec, own[name])), name in BOUNDS)
        for name, spec in specs.items()
    }
    for name in bounds:
        spec = plugin(_ROOM, CompactorSpec, name, "compactor")
        found[name] = Rival(replace(base, spec=spec, options=compactor_options(spec, {})), True)
    return found


def _has(spec: CompactorSpec, written: str) -> bool:
    return any(written.replace("-", "_") in (option.name, option.short) for option in spec.options)


@dataclass(frozen=True, slots=True)
class _Job:
    work: Work
    setups: tuple[tuple[str, Rival], ...]


@dataclass(frozen=True, slots=True)
class _Compared:
    document: dict[str, Any]
    figures: list[Mapping[str, Measured]]
    summaries_failed: int
    warnings: tuple[str, ...]


def _task(session: Session, job: _Job) -> _Compared:
    settings = job.work.settings
    bench = workbench(settings, session)
    measures = () if settings["measures"] == ("none",) else settings["measures"]
    summarizer = make_summarizer(job.work)
    found: list[Mapping[str, Measured]] = []
    compared: list[dict[str, Any]] = []
    failed = 0
    for name, rival in job.setups:
        outcome = run(bench, rival.setup, summarizer=summarizer, measures=measures, skip=True)
        found.append(figures_of(outcome))
        failed += outcome.tally.summarizer_failures
        compared.append(compared_document(name, rival.setup, rival.bound, found[-1], outcome))
    mark_best(compared, known_keys())
    document = {
        **inspect_facts(session),
        "turns": outcome.tally.turns,
        "window": bench.window.tokens,
        "window_source": bench.window.source,
        "real_tokens_from": bench.real[1],
        "compared": compared,
    }
    return _Compared(document, found, failed, tuple(session.warnings))


def _document(
    setups: Mapping[str, Rival],
    documents: Sequence[dict[str, Any]],
    figures: Sequence[Sequence[Mapping[str, Measured]]],
) -> dict[str, Any]:
    keys = known_keys()
    overall = [
        compared_document(name, rival.setup, rival.bound, pooled_figures(row[at] for row in figures))
        for at, (name, rival) in enumerate(setups.items())
    ]
    mark_best(overall, keys)
    shown = list(figures[0][0])
    settings = {"compactors": {name: rival.setup.settings() for name, rival in setups.items()}}
    units = {key: keys[key].unit for key in shown}
    return root_document("compare", settings, documents, figures=shown, units=units, overall=overall)
