"""The invented projects that the scripted agent works on."""

from __future__ import annotations

from pathlib import Path

_MARK = "==== "


def unpack(name: str) -> dict[str, str]:
    """Read a project from ``<name>.txt``: each file begins after a line ``==== path``."""
    files: dict[str, list[str]] = {}
    for line in (Path(__file__).parent / f"{name}.txt").read_text(encoding="utf-8").splitlines(keepends=True):
        if line.startswith(_MARK):
            current = files.setdefault(line.removeprefix(_MARK).strip(), [])
        else:
            current.append(line)
    return {path: "".join(lines) for path, lines in files.items()}
