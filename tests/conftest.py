"""What all tests share: golden files, which are written only when one asks for it."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import settings

# How long an example takes says more of the machine than of the code.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")

Golden = Callable[[str, bytes], None]


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the switch of the recipe ``golden``."""
    parser.addoption("--golden", action="store_true", help="rewrite golden files instead of comparing with them")


def pytest_configure(config: pytest.Config) -> None:
    """Let children meet Ctrl-C as at a terminal: a shell starts what runs in its background with the signal ignored."""
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Golden:
    """Compare bytes with ``golden/NAME`` beside the test; ``pytest --golden`` rewrites the file."""
    home: Path = request.path.parent / "golden"
    rewrite: bool = request.config.getoption("--golden")

    def compare(name: str, content: bytes) -> None:
        path = home / name
        if rewrite:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
            return
        expected = path.read_bytes() if path.exists() else None
        if content == expected:
            return
        got = path.with_name(f"{path.name}.got")
        got.write_bytes(content)
        what = "is missing" if expected is None else "differs"
        pytest.fail(f"{path} {what}; the output is in {got}. `pytest --golden` accepts it; look at the diff first")

    return compare
