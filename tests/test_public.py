"""The public face: what a library user imports."""

from __future__ import annotations

import importlib

import compactctl


def test_replay_is_callable_whatever_was_imported_before() -> None:
    """``compactctl.replay`` is the function, although a module of the package has the same name."""
    importlib.import_module("compactctl.replay")

    assert list(compactctl.replay([], compactctl.ProgressiveCompactor(None, 1000))) == []
