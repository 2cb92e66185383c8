"""A temporary project tree and the tools that the scripted agent works on it with."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .conversation import PROJECT_HOME


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a tool gave back."""

    text: str
    is_error: bool = False


class Workbench:
    """One project on disk; every command runs in it, with an environment that says nothing about this machine."""

    def __init__(self, place: Path, files: Mapping[str, str]) -> None:
        """Lay out ``files`` (path to text) in a new folder of ``place``."""
        self.root = (place / "project").resolve()
        self.root.mkdir()
        for path, text in files.items():
            self._write(path, text)
        programs = place / "bin"
        programs.mkdir()
        python = programs / "python3"
        # -S and -B: no site packages of this machine in the picture, and no compiled files in the tree.
        python.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -s -S -B "$@"\n')
        python.chmod(0o755)
        self._environment = {
            "PATH": f"{programs}{os.pathsep}{os.defpath}{os.pathsep}/usr/local/bin",
            "HOME": str(place),
            "LC_ALL": "C",
            "TZ": "UTC",
            "PYTHONUTF8": "1",
            "PYTHONHASHSEED": "0",
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_AUTHOR_NAME": "Dev",
            "GIT_AUTHOR_EMAIL": "dev@localhost",
            "GIT_COMMITTER_NAME": "Dev",
            "GIT_COMMITTER_EMAIL": "dev@localhost",
            "GIT_AUTHOR_DATE": "2024-03-18T09:00:00Z",
            "GIT_COMMITTER_DATE": "2024-03-18T09:00:00Z",
        }

    def use(self, name: str, arguments: Mapping[str, Any]) -> Outcome:
        """Run the tool ``name``; a tool that the agent misuses answers with an error, as a real one does."""
        outcome = getattr(self, f"_tool_{name}")(**arguments)
        assert isinstance(outcome, Outcome)
        return Outcome(outcome.text.replace(str(self.root), PROJECT_HOME), outcome.is_error)

    def _tool_bash(self, command: str, description: str = "") -> Outcome:
        done = subprocess.run(
            ["bash", "--noprofile", "--norc", "-c", command],
            cwd=self.root,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=False,
        )
        text = done.stdout.decode().removesuffix("\n")
        if done.returncode:
            text = f"{text}\n[exit code: {done.returncode}]".lstrip("\n")
        return Outcome(text, done.returncode != 0)

    def _tool_grep(self, pattern: str, path: str = ".", glob: str = "*") -> Outcome:
        quoted = (shlex.quote(pattern), shlex.quote(path), shlex.quote(glob))
        found = self._tool_bash("grep -rnHE -e {} {} --include={} | sort -t: -k1,1 -k2,2n".format(*quoted))
        return Outcome(found.text or "no matches")

    def _tool_read_file(self, path: str, offset: int = 1, limit: int = 2000) -> Outcome:
        place = self.root / path
        if not place.is_file():
            return Outcome(f"read_file: no such file: {PROJECT_HOME}/{path}", True)
        lines = place.read_text(encoding="utf-8").splitlines()[offset - 1 : offset - 1 + limit]
        return Outcome("\n".join(f"{number:>6}\t{line}" for number, line in enumerate(lines, offset)))

    def _tool_write_file(self, path: str, content: str) -> Outcome:
        self._write(path, content)
        return Outcome(f"wrote {content.count(chr(10))} lines to {path}")

    def _tool_edit_file(self, path: str, old: str, new: str) -> Outcome:
        place = self.root / path
        text = place.read_text(encoding="utf-8") if place.is_file() else ""
        times = text.count(old)
        if times != 1:
            return Outcome(f"edit_file: the old text occurs {times} times in {path}, expected exactly once", True)
        self._write(path, text.replace(old, new))
        line = text[: text.index(old)].count("\n") + 1
        return Outcome(f"edited {path} at line {line}: {old.count(chr(10)) + 1} -> {new.count(chr(10)) + 1} lines")

    def _write(self, path: str, text: str) -> None:
        place = self.root / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text, encoding="utf-8", newline="\n")
