"""The options of a summarizer, checked against what it declares; the table of all of them is in settings.py."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from compactctl.errors import SettingsError
from compactctl.ports import Option, SummarizerSpec
from compactctl.registry import unknown

# These decide where a transcript and a key go or what runs: a settings file that came with a repository must not.
TRUSTED_OPTIONS = ("base_url", "key_env", "key_file", "allow_insecure_endpoint", "command", "cassette_file")


def resolve(spec: SummarizerSpec, given: Mapping[str, Any]) -> dict[str, Any]:
    """Give every declared option of a summarizer its value: as given and checked, else its default.

    Raises SettingsError for an impossible value and UnknownNameError for an unknown name; both say what is allowed.
    """
    declared = {option.name: option for option in spec.options}
    for name in given:
        if name not in declared:
            raise unknown(f"setting of summarizer {spec.name}", name, declared)
    return {name: _value(option, given.get(name, option.default)) for name, option in declared.items()}


def _value(option: Option, value: Any) -> Any:
    if value is None or value == option.default:
        return option.default if value is None else value
    fits = isinstance(value, option.type) or (option.type is float and type(value) is int)
    if not fits or (isinstance(value, bool) and option.type is not bool):
        raise SettingsError(f"{option.name} must be {option.type.__name__}, not {value!r}")
    if isinstance(value, float) and not math.isfinite(value):
        raise SettingsError(f"{option.name} must be a finite number")
    if option.choices and value not in option.choices:
        raise SettingsError(f"{option.name} must be one of {', '.join(filter(None, option.choices))}, not {value!r}")
    if (option.minimum is not None and value < option.minimum) or (
        option.maximum is not None and value > option.maximum
    ):
        low = "-inf" if option.minimum is None else f"{option.minimum:g}"
        high = "inf" if option.maximum is None else f"{option.maximum:g}"
        raise SettingsError(f"{option.name} must be from {low} to {high}, not {value!r}")
    return float(value) if option.type is float else value
