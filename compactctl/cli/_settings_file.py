"""Changes single lines of a settings file and leaves the rest, comments included, as it was written."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from compactctl.errors import SettingsError
from compactctl.ports import CompactorSpec
from compactctl.settings import compactor_options, parse_file, setting_named, shown

_TABLE = re.compile(r"\s*\[([^\[\]]+)\]\s*(?:#.*)?$")
_KEY = re.compile(r"\s*[\"']?([A-Za-z0-9_-]+)[\"']?\s*=")
MARK = "# tune: "


# What decides the figures of a replay beside the options of its compactor: a choice holds under these alone.
SHAPING = (
    "compactor",
    "window",
    "history",
    "recorded",
    "meter",
    "summarizer",
    "summary_tokens",
    "overhead",
    "reserve",
    "spill",
    "protect",
)


@dataclass(frozen=True, slots=True)
class Choice:
    """Settings that were chosen, and all others that they were chosen under.

    ``options`` are those that were searched, ``fixed`` all others of the compactor, ``settings`` those of ``SHAPING``,
    ``prices`` the user's own by model.
    """

    spec: CompactorSpec
    options: Mapping[str, Any]
    fixed: Mapping[str, Any]
    settings: Mapping[str, Any]
    prices: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


def with_choice(content: str, path: str, choice: Choice, told: Sequence[str]) -> str:
    """Give a settings file that holds a choice, with a comment of how it came, and leaves all else as it was written.

    A replay under the new file is one under the choice: what the file says otherwise, or not at all, is changed, too.
    Lines that set the same, by full name or short form, and an earlier comment of this kind are replaced. Raises
    SettingsError where the file is not valid before or would not be afterwards.
    """
    table = parse_file(content, path)
    if isinstance(table.get("set"), dict) and not any(
        _opened(line) == _set_table(path) for line in content.splitlines()
    ):
        raise SettingsError(f"{path}: write its set as a table ([set]), then tune can change it")
    options, gone = _options(table.get("set", {}), choice)
    settings = {name: choice.settings[name] for name in SHAPING if choice.settings[name] != _said(table, name, path)}
    kept: list[str] = []
    place = ""
    for line in content.splitlines():
        place = _opened(line) or place
        key = _KEY.match(line)
        name = key[1].replace("-", "_") if key else ""
        if place == _home(path) and name in settings:
            continue
        if place == _set_table(path) and (name in gone or line.startswith(MARK)):
            continue
        kept.append(line)
    lines = _inserted(kept, path, [MARK + words for words in told] + _assignments(options), _set_table(path))
    # A setting of None is one that nothing says.
    said = [line for name, value in settings.items() if value is not None for line in _assignments({name: value})]
    lines = _inserted(lines, path, said, _home(path)) if said else lines
    known = table.get("prices", {})
    for model, price in choice.prices.items():
        if model not in known:
            lines += ["", f"[{_prices_table(path)}.{toml_value(model)}]", *_assignments(price)]
        elif known[model] != price:
            raise SettingsError(f"{path}: it has another price of {model} than the choice was made under")
    changed = "\n".join(lines) + "\n"
    if any(_said(parse_file(changed, path), name, path) != choice.settings[name] for name in SHAPING):
        raise SettingsError(f"{path}: its settings are not written one a line, so tune cannot change them")
    return changed


def _options(before: Mapping[str, Any], choice: Choice) -> tuple[dict[str, Any], set[str]]:
    """Give the options to write, and the names under which they may stand in the file already.

    Options of another compactor leave the file; those that compare gives to one of several are not looked at.
    """
    known = {option.name: option for option in choice.spec.options}
    known |= {option.short: option for option in choice.spec.options if option.short}
    plain = {name.replace("-", "_") for name in before if "." not in name}
    mine = {name: value for name, value in before.items() if name.replace("-", "_") in known}
    now = compactor_options(choice.spec, mine)
    options = {name: value for name, value in choice.fixed.items() if value != now[name] and name not in choice.options}
    options |= choice.options
    return options, {name for name in plain if name not in known or known[name].name in options}


def _said(table: Mapping[str, Any], name: str, path: str) -> Any:
    """Give what a settings file says of a setting, the default where it says nothing."""
    setting = setting_named(name)
    try:
        return setting.read(table[name]) if name in table else setting.default
    except ValueError as error:
        raise SettingsError(f"{path}: {name}: {shown(table[name])} is not {error}") from error


def _assignments(values: Mapping[str, Any]) -> list[str]:
    return [f"{name} = {toml_value(value)}" for name, value in values.items()]


def _inserted(lines: Sequence[str], path: str, fresh: Sequence[str], table: str) -> list[str]:
    """Give the lines with fresh ones at the beginning of a table, which is added where it is not there."""
    if not table:
        return [*fresh, *lines]
    at = next((number for number, line in enumerate(lines) if _opened(line) == table), None)
    if at is None:
        return [*lines, *([""] if lines and lines[-1].strip() else []), f"[{table}]", *fresh]
    return [*lines[: at + 1], *fresh, *lines[at + 1 :]]


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


def _home(path: str) -> str:
    """Name the table that the settings stand in; empty for the beginning of the file."""
    return "tool.compactctl" if _is_pyproject(path) else ""


def _set_table(path: str) -> str:
    """Name the table of a compactor's options."""
    return "tool.compactctl.set" if _is_pyproject(path) else "set"


def _prices_table(path: str) -> str:
    """Name the table of the user's own prices."""
    return "tool.compactctl.prices" if _is_pyproject(path) else "prices"


def _opened(line: str) -> str:
    """Give the name of the table that a line opens, ``[[`` for a list of tables; empty for any other line."""
    found = _TABLE.match(line)
    if found is not None:
        return found[1].replace(" ", "").replace('"', "")
    return "[[" if line.lstrip().startswith("[[") else ""
