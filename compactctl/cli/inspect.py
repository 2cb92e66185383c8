"""``compactctl inspect``: what transcripts hold, and what became of every line."""

from __future__ import annotations

from typing import Any

from compactctl.cli import _options as opt
from compactctl.cli._batch import each_session
from compactctl.cli._decide import decision_targets
from compactctl.cli._hands import Failed
from compactctl.cli._output import write
from compactctl.cli._say import notes, problems, progress, tell_left_out
from compactctl.cli._work import window_of
from compactctl.errors import CompactctlError, NothingMatchedError, UsageError
from compactctl.model import Session
from compactctl.reports._document import root_document
from compactctl.settings import Resolved
from compactctl.transcripts import Account, inspect_facts


def inspect(
    paths: opt.Paths = None,
    window: opt.Window = None,
    jobs: opt.Jobs = None,
    subagents: opt.Subagents = False,
    format: opt.Format = None,
    output: opt.Output = None,
    config: opt.Config = None,
    no_config: opt.NoConfig = False,
    quiet: opt.Quiet = False,
    verbose: opt.VerboseInputs = False,
) -> int:
    """Say what transcripts hold: format, messages, calls, recorded compactions, and where every line went.

    \b
    Examples:
      compactctl inspect session.jsonl
      compactctl inspect ~/.codex/sessions --format json
    """
    if not paths:
        raise UsageError("inspect needs at least one transcript: a file, a directory, a pattern, or - for stdin")
    settings = opt.resolved({"window": window, "jobs": jobs}, config, no_config, quiet=quiet)
    wanted = decision_targets("inspect", format, output)
    account = Account()
    documents: list[dict[str, Any]] = []
    errors: list[CompactctlError] = []
    with progress(quiet=quiet) as show:
        for result in each_session(
            opt.inputs(paths, settings, wanted),
            account,
            _task,
            settings,
            jobs=settings["jobs"],
            side_threads=subagents,
            progress=show,
        ):
            if isinstance(result, Failed):
                errors.append(result.error.of(result.session_id))
            else:
                documents.append(result)
                notes((f"{result['session_id']}: {words}" for words in result["warnings"]), quiet=quiet)
    if not documents and not account.problems and not errors:
        errors.append(NothingMatchedError("no session to inspect; name a transcript"))
    if documents:
        told = {"ignored_inputs": dict(account.ignored), "failed": list(map(str, [*account.problems, *errors]))}
        document = root_document("inspect", {}, documents, **told)
        errors += write(document, wanted, include_text=False, quiet=quiet)
    tell_left_out(account, quiet=quiet, verbose=verbose)
    return problems([*account.problems, *errors])


def _task(session: Session, settings: Resolved) -> dict[str, Any]:
    window = window_of(settings, session)
    return {**inspect_facts(session), "window": window.tokens, "window_source": window.source}
