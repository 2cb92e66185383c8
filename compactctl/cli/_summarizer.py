"""The summarizer of a command: one account for the whole of it, the plan before the first call, the bill at the end."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from compactctl.cli._say import note
from compactctl.context.words import quantity
from compactctl.errors import SettingsError, UsageError
from compactctl.measures._spec import dollars
from compactctl.model import CompactionRecord, is_summary_failure
from compactctl.ports import BlobStore, Summarizer
from compactctl.settings import SUMMARIZER_OPTIONS, Resolved, Value
from compactctl.summarizers import make_planner, make_summarizer, spec

if TYPE_CHECKING:
    from compactctl.summarizers._plan import Plan, Planner

# What of a summarizer's options shapes its answers and says nothing of the machine it runs on.
_SHAPING = ("model", "temperature", "max_output_tokens", "require_anchors", "strict_fence")


def summarizer_for(settings: Resolved, planner: Planner | None = None) -> Summarizer:
    """Give a session's summarizer.

    One with a model behind it is the same for all sessions of a command in one process, so that its caps are those of
    the command; one without is the session's own, since it remembers what it found there. ``planner`` stands in for
    the first kind. Raises SettingsError, UsageError and UnknownNameError.
    """
    if planner is not None:
        return planner
    return _shared(settings) if spec(settings["summarizer"]).remote else _made(settings)


def shaping_options(settings: Resolved) -> dict[str, Any]:
    """Give the options that were set and shape a summarizer's answers, for a run's settings and their hash."""
    declared = {option.name for option in spec(settings["summarizer"]).options}
    return {name: settings[name] for name in _SHAPING if name in declared and settings.values[name].origin != "default"}


def with_summarizer(settings: Resolved, name: str, origin: str) -> Resolved:
    """Give the settings with another summarizer, and without the options that this one has not."""
    declared = {option.name for option in spec(name).options}
    idle = {o.name: Value(o.default, "default") for o in SUMMARIZER_OPTIONS if o.name not in declared}
    return replace(settings, values={**settings.values, **idle, "summarizer": Value(name, origin)})


def refuse_idle_flags(settings: Resolved, names: Iterable[str]) -> None:
    """Raise UsageError for a flag that means nothing to any of these summarizers."""
    listed = list(dict.fromkeys(names))
    declared = {option.name for name in listed for option in spec(name).options}
    for option in SUMMARIZER_OPTIONS:
        if option.name not in declared and settings.values[option.name].origin == "flag":
            flag = option.name.replace("_", "-")
            raise UsageError(f"--{flag} means nothing to --summarizer {', '.join(listed)}")


def announce(
    settings: Resolved,
    paths: Iterable[str],
    run: Callable[[Planner], Iterable[object]],
    *,
    dry_run: bool = False,
    quiet: bool = False,
) -> Plan | None:
    """Say on stderr what a model would be asked and where that goes; None where nothing can be sent.

    ``run`` does the command's work once with a stand-in that counts and sends nothing, and writes nothing. What is
    missing for real calls (client, key, program) is raised now, before anything is written. ``paths`` are the inputs
    as the user named them.
    """
    if not spec(settings["summarizer"]).remote or settings["cassette"] == "replay":
        return None
    if "-" in paths:
        raise UsageError("a model's plan comes before its calls, and stdin can be read only once; name a file")
    # Not the shared one: what the stand-in finds out about kept replies must not count as asked before.
    planner = make_planner(_made(settings))
    assert planner is not None
    planner.look()
    for _ in run(planner):
        pass
    plan = planner.plan()
    note(f"plan: {plan.text()}", quiet=quiet and not dry_run)
    if plan.calls and not dry_run:
        planner.prepare()
    return plan


def one_account(askers: Iterable[Resolved]) -> None:
    """Let the summarizers of one command that may ask a model share one account: its caps are those of the command.

    Caps and prices are the same for all of them, since they are the command's.
    """
    models = [_shared(asker) for asker in askers if spec(asker["summarizer"]).remote]
    for other in models[1:]:
        other.charge_to(models[0].spending)


def bill(*askers: Resolved, quiet: bool) -> None:
    """Say on stderr what was asked of a command's models, which share one account, and what that cost."""
    remote = [asker for asker in askers if spec(asker["summarizer"]).remote]
    if not remote:
        return
    spending = _shared(remote[0]).spending
    if spending.calls:
        cost = "price not known" if spending.cost is None else dollars(spending.cost, "$")
        calls = quantity(spending.calls, "call")
        tokens = f"{spending.input_tokens:,} tokens in, {spending.output_tokens:,} out"
        note(f"asked {' and '.join(a['summarizer'] for a in remote)}: {calls}, {tokens}, {cost}", quiet=quiet)


def failed_summaries(failures: Sequence[str]) -> str:
    """Say how many summaries failed although none might, and how the first one did."""
    return f"--no-fallback, and {quantity(len(failures), 'summary')} failed; first {failures[0]}"


def failures_in(documents: Iterable[Mapping[str, Any]]) -> list[str]:
    """Give a sentence for each summary of these sessions that failed."""
    return [
        sentence
        for document in documents
        for row in document["compactions"]
        for sentence in _failed(document["session_id"], row["turn"], row["error"])
    ]


def failed_records(place: str, records: Iterable[CompactionRecord]) -> list[str]:
    """Give a sentence for each summary of one replay that failed; ``place`` is the session, and whose replay it is."""
    return [sentence for record in records for sentence in _failed(place, record.turn, record.error)]


def _failed(place: str, turn: int | None, error: str) -> list[str]:
    return [f"{place}, turn {turn}: {error}"] if is_summary_failure(error) else []


@lru_cache(maxsize=8)
def _shared(settings: Resolved) -> Any:
    return _made(settings)


def _made(settings: Resolved) -> Summarizer:
    name = settings["summarizer"]
    found = spec(name)
    refuse_idle_flags(settings, [name])
    declared = {option.name for option in found.options}
    given = {name: settings[name] for name in declared if settings.values[name].origin != "default"}
    if not found.remote:
        if settings["extract_memories"] and settings.values["extract_memories"].origin == "flag":
            raise UsageError(f"--extract-memories needs a summarizer with a model behind it; {name} has none")
        return make_summarizer(name, given)
    if settings["jobs"] > 1:
        raise UsageError(
            f"--jobs {settings['jobs']}: the caps of --summarizer {name} hold in one process; give --jobs 1"
        )
    if "summarizer" in settings.untrusted() and settings["cassette"] != "replay":
        raise SettingsError(
            f"{settings.path}: a settings file of the project, which may have come with it, cannot send transcripts to "
            f"others; give --summarizer {name} or COMPACTCTL_SUMMARIZER"
        )
    return make_summarizer(name, _priced(given, settings), blobs=_blobs(settings), untrusted=settings.untrusted())


def _priced(given: dict[str, Any], settings: Resolved) -> dict[str, Any]:
    """Add the model's prices from the settings file or the price table, where they are known and not given."""
    if not given.get("model") or "input_price" in given or "output_price" in given:
        return given
    from compactctl.tables import prices

    known = prices(given["model"], None, settings.prices)
    return given | ({"input_price": known.input, "output_price": known.output} if known else {})


def _blobs(settings: Resolved) -> BlobStore | None:
    if not settings["cassette"] or settings["cassette_file"]:
        return None
    from compactctl.store import FileBlobs, open_store

    return FileBlobs(open_store(settings["state_dir"]).layout)
