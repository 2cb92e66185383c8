"""One session's replay as the commands do it: window, compactor, store and document, from resolved settings."""

from __future__ import annotations

import contextlib
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import compactctl
from compactctl.cli._summarizer import shaping_options, summarizer_for
from compactctl.compactors._user import load_compactor
from compactctl.context.composition import Composition
from compactctl.context.counting import MeterContext
from compactctl.context.pairing import open_pairs
from compactctl.context.window import choose_window
from compactctl.context.words import quantity
from compactctl.errors import StoreError
from compactctl.measures import all_keys
from compactctl.measures._spec import MeasureSpec
from compactctl.model import Session, Tier, first_timestamp
from compactctl.ports import ALONE, Clock, HistoryMode, MeterSpec, Offloader, RecordedMode, Span, Summarizer
from compactctl.registry import plugin
from compactctl.reports._document import session_document, short_path
from compactctl.runs import Setup, Window, Workbench, run, settings_hash
from compactctl.settings import Resolved, compactor_options
from compactctl.summarizers import make_extractor, spec as summarizer_spec
from compactctl.tables import check_prices, model_window, prices, rank_bytes
from compactctl.transcripts import inspect_facts

if TYPE_CHECKING:
    from compactctl.summarizers._plan import Planner

# What of a session's document the records hold already, or the start line.
_NOT_IN_END_LINE = frozenset({"compactions"})


@dataclass(frozen=True, slots=True)
class Replayed:
    """One session's document and what else the command must tell: exit statuses and sentences for stderr."""

    document: dict[str, Any]
    statuses: tuple[int, ...] = ()
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Work:
    """What is the same for all sessions of a command; picklable, so that other processes can do it.

    ``planner`` stands in for a summarizer with a model behind it while its plan is made.
    """

    settings: Resolved
    compact_at: frozenset[int] = frozenset()
    dry_run: bool = False
    skip: bool = False
    wait: float | None = None
    planner: Planner | None = None


def setup_of(settings: Resolved, compact_at: frozenset[int] = frozenset()) -> Setup:
    """Make the setup of a replay; raises SettingsError and UnknownNameError."""
    spec = load_compactor(settings["compactor"])
    check_settings(settings)
    history = settings["history"]
    return Setup(
        spec,
        compactor_options(spec, settings.options),
        history=HistoryMode(history) if history else None,
        recorded=RecordedMode(settings["recorded"]),
        meter=settings["meter"],
        overhead=settings["overhead"],
        reserve=settings["reserve"],
        summary_tokens=settings["summary_tokens"],
        summarizer=settings["summarizer"],
        compact_at=compact_at,
        protect=frozenset(settings["protect"]),
        spill=settings["spill"],
        summarizer_options=shaping_options(settings),
    )


def check_settings(settings: Resolved) -> None:
    """Refuse prices that are none, and meters, measures and summarizers that nothing has, before any work.

    Raises SettingsError and UnknownNameError.
    """
    check_prices(settings.prices)
    if settings["meter"]:
        plugin("compactctl.meters", MeterSpec, settings["meter"], "meter")
    measures = settings["measures"]
    for name in () if "all" in measures else measures:
        if name not in all_keys():  # a key selects its measure
            plugin("compactctl.measures", MeasureSpec, name, "measure")
    summarizer_spec(settings["summarizer"])


def make_summarizer(work: Work) -> Summarizer:
    """Give the summarizer for one session of a command; one object serves all replays of it.

    Raises SettingsError, UsageError and UnknownNameError: called once before the work begins, it says so at once.
    """
    return summarizer_for(work.settings, work.planner)


def state_warnings(settings: Resolved) -> list[str]:
    """Name the directories of the store that others may read; one that is made gets mode 0700, none is changed."""
    open_ = []
    for name in ("state_dir", "records_dir"):
        path = Path(settings[name]) if settings[name] else None
        if path is not None and path.is_dir() and (mode := stat.S_IMODE(path.stat().st_mode)) & 0o077:
            open_.append(
                f"{path} is open to others (mode {mode:04o}) and will hold transcript text; chmod 700 closes it"
            )
    return open_


def window_of(settings: Resolved, session: Session) -> Window:
    """Choose a session's window: the flag, what was recorded or can be inferred, the model table, else 200,000."""
    return Window(*choose_window(settings["window"], session, model_window))


def workbench(settings: Resolved, session: Session) -> Workbench:
    """Make a session ready: its window, prices and meters, and who reads its text."""
    spread = ALONE
    if settings["jobs"] > 1:
        # It takes a while to import what this stands on.
        from compactctl.cli._workers import spread_over

        spread = spread_over(settings["jobs"])
    return Workbench(
        session,
        window_of(settings, session),
        prices=lambda model: prices(model, first_timestamp(session.messages), settings.prices),
        ranks=rank_bytes,
        spread=spread,
    )


def replay_session(session: Session, work: Work, summarizer: Summarizer, clock: Clock | None = None) -> Replayed:
    """Replay one session, store the run unless it is a dry one, and give its document.

    Raises LockedError, and StoreError where the store cannot be opened; what could not be written later is counted.
    """
    settings = work.settings
    setup = setup_of(settings, work.compact_at)
    bench = workbench(settings, session)

    def go(
        offloader: Offloader | None,
        watch: Callable[[Span], None] | None,
        keep: Callable[[Mapping[str, Any]], None] = lambda fact: None,
        known: Sequence[str] = (),
    ) -> dict[str, Any]:
        facts = 0

        def remember(fact: Mapping[str, Any]) -> None:
            nonlocal facts
            keep(fact)
            facts += 1

        outcome = run(
            bench,
            setup,
            summarizer=summarizer,
            offloader=offloader,
            clock=clock,
            memory_extractor=make_extractor(summarizer, remember, known) if settings["extract_memories"] else None,
            measures=settings["measures"],
            skip=work.skip,
            figures_only=work.skip,
            watch=watch,
        )
        return session_document(outcome, head) | ({"facts_kept": facts} if settings["extract_memories"] else {})

    head = inspect_facts(session)
    warnings = (*session.warnings, *_without_calls(session))
    if work.dry_run:
        return Replayed(go(None, None), warnings=warnings)
    from compactctl.store import open_store

    store = open_store(settings["state_dir"], settings["records_dir"])
    start = {
        "input_sha256": session.input_sha256,
        "settings": setup.settings() | {"window": bench.window.tokens},
        "settings_hash": settings_hash(setup.settings()),
        "tool_version": compactctl.__version__,
        "format": session.format,
        "path": short_path(session.path),
        "meter": setup.meter or setup.spec.meter,
        "window": bench.window.tokens,
        "window_source": bench.window.source,
    }
    with store.writer(session.id, start, work.wait) as writer:
        offload = setup.options.get("offload_threshold")
        offloader = writer.offloader(**({"threshold": int(offload)} if offload is not None else {}))
        turn_line = _turn_line(bench, setup)

        def watch(span: Span) -> None:
            for record in span.records:
                if record.tier is not Tier.NONE or record.error:
                    with contextlib.suppress(StoreError):  # counted by the writer, told at the end
                        writer.append(record)
            with contextlib.suppress(StoreError):
                for row in turn_line(span):
                    writer.turn(row)

        # A fact is kept once for a session, not once for each of its replays.
        known = [str(row.get("content")) for row in store.memories(session.id)] if settings["extract_memories"] else ()
        document = go(offloader, watch, writer.memory, known)
        document["run"] = writer.run
        writer.end({key: value for key, value in document.items() if key not in _NOT_IN_END_LINE and key != "run"})
        failures = writer.failures
    if failures.total:
        document["store_failures"] = failures.to_json()
        told = f"{session.id}: {failures.total} writes to {settings['state_dir']} failed, first: {failures.first}"
        return Replayed(document, (StoreError.exit_status,), (*warnings, told))
    return Replayed(document, warnings=warnings)


def _without_calls(session: Session) -> Iterator[str]:
    """Say of a session without a model call why that may be so: lines that could not be used."""
    skipped = len(session.lines.skipped)
    if skipped and not session.model_calls:
        lines = f"{quantity(skipped, 'line')} could not be used (`compactctl inspect` says which and why)"
        yield f"no model call is left in it, and so no turn to replay; {lines}"


def _turn_line(bench: Workbench, setup: Setup) -> Callable[[Span], Iterator[dict[str, Any]]]:
    """Make the function that gives the turn lines of a span (DESIGN.md, Store)."""
    base, _ = bench.base(setup.meter or setup.spec.meter, setup.follow, setup.overhead)
    scale, composition = bench.scale(base), Composition(base)

    def lines(span: Span) -> Iterator[dict[str, Any]]:
        for turn in range(span.turn, span.until):
            view = span.view_at(turn)
            reply = base.messages[base.calls[turn]]
            record = span.records[-1]
            row: dict[str, Any] = {
                "turn": turn,
                "tier": int(max(r.tier for r in span.records)),
                "before": record.tokens_before if turn == span.turn else view.tokens,
                "tokens": view.tokens,
                "real": scale.tokens(view),
                "recorded": reply.usage.prompt if reply.usage else None,
                "by": {
                    part: base.meter.tokens(weight, MeterContext(turn, False))
                    for part, weight in composition.parts(view).items()
                },
            }
            if record.tokens_after_offload is not None:
                row["after_offload"] = record.tokens_after_offload
            if span.failed:
                row["failed"] = True
            if row["tier"] and not view.is_closed and (open_ := open_pairs(view)):
                row["open_pairs"] = open_
            yield row

    return lines
