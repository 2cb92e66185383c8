"""``compactctl compare``: several compactors on the same sessions, with the bounds beside them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from compactctl.cli import _options as opt
from compactctl.cli._batch import each_session
from compactctl.cli._decide import decision_targets
from compactctl.cli._hands import Failed
from compactctl.cli._output import write
from compactctl.cli._say import Told, input_notes, note, problems, progress
from compactctl.cli._summarizer import (
    announce,
    bill,
    failed_records,
    failed_summaries,
    one_account,
    refuse_idle_flags,
    with_summarizer,
)
from compactctl.cli._work import Work, make_summarizer, setup_of, workbench
from compactctl.compactors._user import load_compactor
from compactctl.errors import CompactctlError, NothingMatchedError, SettingsError, SummarizerError, UsageError, nearest
from compactctl.measures._spec import Measured
from compactctl.model import Session
from compactctl.ports import CompactorSpec, Summarizer
from compactctl.registry import names, plugin
from compactctl.reports._comparison import compared_document, mark_best
from compactctl.reports._document import root_document
from compactctl.runs import Setup, run
from compactctl.settings import Resolved, Value, compactor_options
from compactctl.transcripts import Account, inspect_facts
from compactctl.tuning.figures import figures_of, known_keys, pooled_figures

if TYPE_CHECKING:
    from compactctl.summarizers._plan import Planner

BOUNDS = ("none", "truncate")
SUMMARIZER = "summarizer"
_ROOM = "compactctl.compactors"


@opt.setting_flags("compactor")
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
    *,
    flags: Mapping[str, Any],
    dry_run: opt.DryRun = False,
    subagents: opt.Subagents = False,
    format: opt.Format = None,
    output: opt.Output = None,
    config: opt.Config = None,
    no_config: opt.NoConfig = False,
    quiet: opt.Quiet = False,
) -> int:
    """Put compactors side by side on the same sessions: one table, the best of each column marked.

    The bounds are always in it: `none` does nothing, `truncate` only drops the oldest. Each session is loaded and
    measured once for all of them. One of them may have a summarizer of its own. Nothing is written to the state
    directory but replies that --cassette keeps.

    \b
    Examples:
      compactctl compare session.jsonl --compactor progressive --compactor claude-code
      compactctl compare sessions/ -c progressive -c harness9 --set progressive.soft=0.65
      compactctl compare sessions/ -c now=progressive -c early=progressive --set early.warn=0.4 -o curves.png
      compactctl compare session.jsonl -c stub=progressive -c mine=progressive --set mine.summarizer=openai --model m
    """
    if not paths:
        raise UsageError("compare needs at least one transcript: a file, a directory, a pattern, or - for stdin")
    settings = opt.resolved(flags, config, no_config, set, quiet=quiet)
    wanted = decision_targets("compare", format, output)
    chosen = compactor or [settings["compactor"]]
    setups = rivals(chosen, settings, quiet=quiet)
    job = _Job(Work(settings), tuple(setups.items()))
    askers = {rival.settings["summarizer"]: rival.settings for rival in setups.values()}
    refuse_idle_flags(settings, askers)
    for asker in askers.values():
        make_summarizer(Work(asker))
    one_account(askers.values())
    found, account = opt.inputs(paths, settings, wanted), Account()
    documents: list[dict[str, Any]] = []
    figures: list[list[Mapping[str, Measured]]] = []
    errors: list[CompactctlError] = []
    statuses: list[int] = []
    failures: list[str] = []
    try:
        with progress(quiet=quiet) as show:
            compare_each = partial(
                each_session, found, task=_task, jobs=settings["jobs"], side_threads=subagents, progress=show
            )
            counted = Account()
            plans = []
            for name, asker in askers.items():
                asking = tuple((at, rival) for at, rival in setups.items() if rival.settings["summarizer"] == name)

                def count(planner: Planner, asking: tuple[tuple[str, Rival], ...] = asking) -> Iterator[object]:
                    return compare_each(counted, context=_Job(replace(job.work, planner=planner), asking))

                plans.append(announce(asker, paths, count, dry_run=dry_run, quiet=quiet))
            if dry_run and any(plan is not None for plan in plans):
                return problems(counted.problems)
            for result in compare_each(account, context=job):
                if isinstance(result, Failed):
                    errors.append(result.error.of(result.session_id))
                    continue
                documents.append(result.document)
                figures.append(result.figures)
                failures.extend(result.failures)
    except KeyboardInterrupt:
        statuses.append(130)
        note("interrupted; what was done so far is shown")
    bill(*askers.values(), quiet=quiet)
    if failures and not settings["fallback"]:
        errors.append(SummarizerError(failed_summaries(failures)))
    if not documents and not account.problems and not errors and not statuses:
        errors.append(NothingMatchedError("no session to compare on; name a transcript"))
    if documents:
        told = {"ignored_inputs": dict(account.ignored), "failed": list(map(str, [*account.problems, *errors]))}
        document = _document(setups, documents, figures, told)
        errors += write(document, wanted, include_text=False, quiet=quiet)
    input_notes(account, map(Told.within, documents), quiet=quiet)
    return problems([*account.problems, *errors], statuses)


@dataclass(frozen=True, slots=True)
class Rival:
    """One compactor of a comparison under its name there; a bound is always in it.

    ``settings`` are the command's, with the summarizer that this one asks.
    """

    setup: Setup
    bound: bool
    settings: Resolved


class _Given:
    """What is set for one rival; a flag wins over the file, and of either what is set for it alone."""

    def __init__(self, spec: CompactorSpec) -> None:
        self._spec = spec
        self._held: dict[str, tuple[tuple[bool, bool], str, Value]] = {}

    def take(self, written: str, value: Value, *, alone: bool) -> None:
        """Take an option by any of its names; raises SettingsError where it is there twice with the same right."""
        option = self._spec.option(written)
        key, right = option.name if option else written, (value.origin == "flag", alone)
        held = self._held.get(key)
        if held is not None and held[0] == right:
            raise SettingsError(
                f"{self._spec.name}: {key} is set twice ({held[1]!r} and {written!r} are the same option)"
            )
        if held is None or right > held[0]:
            self._held[key] = right, written, value

    def options(self) -> dict[str, Value]:
        """Give what holds, as it was written."""
        return {written: value for _, written, value in self._held.values()}


def rivals(chosen: Sequence[str], settings: Resolved, *, quiet: bool = False) -> dict[str, Rival]:
    """Give the setup of each compactor by its name in the comparison, the bounds last.

    What the settings file sets for none of them is left out, which is said. Raises UnknownNameError, SettingsError for
    options on the command line that none of them has, UsageError for a name given twice.
    """
    specs: dict[str, CompactorSpec] = {}
    for written in chosen:
        name, separator, of = written.partition("=")
        of = (of if separator else name).strip()
        # A user's compactor is named by its class: of path.py:Class the class.
        name = name.strip() if separator else of.rpartition(":")[2]
        if name in specs:
            raise UsageError(f"--compactor {written}: {name} is there already; name one, as in other={of}")
        if "." in name or (name in BOUNDS and of != name):
            raise UsageError(f"--compactor {written}: choose another name than {name}: no bound's, and without a dot")
        specs[name] = load_compactor(of)
    bounds = [name for name in BOUNDS if name in names(_ROOM) and name not in specs]
    own: dict[str, _Given] = {name: _Given(spec) for name, spec in specs.items()}
    idle: list[str] = []
    for written, value in (*settings.rivals.items(), *settings.options.items()):
        name, separator, option = written.partition(".")
        having = [name for name, spec in specs.items() if spec.option(written)]
        if separator and name in specs:
            own[name].take(option, value, alone=True)
        elif having:
            for name in having:
                own[name].take(written, value, alone=False)
        elif value.origin != "flag":
            idle.append(written)
        elif separator:
            raise SettingsError(f"--set {written}: no compactor {name!r} is compared.{nearest(name, specs)}")
        else:
            options = {option.name for spec in specs.values() for option in spec.options}
            raise SettingsError(f"--set {written}: none of the compactors has it.{nearest(written, options)}")
    if idle:
        note(f"{settings.path}: left out, since nothing that is compared has it: {', '.join(idle)}", quiet=quiet)
    specs |= {name: plugin(_ROOM, CompactorSpec, name, "compactor") for name in bounds}
    askers: dict[str, Resolved] = {}
    found: dict[str, Rival] = {}
    for name, spec in specs.items():
        chosen_here = own[name].options() if name in own else {}
        asked = chosen_here.pop(SUMMARIZER, settings.values[SUMMARIZER])
        asker = askers.setdefault(str(asked.value), with_summarizer(settings, str(asked.value), asked.origin))
        base = setup_of(replace(asker, values={**asker.values, "compactor": Value("none", "default")}, options={}))
        setup = replace(base, spec=spec, options=compactor_options(spec, chosen_here))
        found[name] = Rival(setup, name in BOUNDS, asker)
    return found


@dataclass(frozen=True, slots=True)
class _Job:
    work: Work
    setups: tuple[tuple[str, Rival], ...]


@dataclass(frozen=True, slots=True)
class _Compared:
    document: dict[str, Any]
    figures: list[Mapping[str, Measured]]
    failures: list[str]


def _task(session: Session, job: _Job) -> _Compared:
    settings = job.work.settings
    bench = workbench(settings, session)
    summarizers: dict[str, Summarizer] = {}
    found: list[Mapping[str, Measured]] = []
    compared: list[dict[str, Any]] = []
    failures: list[str] = []
    for name, rival in job.setups:
        asked = rival.settings[SUMMARIZER]
        if asked not in summarizers:
            summarizers[asked] = make_summarizer(replace(job.work, settings=rival.settings))
        outcome = run(bench, rival.setup, summarizer=summarizers[asked], measures=settings["measures"], skip=True)
        found.append(figures_of(outcome))
        failures.extend(failed_records(f"{session.id}, {name}", outcome.tally.compactions))
        compared.append(compared_document(name, rival.setup, rival.bound, found[-1], outcome))
    mark_best(compared, known_keys())
    document = {
        **inspect_facts(session),
        "turns": outcome.tally.turns,
        "window": bench.window.tokens,
        "window_source": bench.window.source,
        "real_tokens_from": bench.real_source(settings["overhead"]),
        "compared": compared,
    }
    return _Compared(document, found, failures)


def _document(
    setups: Mapping[str, Rival],
    documents: Sequence[dict[str, Any]],
    figures: Sequence[Sequence[Mapping[str, Measured]]],
    told: Mapping[str, Any],
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
    return root_document("compare", settings, documents, figures=shown, units=units, overall=overall, **told)
