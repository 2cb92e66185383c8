"""JUnit XML, which every CI reads: a test suite for the budgets, a test case for each budget and session.

A case of a budget over all sessions is named after the budget; the worst sessions stand in its message. Outputs that
hold no verdicts give a case for each session, which fails by its findings of the severity error. What could not be
used of the inputs is a case with an error.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any
from xml.sax.saxutils import escape, quoteattr

from compactctl.reports._safe import safe
from compactctl.reports._spec import ReportSpec
from compactctl.reports._verdicts import figure, state, told, worst_words

_NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def render(document: Mapping[str, Any]) -> bytes:
    """Give the document; texts are escaped and hold no character that XML forbids."""
    cases = list(_budgets(document) if "verdicts" in document else _findings(document))
    failed = document.get("failed", ())
    failures = sum(1 for _, _, failure, _ in cases if failure is not None)
    skipped = sum(1 for _, _, _, warning in cases if warning is not None)
    name = f"compactctl {document['command']}"
    head = f'tests="{len(cases) + len(failed)}" failures="{failures}" errors="{len(failed)}"'
    lines = [
        '<?xml version="1.0" encoding="utf-8"?>',
        f"<testsuites name={_attribute(name)} {head}>",
        f'  <testsuite name={_attribute(name)} {head} skipped="{skipped}" time="0">',
        "    <properties>",
        *(f"      <property name={_attribute(key)} value={_attribute(value)}/>" for key, value in _told(document)),
        "    </properties>",
    ]
    for group, title, failure, warning in cases:
        opening = f'    <testcase classname={_attribute(group)} name={_attribute(title)} time="0"'
        if failure is not None:
            lines += [f"{opening}>", f"      <failure message={_attribute(failure[0])}>{_text(failure[1])}</failure>"]
        elif warning is not None:
            # JUnit knows no warning: a skipped case is shown, and fails nothing.
            lines += [f"{opening}>", f"      <skipped message={_attribute(warning)}/>"]
        else:
            lines.append(f"{opening}/>")
            continue
        lines.append("    </testcase>")
    for words in failed:
        lines.append(f'    <testcase classname="compactctl.inputs" name={_attribute(words)} time="0">')
        lines += [f"      <error message={_attribute(words)}/>", "    </testcase>"]
    return "\n".join([*lines, "  </testsuite>", "</testsuites>", ""]).encode("utf-8")


def _told(document: Mapping[str, Any]) -> Iterable[tuple[str, str]]:
    """Give what is to be known of a run beside its cases; runs of several settings have no hash of all."""
    if document["settings_hash"] is not None:
        yield "settings_hash", document["settings_hash"]
    yield "tool_version", document["tool_version"]
    for words in document.get("differences", ()):
        yield "not_the_same_as_the_baseline", words
    for reason, count in document.get("ignored_inputs", {}).items():
        yield "left_out", f"{count} {reason}"


Case = tuple[str, str, tuple[str, str] | None, str | None]


def _budgets(document: Mapping[str, Any]) -> Iterable[Case]:
    for verdict in document["verdicts"]:
        line = told(verdict)
        listed = "\n".join(map(worst_words, verdict["worst_sessions"]))
        sign = state(verdict)
        yield (
            f"compactctl.{verdict['measure']}",
            f"{verdict['budget']} (measured {figure(verdict['value'])})",
            (line, f"{line}\nWorst sessions:\n{listed}") if sign == "FAIL" else None,
            line if sign == "warn" else None,
        )


def _findings(document: Mapping[str, Any]) -> Iterable[Case]:
    for session in document["sessions"]:
        errors = [f for f in session.get("findings", ()) if f["severity"] == "error"]
        listed = "\n".join(f"{finding['message']}\ntry: {finding['advice']}" for finding in errors)
        failure = (errors[0]["message"], listed) if errors else None
        yield (f"compactctl.{document['command']}", session["session_id"], failure, None)


def _attribute(words: str) -> str:
    return quoteattr(_clean(safe(words)))


def _text(words: str) -> str:
    return escape(_clean(safe(words, newlines=True)))


def _clean(words: str) -> str:
    return _NOT_XML.sub("?", words)


REPORT = ReportSpec("junit", "JUnit XML for CI", render, (".junit.xml", ".xml"))
