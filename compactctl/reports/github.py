"""GitHub's workflow commands: an annotation for each broken budget, or for each finding, the worst ones first.

GitHub keeps ten annotations of a kind for a step, so ten are written and one line says how many there are more.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from compactctl.context.words import quantity
from compactctl.reports._safe import safe
from compactctl.reports._spec import ReportSpec
from compactctl.reports._verdicts import state, summary, told, worst_words

MOST = 10
_LEVELS = ("error", "warning", "notice")


def render(document: Mapping[str, Any]) -> bytes:
    """Give the commands, errors first, and a line in words; no text can end a command or begin another."""
    found = sorted(_budgets(document) if "verdicts" in document else _findings(document), key=lambda row: row[0])
    lines: list[str] = []
    for rank, level in enumerate(_LEVELS):
        alike = [row for row in found if row[0] == rank]
        lines += [_command(level, path, title, words) for _, path, title, words in alike[:MOST]]
        if len(alike) > MOST:
            lines.append(f"and {len(alike) - MOST} more of the level {level}")
    lines.append(safe(summary(document)) if "verdicts" in document else quantity(len(found), "finding"))
    return "".join(f"{line}\n" for line in lines).encode("utf-8", "backslashreplace")


Annotation = tuple[int, str, str, str]


def _budgets(document: Mapping[str, Any]) -> Iterator[Annotation]:
    paths = {session["session_id"]: session.get("path", "") for session in document["sessions"]}
    for verdict in document["verdicts"]:
        sign = state(verdict)
        if sign == "ok":
            continue
        worst = verdict["worst_sessions"][0] if verdict["worst_sessions"] else None
        words = told(verdict)
        if worst is not None:
            words += f"\nworst: {worst_words(worst)}"
        path = paths.get(worst["session_id"], "") if worst is not None else ""
        yield (0 if sign == "FAIL" else 1, path, f"compactctl: {verdict['measure']}", words)
    for words in document["failed"]:
        yield (0, "", "compactctl: not judged", words)
    for words in document["differences"]:
        yield (1, "", "compactctl: not the same as the baseline", words)


def _findings(document: Mapping[str, Any]) -> Iterator[Annotation]:
    ranks = {"error": 0, "warn": 1, "info": 2}
    for session in document["sessions"]:
        for finding in session.get("findings", ()):
            words = f"{session['session_id']}: {finding['message']}\ntry: {finding['advice']}"
            yield (ranks[finding["severity"]], session.get("path", ""), f"compactctl: {finding['id']}", words)


def _command(level: str, path: str, title: str, words: str) -> str:
    properties = [f"file={_property(path)}"] if path and path != "-" and not path.startswith("~") else []
    properties.append(f"title={_property(title)}")
    return f"::{level} {','.join(properties)}::{_data(words)}"


def _data(words: str) -> str:
    r"""Give a message that stays one command: percent signs and line ends are written as GitHub reads them.

    >>> _data("50%\n::error::forged")
    '50%25%0A::error::forged'
    """
    return safe(words, newlines=True).replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(words: str) -> str:
    """Give the value of a property; what ends one is written as GitHub reads it.

    >>> _property("a:b,c")
    'a%3Ab%2Cc'
    """
    return _data(words).replace(":", "%3A").replace(",", "%2C")


REPORT = ReportSpec("github", "annotations of GitHub Actions", render)
