"""What the reports say over several sessions: order, distributions, totals and what could not be measured."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from statistics import quantiles
from typing import Any

from compactctl.context.words import quantity
from compactctl.measures._spec import dollars
from compactctl.model import Tier
from compactctl.registry import names
from compactctl.reports._words import percent, tokens

SEVERITIES = ("error", "warn", "info")
MEASURES = "compactctl.measures"
COST, BOUND_COST, SUMMARIZER_SHARE = "m3.cost_usd", "m3.uncompacted_cost_usd", "m4.cost_share"
SENT, SENT_SHARE = "m2.tokens_sent", "m2.share_of_uncompacted"
READ, WRITTEN = "m4.summary_input_tokens", "m4.summary_output_tokens"

Session = Mapping[str, Any]


# The one order of sessions in every output; `compare` takes the worst of its compactors.
WORST_FIRST = "worst first: by failed turns, then by the real peak"


def worst_first(sessions: Sequence[Session]) -> list[int]:
    """Give the places of the sessions, worst first (``WORST_FIRST``); equally bad ones as they came."""
    ranks = [badness(session["failed_turns"], session["real_peak_occupancy"]) for session in sessions]
    return sorted(range(len(sessions)), key=ranks.__getitem__, reverse=True)


def badness(failed_turns: float | None, real_peak: float | None) -> tuple[float, float]:
    """Give the rank of a session; more is worse, and what is not known is not bad.

    >>> badness(1, 0.5) > badness(0, 1.9) > badness(0, None)
    True
    """
    return failed_turns or 0, real_peak or 0.0


@dataclass(frozen=True, slots=True)
class TierRow:
    """One tier over all sessions: turns that it decided, compactions, and how much they took away.

    ``turns`` is None where no session holds turns. ``reductions`` are sorted shares of the tokens before.
    """

    tier: Tier
    turns: int | None
    compactions: int
    reductions: tuple[float, ...]

    def quantile(self, share: float) -> float | None:
        """Give the reduction below which this share of the compactions lies; None without compactions."""
        if len(self.reductions) < 2:
            return self.reductions[0] if self.reductions else None
        return quantiles(self.reductions, n=100, method="inclusive")[round(share * 100) - 1]

    def histogram(self) -> tuple[int, ...]:
        """Count the reductions below 10 %, below 20 %, ... up to 100 %; where the view grew counts as below 10 %."""
        counts = [0] * 10
        for reduction in self.reductions:
            counts[min(9, max(0, int(reduction * 10)))] += 1
        return tuple(counts)


def tier_rows(sessions: Iterable[Session]) -> list[TierRow]:
    """Give the distribution over tiers, every tier named."""
    turns: dict[str, int] = {}
    reductions: dict[int, list[float]] = {int(tier): [] for tier in Tier}
    for session in sessions:
        for name, count in (session["turns_by_tier"] or {}).items():
            turns[name] = turns.get(name, 0) + count
        for row in session["compactions"]:
            if row["changed"]:
                reductions[row["tier"]].append(row["reduction"])
    return [
        TierRow(
            tier,
            turns.get(tier.name.lower()) if turns else None,
            len(reductions[tier]),
            tuple(sorted(reductions[tier])),
        )
        for tier in Tier
    ]


def total(sessions: Iterable[Session], key: str) -> int | None:
    """Add up a figure over the sessions that have it; None where none has."""
    known = [session[key] for session in sessions if session[key] is not None]
    return sum(known) if known else None


def figure(session: Session, key: str) -> float | None:
    """Give a measure of a session, None where it could not be had."""
    value: float | None = session["measures"].get(key, {}).get("value")
    return value


def real_sent_without(session: Session) -> float | None:
    """Give the real tokens that a session sends without compaction; None where they were not measured."""
    sent, share = figure(session, SENT), figure(session, SENT_SHARE)
    return sent / share if sent is not None and share else None


def real_reduction(session: Session) -> float | None:
    """Give the share of real tokens that compaction saves over a session's turns; None where it was not measured."""
    share = figure(session, SENT_SHARE)
    return None if share is None else 1 - share


def sent_words(session: Session) -> str:
    """Give what a session sends over all its turns, real tokens first, in one sentence."""
    parts = []
    real, saved = figure(session, SENT), real_reduction(session)
    if real is not None:
        less = "" if saved is None else f" ({percent(saved)} less than without compaction)"
        parts.append(f"{tokens(real)} real tokens sent{less}")
    if session["tokens"] is not None:
        less = "" if session["reduction"] is None else f" ({percent(session['reduction'])} less)"
        parts.append(f"{tokens(session['tokens'])} decision tokens{less}")
    return ", ".join(parts) or "tokens sent: n/a"


def unit_of(sessions: Sequence[Session]) -> str:
    """Name what is counted: sessions, or runs where a session is there with more than one.

    >>> unit_of([{"session_id": "a"}, {"session_id": "b"}]), unit_of([{"session_id": "a"}, {"session_id": "a"}])
    ('session', 'run')
    """
    return "run" if len({session["session_id"] for session in sessions}) < len(sessions) else "session"


def runs_added(sessions: Sequence[Session]) -> str:
    """Say that totals add up runs which stand for one another; empty where each session is there once.

    >>> runs_added([{"session_id": "a"}, {"session_id": "a"}, {"session_id": "b"}])
    'totals over 3 runs of 2 sessions: runs of one session are alternatives, and each is counted'
    >>> runs_added([{"session_id": "a"}, {"session_id": "b"}])
    ''
    """
    if unit_of(sessions) == "session":
        return ""
    number = len({session["session_id"] for session in sessions})
    over = f"{quantity(len(sessions), 'run')} of {quantity(number, 'session')}"
    return f"totals over {over}: runs of one session are alternatives, and each is counted"


def totals_words(sessions: Sequence[Session], words: str) -> str:
    """Put before totals in one line what they are over, where runs are added up."""
    over = runs_added(sessions)
    return f"{over}; {words}" if over else words


def cost_words(sessions: Sequence[Session]) -> str:
    """Give what the sessions and their summarizer cost, in one sentence that says how many have a price."""
    priced = [session for session in sessions if figure(session, COST) is not None]
    if not priced:
        return "cost n/a"
    whole = sum(figure(session, COST) or 0.0 for session in priced)
    bound = sum(figure(session, BOUND_COST) or 0.0 for session in priced)
    shares = [_for_summaries(session) for session in priced]
    known = [share for share in shares if share is not None]
    summaries = dollars(sum(known) if known else None)
    if known and len(known) < len(priced):
        summaries = f"at least {summaries}"
    everything = quantity(len(sessions), unit_of(sessions))
    of = f" ({len(priced)} of {everything} with a price)" if len(priced) < len(sessions) else ""
    return (
        f"cost {dollars(whole)} US dollars, of which {summaries} for the summarizer; {dollars(bound)} without "
        f"compaction{of}"
    )


def _for_summaries(session: Session) -> float | None:
    """Give what a session's summarizer cost; None where the run did not compute its share."""
    if session["summarizer_calls"] == 0:
        return 0.0
    cost, share = figure(session, COST), figure(session, SUMMARIZER_SHARE)
    return None if cost is None or share is None else cost * share


@dataclass(frozen=True, slots=True)
class Gap:
    """Something that could not be measured: what (several with commas), why, and in how many sessions."""

    what: str
    reason: str
    sessions: int


@lru_cache(maxsize=64)
def _not_computed(keys: tuple[str, ...]) -> tuple[str, ...]:
    """Give the measures that fill none of these keys; most sessions have the same ones."""
    computed = {key.partition(".")[0] for key in keys}
    return tuple(name for name in names(MEASURES) if name not in computed)


def coverage(sessions: Sequence[Session]) -> list[Gap]:
    """List what could not be measured, by what it is; an empty list says that all was."""
    counts: dict[tuple[str, str], int] = {}

    def count(what: str, reason: str) -> None:
        counts[what, reason] = counts.get((what, reason), 0) + 1

    for session in sessions:
        if session["turns"] is None:
            count("turns, occupancy, reduction", "records written by harness9 hold compactions alone")
        elif str(session["real_tokens_from"]).startswith("UTF-8 bytes"):
            count("real tokens by a provider", "the transcript records no usage; bytes / 4 stand in")
        if session["window_source"] == "assumed":
            count("the context window", "neither recorded nor known for the model; 200,000 assumed")
        for key, value in session["measures"].items():
            if value["value"] is None:
                count(key, value.get("reason") or "no reason given")
        if session["lines_skipped"]:
            count(
                f"{quantity(session['lines_skipped'], 'line')} of the transcript",
                "they could not be read (see `inspect`)",
            )
        if session["turns"] is not None:
            why = "the run left it out (--measures)" if session["measures"] else "the run computed no measure"
            for name in _not_computed(tuple(session["measures"])):
                count(name, why)
    alike: dict[tuple[str, int], list[str]] = {}
    for (what, reason), number in sorted(counts.items()):
        alike.setdefault((reason, number), []).append(what)
    return [Gap(", ".join(whats), reason, number) for (reason, number), whats in alike.items()]


@dataclass(frozen=True, slots=True)
class FindingGroup:
    """Findings of one kind over all sessions; ``worst`` is the one with the worst figure, ``worst_session`` where."""

    id: str
    severity: str
    worst: Mapping[str, Any]
    worst_session: str
    sessions: int
    unit: str = "session"

    @property
    def where(self) -> str:
        """In which sessions or runs: ``in 3 sessions, worst in ID``, or ``in ID``. Not yet safe to print."""
        if self.sessions == 1:
            return f"in {self.worst_session}"
        return f"in {quantity(self.sessions, self.unit)}, worst in {self.worst_session}"


# The figure that says how bad a finding is, where it is not the first; of some less is worse.
_BADNESS = {
    "permanent-emergency": "turns",
    "recorded-above-window": "largest_prompt",
    "offload-grew": "growth",
    "compaction-grew": "worst_growth",
}
_LESS_IS_WORSE = frozenset({"task-gone", "rules-gone", "intent-invented"})


def finding_badness(finding: Mapping[str, Any]) -> float:
    """Give how bad a finding is among those of its kind; more is worse.

    >>> finding_badness({"id": "spiral", "figures": {"compactions": 57, "refilled_by": "bash"}, "turns": []})
    57.0
    >>> finding_badness({"id": "estimate-off", "figures": {"estimate_ratio": 0.25}, "turns": []})
    4.0
    """
    figures = finding["figures"]
    value = figures.get(_BADNESS.get(finding["id"], ""))
    if value is None:
        value = next((v for v in figures.values() if isinstance(v, int | float)), len(finding["turns"]))
    if finding["id"] == "estimate-off":
        return max(float(value), 1 / value) if value > 0 else 0.0
    return -float(value) if finding["id"] in _LESS_IS_WORSE else float(value)


def finding_groups(sessions: Sequence[Session]) -> list[FindingGroup]:
    """Give the findings of all sessions, one entry a kind and severity, worst first.

    Of equally bad ones that of the worst session is named; equally bad kinds stand as its findings do. A session that
    is there in several runs is named with its run.
    """
    groups: dict[tuple[str, str], list[tuple[Mapping[str, Any], Session]]] = {}
    for place in worst_first(sessions):
        for finding in sessions[place]["findings"]:
            groups.setdefault((finding["severity"], finding["id"]), []).append((finding, sessions[place]))
    found = []
    unit, ids = unit_of(sessions), [session["session_id"] for session in sessions]
    for (severity, ident), members in groups.items():
        worst, where = max(members, key=lambda member: finding_badness(member[0]))
        run = f" (run {where['run']})" if ids.count(where["session_id"]) > 1 and where.get("run") else ""
        # One run may have several findings of a kind.
        number = len({(session["session_id"], session.get("run")) for _, session in members})
        found.append(FindingGroup(ident, severity, worst, where["session_id"] + run, number, unit))
    return sorted(found, key=lambda group: (SEVERITIES.index(group.severity), -group.sessions))


def header(document: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Give what every report says at its top: settings, tokens, windows, inputs and runs. Not yet safe to print."""
    sessions = document["sessions"]
    settings = document["settings"]
    options = settings.get("options") or {}
    if settings:
        chosen = "".join(f", {name} {_plain(value)}" for name, value in options.items() if value)
        told = f"{document['settings_hash']}: {settings.get('compactor')}, {settings.get('history')}{chosen}"
    else:
        hashes = sorted({run["settings_hash"] for run in document.get("runs", ()) if run["settings_hash"]})
        told = f"{len(hashes)} different: {', '.join(hashes)}" if hashes else "n/a"
    formats = _counted(" ".join(filter(None, (s["format"], s["harness_version"]))) for s in sessions)
    turns = total(sessions, "turns")
    return [
        ("settings", told),
        ("decisions", f"tokens by {_counted(str(s['meter'] or 'n/a') for s in sessions)}"),
        (
            "real tokens",
            _counted(real_source(s) if len(sessions) > 1 else s["real_tokens_from"] or "n/a" for s in sessions),
        ),
        ("window", _counted(_window(s) for s in sessions)),
        ("sessions", f"{_sessions_in_runs(sessions)} ({formats})" if sessions else "0"),
        ("turns", "n/a" if turns is None else f"{turns:,}"),
    ]


def _sessions_in_runs(sessions: Sequence[Session]) -> str:
    number = len({session["session_id"] for session in sessions})
    return f"{number} in {quantity(len(sessions), 'run')}" if number < len(sessions) else f"{number}"


def run_words(session: Session) -> str:
    """Give the run that a session's figures are from."""
    run = session.get("run")
    return "not stored" if run is None else f"run {run}" if run else "harness9's own records"


def peak_words(session: Session) -> str:
    """Give the peak of a session in one sentence that tells which tokens it is in."""
    bound = session["without_compaction"]
    without = f"; without compaction {percent(bound['real_peak_occupancy'])}" if bound else ""
    return f"largest view {percent(session['real_peak_occupancy'])} of the window in real tokens{without}"


def real_source(session: Session) -> str:
    """Give what a session's real tokens rest on, without the figures of the fit."""
    source = session["real_tokens_from"]
    return "n/a" if source is None else re.split(r", elsewhere| \(", source, maxsplit=1)[0]


def _window(session: Session) -> str:
    window = session["window"]
    return "n/a" if window is None else f"{window:,} ({session['window_source']})"


def _plain(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _counted(words: Iterable[str]) -> str:
    """Give the different words, most frequent first, with their counts where there are several."""
    counts: dict[str, int] = {}
    for word in words:
        counts[word] = counts.get(word, 0) + 1
    if len(counts) == 1:
        return next(iter(counts))
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    shown = ", ".join(f"{count} x {word}" for word, count in ordered[:6])
    return shown + (f" and {len(ordered) - 6} more" if len(ordered) > 6 else "")
