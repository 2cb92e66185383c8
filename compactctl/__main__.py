"""The entry point: ``compactctl`` and ``python -m compactctl``."""

from __future__ import annotations

import gc
import os
import sys
from contextlib import suppress

from compactctl.cli._process import close_stdout, leave_on_signals, secure_streams


def main() -> None:
    """Run the command line; ``--version`` is answered before anything heavy is imported."""
    # A session is hundreds of thousands of objects without a cycle among them; a collector would look through them
    # again and again. What cycles there are (few, all small) a batch of sessions collects for itself between them.
    gc.disable()
    leave_on_signals()
    secure_streams()
    if sys.argv[1:] in (["--version"], ["-V"]):
        from compactctl import __version__

        status = close_stdout(0, f"compactctl {__version__}\n")
        if not status:
            return
    else:
        from compactctl.cli.app import run

        status = run(sys.argv[1:])
    # Everything is written and closed by now. Taking a large session apart object by object, or looking through a
    # client library for garbage, would only take time, of which Ctrl-C has a second.
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    os._exit(status)


if __name__ == "__main__":
    main()
