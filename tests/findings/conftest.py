"""The scene that these tests play in."""

import pytest

from tests.findings.scenes import Scene


@pytest.fixture
def scene() -> Scene:
    """A fresh scene: ids begin at 0."""
    return Scene()
