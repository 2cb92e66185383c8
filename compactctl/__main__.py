"""The entry point: ``compactctl`` and ``python -m compactctl``."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line; ``--version`` is answered before anything heavy is imported."""
    if sys.argv[1:] in (["--version"], ["-V"]):
        from compactctl import __version__

        print(f"compactctl {__version__}")
        return
    from compactctl.cli.app import run

    sys.exit(run(sys.argv[1:]))


if __name__ == "__main__":
    main()
