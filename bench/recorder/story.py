"""What a story is, and how it is played into the bytes of one sample."""

from __future__ import annotations

import importlib
import pkgutil
import shutil
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from . import stories
from .agent import Agent, Billing
from .conversation import Conversation


@dataclass(frozen=True, slots=True)
class Story:
    """One sample: its file, what happens in it, and the script that makes it happen.

    ``start`` is the time of the first message in milliseconds since the epoch. ``setup`` are
    commands that are run on the tree before the session begins. ``damage`` changes the written bytes of a sample that
    shows a broken file.
    """

    file: str
    format: str
    happens: str
    files: Callable[[], Mapping[str, str]]
    play: Callable[[Agent], None]
    write: Callable[[Conversation], bytes]
    model: str
    window: int
    start: int
    system: str = ""
    call_ids: tuple[str, int] = ("call_", 16)
    billing: Billing | None = None
    setup: tuple[str, ...] = ()
    damage: Callable[[bytes], bytes] | None = None

    def record(self) -> tuple[Conversation, bytes]:
        """Play the story on a fresh tree in a temporary folder."""
        from .workbench import Workbench

        place = Path(tempfile.mkdtemp(prefix="recorder-"))
        try:
            bench = Workbench(place, self.files())
            for command in self.setup:
                bench.use("bash", {"command": command})
            agent = Agent(self.file, bench, self.start, self.billing)
            agent.id_prefix, agent.id_length = self.call_ids
            self.play(agent)
        finally:
            shutil.rmtree(place)
        conversation = agent.conversation(self.model, self.window, self.system)
        written = self.write(conversation)
        return conversation, self.damage(written) if self.damage else written


def all_stories() -> tuple[Story, ...]:
    """Every story of the package, in the order of their files."""
    found: list[Story] = []
    for module in pkgutil.iter_modules(stories.__path__):
        if not module.name.startswith("_"):
            found.append(importlib.import_module(f"{stories.__name__}.{module.name}").STORY)
    return tuple(sorted(found, key=lambda story: story.file))
