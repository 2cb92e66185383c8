"""``compactctl check``: budgets and a baseline for recorded sessions, for CI."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from compactctl.budgets import Budget, Level, judge, parse_budgets
from compactctl.cli import _options as opt
from compactctl.cli._batch import each_session
from compactctl.cli._decide import decision_targets
from compactctl.cli._hands import Failed
from compactctl.cli._judge import Baseline, JudgedSession, differences, read_baseline, refuse_weaker, write_baseline
from compactctl.cli._output import write
from compactctl.cli._say import Told, input_notes, note, notes, problems, progress
from compactctl.cli._summarizer import announce, bill, failed_summaries, failures_in
from compactctl.cli._work import Work, make_summarizer, setup_of, workbench
from compactctl.errors import (
    BudgetError,
    CompactctlError,
    NothingMatchedError,
    SettingsError,
    StoreError,
    SummarizerError,
    UsageError,
)
from compactctl.measures import measures as known_measures
from compactctl.model import Session
from compactctl.reports._document import root_document, session_document
from compactctl.reports._verdicts import verdict_document
from compactctl.runs import run
from compactctl.settings import one_of
from compactctl.transcripts import Account, inspect_facts
from compactctl.tuning.figures import figures_of, known_keys

if TYPE_CHECKING:
    from compactctl.summarizers._plan import Planner

STEP_SUMMARY = "GITHUB_STEP_SUMMARY"
# GitHub drops a summary above 1 MiB whole.
_MOST_SUMMARY = 1_000_000


@opt.setting_flags("measures")
def check(
    paths: opt.Paths = None,
    baseline: Annotated[
        Path | None, typer.Option("--baseline", "-b", help="Baseline for budgets with max_increase or max_decrease.")
    ] = None,
    update_baseline: Annotated[
        bool, typer.Option("--update-baseline", help="Write the baseline anew from this run.")
    ] = False,
    fail_on: Annotated[str, typer.Option(help="What makes the status 1: error, or warn for warnings too.")] = "error",
    *,
    flags: Mapping[str, Any],
    set: opt.Set = None,
    dry_run: opt.DryRun = False,
    subagents: opt.Subagents = False,
    format: opt.Format = None,
    output: opt.Output = None,
    config: opt.Config = None,
    no_config: opt.NoConfig = False,
    quiet: opt.Quiet = False,
) -> int:
    """Replay sessions and hold them to the budgets of the settings file; exit status 1 where one is broken.

    Budgets stand in compactctl.toml (`compactctl init` writes some). The same verdicts make the text, JSON, JUnit,
    annotations and the exit status. Nothing is written to the state directory but replies that --cassette keeps.

    \b
      [[budgets]]
      measure = "m1.overshoot_turns"
      max = 0

    \b
    Examples:
      compactctl check sessions/
      compactctl check sessions/ --baseline compactctl-baseline.json --format github -o check.junit.xml
      compactctl check sessions/ --baseline compactctl-baseline.json --update-baseline
      compactctl check sessions/ --set soft=0.75 --fail-on warn
    """
    if not paths:
        raise UsageError("check needs at least one transcript: a file, a directory, a pattern, or - for stdin")
    if update_baseline and baseline is None:
        raise UsageError("--update-baseline needs --baseline FILE")
    settings = opt.resolved_for_replay(flags, config, no_config, set, quiet=quiet)
    wanted = decision_targets("check", format, output)
    level = Level(_level(fail_on))
    setup = setup_of(settings)
    budgets = parse_budgets(settings.budgets, known_keys(), f"{settings.path or 'settings'}: budget")
    if not budgets:
        raise SettingsError("there is no budget to check; write some with `compactctl init`, or add [[budgets]]")
    needs = any(budget.needs_baseline for budget in budgets)
    known = _baseline(baseline, update_baseline)
    job = _Job(Work(settings), measures_of(budgets))
    make_summarizer(job.work)
    written = [("--baseline", baseline)] if update_baseline and baseline is not None else []
    found, account = opt.inputs(paths, settings, wanted, written), Account()
    documents: list[dict[str, Any]] = []
    judged: list[JudgedSession] = []
    errors: list[CompactctlError] = []
    statuses: list[int] = []
    try:
        with progress(quiet=quiet) as show:
            judge_each = partial(
                each_session, found, task=_task, jobs=settings["jobs"], side_threads=subagents, progress=show
            )
            counted = Account()

            def count(planner: Planner) -> Iterator[object]:
                return judge_each(counted, context=replace(job, work=replace(job.work, planner=planner)))

            if announce(settings, paths, count, dry_run=dry_run, quiet=quiet) is not None and dry_run:
                return problems(counted.problems)
            for result in judge_each(account, context=job):
                if isinstance(result, Failed):
                    errors.append(result.error.of(result.session_id))
                    continue
                document, one = result
                documents.append(document)
                judged.append(one)
    except KeyboardInterrupt:
        note("interrupted; nothing was judged")
        bill(settings, quiet=quiet)
        return 130
    if not settings["fallback"] and (failures := failures_in(documents)):
        errors.append(SummarizerError(failed_summaries(failures)))
    bill(settings, quiet=quiet)
    if not documents and not account.problems and not errors:
        errors.append(NothingMatchedError("no session to check; name a transcript"))
    failed = [*account.problems, *errors]
    if update_baseline and baseline is not None:
        try:
            refuse_weaker(baseline, known, judged, complete=not failed)
            if dry_run:
                note(f"nothing was written to {baseline}: --dry-run")
            else:
                write_baseline(baseline, setup.settings(), judged, budgets)
                note(f"wrote {baseline}", quiet=quiet)
                known = read_baseline(baseline)
        except (BudgetError, StoreError) as error:
            errors.append(error)
    other = differences(known, setup.settings(), judged) if known is not None else ()
    verdicts = judge(
        budgets, {one.session_id: one.figures for one in judged}, known.figures if known is not None else None
    )
    document = root_document(
        "check",
        setup.settings(),
        documents,
        verdicts=[verdict_document(verdict, level) for verdict in verdicts],
        fail_on=str(level),
        baseline=str(baseline) if baseline is not None else None,
        differences=list(other),
        ignored_inputs=dict(account.ignored),
        failed=list(map(str, failed)),
    )
    input_notes(account, map(Told.within, documents), quiet=quiet)
    notes((f"not the same as the baseline: {words}" for words in other), quiet=quiet)
    if needs and baseline is None:
        note("warning: budgets against a baseline need --baseline FILE")
    if baseline is not None and not needs:
        note("warning: no budget looks at the baseline; give one a max_increase or max_decrease (see `init`)")
    _step_summary(document)
    errors += write(document, wanted, include_text=False, quiet=quiet)
    if any(verdict.fails(level) for verdict in verdicts):
        statuses.append(1)
    return problems([*account.problems, *errors], statuses)


def _baseline(path: Path | None, update: bool) -> Baseline | None:
    """Read the baseline of before; where it is to be written anew, there need be none, nor one that can be read."""
    if path is None or (update and not path.exists()):
        return None
    try:
        return read_baseline(path)
    except SettingsError as error:
        if not update:
            raise
        note(f"warning: {error}")
        return None


def measures_of(budgets: Sequence[Budget]) -> tuple[str, ...]:
    """Give the measures that budgets need."""
    names = {budget.measure.partition(".")[0] for budget in budgets if "." in budget.measure}
    return tuple(sorted(names & known_measures().keys()))


@dataclass(frozen=True, slots=True)
class _Job:
    """What each session is judged by; picklable."""

    work: Work
    measures: tuple[str, ...]


def _task(session: Session, job: _Job) -> tuple[dict[str, Any], JudgedSession]:
    settings = job.work.settings
    setup = setup_of(settings)
    bench = workbench(settings, session)
    outcome = run(bench, setup, summarizer=make_summarizer(job.work), measures=job.measures)
    document = session_document(outcome, inspect_facts(session))
    meter = f"{document['meter']}; real tokens by {bench.real[0].name}"
    return document, JudgedSession(session.id, session.input_sha256, bench.window.tokens, meter, figures_of(outcome))


def _level(raw: str) -> str:
    try:
        return one_of(*Level)(raw)
    except ValueError as error:
        raise UsageError(f"--fail-on {raw}: not {error}") from error


def _step_summary(document: Mapping[str, Any]) -> None:
    """Append the verdicts to the summary of a GitHub step, where this is one."""
    path = os.environ.get(STEP_SUMMARY)
    if not path:
        return
    from compactctl.reports._decisions import decision_markdown

    content = (decision_markdown(document) or b"")[:_MOST_SUMMARY]
    try:
        with Path(path).open("ab") as out:
            out.write(content)
    except OSError as error:
        note(f"warning: {STEP_SUMMARY} {path}: {error.strerror}")
