"""Settings: as written, then validated, then resolved with the place that each value came from.

A flag wins over a ``COMPACTCTL_*`` variable, that over the settings file, that over the default. An unknown key or an
impossible value is an error that says what is allowed (DESIGN.md, Commands). The texts are handed in: nothing here
reads a file or the environment.
"""

from __future__ import annotations

import difflib
import json
import math
import re
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from compactctl.errors import SettingsError, nearest
from compactctl.ports import CompactorSpec, Option

# No count, size or price is larger; what is cannot be meant, and would not fit where it is used.
LARGEST = 10**12
_DEEPEST = 20  # tables and lists in one another in a settings file
_WHOLE = re.compile(r"(\d+(?:_\d+)*|\d{1,3}(?:,\d{3})+)([km]?)", re.ASCII)
ENVIRONMENT_PREFIX = "COMPACTCTL_"
LARGE = "200000, 200k, 1m"
# Variables that are no settings: a traceback for an internal error, and the exhaustive suite of the store.
OTHER_VARIABLES = frozenset({"COMPACTCTL_DEBUG", "COMPACTCTL_TORTURE"})


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting of the tool: its name in a settings file, its default and how it is read."""

    name: str
    default: Any
    read: Callable[[Any], Any]
    help: str

    @property
    def variable(self) -> str:
        """The environment variable that sets it."""
        return ENVIRONMENT_PREFIX + self.name.upper()


@dataclass(frozen=True, slots=True)
class Value:
    """A resolved value and where it came from (``flag``, the variable's name, the file's name, ``default``)."""

    value: Any
    origin: str


@dataclass(frozen=True, slots=True, eq=False)
class Resolved:
    """All settings of one command, each with its origin; ``options`` are the compactor's as written.

    ``rivals`` are those that the settings file gives to one of several compactors, as ``NAME.OPTION``; only ``compare``
    reads them. ``trusted`` says that the settings file is the user's own: named, and not one of the project at hand.
    """

    values: Mapping[str, Value]
    options: Mapping[str, Value] = field(default_factory=dict)
    rivals: Mapping[str, Value] = field(default_factory=dict)
    budgets: tuple[Mapping[str, Any], ...] = ()
    prices: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    path: str = ""
    trusted: bool = False

    def __getitem__(self, name: str) -> Any:
        return self.values[name].value

    def untrusted(self) -> frozenset[str]:
        """Give the names of the settings that a file of the project sets."""
        if self.trusted or not self.path:
            return frozenset()
        return frozenset(name for name, value in self.values.items() if value.origin == self.path)


def whole(minimum: int = 0, example: str = "", most: int = LARGEST) -> Callable[[Any], int]:
    """Make a reader of whole numbers from ``minimum`` to ``most``; ``200_000`` and ``200k`` are understood.

    ``example`` shows how large ones may be written, where such are meant.
    """
    wanted = f"a whole number of at least {minimum}" + (f" ({example})" if example else "")

    def read(raw: Any) -> int:
        if isinstance(raw, bool) or not isinstance(raw, int | str):
            raise ValueError(wanted)
        number = raw if isinstance(raw, int) else _written(raw)
        if number is None or number < minimum:
            raise ValueError(wanted)
        if number > most:
            raise ValueError(f"{wanted}, and at most {most:,}")
        return number

    return read


def _written(text: str) -> int | None:
    """Read a whole number as people write it; None where it is none."""
    found = _WHOLE.fullmatch(text.strip().lower())
    if found is None:
        return None
    digits = found[1].replace("_", "").replace(",", "").lstrip("0") or "0"
    # Python reads no more than some thousand digits; these are too large in any case.
    return int(digits[:100]) * {"k": 1000, "m": 1_000_000}.get(found[2], 1)


def one_of(*choices: str) -> Callable[[Any], str]:
    """Make a reader of one of these words."""

    def read(raw: Any) -> str:
        if raw not in choices:
            raise ValueError("one of " + ", ".join(choices))
        return str(raw)

    return read


def text(raw: Any) -> str:
    """Read a text."""
    if not isinstance(raw, str) or not raw or "\0" in raw:
        raise ValueError("a text" + (" without a NUL byte" if raw else ""))
    return raw


def truth(raw: Any) -> bool:
    """Read true or false."""
    if isinstance(raw, bool):
        return raw
    if isinstance(raw, str) and raw.lower() in ("1", "true", "yes", "on"):
        return True
    if isinstance(raw, str) and raw.lower() in ("0", "false", "no", "off"):
        return False
    raise ValueError("true or false")


def words(raw: Any) -> tuple[str, ...]:
    """Read a list of words; a text is split at commas."""
    if isinstance(raw, str):
        raw = [part.strip() for part in raw.split(",") if part.strip()]
    if isinstance(raw, Sequence) and all(isinstance(part, str) and "\0" not in part for part in raw):
        return tuple(raw)
    raise ValueError("a list of words")


def _measures(raw: Any) -> tuple[str, ...]:
    """Read the names of measures; ``none`` is none of them."""
    found = words(raw)
    return () if found == ("none",) else found


def optional(read: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Make a reader that also takes None."""
    return lambda raw: None if raw is None else read(raw)


def number(raw: Any, minimum: float) -> float:
    """Read a decimal number of at least ``minimum`` and of a sensible size."""
    try:
        # Python also reads the digits of other alphabets.
        value = float(raw) if not isinstance(raw, str) or raw.isascii() else math.nan
    except (TypeError, ValueError, OverflowError):
        value = math.nan
    if isinstance(raw, bool) or not max(minimum, -LARGEST) <= value <= LARGEST:
        raise ValueError(f"a number of at least {minimum:g}" + (f", and at most {LARGEST:,}" * (value > LARGEST)))
    return value


def read_option(option: Option, raw: Any) -> Any:
    """Read one value as an option declares it; raises ValueError, which names what is allowed."""
    if option.type is bool:
        return truth(raw)
    if option.type is str and raw == "" == option.default:
        return ""
    if option.type is int:
        value: Any = whole(0 if option.minimum is None else int(option.minimum))(raw)
    elif option.type is float:
        value = number(raw, float("-inf") if option.minimum is None else option.minimum)
    elif option.type is tuple:
        value = words(raw)
    else:
        value = text(raw)
    if option.maximum is not None and value > option.maximum:
        raise ValueError(f"at most {option.maximum:g}")
    if option.choices and value not in option.choices:
        raise ValueError(f"one of {', '.join(filter(None, option.choices))}")
    return value


# What summarizers with a model behind them can be told: the one table for settings file, environment, flags and the
# summarizers themselves. ``choices`` begin with the empty word where the default is none of them.
MODEL_OPTIONS = (
    Option("model", "", "name of the model", str),
    Option("timeout", 120.0, "seconds for one call, all tries and waits together", minimum=0.01, maximum=3600),
    Option("max_calls", None, "most calls in the whole run, each try counted", int, minimum=0),
    Option("max_input_tokens", None, "most input tokens in the whole run", int, minimum=0),
    Option("max_cost", None, "most US dollars in the whole run; needs prices", minimum=0),
    Option("input_price", None, "US dollars for a million input tokens, where the price table has none", minimum=0),
    Option("output_price", None, "US dollars for a million output tokens, where the price table has none", minimum=0),
    Option("require_anchors", False, "take the fallback where the anchors of a summary do not hold", bool),
    Option("strict_fence", False, "refuse a reply that stands outside its fence", bool),
    Option("cassette", "", "keep replies, or answer from kept ones", str, choices=("", "record", "replay", "refresh")),
    Option("cassette_file", "", "file to keep replies in, instead of the state directory", str),
)
ENDPOINT_OPTIONS = (
    Option("base_url", "", "address of the endpoint, for example http://127.0.0.1:11434/v1", str),
    Option("key_env", "", "environment variable that holds the key", str),
    Option("key_file", "", "file that holds the key and that only you can read", str),
    Option("max_output_tokens", 0, "token cap of one reply; 0: twice the summary's budget and 512", int, minimum=0),
    Option("temperature", None, "sampling temperature; not sent unless set", minimum=0, maximum=2),
    Option("stream", True, "ask for the reply in pieces, so that a stall is noticed", bool),
    Option("connect_timeout", 10.0, "seconds to wait for a connection", minimum=0.01, maximum=600),
    Option("idle_timeout", 30.0, "seconds to wait for the next piece of a reply", minimum=0.01, maximum=3600),
    Option(
        "tries", 3, "most tries of one call; only what may pass by itself is tried again", int, minimum=1, maximum=10
    ),
    Option("allow_insecure_endpoint", False, "allow plain http to another machine", bool),
)
PROGRAM_OPTIONS = (Option("command", "", "the program and its arguments; no shell is involved", str),)
SUMMARIZER_OPTIONS = (*MODEL_OPTIONS, *ENDPOINT_OPTIONS, *PROGRAM_OPTIONS)


def setting_of(option: Option) -> Setting:
    """Make the setting that stands for an option of a summarizer."""

    def read(raw: Any) -> Any:
        return raw if raw is option.default else read_option(option, raw)

    return Setting(option.name, option.default, read, option.help)


SETTINGS: tuple[Setting, ...] = (
    Setting("compactor", "progressive", text, "the compactor to replay with"),
    Setting("window", None, optional(whole(1, LARGE)), "context window (default: recorded, inferred, model table)"),
    Setting("history", None, optional(one_of("view", "write-back")), "whether a compaction's view becomes the history"),
    Setting("recorded", "ignore", one_of("ignore", "follow"), "what to do with the session's own compactions"),
    Setting("meter", None, optional(text), "the meter that tiers follow (default: the compactor's own)"),
    Setting("summarizer", "stub", text, "who writes the summaries"),
    Setting("summary_tokens", 2000, whole(1), "largest summary in tokens"),
    Setting("measures", ("all",), _measures, "measures to compute: names, all or none"),
    Setting("overhead", 0, whole(), "weight of the system message that transcripts do not hold, in decision tokens"),
    Setting("reserve", 0, whole(), "real tokens kept free for the reply"),
    Setting(
        "spill", None, optional(whole(1)), "move results longer than this many bytes to files when they are written"
    ),
    Setting("protect", (), words, "tools whose results no compactor may shorten"),
    Setting("fallback", True, truth, "whether a failed summary may take the compactor's fallback"),
    Setting("jobs", 1, whole(1, most=1024), "how many processes share the work"),
    Setting("state_dir", ".compactctl", text, "directory of offloaded results, records and turns"),
    Setting("records_dir", None, optional(text), "directory of the records alone, as harness9 keeps them"),
    Setting("extract_memories", False, truth, "have the summarizer's model take lasting facts out before each summary"),
    *map(setting_of, SUMMARIZER_OPTIONS),
)
_TABLES = ("set", "budgets", "prices")
_BY_NAME = {setting.name: setting for setting in SETTINGS}


def setting_named(name: str) -> Setting:
    """Give the setting of that name, which must be one."""
    return _BY_NAME[name]


def parse_file(content: str, path: str) -> Mapping[str, Any]:
    """Read a settings file, with or without a byte order mark; see ``tables_above``. Raises SettingsError."""
    try:
        table = tomllib.loads(content.removeprefix("\ufeff"))
    except RecursionError:
        raise SettingsError(f"{path}: not valid settings: lists or tables far too deep in one another") from None
    except ValueError as error:  # no TOML, or a number of more digits than Python reads
        raise SettingsError(f"{path}: not valid TOML: {error}") from error
    for name in tables_above(path):
        table = dict(_table(table, name, path))
    _refuse_impossible(table, path)
    allowed = [*_BY_NAME, *_TABLES]
    for key in table:
        if key not in allowed:
            raise SettingsError(f"{path}: unknown setting {key!r}.{nearest(key, allowed)}")
    for name in ("set", "prices"):
        _table(table, name, path)
    budgets = table.get("budgets", [])
    if not isinstance(budgets, list) or not all(isinstance(b, dict) for b in budgets):
        raise SettingsError(f"{path}: budgets must be a list of tables ([[budgets]])")
    return table


def tables_above(path: str) -> tuple[str, ...]:
    """Name the tables that the settings stand in: ``[tool.compactctl]`` of a ``pyproject.toml``, none otherwise.

    >>> tables_above("a/pyproject.toml"), tables_above("compactctl.toml")
    (('tool', 'compactctl'), ())
    """
    return ("tool", "compactctl") if path.replace("\\", "/").rsplit("/", 1)[-1] == "pyproject.toml" else ()


def resolve(
    flags: Mapping[str, Any],
    environment: Mapping[str, str],
    file: Mapping[str, Any] | None = None,
    path: str = "",
    assignments: Iterable[str] = (),
) -> Resolved:
    """Bring flags, variables, file and defaults together; a flag of None was not given. Raises SettingsError.

    ``file`` is what ``parse_file`` gave.
    """
    _refuse_unknown_variables(environment)
    table = file or {}
    values: dict[str, Value] = {}
    for setting in SETTINGS:
        raw: Any
        if flags.get(setting.name) is not None:
            raw, origin = flags[setting.name], "flag"
        elif setting.variable in environment:
            raw, origin = environment[setting.variable], setting.variable
        elif setting.name in table:
            raw, origin = table[setting.name], path
        else:
            raw, origin = setting.default, "default"
        try:
            values[setting.name] = Value(setting.read(raw), origin)
        except ValueError as error:
            place = f"--{setting.name.replace('_', '-')}" if origin == "flag" else f"{origin}: {setting.name}"
            raise SettingsError(f"{place}: {shown(raw)} is not {error}") from error
    written = _flat(table.get("set", {}), path)
    rivals = {name: value for name, value in written.items() if "." in name}
    options = {name: value for name, value in written.items() if "." not in name}
    for assignment in assignments:
        name, separator, raw = assignment.partition("=")
        if not separator or not name.strip():
            raise SettingsError(f"--set {assignment!r}: write NAME=VALUE")
        options[name.strip()] = Value(raw.strip(), "flag")
    return Resolved(values, options, rivals, tuple(table.get("budgets", ())), table.get("prices", {}), path)


def _flat(options: Mapping[str, Any], path: str) -> dict[str, Value]:
    """Give options by name; a table of a compactor's own (``[set.early]``) is another way to write ``early.NAME``."""
    flat: dict[str, Value] = {}
    for name, value in options.items():
        own = (
            {f"{name}.{option}": inner for option, inner in value.items()} if isinstance(value, dict) else {name: value}
        )
        for full, inner in own.items():
            if full in flat:
                raise SettingsError(f"{path}: set.{full} is there twice")
            flat[full] = Value(inner, path)
    return flat


def compactor_options(spec: CompactorSpec, written: Mapping[str, Value | Any]) -> dict[str, Any]:
    """Validate the options of a compactor and fill in its defaults; short forms are accepted. Raises SettingsError."""
    chosen: dict[str, Any] = {option.name: option.default for option in spec.options}
    given: dict[str, str] = {}
    for name, value in written.items():
        origin = value.origin if isinstance(value, Value) else ""
        place = f"{value.origin}: " if isinstance(value, Value) and value.origin != "flag" else ""
        option = spec.option(name)
        if option is None:
            raise SettingsError(f"{place}{spec.name} has no option {name!r}.{nearest(name, spec.option_names())}")
        # A flag wins over the file, by whatever name either has the option.
        if given.get(option.name) == "flag" != origin:
            continue
        if given.get(option.name) == origin:
            raise SettingsError(f"{place}{spec.name}: {option.name} is set twice ({name!r} is the same option)")
        given[option.name] = origin
        raw = value.value if isinstance(value, Value) else value
        chosen[option.name] = option_value(option, raw, f"{place}{spec.name}")
    for problem in spec.check(chosen):
        raise SettingsError(f"{spec.name}: {problem}")
    return chosen


def option_value(option: Option, raw: Any, owner: str) -> Any:
    """Read one value of a plug-in's option; raises SettingsError."""
    try:
        return read_option(option, raw)
    except ValueError as error:
        raise SettingsError(f"{owner}: {option.name}: {shown(raw)} is not {error}") from error


def shown(raw: Any) -> str:
    """Give a wrong value for a message, shortened; Python itself refuses to write out very long numbers.

    >>> shown("a" * 100)[-6:], shown(16**9999)
    ('aaa...', 'a number of very many digits')
    """
    try:
        words = repr(raw)
    except (ValueError, RecursionError):
        return "a number of very many digits" if isinstance(raw, int) else "what is written there"
    return words if len(words) <= 80 else words[:77] + "..."


def canonical(settings: Mapping[str, Any]) -> str:
    """Give settings as one text that is the same for the same settings, for hashing."""
    return json.dumps(settings, sort_keys=True, ensure_ascii=True, separators=(",", ":"), default=str)


def _refuse_unknown_variables(environment: Mapping[str, str]) -> None:
    """Refuse a variable with our prefix that sets nothing: most likely a typing error."""
    known = {setting.variable for setting in SETTINGS} | OTHER_VARIABLES
    for name in sorted(environment):
        if name.startswith(ENVIRONMENT_PREFIX) and name not in known and not name.endswith("_COMPLETE"):
            near = difflib.get_close_matches(name, sorted(known), n=1)
            hint = f" Did you mean {near[0]}?" if near else " `compactctl config show` lists the settings."
            raise SettingsError(f"{name}: no such setting.{hint}")


def _refuse_impossible(table: Mapping[str, Any], path: str) -> None:
    """Refuse what no setting, option, price or budget can be, whoever reads it later. Raises SettingsError."""
    todo: list[tuple[str, Any, int]] = [(key, value, 1) for key, value in table.items()]
    for name, value, depth in todo:
        problem = ""
        if isinstance(value, Mapping | list):
            inner = value.items() if isinstance(value, Mapping) else enumerate(value)
            todo.extend((f"{name}.{key}", item, depth + 1) for key, item in inner)
            problem = "is too deep in other tables" if depth > _DEEPEST else ""
        elif isinstance(value, int | float):
            problem = "" if abs(value) <= LARGEST else f"is no number from {-LARGEST:,} to {LARGEST:,}"
        elif isinstance(value, str):
            problem = "holds a NUL byte" if "\0" in value else ""
        if problem:
            raise SettingsError(f"{path}: {name}: {shown(value)} {problem}")


def _table(table: Mapping[str, Any], name: str, path: str) -> Mapping[str, Any]:
    part = table.get(name, {})
    if not isinstance(part, dict):
        raise SettingsError(f"{path}: {name} must be a table ([{name}])")
    return part
