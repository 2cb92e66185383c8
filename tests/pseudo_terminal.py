"""What a command writes to a terminal."""

from __future__ import annotations

import os
import pty
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).parents[1]


def written_to_terminal(command: Sequence[str], environment: Mapping[str, str]) -> str:
    """Run a command, which must succeed, with a terminal as its output, and give what it wrote there."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(command, stdout=theirs, stderr=subprocess.DEVNULL, cwd=ROOT, env=dict(environment))
    os.close(theirs)
    written = b""
    while True:
        try:
            got = os.read(ours, 65536)
        except OSError:  # Linux says so when the other end is closed
            break
        if not got:
            break
        written += got
    os.close(ours)
    assert process.wait() == 0
    return written.decode()
