"""What the commands that do not have every format have in common on the command line."""

from __future__ import annotations

from collections.abc import Sequence

from compactctl.cli._output import Target, targets
from compactctl.errors import UsageError
from compactctl.reports._decisions import FORMATS


def decision_targets(command: str, format: str | None, outputs: Sequence[str] | None) -> list[Target]:
    """Resolve ``--format`` and ``--output``; raises UsageError also for a format that the command does not have."""
    wanted = targets(format, outputs)
    for target in wanted:
        if target.report.name not in FORMATS[command]:
            where = f"--output {target.path}" if target.path is not None else f"--format {target.report.name}"
            raise UsageError(f"{where}: {command} has no {target.report.name}; it has {', '.join(FORMATS[command])}")
    return wanted
