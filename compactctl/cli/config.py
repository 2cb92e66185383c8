"""``compactctl config show``: each setting with its value and where that is from."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

import compactctl
from compactctl.cli import _options as opt
from compactctl.cli._work import check_settings, setup_of
from compactctl.cli.app import guarded
from compactctl.reports._document import SCHEMA_VERSION
from compactctl.reports._json_bytes import encode
from compactctl.reports._safe import safe

APP = typer.Typer(help="Look at the settings.", no_args_is_help=True, rich_markup_mode=None)


@APP.callback()
def _group() -> None:
    """Keep ``show`` a word of its own although it is the only one."""


def show(
    config: opt.Config = None,
    no_config: opt.NoConfig = False,
    set: opt.Set = None,
    json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
    format: opt.PlainFormat = None,
) -> int:
    """Show every setting, its value and where it is from: flag, environment, file or default.

    \b
    Examples:
      compactctl config show
      COMPACTCTL_WINDOW=128k compactctl config show --json
    """
    settings = opt.resolved({}, config, no_config, set)
    rows = {name: (value.value, value.origin) for name, value in settings.values.items()}
    rows["measures"] = (settings["measures"] or ("none",), settings.values["measures"].origin)
    if opt.is_foreign_code(settings["compactor"]):
        # Looking at settings runs nobody's code, so the options are as written.
        check_settings(settings)
        rows |= {f"set.{name}": (value.value, value.origin) for name, value in settings.options.items()}
    else:
        # What was said of the file is not said a second time.
        settings = opt.resolved_for_replay({}, config, no_config, set, quiet=True)
        setup = setup_of(settings)
        origins = {
            option.name: value.origin for name, value in settings.options.items() if (option := setup.spec.option(name))
        }
        rows |= {f"set.{name}": (value, origins.get(name, "default")) for name, value in setup.options.items()}
    rows |= {f"set.{name}": (value.value, value.origin) for name, value in settings.rivals.items()}
    if opt.json_wanted("config show", json, format):
        listed = {name: {"value": value, "origin": origin} for name, (value, origin) in rows.items()}
        document = {"schema_version": SCHEMA_VERSION, "tool_version": compactctl.__version__, "settings": listed}
        sys.stdout.flush()
        sys.stdout.buffer.write(encode(document, indent=True) + b"\n")
        return 0
    width = max(map(len, rows)) + 2
    for name, (value, origin) in rows.items():
        shown = "-" if value in (None, "") else ",".join(value) if isinstance(value, tuple) else value
        print(f"{name:<{width}}{safe(str(shown)):<24}{safe(origin)}")
    if settings.budgets:
        print(f"{'budgets':<{width}}{len(settings.budgets):<24}{safe(settings.path)}")
    return 0


APP.command(name="show")(guarded(show))
