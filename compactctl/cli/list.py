"""``compactctl list``: what there is to choose from."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from enum import StrEnum
from typing import Annotated, Any

import typer

import compactctl
from compactctl.cli._options import PlainFormat, json_wanted
from compactctl.cli._output import ROOM as REPORTS
from compactctl.measures._spec import MeasureSpec
from compactctl.ports import CompactorSpec, MeterSpec, SummarizerSpec
from compactctl.registry import plugins
from compactctl.reports._document import SCHEMA_VERSION
from compactctl.reports._json_bytes import encode
from compactctl.reports._spec import ReportSpec
from compactctl.transcripts import FormatSpec


class What(StrEnum):
    """The kinds of things that can be listed."""

    COMPACTORS = "compactors"
    FORMATS = "formats"
    SUMMARIZERS = "summarizers"
    METERS = "meters"
    MEASURES = "measures"
    FINDINGS = "findings"
    REPORTS = "reports"


def list_(
    what: Annotated[What, typer.Argument(help="What to list.")],
    json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
    format: PlainFormat = None,
) -> int:
    """List compactors with their options, formats, summarizers, meters, measures, findings or reports.

    \b
    Examples:
      compactctl list compactors
      compactctl list measures --json
    """
    rows = list(_rows(what))
    if json_wanted("list", json, format):
        document = {"schema_version": SCHEMA_VERSION, "tool_version": compactctl.__version__, str(what): rows}
        sys.stdout.flush()
        sys.stdout.buffer.write(encode(document, indent=True) + b"\n")
        return 0
    width = max(len(row["name"]) for row in rows) + 2
    for row in rows:
        print(f"{row['name']:<{width}}{row['help']}")
        for option in row.get("options", ()):
            short = f" ({option['short']})" if option["short"] else ""
            flag = "--set " + option["name"] if what is What.COMPACTORS else "--" + option["name"].replace("_", "-")
            print(f"{'':<{width}}  {flag}{short}: {option['help']} [{option['default']}]")
    return 0


def _rows(what: What) -> Iterator[dict[str, Any]]:
    if what is What.COMPACTORS:
        for spec in plugins("compactctl.compactors", CompactorSpec).values():
            yield {
                "name": spec.name,
                "help": spec.help,
                "models": spec.models,
                "history": str(spec.history),
                "meter": spec.meter,
                "options": _options(spec),
            }
    elif what is What.SUMMARIZERS:
        for summarizer in plugins("compactctl.summarizers", SummarizerSpec).values():
            yield {"name": summarizer.name, "help": summarizer.help, "options": _options(summarizer)}
    elif what is What.MEASURES:
        for measure in plugins("compactctl.measures", MeasureSpec).values():
            for key in measure.keys:
                yield {
                    "name": key.key,
                    "help": f"{key.help} [{key.unit}, {key.direction}]",
                    "unit": key.unit,
                    "direction": str(key.direction),
                    "measure": measure.name,
                }
    elif what is What.FINDINGS:
        from compactctl.findings import FINDINGS

        for kind in FINDINGS.values():
            yield {"name": kind.id, "help": kind.help, "severity": str(kind.severity)}
    else:
        kinds: dict[What, tuple[str, Any]] = {
            What.FORMATS: ("compactctl.transcripts", FormatSpec),
            What.METERS: ("compactctl.meters", MeterSpec),
            What.REPORTS: (REPORTS, ReportSpec),
        }
        for plain in plugins(*kinds[what]).values():
            yield {"name": plain.name, "help": plain.help}


def _options(spec: CompactorSpec | SummarizerSpec) -> list[dict[str, Any]]:
    return [
        {"name": o.name, "short": o.short, "type": o.type.__name__, "default": o.default, "help": o.help}
        for o in spec.options
    ]
