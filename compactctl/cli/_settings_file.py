"""Changes values of a settings file and leaves the rest, comments and order included, as it was written."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, MutableMapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Any

import tomlkit
from tomlkit.items import Table

from compactctl.compactors._user import is_user_code
from compactctl.errors import SettingsError
from compactctl.ports import CompactorSpec
from compactctl.settings import compactor_options, parse_file, setting_named, shown, tables_above

MARK = "# tune: "
BOM = "\ufeff"

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


@dataclass(frozen=True, slots=True)
class Written:
    """What a settings file will hold, and the options of another compactor, or of none, that left it."""

    content: str
    gone: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Changes:
    """What a file must say anew; a setting of None is one that nothing says. ``gone`` are options by how they stand."""

    settings: Mapping[str, Any]
    options: Mapping[str, Any]
    gone: Set[str]
    prices: Mapping[str, Mapping[str, Any]]

    def make(self, home: MutableMapping[str, Any]) -> None:
        """Change the table that the settings stand in, in a file or in plain dictionaries."""
        for name, value in self.settings.items():
            if value is None:
                home.pop(name, None)
            else:
                home[name] = value
        options = home.setdefault("set", {})
        for name in sorted(self.gone):
            del options[name]
        options.update(self.options)
        for model, price in self.prices.items():
            home.setdefault("prices", {})[model] = dict(price)


def with_choice(content: str, path: str, choice: Choice, told: Sequence[str]) -> Written:
    """Give a settings file that holds a choice, with a comment of how it came, and leaves all else as it was written.

    A replay under the new file is one under the choice: what the file says otherwise, or not at all, is changed, too.
    An option keeps the place and the spelling that it had; an earlier comment of this kind is replaced. Raises
    SettingsError where the file is not valid, cannot be changed, or has other prices than the choice was made under.
    """
    changes = _changes(parse_file(content, path), path, choice)
    mark = BOM if content.startswith(BOM) else ""
    end = "\r\n" if "\r\n" in content else "\n"
    lines = content.removeprefix(BOM).replace("\r\n", "\n").removesuffix("\n").split("\n")
    plain = "".join(f"{line}\n" for line in lines if not line.startswith(MARK)) if content else ""
    wanted = tomllib.loads(content.removeprefix(BOM))
    changes.make(_opened(wanted, path))
    try:
        changed = _edited(plain, path, changes, [MARK + words for words in told], len(choice.options))
        # The same changes in plain dictionaries: whatever else the file holds must be as it was.
        whole = tomllib.loads(changed) == wanted
    except (ValueError, LookupError, TypeError, AttributeError):  # what the library makes of odder files
        whole = False
    if not whole:
        raise SettingsError(f"{path}: cannot be changed without a loss; write the choice into another file")
    return Written(mark + changed.replace("\n", end), tuple(sorted(changes.gone)))


def _edited(content: str, path: str, changes: _Changes, told: Sequence[str], chosen: int) -> str:
    """Make changes in a file, and put a comment above the first of the options that were ``chosen``, or above all."""
    document = tomlkit.parse(content)
    home = _opened(document, path)
    changes.make(home)
    options, comment = home["set"], "".join(f"{line}\n" for line in told)
    if type(options) is not Table:  # in braces or dotted keys there is no place for a comment
        return comment + tomlkit.dumps(document)
    # What was chosen comes first in what is written.
    names = list(changes.options)[:chosen]
    first = next(item for key, item in options.value.body if key is not None and key.key in names)
    first.trivia.indent = comment + first.trivia.indent
    return tomlkit.dumps(document)


def toml_value(value: Any) -> str:
    """Give a value as TOML writes it.

    >>> toml_value(0.7), toml_value(True), toml_value("a"), toml_value(("x", "y"))
    ('0.7', 'true', '"a"', '["x", "y"]')
    """
    written: str = tomlkit.item(value).as_string()
    return written


def _opened(document: MutableMapping[str, Any], path: str) -> MutableMapping[str, Any]:
    """Give the table of a file that holds the settings, which is added where it is not there."""
    home = document
    for name in tables_above(path):
        home = home.setdefault(name, {})
    return home


def _changes(table: Mapping[str, Any], path: str, choice: Choice) -> _Changes:
    settings = {name: value for name, value in choice.settings.items() if value != _said(table, name, path)}
    if is_user_code(choice.settings["compactor"]):
        # A settings file that may have come with a project runs no code: who wants it names it each time.
        settings.pop("compactor", None)
    known = table.get("prices", {})
    for model, price in known.items():
        if choice.prices.get(model) != price:
            raise SettingsError(
                f"{path}: it has another price of {model} than the choice would be made under; name it with --config, "
                "or write into another file"
            )
    prices = {model: price for model, price in choice.prices.items() if model not in known}
    return _Changes(_lists(settings), *_options(table.get("set", {}), choice), prices)


def _options(before: Mapping[str, Any], choice: Choice) -> tuple[dict[str, Any], set[str]]:
    """Give the options to write, by how they stand in the file, and the names there of those that must leave it.

    Options of another compactor leave the file; those that compare gives to one of several are not looked at.
    """
    stands = {option.name: name for name in before if (option := choice.spec.option(name))}
    now = compactor_options(choice.spec, {name: before[name] for name in stands.values()})
    fixed = {name: value for name, value in choice.fixed.items() if value != now[name] and name not in choice.options}
    written = {stands.get(name, name): value for name, value in {**choice.options, **fixed}.items()}
    gone = {name for name, value in before.items() if "." not in name and not isinstance(value, dict)}
    return _lists(written), gone - {*stands.values()}


def _lists(values: Mapping[str, Any]) -> dict[str, Any]:
    """Give values as TOML has them, which knows no tuples."""
    return {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}


def _said(table: Mapping[str, Any], name: str, path: str) -> Any:
    """Give what a settings file says of a setting, the default where it says nothing."""
    setting = setting_named(name)
    try:
        return setting.read(table[name]) if name in table else setting.default
    except ValueError as error:
        raise SettingsError(f"{path}: {name}: {shown(table[name])} is not {error}") from error
