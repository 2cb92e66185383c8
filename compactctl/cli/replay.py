"""``compactctl replay``: what a compactor would have done to recorded sessions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from compactctl.cli import _options as opt
from compactctl.cli._batch import each_session
from compactctl.cli._hands import Failed
from compactctl.cli._output import on_terminal, targets, terminal_paper, write
from compactctl.cli._say import note, notes, problems, progress, tell_left_out
from compactctl.cli._summarizer import announce, bill, failed_summaries, failures_in
from compactctl.cli._work import Replayed, Work, make_summarizer, replay_session, setup_of, state_warnings
from compactctl.context.words import quantity
from compactctl.errors import CompactctlError, NothingMatchedError, SummarizerError, UsageError
from compactctl.findings import FINDINGS, left_out
from compactctl.model import Session
from compactctl.reports._document import root_document
from compactctl.reports.table import replay_end, replayed_session
from compactctl.transcripts import Account

if TYPE_CHECKING:
    from compactctl.summarizers._plan import Planner


@opt.setting_flags()
def replay(
    paths: opt.Paths = None,
    *,
    flags: Mapping[str, Any],
    set: opt.Set = None,
    compact_at: Annotated[
        list[int] | None,
        typer.Option(
            help="The user's /compact before this turn; repeatable. progressive and progressive-safe go to Emergency "
            "at once, harness9 looks at its tier as at any turn, the others do what they do when they are full.",
        ),
    ] = None,
    extract_memories: opt.ExtractMemories = False,
    dry_run: opt.DryRun = False,
    records_dir: opt.RecordsDir = None,
    wait: opt.Wait = None,
    subagents: opt.Subagents = False,
    format: opt.Format = None,
    output: opt.Output = None,
    include_text: opt.IncludeText = False,
    config: opt.Config = None,
    no_config: opt.NoConfig = False,
    quiet: opt.Quiet = False,
    verbose: opt.VerboseReplay = False,
) -> int:
    """Replay sessions turn by turn through a compactor, and say what each tier did.

    Offloaded results, records and turns go to the state directory, which `report` reads.

    \b
    Examples:
      compactctl replay session.jsonl
      compactctl replay ~/.claude/projects --dry-run
      compactctl replay session.jsonl --compactor harness9 --set soft=0.65 --window 128k
      compactctl replay session.jsonl --format json --output replay.csv
    """
    if not paths:
        raise UsageError("replay needs at least one transcript: a file, a directory, a pattern, or - for stdin")
    own = {"records_dir": records_dir, "extract_memories": True if extract_memories else None}
    settings = opt.resolved_for_replay({**flags, **own}, config, no_config, set, quiet=quiet)
    wanted = targets(format, output)
    setup = setup_of(settings, frozenset(compact_at or ()))
    screen = wanted[0].report.name == "table"
    # Records of quiet turns are needed wherever they are kept or listed one by one.
    skip = dry_run and not settings["measures"] and len(wanted) == 1 and screen and not verbose
    work = Work(settings, setup.compact_at, dry_run, skip, wait)
    make_summarizer(work)
    if not dry_run:
        notes(state_warnings(settings), quiet=quiet)
    found, account = opt.inputs(paths, settings, wanted), Account()
    documents: list[dict[str, Any]] = []
    errors: list[CompactctlError] = []
    statuses: list[int] = []
    try:
        with progress(quiet=quiet) as show:
            replayed = partial(
                each_session, found, task=_task, jobs=settings["jobs"], side_threads=subagents, progress=show
            )
            counted = Account()

            def count(planner: Planner) -> Iterator[object]:
                return replayed(counted, context=replace(work, planner=planner, dry_run=True))

            plan = announce(settings, paths, count, dry_run=dry_run, quiet=quiet)
            if plan is not None and dry_run:
                document = root_document("replay", setup.settings(), [], plan=plan.to_json())
                failed = write(document, wanted[1:] if screen else wanted, include_text=False, quiet=quiet)
                return problems([*counted.problems, *failed])
            for result in replayed(account, context=work):
                if isinstance(result, Failed):
                    errors.append(result.error.of(result.session_id))
                    continue
                documents.append(result.document)
                statuses.extend(result.statuses)
                warnings = [*result.warnings, *_tight(result.document)]
                notes((f"{result.document['session_id']}: {words}" for words in warnings), quiet=quiet)
                if screen and (result.document["compactions"] or len(found.candidates) == 1 or verbose):
                    paper = terminal_paper()
                    replayed_session(result.document, paper, verbose=verbose)
                    on_terminal(paper)
    except KeyboardInterrupt:
        statuses.append(130)
        note("interrupted; what was done so far is shown")
    if not settings["fallback"] and (failures := failures_in(documents)):
        errors.append(SummarizerError(failed_summaries(failures)))
    if not documents and not account.problems and not errors and not statuses:
        errors.append(NothingMatchedError("no session to replay; name a transcript"))
    told = {"ignored_inputs": dict(account.ignored), "failed": list(map(str, [*account.problems, *errors]))}
    document = root_document("replay", setup.settings(), documents, **told)
    errors += write(document, wanted[1:] if screen else wanted, include_text=include_text, quiet=quiet)
    if screen and documents:
        paper = terminal_paper()
        replay_end(documents, paper)
        on_terminal(paper)
    bill(settings, quiet=quiet)
    if settings["extract_memories"] and documents:
        facts = sum(document["facts_kept"] for document in documents)
        kept = f", kept in {settings['state_dir']}/memories" if facts and not dry_run else ""
        note(f"{quantity(facts, 'new fact')} taken out{kept}", quiet=quiet)
    if documents and (missing := left_out(settings["measures"])):
        looked_for = len(FINDINGS) - missing
        note(
            f"{looked_for} of {len(FINDINGS)} kinds of findings were looked for: --measures leaves out what the others "
            "need",
            quiet=quiet,
        )
    if documents and not dry_run and not quiet:
        note(f"results, records and turns: {settings['state_dir']}")
    tell_left_out(account, quiet=quiet, verbose=verbose)
    return problems([*account.problems, *errors], statuses)


def _task(session: Session, work: Work) -> Replayed:
    return replay_session(session, work, make_summarizer(work))


def _tight(session: Mapping[str, Any]) -> Iterator[str]:
    """Warn of a window that the first prompt alone does not fit: no compactor could help."""
    first = session["occupancy"]["simulated_real_tokens"][:1]
    window = f"the window of {session['window']:,} tokens"
    if first and first[0] > session["window"]:
        yield f"{window} is smaller than the first prompt ({first[0]:,} real tokens): look at --window"
    elif session["failed_turns"] == session["turns"] > 0:
        yield f"{window} is so small that every request fails: look at --window"
