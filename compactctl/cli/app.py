"""The command line as a whole: which commands there are, and how errors become exit statuses.

Only the file of the command that was asked for is imported; help and unknown names import all of them.
"""

from __future__ import annotations

import functools
import importlib
import os
import signal
import sys
from collections.abc import Callable, Sequence
from typing import Any

import typer

from compactctl.errors import CompactctlError, Interrupted
from compactctl.reports._safe import safe

COMMANDS = (
    "replay",
    "report",
    "compare",
    "tune",
    "check",
    "inspect",
    "convert",
    "verify",
    "gc",
    "list",
    "init",
    "config",
)
DEBUG = "COMPACTCTL_DEBUG"

HELP = """Replay recorded agent sessions through a context compactor, and see what each threshold costs.

\b
  compactctl replay session.jsonl        what each tier would have done
  compactctl replay ~/.claude/projects   all your sessions
  compactctl report                      what the last replays gave
  compactctl list compactors             what can be compared

Exit status: 0 done; 1 a budget failed or verify found damage; 2 usage or settings; 3 some input could not be read;
4 nothing matched; 5 the store could not be written, or a deletion was not confirmed; 6 locked; 7 a summary failed;
70 internal error; 130, 143 interrupted. New ones may come: treat an unknown status as a failure.
"""


def run(arguments: Sequence[str]) -> int:
    """Run one command line and give its exit status."""
    for stream in (sys.stdout, sys.stderr):
        # Transcripts hold lone surrogates; a terminal or pipe must never make them an error.
        getattr(stream, "reconfigure", lambda **_: None)(errors="backslashreplace")
    signal.signal(signal.SIGTERM, _terminated)
    try:
        build(_wanted(arguments))(list(arguments), standalone_mode=True)
    except SystemExit as exit_:
        return _closed(exit_.code if isinstance(exit_.code, int) else int(bool(exit_.code)))
    return _closed(0)


def build(names: Sequence[str]) -> typer.Typer:
    """Make the application with these commands."""
    app = typer.Typer(
        help=HELP,
        no_args_is_help=True,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    )

    @app.callback()
    def _options(
        version: bool = typer.Option(False, "--version", "-V", help="Show the version.", is_eager=True),
    ) -> None:
        if version:
            from compactctl import __version__

            typer.echo(f"compactctl {__version__}")
            raise typer.Exit

    for name in names:
        module = importlib.import_module(f"compactctl.cli.{name}")
        command = getattr(module, "APP", None)
        if isinstance(command, typer.Typer):
            app.add_typer(command, name=name)
        else:
            app.command(name=name)(guarded(getattr(module, name if name != "list" else "list_")))
    return app


def guarded(command: Callable[..., Any]) -> Callable[..., None]:
    """Wrap a command: its errors become one line on stderr and an exit status, never a traceback."""

    @functools.wraps(command)
    def call(*positional: Any, **named: Any) -> None:
        try:
            status = command(*positional, **named)
        except BrokenPipeError:
            status = 0
            _abandon_stdout()
        except KeyboardInterrupt:
            status = Interrupted.exit_status
            _say("interrupted")
        except CompactctlError as error:
            status = error.exit_status
            _say(str(error))
        except Exception as error:
            if os.environ.get(DEBUG):
                raise
            status = CompactctlError.exit_status
            _say(f"internal error: {type(error).__name__}: {error} (set {DEBUG}=1 for the traceback, and report it)")
        raise SystemExit(status or 0)

    return call


def _wanted(arguments: Sequence[str]) -> Sequence[str]:
    """Give the commands that must be known to read these arguments: mostly one."""
    first = next((argument for argument in arguments if not argument.startswith("-")), None)
    completing = any(name.endswith("_COMPLETE") for name in os.environ if name.startswith("_"))
    return [first] if first in COMMANDS and not completing else COMMANDS


def _terminated(number: int, frame: object) -> None:
    error = Interrupted("terminated")
    error.exit_status = 128 + number
    raise error


def _say(message: str) -> None:
    try:
        print(f"compactctl: {safe(message)}", file=sys.stderr)
    except BrokenPipeError:
        pass


def _closed(status: int) -> int:
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        _abandon_stdout()
    return status


def _abandon_stdout() -> None:
    """Point stdout at nothing, so that the interpreter's own last flush cannot fail."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
