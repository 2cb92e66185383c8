"""One HTML file that needs nothing else: no request to any address, light and dark, readable without its script."""

from __future__ import annotations

import base64
import hashlib
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from html import escape
from importlib import resources
from typing import TYPE_CHECKING, Any, NamedTuple

from compactctl.context.words import quantity
from compactctl.measures._spec import dollars
from compactctl.model import Tier
from compactctl.reports._effects import Effects, effects
from compactctl.reports._figures import Figure, figures
from compactctl.reports._notices import Notice, notices
from compactctl.reports._overview import (
    COST,
    SENT,
    WORST_FIRST,
    cost_words,
    coverage,
    figure,
    finding_groups,
    header,
    real_reduction,
    run_words,
    sent_words,
    tier_rows,
    totals_words,
    unit_of,
    worst_first,
)
from compactctl.reports._safe import safe
from compactctl.reports._session_table import session_spark, short_tiers, turns_words
from compactctl.reports._spec import ReportSpec
from compactctl.reports._stored import StoredSession
from compactctl.reports._svg import Drawing, composition, timeline
from compactctl.reports._terminal import summary_words
from compactctl.reports._titles import title_of, title_of_all
from compactctl.reports._words import percent, size, tokens

if TYPE_CHECKING:
    from jinja2 import Environment, Template

LIMIT = 500_000
# Longer values may be broken where they must.
_FLAG = re.compile(r"--[a-z][a-z-]*(?: [\w.=-]{1,32})?")
MOST_ROWS = 200
# Only so many sessions have the table of all their measures on one page.
_FEW = 4
# Over how many points of a session its parts are drawn at most.
_MOST_COLUMNS = 80


class Measure(NamedTuple):
    """How much of everything a page shows; a smaller one is taken where the page would grow beyond ``LIMIT``."""

    drawn: int
    points: int
    notices: int
    characters: int


_MEASURES = (
    Measure(20, 1600, 80, 2400),
    Measure(20, 1200, 40, 800),
    Measure(10, 600, 20, 400),
    Measure(6, 400, 20, 200),
    Measure(1, 240, 20, 100),
)


@dataclass(frozen=True, slots=True)
class Compaction:
    """A notice with what opens below it."""

    id: str
    notice: Notice
    effects: Effects
    bar: tuple[tuple[float, float, str], ...]
    anchors: tuple[tuple[str, str], ...]
    summary: str
    files: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Whole:
    """What a page says of all sessions, the same however many of them it draws.

    ``order`` are the places of the sessions, worst first; ``rows`` those of the table by place, each with its cells but
    the first, which may be a link; ``words`` all else that the template takes.
    """

    order: Sequence[int]
    rows: Mapping[int, Mapping[str, Any]]
    words: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Section:
    """One session as the page draws it."""

    id: str
    session: Mapping[str, Any]
    title: str
    run: str
    sent: str
    drawing: Drawing | None
    contents: Drawing | None
    compactions: tuple[Compaction, ...]
    left_out: int
    figures: tuple[Figure, ...]


def render(document: Mapping[str, Any]) -> bytes:
    """Give the page, below ``LIMIT`` bytes where sessions can be drawn smaller or fewer."""
    page = b""
    whole = _whole(document)
    for measure in _measures(len(document["sessions"])):
        page = _page(document, whole, measure)
        if len(page) <= LIMIT:
            break
    return page


def index(document: Mapping[str, Any], pages: Sequence[str]) -> bytes:
    """Give a page over all sessions that draws none and links to a page of each; ``pages`` are their addresses."""
    return _page(document, _whole(document, every=True), Measure(0, 0, 0, 0), pages)


def most_drawn(sessions: int) -> int:
    """Give how many sessions, the worst, a page over so many draws at most."""
    return _measures(sessions)[0].drawn


def _measures(sessions: int) -> Sequence[Measure]:
    """Give the measures to try: many sessions never fit in the first, which would cost more than the page itself."""
    return _MEASURES[0 if sessions <= 20 else 2 if sessions <= 100 else 3 :]


def _whole(document: Mapping[str, Any], *, every: bool = False) -> Whole:
    sessions: Sequence[Mapping[str, Any]] = document["sessions"]
    order = worst_first(sessions)
    tiers, groups = tier_rows(sessions), finding_groups(sessions)
    ids = Counter(session["session_id"] for session in sessions)
    return Whole(
        order,
        {
            place: _row(sessions[place], twice=ids[sessions[place]["session_id"]] > 1)
            for place in (order if every else order[:MOST_ROWS])
        },
        {
            "document": document,
            "title": title_of(sessions[0]) if len(sessions) == 1 else title_of_all(sessions),
            "header": header(document),
            "more_rows": 0 if every else max(0, len(order) - MOST_ROWS),
            "tiers": [row for row in tiers if row.tier is not Tier.NONE or row.turns],
            "turns": sum(row.turns or 0 for row in tiers),
            "findings": groups,
            "notes": [group for group in groups if group.severity == "info"],
            "gaps": coverage(sessions),
            "unit": unit_of(sessions),
            "order": WORST_FIRST,
            "summaries": totals_words(sessions, f"{summary_words(sessions)}; {cost_words(sessions)}"),
            "detailed": bool(document.get("details", ())),
            "omitted": any(session.get("text_omitted") for session in sessions),
        },
    )


def _page(document: Mapping[str, Any], whole: Whole, measure: Measure, pages: Sequence[str] = ()) -> bytes:
    sessions: Sequence[Mapping[str, Any]] = document["sessions"]
    details: Sequence[StoredSession] = document.get("details", ())
    drawn = whole.order[: measure.drawn]
    share = max(40, min(400, measure.points // max(1, len(drawn))))
    sections = [
        _section(
            f"s{place}", sessions[place], details[place] if details else None, share, measure, few=len(drawn) <= _FEW
        )
        for place in drawn
    ]
    linked = dict(enumerate(pages)) if pages else {place: f"#s{place}" for place in drawn}
    style, script = _asset("page.css"), _asset("page.js")
    return (
        _template("page.html.j2")
        .render(
            whole.words,
            rows=[{**row, "link": linked.get(place)} for place, row in whole.rows.items()],
            unlinked=any(place not in linked for place in whole.rows),
            sections=sections,
            undrawn=0 if pages else len(whole.order) - len(drawn),
            style=style,
            script=script,
            style_hash=_hash(style),
            script_hash=_hash(script),
        )
        .encode("utf-8", "backslashreplace")
    )


@cache
def _template(name: str) -> Template:
    """Compile a template, once however many times it is filled."""
    return _environment().from_string(_asset(name))


@cache
def _environment() -> Environment:
    from jinja2 import Environment, StrictUndefined

    environment = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=StrictUndefined)
    environment.filters.update(
        percent=percent, tokens=tokens, size=size, safely=_safely, count=_count, flagged=_flagged
    )
    environment.filters.update(dollars=dollars, count=_count, several=quantity, turns=turns_words)
    return environment


def _section(
    ident: str,
    session: Mapping[str, Any],
    detail: StoredSession | None,
    points: int,
    measure: Measure,
    *,
    few: bool,
) -> Section:
    found = list(notices(session["compactions"]))
    shown = found[: measure.notices]
    drawing = contents = None
    if detail:
        drawn = detail.timeline.at_most(points)
        drawing = timeline(session, detail, drawn, shown, f"{ident}c")
        fewer = drawn if points <= _MOST_COLUMNS else detail.timeline.at_most(_MOST_COLUMNS)
        contents = composition(detail, fewer)
    compactions = tuple(_compaction(f"{ident}c{i}", notice, measure) for i, notice in enumerate(shown))
    return Section(
        ident,
        session,
        title_of(session),
        run_words(session),
        sent_words(session),
        drawing,
        contents,
        compactions,
        len(found) - len(shown),
        tuple(figures(session)) if few else (),
    )


def _compaction(ident: str, notice: Notice, measure: Measure) -> Compaction:
    last = notice.last
    split = effects(last)
    files = tuple(dict.fromkeys(path for row in notice.rows for path in row["files"] or ()))
    return Compaction(
        ident,
        notice,
        split,
        _bar(split),
        tuple((anchor["type"].replace("_", " "), _cut(anchor["content"], measure)) for anchor in last["anchors"] or ()),
        _cut(last["summary_text"] or "", measure),
        files[:20],
    )


def _bar(split: Effects) -> tuple[tuple[float, float, str], ...]:
    """Give the parts of the tokens before, in thousandths: place, width and kind."""
    before = sum(split[:4]) or 1
    bar, place = [], 0.0
    for kind, part in zip(("left", "offload", "summary", "truncation"), split, strict=False):
        width = round(part / before * 1000, 1)
        bar.append((round(place, 1), width, kind))
        place += width
    return tuple(bar)


def _cut(text: str, measure: Measure) -> str:
    shown = safe(text[: measure.characters], newlines=True)
    more = len(text) - measure.characters
    return f"{shown} ... ({more:,} more characters)" if more > 0 else shown


def _row(session: Mapping[str, Any], *, twice: bool) -> Mapping[str, Any]:
    blocks, _ = session_spark(session)
    counts = session["compactions_by_tier"]
    cells = _template("page_row.html.j2").render(
        session,
        tiers=short_tiers(counts),
        weight=sum(count * 1000**i for i, count in enumerate(counts.values())),
        spark=blocks,
        real=figure(session, SENT),
        saved=real_reduction(session),
        cost=figure(session, COST),
    )
    return {"session": session, "run": session.get("run") if twice else None, "cells": cells}


def _flagged(text: object) -> str:
    """Give text as HTML in which no line ends within an option of the command and its value.

    >>> _flagged("try <it> (--history write-back)")
    'try &lt;it&gt; (<span class="flag">--history write-back</span>)'
    """
    return _FLAG.sub(r'<span class="flag">\g<0></span>', escape(safe(str(text))))


def _safely(text: object) -> str:
    return safe(str(text))


def _count(number: int | None) -> str:
    return "n/a" if number is None else f"{number:,}"


def _asset(name: str) -> str:
    return resources.files("compactctl.reports").joinpath(name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


REPORT = ReportSpec("html", "one self-contained page", render, (".html", ".htm"), details=True)
