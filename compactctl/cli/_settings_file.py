"""Changes single lines of a settings file and leaves the rest, comments included, as it was written."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from compactctl.errors import SettingsError
from compactctl.ports import CompactorSpec
from compactctl.settings import parse_file

_TABLE = re.compile(r"\s*\[([^\[\]]+)\]\s*(?:#.*)?$")
_KEY = re.compile(r"\s*[\"']?([A-Za-z0-9_-]+)[\"']?\s*=")
MARK = "# tune: "


def with_options(content: str, path: str, spec: CompactorSpec, options: Mapping[str, Any], told: Sequence[str]) -> str:
    """Give a settings file in which ``[set]`` holds these options of a compactor under a comment of how they came.

    Lines that set the same options, by their full name or short form, and an earlier comment of this kind are replaced.
    Raises SettingsError where the file is not valid before or would not be afterwards.
    """
    table = parse_file(content, path)
    if isinstance(table.get("set"), dict) and not any(_table_of(line, path) for line in content.splitlines()):
        raise SettingsError(f"{path}: write its set as a table ([set]), then tune can change it")
    names = {option.name for option in spec.options if option.name in options}
    names |= {option.short for option in spec.options if option.name in options and option.short}
    lines: list[str] = []
    inside = False
    for line in content.splitlines():
        if _TABLE.match(line) or line.lstrip().startswith("[["):
            inside = _table_of(line, path)
        key = _KEY.match(line)
        if inside and ((key and key[1].replace("-", "_") in names) or line.startswith(MARK)):
            continue
        lines.append(line)
    fresh = [MARK + words for words in told] + [f"{name} = {toml_value(value)}" for name, value in options.items()]
    at = next((number for number, line in enumerate(lines) if _table_of(line, path)), None)
    if at is None:
        header = "[tool.compactctl.set]" if _is_pyproject(path) else "[set]"
        lines += ([""] if lines and lines[-1].strip() else []) + [header, *fresh]
    else:
        lines[at + 1 : at + 1] = fresh
    if not _is_pyproject(path) and table.get("compactor", "progressive") != spec.name:
        lines = [f'compactor = "{spec.name}"', *(line for line in lines if not _sets(line, "compactor"))]
    changed = "\n".join(lines) + "\n"
    parse_file(changed, path)
    return changed


def toml_value(value: Any) -> str:
    """Give a value as TOML writes it.

    >>> toml_value(0.7), toml_value(True), toml_value("a"), toml_value(("x", "y"))
    ('0.7', 'true', '"a"', '["x", "y"]')
    """
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, str):
        import json

        return json.dumps(value)
    return "[" + ", ".join(map(toml_value, value)) + "]"


def _is_pyproject(path: str) -> bool:
    return path.replace("\\", "/").rsplit("/", 1)[-1] == "pyproject.toml"


def _table_of(line: str, path: str) -> bool:
    """Whether a line opens the table of a compactor's options."""
    found = _TABLE.match(line)
    name = "tool.compactctl.set" if _is_pyproject(path) else "set"
    return found is not None and found[1].replace(" ", "").replace('"', "") == name


def _sets(line: str, name: str) -> bool:
    key = _KEY.match(line)
    return key is not None and key[1] == name
