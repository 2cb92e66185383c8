"""What the commands that choose and judge (``tune``, ``compare``, ``check``) show in each of the common formats."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from compactctl.reports._columns import Column, Table
from compactctl.reports._paper import Paper

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# The formats that these commands and ``inspect`` can give; pictures are of what can be drawn.
FORMATS = {
    "inspect": ("table", "json", "jsonl", "csv", "markdown"),
    "tune": ("table", "json", "jsonl", "csv", "markdown", "parquet", "png", "svg"),
    "compare": ("table", "json", "jsonl", "csv", "markdown", "parquet", "png", "svg"),
    "check": ("table", "json", "jsonl", "csv", "markdown", "parquet", "junit", "github"),
}


def decision_text(document: Mapping[str, Any], paper: Paper) -> bool:
    """Write the document's text; False where it is of another command."""
    write: Callable[[Mapping[str, Any], Paper], None]
    match document["command"]:
        case "tune":
            from compactctl.reports._tuning_text import tuning_text as write
        case "compare":
            from compactctl.reports._comparison import comparison_text as write
        case "check":
            from compactctl.reports._verdicts import verdict_text as write
        case _:
            return False
    write(document, paper)
    return True


def decision_markdown(document: Mapping[str, Any]) -> bytes | None:
    """Give the text as a block that Markdown shows as it is; None where it is of another command."""
    paper = Paper()
    if not decision_text(document, paper):
        return None
    words = paper.text()
    fence = "`" * max(3, 1 + max((len(run) for run in re.findall("`+", words)), default=0))
    title = f"## compactctl {document['command']} {document['tool_version']}"
    return f"{title}\n\n{fence}text\n{words}{fence}\n".encode("utf-8", "backslashreplace")


def decision_table(document: Mapping[str, Any]) -> Table | None:
    """Give the document as a table; None where it is of another command."""
    maker = {"tune": _points, "compare": _compared, "check": _verdicts}.get(document["command"])
    return maker(document) if maker is not None else None


def decision_figure(document: Mapping[str, Any]) -> Figure | None:
    """Give the document's picture; None where it is of another command."""
    if document["command"] == "tune":
        from compactctl.reports._decision_plots import tuning_figure

        return tuning_figure(document)
    if document["command"] == "compare":
        from compactctl.reports._decision_plots import comparison_figure

        return comparison_figure(document)
    return None


def _points(document: Mapping[str, Any]) -> Table:
    parameters = [parameter["name"] for parameter in document["grid"]["parameters"]]
    types = [type(parameter["values"][0]) for parameter in document["grid"]["parameters"]]
    objectives = [objective["name"] for objective in document["objectives"]]
    keys = list(document["points"][0]["measures"])
    chosen = document["recommendation"]["number"]
    columns = [
        Column("point", int, "number of the setting"),
        *(
            Column(name, kind if kind in (int, float, bool) else str, "option")
            for name, kind in zip(parameters, types, strict=True)
        ),
        Column("present", bool, "the setting that is in use"),
        Column("recommended", bool, "the setting to take"),
        Column("on_front", bool, "no other setting is better in one objective and worse in none"),
        Column("gates_broken", str, "gates that it fails"),
        *(Column(f"tuning.{name}", float, "objective over the sessions tuned on") for name in objectives),
        *(Column(f"held_out.{name}", float, "objective over the sessions kept back") for name in objectives),
        *(Column(key, float, "figure over all sessions") for key in keys),
    ]

    def rows() -> Iterator[tuple[Any, ...]]:
        for point in document["points"]:
            held = point["held_out"] or {}
            yield (
                point["number"],
                *(_plain(point["options"][name]) for name in parameters),
                point["present"],
                point["number"] == chosen,
                point["on_front"],
                "; ".join(point["gates_broken"]),
                *(point["objectives"][name] for name in objectives),
                *(held.get(name) for name in objectives),
                *(point["measures"][key]["value"] for key in keys),
            )

    return Table("points", tuple(columns), tuple(rows()))


def _compared(document: Mapping[str, Any]) -> Table:
    keys: Sequence[str] = document["figures"]
    columns = (
        Column("session_id", str, "the session; all for all together"),
        Column("compactor", str, "its name in this comparison"),
        Column("bound", bool, "a bound that every comparison holds"),
        *(Column(key, float, "figure") for key in keys),
    )
    groups = [(session["session_id"], session["compared"]) for session in document["sessions"]]
    if len(groups) > 1:
        groups.append(("all", document["overall"]))
    rows = tuple(
        (name, one["name"], one["bound"], *(one["figures"][key]["value"] for key in keys))
        for name, compared in groups
        for one in compared
    )
    return Table("compared", columns, rows)


def _verdicts(document: Mapping[str, Any]) -> Table:
    columns = (
        Column("measure", str, "figure"),
        Column("aggregate", str, "how it is taken over sessions"),
        Column("bound", str, "kind of bound"),
        Column("limit", float, "what it is held to"),
        Column("level", str, "error or warn"),
        Column("passed", bool, "whether the budget holds"),
        Column("fails", bool, "whether it makes the command fail"),
        Column("value", float, "what was measured"),
        Column("baseline", float, "what the baseline has"),
        Column("worst_session", str, "the session nearest to the bound or furthest beyond it"),
        Column("reason", str, "why there is no value"),
    )
    rows = tuple(
        (
            *(verdict[key] for key in ("measure", "aggregate", "bound", "limit", "level", "passed", "fails", "value")),
            verdict["baseline"],
            verdict["worst_sessions"][0]["session_id"] if verdict["worst_sessions"] else None,
            verdict["reason"] or None,
        )
        for verdict in document["verdicts"]
    )
    return Table("verdicts", columns, rows)


def _plain(value: Any) -> Any:
    return value if isinstance(value, int | float | bool | str) else ",".join(map(str, value))
