"""Where things lie in a state directory, and which sessions it holds.

    .gitignore                          *
    tool_results/<session>/<id>.txt     offloaded results
    compaction_records/<session>.jsonl  records (or in a directory of their own)
    turns/<session>.jsonl               start, turns and end of each run
    turns/<session>.jsonl.length        how long that file was when a run had last ended
    memories/<session>.jsonl            what was extracted
    cassettes/<hash>                    replies of summarizers
    locks/<session>                     held by whoever writes
    .trash/<session>.json               a deletion that has begun and is finished before anything else

A session's own name stands for ``<session>`` where it is harmless (context/naming.py). Directories that harness9 made
hold the first two kinds only, under whatever name harness9 gave; those names are found by listing, never built.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from compactctl.context.naming import RESULTS, safe_name
from compactctl.errors import StoreError
from compactctl.store.fs import TMP, Dir, Fs

RECORDS = "compaction_records"
TURNS = "turns"
MEMORIES = "memories"
CASSETTES = "cassettes"
LOCKS = "locks"
TRASH = ".trash"
IGNORE = ".gitignore"
JSONL = ".jsonl"
LENGTH = ".length"
LOGS = (RECORDS, TURNS, MEMORIES)


class Layout:
    """The directories of one store; opens each when it is asked for."""

    def __init__(self, fs: Fs, state_dir: Path, records_dir: Path | None) -> None:
        self.fs = fs
        self.state_dir = state_dir
        self.records_dir = records_dir
        self._held: dict[str, Dir | None] | None = None

    @contextmanager
    def held(self) -> Iterator[None]:
        """Keep each room that is looked into open until the end of the block, for reading hundreds of sessions."""
        held: dict[str, Dir | None] = {}
        self._held = held
        try:
            yield
        finally:
            self._held = None
            for room in held.values():
                if room is not None:
                    room.close()

    def room_path(self, room: str) -> str:
        """The path of a room of the store, for messages."""
        if room == RECORDS and self.records_dir is not None:
            return str(self.records_dir)
        return f"{self.state_dir}/{room}"

    @contextmanager
    def room(self, room: str) -> Iterator[Dir | None]:
        """Open a room for looking, None where it does not exist."""
        if self._held is not None:
            if room not in self._held:
                self._held[room] = self._opened(room)
            yield self._held[room]
            return
        found = self._opened(room)
        try:
            yield found
        finally:
            if found is not None:
                found.close()

    def _opened(self, room: str) -> Dir | None:
        if room == RECORDS and self.records_dir is not None:
            return Dir.root(self.fs, self.records_dir)
        root = Dir.root(self.fs, self.state_dir)
        if root is None:
            return None
        with root:
            return root.child(room)

    def make_room(self, room: str) -> Dir:
        """Open a room for writing, making the state directory and the room where they are missing."""
        if room == RECORDS and self.records_dir is not None:
            made = Dir.root(self.fs, self.records_dir, create=True)
            if made is None:
                raise StoreError(f"{self.records_dir} could not be made")
            return made
        with self.make_root() as root:
            return root.made(room)

    def make_root(self) -> Dir:
        """Open the state directory, making it where it is missing.

        One that is empty gets a ``.gitignore`` of ``*``; one that another program filled is left as it is.
        """
        root = Dir.root(self.fs, self.state_dir, create=True)
        if root is None:
            raise StoreError(f"{self.state_dir} could not be made")
        try:
            names = root.names()
            if TMP + IGNORE in names or not names:
                with root.alone():
                    root.publish(IGNORE, [b"*\n"])
        except BaseException:
            root.close()
            raise
        return root

    def names(self) -> set[str]:
        """Give the names under which the store holds anything of a session, deletions under way included."""
        found: set[str] = set()
        with self.room(RESULTS) as results:
            if results is not None:
                found.update(name for name in results.names() if not name.startswith("."))
        for room in LOGS:
            with self.room(room) as logs:
                if logs is not None:
                    ends = (JSONL, JSONL + LENGTH) if room == TURNS else (JSONL,)
                    found.update(
                        name.removesuffix(LENGTH).removesuffix(JSONL)
                        for name in logs.names()
                        if name.endswith(ends) and not name.startswith(".")
                    )
        return found

    def resolve(self, session: str) -> list[str]:
        """Give the stored names that a session's id (or a stored name itself) stands for; empty for an unknown one.

        Only names that a listing of the store gave are ever returned, so no id can lead out of it.
        """
        names = self.names()
        return [name for name in dict.fromkeys((safe_name(session), session)) if name in names]
