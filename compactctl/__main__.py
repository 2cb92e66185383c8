"""The entry point: ``compactctl`` and ``python -m compactctl``."""

from __future__ import annotations

import gc
import sys


def main() -> None:
    """Run the command line; ``--version`` is answered before anything heavy is imported."""
    if sys.argv[1:] in (["--version"], ["-V"]):
        from compactctl import __version__

        print(f"compactctl {__version__}")
        return
    from compactctl.cli.app import run

    status = run(sys.argv[1:])
    # What was loaded goes with the process; looking through a client library for garbage first takes most of a second,
    # which is all that Ctrl-C may take.
    gc.freeze()
    sys.exit(status)


if __name__ == "__main__":
    main()
