"""The command line as a whole: which commands there are, and how errors become exit statuses.

Only the file of the command that was asked for is imported.
"""

from __future__ import annotations

import functools
import importlib
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any

import typer
from typer.core import TyperGroup

from compactctl.cli._process import close_stdout, stopping_on_signals
from compactctl.errors import CompactctlError, Interrupted
from compactctl.reports._safe import safe

# The first line of each command's own docstring; a test holds the two together. Help needs no command's imports.
COMMANDS = {
    "replay": "Replay sessions turn by turn through a compactor, and say what each tier did.",
    "report": "Show what the last complete run of each session gave: one session in depth, or all, worst first.",
    "compare": "Put compactors side by side on the same sessions: one table, the best of each column marked.",
    "tune": "Try many settings on recorded sessions: what each costs, what it forgets, how full the window gets.",
    "check": "Replay sessions and hold them to the budgets of the settings file; exit status 1 where one is broken.",
    "inspect": "Say what transcripts hold: format, messages, calls, recorded compactions, and where every line went.",
    "convert": "Write a transcript in the neutral format: a header line, then a JSON object for each message.",
    "verify": "Check that every record parses and every offloaded file is there as it was written; changes nothing.",
    "gc": "Remove sessions from the store: their offloaded results, records, turns and memories.",
    "list": "List compactors with their options, formats, summarizers, meters, measures, findings or reports.",
    "init": "Write a commented compactctl.toml; with sessions, its budgets are what these sessions hold today.",
    "config": "Look at the settings.",
}
DEBUG = "COMPACTCTL_DEBUG"
CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": 100}

HELP = """Replay recorded agent sessions through a context compactor, and see what each threshold costs.

\b
  compactctl replay session.jsonl        what each tier would have done
  compactctl replay ~/.claude/projects   all your sessions
  compactctl report                      what the last replays gave
  compactctl list compactors             what can be compared
  compactctl --version

Exit status: 0 done; 1 a budget failed or verify found damage; 2 usage or settings; 3 some input could not be read;
4 nothing matched; 5 the store could not be written, or a deletion was not confirmed; 6 locked; 7 a summary failed;
70 internal error; 130, 143 interrupted. New ones may come: treat an unknown status as a failure.
"""


def run(arguments: Sequence[str]) -> int:
    """Run one command line and give its exit status."""
    for stream in (sys.stdout, sys.stderr):
        # Transcripts hold lone surrogates; a terminal or pipe must never make them an error.
        getattr(stream, "reconfigure", lambda **_: None)(errors="backslashreplace")
    app = typer.Typer(
        cls=LazyGroup,
        help=HELP,
        no_args_is_help=True,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings=CONTEXT,
    )
    app.callback()(_group)
    try:
        app(list(arguments), prog_name="compactctl")
    except SystemExit as exit_:
        return close_stdout(exit_.code if isinstance(exit_.code, int) else int(bool(exit_.code)))
    return close_stdout(0)


class LazyGroup(TyperGroup):
    """Imports the file of a command when that command is run, and none for the list of commands."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Give the names of all commands."""
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Import a command; None for an unknown one."""
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(f"compactctl.cli.{cmd_name}")
        app = getattr(module, "APP", None)
        if app is None:
            app = typer.Typer(rich_markup_mode=None, pretty_exceptions_enable=False, add_completion=False)
            function = getattr(module, "list_" if cmd_name == "list" else cmd_name)
            app.command(name=cmd_name, context_settings=CONTEXT)(guarded(function))
        command = typer.main.get_command(app)
        command.name = cmd_name
        return command

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Find the command; of an unknown one say which is nearest."""
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            import difflib

            nearest = difflib.get_close_matches(args[0], COMMANDS, n=1)
            meant = f"did you mean {nearest[0]!r}?" if nearest else f"there are {', '.join(COMMANDS)}"
            ctx.fail(f"No such command {args[0]!r}; {meant}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the commands from the table."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


def _group() -> None:
    """Stand for the program itself; its options are answered before."""


def guarded(command: Callable[..., Any]) -> Callable[..., None]:
    """Wrap a command: its errors become one line on stderr and an exit status, never a traceback."""

    @functools.wraps(command)
    def call(*positional: Any, **named: Any) -> None:
        with stopping_on_signals() as stop:
            try:
                status = command(*positional, **named) or 0
            except KeyboardInterrupt:
                status = Interrupted.exit_status
                _say(stop.word)
            except Exception as error:
                # Once a signal came, all else that goes wrong may be its doing: a worker that it ended, say.
                status = 0 if stop.number else _failed(error)
                if stop.number:
                    _say(stop.word)
            status = stop.status or status
        raise SystemExit(status)

    return call


def _failed(error: Exception) -> int:
    """Tell an error of a command and give its status."""
    if isinstance(error, CompactctlError):
        _say(str(error))
        return error.exit_status
    if os.environ.get(DEBUG):
        raise error
    _say(f"internal error: {type(error).__name__}: {error} (set {DEBUG}=1 for the traceback, and report it)")
    return CompactctlError.exit_status


def _say(message: str) -> None:
    print(f"compactctl: {safe(message)}", file=sys.stderr)
