"""The options that several commands share, and how they become resolved settings."""

from __future__ import annotations

import functools
import inspect
import os
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

from compactctl.cli._output import Target, outputs_of, refuse_unsafe_files
from compactctl.cli._say import note
from compactctl.compactors._user import GROUP, PACKAGE, is_user_code, load_compactor
from compactctl.errors import MissingPathError, SettingsError, UsageError
from compactctl.ports import CompactorSpec, Option
from compactctl.registry import names
from compactctl.settings import SUMMARIZER_OPTIONS, Resolved, parse_file, resolve, setting_named
from compactctl.transcripts import Found, find_inputs

_LONGEST_WAIT = 86_400
SETTINGS_FILES = ("compactctl.toml", "pyproject.toml")

Paths = Annotated[
    list[str] | None,
    typer.Argument(help="Transcripts: files, directories, globs, - for stdin, @list.txt; .gz and .zst are read."),
]
Compactor = Annotated[
    str | None,
    typer.Option("--compactor", "-c", help="Compactor (see `compactctl list compactors`), or path.py:Class."),
]
Window = Annotated[
    str | None,
    typer.Option("--window", "-w", help="Context window in tokens, e.g. 200000 or 200k. [default: recorded]"),
]
History = Annotated[
    str | None, typer.Option(help="view or write-back: does a compaction's view become the history? [default: own]")
]
Recorded = Annotated[str | None, typer.Option(help="ignore or follow the session's own compactions. [default: ignore]")]
Meter = Annotated[str | None, typer.Option(help="Meter that tiers follow. [default: the compactor's own]")]
SummarizerName = Annotated[
    str | None, typer.Option("--summarizer", help="Who writes summaries (see `list summarizers`). [default: stub]")
]
SummaryTokens = Annotated[str | None, typer.Option(help="Largest summary in tokens. [default: 2000]")]
Measures = Annotated[str | None, typer.Option(help="Measures to compute: names with commas, all, none. [default: all]")]
Set = Annotated[
    list[str] | None, typer.Option("--set", help="A compactor option, NAME=VALUE; repeatable: --set soft=0.75")
]
Overhead = Annotated[str | None, typer.Option(help="Decision tokens of the system message that transcripts lack.")]
Reserve = Annotated[str | None, typer.Option(help="Real tokens kept free for the reply. [default: 0]")]
Spill = Annotated[str | None, typer.Option(help="Move results above this many bytes to files when they are written.")]
Protect = Annotated[list[str] | None, typer.Option(help="A tool whose results no compactor may shorten; repeatable.")]
Jobs = Annotated[str | None, typer.Option("--jobs", "-j", help="Processes that share the work. [default: 1]")]
StateDir = Annotated[str | None, typer.Option(help="Where results, records and turns are kept. [default: .compactctl]")]
RecordsDir = Annotated[str | None, typer.Option(help="Where the records alone are kept, as harness9 does.")]
DryRun = Annotated[bool, typer.Option("--dry-run", "-n", help="Write nothing; of a model, show the plan and stop.")]
ExtractMemories = Annotated[
    bool, typer.Option("--extract-memories", help="Have the summarizer's model take lasting facts out and keep them.")
]
NoFallback = Annotated[bool, typer.Option("--no-fallback", help="A failed summary is exit status 7.")]
Config = Annotated[str | None, typer.Option(help="Settings file. [default: nearest compactctl.toml or pyproject.toml]")]
NoConfig = Annotated[bool, typer.Option("--no-config", help="Read no settings file.")]
Wait = Annotated[
    float | None,
    typer.Option(callback=lambda value: _seconds(value), help="Seconds to wait for a session that is in use."),
]
Subagents = Annotated[bool, typer.Option("--subagents", help="Also load the threads of subagents.")]
Format = Annotated[str | None, typer.Option("--format", "-f", help="table, json, jsonl, ... on stdout.")]
PlainFormat = Annotated[str | None, typer.Option("--format", "-f", help="table or json; json is the same as --json.")]
Output = Annotated[
    list[str] | None, typer.Option("--output", "-o", help="Also write this file, format by suffix; repeatable.")
]
IncludeText = Annotated[
    bool, typer.Option("--include-text", help="Put anchors, summaries and file names into shared formats.")
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress and no notices on stderr.")]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Show each compaction.")]
VerboseInputs = Annotated[bool, typer.Option("--verbose", "-v", help="Name the files that were left out.")]
VerboseReplay = Annotated[
    bool, typer.Option("--verbose", "-v", help="Show each compaction, and name the files that were left out.")
]


def resolved(
    flags: Mapping[str, Any],
    config: str | None,
    no_config: bool,
    assignments: list[str] | None = None,
    *,
    quiet: bool = False,
) -> Resolved:
    """Bring flags, environment and the settings file together, and run nobody's code; raises SettingsError."""
    return _resolved(flags, config, no_config, assignments, quiet)[0]


def resolved_for_replay(
    flags: Mapping[str, Any],
    config: str | None,
    no_config: bool,
    assignments: list[str] | None = None,
    *,
    quiet: bool = False,
) -> Resolved:
    """Give the settings of a command that replays through one compactor, with the options that this one has.

    Options that a file gives to its own compactor are left out where another one was asked for, which is said. A user's
    compactor is loaded to find out. Raises SettingsError.
    """
    settings, its_own = _resolved(flags, config, no_config, assignments, quiet)
    return _without_foreign(settings, its_own, quiet)


def _resolved(
    flags: Mapping[str, Any], config: str | None, no_config: bool, assignments: list[str] | None, quiet: bool
) -> tuple[Resolved, str]:
    """Give the settings, and the compactor that the settings file gives its options to."""
    path = None if no_config else find_settings(config)
    table = parse_file(_read(path), str(path)) if path else {}
    settings = resolve(flags, os.environ, table, str(path or ""), assignments or ())
    # A file that was found may have come with the project, and so may one that lies in it.
    own = bool(config) and path is not None and not path.resolve().is_relative_to(Path.cwd().resolve())
    settings = replace(settings, trusted=own)
    _refuse_untrusted(settings)
    if path is not None and not config and path.parent != Path.cwd():
        # Who works in a directory without such a file may not know of it.
        note(f"settings from {path} (--no-config leaves them out)", quiet=quiet)
    return settings, str(table.get("compactor", setting_named("compactor").default))


def _without_foreign(settings: Resolved, its_own: str, quiet: bool) -> Resolved:
    asked = settings.values["compactor"]
    given = {name for name, value in settings.options.items() if value.origin == settings.path}
    if not given or asked.origin in ("default", settings.path) or asked.value == its_own:
        return settings
    spec = load_compactor(asked.value)
    # What neither has is a typing error, which is told later. Code that the file names is not run to find out.
    own = None if is_foreign_code(its_own) else load_compactor(its_own)
    foreign = sorted(name for name in given if not _is_shared(name, own, spec))
    if foreign:
        words = f"left out, since they are options of {its_own} and not of {spec.name}"
        note(f"{settings.path}: {words}: {', '.join(foreign)}", quiet=quiet)
    return replace(settings, options={name: v for name, v in settings.options.items() if name not in foreign})


def _is_shared(name: str, own: CompactorSpec | None, asked: CompactorSpec) -> bool:
    """Whether what a file sets for its own compactor is the same option of another; a typing error counts as shared."""
    meant, there = own.option(name) if own is not None else None, asked.option(name)
    if meant is None:
        return there is not None or own is not None
    # A short form may be another option there.
    return there is not None and there.name == meant.name


def is_foreign_code(compactor: str) -> bool:
    """Say whether to load a compactor runs code of others: the user's own file or module, or an installed package's."""
    from importlib.metadata import entry_points

    return is_user_code(compactor) or (
        compactor not in names(PACKAGE) and bool(entry_points(group=GROUP, name=compactor))
    )


def inputs(
    paths: Iterable[str], settings: Resolved, wanted: Iterable[Target] = (), also: Iterable[tuple[str, Path]] = ()
) -> Found:
    """List what a command reads, and see that nothing it will write (``also``: option and file) destroys any of it.

    Raises UsageError.
    """
    named, kept = list(paths), (settings["state_dir"], settings["records_dir"])
    found = find_inputs(named, state_dir=kept[0], records_dir=kept[1])
    refuse_unsafe_files([*outputs_of(wanted), *also], found, named, *kept)
    return found


def _refuse_untrusted(settings: Resolved) -> None:
    """Keep a settings file that may have come with the project from running code and writing anywhere else.

    Raises SettingsError.
    """
    untrusted = settings.untrusted()
    if "compactor" in untrusted and is_user_code(settings["compactor"]):
        raise SettingsError(
            f"{settings.path}: a settings file of the project, which may have come with it, cannot run code; "
            f"give --compactor {settings['compactor']}, or --config with a file outside the project"
        )
    for name in ("state_dir", "records_dir"):
        if name not in untrusted or settings[name] is None:
            continue
        path, home = Path(settings[name]), Path(settings.path).resolve().parent
        if path.is_absolute() or ".." in path.parts or not path.resolve().is_relative_to(home):
            raise SettingsError(
                f"{settings.path}: {name} = {settings[name]!r} leads out of the project, and the file may have "
                f"come with it; give --{name.replace('_', '-')}, or --config with a file outside the project"
            )


def _seconds(value: float | None) -> float | None:
    if value is not None and not 0 <= value <= _LONGEST_WAIT:  # nan is neither
        raise typer.BadParameter(f"{value} is not a number of seconds from 0 to {_LONGEST_WAIT:,}")
    return value


def json_wanted(command: str, flag: bool, format: str | None) -> bool:
    """Say whether a command that has a table and JSON alone is to give JSON; raises UsageError for another format."""
    if format not in (None, "table", "json"):
        raise UsageError(f"{command} has no {format}; it has table, json")
    return flag or format == "json"


# The flags that stand for settings, in the order of the help.
SETTING_FLAGS: dict[str, Any] = {
    "compactor": Compactor,
    "window": Window,
    "history": History,
    "recorded": Recorded,
    "meter": Meter,
    "summarizer": SummarizerName,
    "summary_tokens": SummaryTokens,
    "measures": Measures,
    "overhead": Overhead,
    "reserve": Reserve,
    "spill": Spill,
    "protect": Protect,
    "jobs": Jobs,
    "state_dir": StateDir,
}


def setting_flags(*without: str) -> Callable[[Callable[..., int]], Callable[..., int]]:
    """Give a command the flags that stand for settings, but ``without`` some; it gets them as the mapping ``flags``.

    They are shown where ``flags`` stands among its parameters, and a flag for each option of the summarizers last.
    """
    shared = [_setting(name, kind) for name, kind in SETTING_FLAGS.items() if name not in without]
    remote = [_flag(option) for option in SUMMARIZER_OPTIONS]

    def decorate(command: Callable[..., int]) -> Callable[..., int]:
        @functools.wraps(command)
        def call(**given: Any) -> int:
            flags = {flag.name: given.pop(flag.name) for flag in (*shared, *remote)}
            flags["fallback"] = False if given.pop("no_fallback") else None
            return command(**given, flags=flags)

        hints = get_type_hints(command, include_extras=True)
        listed: list[inspect.Parameter] = []
        for name, parameter in inspect.signature(command).parameters.items():
            if name == "flags":
                listed += [*shared, _setting("no_fallback", NoFallback, False)]
            else:
                listed.append(parameter.replace(annotation=hints[name], kind=_NAMED))
        listed += remote
        # typer reads a command's signature and hints.
        call.__signature__ = inspect.Signature(listed)  # type: ignore[attr-defined]  # typer reads it
        call.__annotations__ = {parameter.name: parameter.annotation for parameter in listed}
        return call

    return decorate


_NAMED = inspect.Parameter.KEYWORD_ONLY


def _setting(name: str, kind: Any, default: object = None) -> inspect.Parameter:
    return inspect.Parameter(name, _NAMED, default=default, annotation=kind)


def _flag(option: Option) -> inspect.Parameter:
    """Give the parameter that stands for an option of a summarizer; what was not given is None."""
    name = f"--{option.name.replace('_', '-')}"
    if option.type is bool:
        kind: Any = bool | None
        declared = f"{name}/--no-{name[2:]}" if option.default else name
    else:
        kind, declared = str | None, name
    words = option.help[0].upper() + option.help[1:] + "."
    if option.choices:
        words += f" One of {', '.join(filter(None, option.choices))}."
    if option.default:
        words += f" [default: {option.default:g}]" if not isinstance(option.default, bool) else ""
    return inspect.Parameter(
        option.name,
        inspect.Parameter.KEYWORD_ONLY,
        default=None,
        annotation=Annotated[kind, typer.Option(declared, help=words)],
    )


def find_settings(named: str | None) -> Path | None:
    """Give the settings file: the named one, else the nearest upward that holds settings; None where there is none."""
    if named:
        path = Path(named)
        if not path.is_file():
            raise MissingPathError(f"{named}: no such settings file; leave --config out or write it with `init`")
        return path
    here = Path.cwd()
    for folder in (here, *here.parents):
        for name in SETTINGS_FILES:
            path = folder / name
            if path.is_file() and (name != "pyproject.toml" or _has_settings(path)):
                return path
    return None


def _has_settings(path: Path) -> bool:
    """Say whether a file that others write, too, has a part for compactctl, whatever else is in it."""
    try:
        content = path.read_bytes()
    except OSError as error:
        note(f"warning: {path} cannot be read and is taken for one without settings: {error.strerror}")
        return False
    if b"compactctl" not in content:
        return False
    try:
        tools = tomllib.loads(content.decode("utf-8-sig")).get("tool", {})
    except (ValueError, RecursionError):
        # What is wrong with it is told when it is read, if it seems to be meant.
        return b"[tool.compactctl" in content
    return isinstance(tools, dict) and "compactctl" in tools


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path}: cannot be read as settings: {error}") from error
