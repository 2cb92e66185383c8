"""Baselines on disk and what differs between one and a run, for the commands that judge."""

from __future__ import annotations

import json
import stat
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from compactctl.budgets import Budget
from compactctl.cli._output import write_file
from compactctl.context.words import quantity
from compactctl.errors import BudgetError, MissingPathError, SettingsError
from compactctl.measures._spec import Measured
from compactctl.settings import shown

BASELINE_VERSION = 1
_MOST_NAMED = 5
_LARGEST_BASELINE = 64 << 20  # bytes


@dataclass(frozen=True, slots=True)
class JudgedSession:
    """What is judged of one session, and what its figures rest on."""

    session_id: str
    input_sha256: str
    window: int
    meter: str
    figures: Mapping[str, Measured]


@dataclass(frozen=True, slots=True)
class Baseline:
    """The figures of an earlier run by session, with what they rested on."""

    path: str
    settings: Mapping[str, Any]
    sessions: Mapping[str, Mapping[str, Any]]

    @property
    def figures(self) -> dict[str, Mapping[str, float | None]]:
        """The values by session and figure."""
        return {session: row["figures"] for session, row in self.sessions.items()}


def read_baseline(path: Path) -> Baseline:
    """Read a baseline; raises MissingPathError, and SettingsError where the file is not one."""
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode) or status.st_size > _LARGEST_BASELINE:
            raise SettingsError(f"{path}: not a baseline; it must be a regular file of at most 64 MiB")
        content = path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise MissingPathError(f"{path}: no such baseline; write it with --update-baseline") from None
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path}: cannot be read as a baseline: {error}") from error
    try:
        raw = json.loads(content)
        if not isinstance(raw, dict):
            raise ValueError("it is no object")
        if raw["compactctl_baseline"] is not BASELINE_VERSION:
            raise SettingsError(
                f"{path}: baseline version {shown(raw['compactctl_baseline'])} is not {BASELINE_VERSION}; "
                "--update-baseline"
            )
        if not isinstance(raw["settings"], dict):
            raise ValueError("its settings are no object")
        if not isinstance(raw["sessions"], dict):
            raise ValueError("its sessions are no object")
        sessions = {str(session): _session(row) for session, row in raw["sessions"].items()}
        return Baseline(str(path), dict(raw["settings"]), sessions)
    except json.JSONDecodeError as error:
        raise SettingsError(f"{path}: not valid JSON ({error}); --update-baseline writes it anew") from error
    except KeyError as error:
        raise SettingsError(
            f"{path}: not a baseline of compactctl: it has no {error}; --update-baseline writes one"
        ) from error
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        raise SettingsError(f"{path}: not a baseline of compactctl: {error}; --update-baseline writes one") from error


def refuse_weaker(path: Path, known: Baseline | None, sessions: Sequence[JudgedSession], *, complete: bool) -> None:
    """Keep a baseline from being replaced by one that holds less than it could, or less than before.

    Raises BudgetError, which says what is missing: a gate that looks at fewer sessions would pass without a word.
    """
    if not complete:
        raise BudgetError(f"{path} is left as it was: not all could be judged that was asked for")
    now = {one.session_id for one in sessions}
    gone = sorted(known.sessions.keys() - now) if known is not None else []
    if gone:
        raise BudgetError(
            f"{path} is left as it was: {_named(gone)} of it not among the inputs; remove the file to begin anew"
        )


def _session(row: Mapping[str, Any]) -> dict[str, Any]:
    figures = row["figures"]
    for key, value in figures.items():
        if value is not None and not _is_figure(value):
            raise ValueError(f"{key} is {shown(value)}, not a finite number")
    return {**row, "figures": dict(figures)}


def _is_figure(value: Any) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return abs(value) <= sys.float_info.max  # neither nan nor infinite, nor whole and beyond all measure


def write_baseline(
    path: Path, settings: Mapping[str, Any], sessions: Sequence[JudgedSession], budgets: Sequence[Budget]
) -> None:
    """Write what the budgets look at, sorted and a line each, so that a change of it is easy to read in review.

    Raises StoreError where the file cannot be written.
    """
    keys = sorted({budget.measure for budget in budgets})
    content = {
        "compactctl_baseline": BASELINE_VERSION,
        "settings": dict(settings),
        "sessions": {
            one.session_id: {
                "input_sha256": one.input_sha256,
                "window": one.window,
                "meter": one.meter,
                "figures": {key: _rounded(one.figures[key].value) for key in keys if key in one.figures},
            }
            for one in sorted(sessions, key=lambda one: one.session_id)
        },
    }
    write_file(path, [json.dumps(content, indent=2, sort_keys=True).encode(), b"\n"], "--update-baseline")


def _rounded(value: float | None) -> float | int | None:
    # Twelve digits: the last bits of a sum may differ between machines, and a diff should not show them.
    return float(f"{value:.12g}") if isinstance(value, float) else value


def differences(baseline: Baseline, settings: Mapping[str, Any], sessions: Sequence[JudgedSession]) -> tuple[str, ...]:
    """Say what a run has otherwise than its baseline: settings, sessions, their input, window and meter."""
    found = [
        f"setting {name} was {_shown(was)} in the baseline and is {_shown(now)}"
        for name, was, now in _changed(_flat(baseline.settings), _flat(settings))
    ]
    now_known = {one.session_id: one for one in sessions}
    gone = sorted(baseline.sessions.keys() - now_known.keys())
    new = sorted(now_known.keys() - baseline.sessions.keys())
    if gone:
        found.append(f"{_named(gone)} of the baseline not replayed: left out")
    if new:
        found.append(f"{_named(new)} not in the baseline: left out of what is compared with it")
    for field_name, word in (("input_sha256", "content"), ("window", "window"), ("meter", "meter")):
        other = sorted(
            session
            for session, one in now_known.items()
            if session in baseline.sessions and baseline.sessions[session].get(field_name) != getattr(one, field_name)
        )
        if other:
            found.append(f"{_named(other)} with another {word} than in the baseline")
    return tuple(found)


def _flat(settings: Mapping[str, Any]) -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, value in settings.items():
        if isinstance(value, Mapping):
            flat.update({f"{name}.{key}": inner for key, inner in value.items()})
        else:
            flat[name] = list(value) if isinstance(value, tuple) else value
    return flat


def _changed(was: Mapping[str, Any], now: Mapping[str, Any]) -> list[tuple[str, Any, Any]]:
    return [
        (name, was.get(name), now.get(name))
        for name in sorted(was.keys() | now.keys())
        if _plain(was.get(name)) != _plain(now.get(name))
    ]


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def _shown(value: Any) -> str:
    return "not set" if value is None else str(value)


def _named(sessions: Sequence[str]) -> str:
    listed = ", ".join(sessions[:_MOST_NAMED])
    more = f" and {len(sessions) - _MOST_NAMED} more" if len(sessions) > _MOST_NAMED else ""
    return f"{quantity(len(sessions), 'session')} ({listed}{more})"
