"""What a disk may hold after a power cut: a model of what was synced and what was not.

Data that was not synced may be lost, half there or zeros; names that were not synced in their directory may be lost.
Each file operation of the store is followed in the model; after each one the states that a cut at this moment could
leave are built as real directories. The order of operations is kept, and disks do not lie: that much is assumed.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from compactctl.store.fs import Fs

T = TypeVar("T")


@dataclass(eq=False)
class Node:
    """A file or directory: as it is, and as it was when last synced."""

    path: str
    entries: dict[str, Node] | None = None
    synced_entries: dict[str, Node] = field(default_factory=dict)
    data: bytes = b""
    synced_data: bytes = b""

    @property
    def names(self) -> dict[str, Node]:
        """The entries of a directory."""
        assert self.entries is not None, self.path
        return self.entries


class Disk(Fs):
    """Does every operation for real and follows it in the model; ``after`` is called when something changed."""

    def __init__(self, root: Path, after: Callable[[Disk], None]) -> None:
        self.root = root
        self.top = _load(root, "")
        self.after = after
        self.changes = 0
        self._nodes: dict[int, Node] = {}

    def _once(self, call: Callable[..., T], *args: Any, **kwargs: Any) -> T:
        result = call(*args, **kwargs)
        follow = getattr(self, "_" + call.__name__, None)
        if follow is not None and follow(result, *args, **kwargs):
            self.changes += 1
            self.after(self)
        return result

    def _find(self, name: str, dir_fd: int | None) -> tuple[Node, str]:
        """Give the directory that holds a name, and the name in it."""
        if dir_fd is not None:
            return self._nodes[dir_fd], name
        parts = Path(name).relative_to(self.root).parts
        node = self.top
        for part in parts[:-1]:
            node = node.names[part]
        return node, parts[-1] if parts else ""

    def _open(self, fd: int, name: str, flags: int, mode: int, dir_fd: int | None = None) -> bool:
        home, last = self._find(name, dir_fd)
        new = bool(last) and last not in home.names
        if new:
            home.names[last] = Node(f"{home.path}/{last}")
        self._nodes[fd] = home.names[last] if last else home
        return new

    def _mkdir(self, _: None, name: str, mode: int, dir_fd: int | None = None) -> bool:
        home, last = self._find(name, dir_fd)
        home.names[last] = Node(f"{home.path}/{last}", entries={})
        return True

    def _write(self, count: int, fd: int, data: bytes) -> bool:
        self._nodes[fd].data += bytes(data[:count])
        return True

    def _ftruncate(self, _: None, fd: int, size: int) -> bool:
        self._nodes[fd].data = self._nodes[fd].data[:size]
        return True

    def _fsync(self, _: None, fd: int) -> bool:
        node = self._nodes[fd]
        if node.entries is None:
            node.synced_data = node.data
        else:
            node.synced_entries = dict(node.entries)
        return True

    def _link(self, _: None, source: str, target: str, src_dir_fd: int, **more: Any) -> bool:
        names = self._nodes[src_dir_fd].names
        names[target] = names[source]
        return True

    def _rename(self, _: None, source: str, target: str, src_dir_fd: int, **more: Any) -> bool:
        names = self._nodes[src_dir_fd].names
        names[target] = names.pop(source)
        return True

    def _unlink(self, _: None, name: str, dir_fd: int) -> bool:
        del self._nodes[dir_fd].names[name]
        return True

    _rmdir = _unlink

    def directories(self) -> list[Node]:
        """Give the directories whose entries are not what was synced."""
        return [node for node in _all(self.top) if node.entries is not None and node.entries != node.synced_entries]

    def states(self) -> Iterator[dict[str, bytes | None]]:
        """Give what a power cut at this moment could leave: paths with contents, None for a directory."""
        loose = self.directories()
        kept: list[frozenset[int]] = [frozenset(), frozenset(map(id, loose))]
        for node in loose if len(loose) > 1 else ():
            kept += [frozenset({id(node)}), kept[1] - {id(node)}]
        for current in kept:
            for survive in (_lost, _half, _zeros, _all_there):
                yield dict(_image(self.top, current, survive))


def _load(path: Path, under: str) -> Node:
    node = Node(under, entries={})
    for entry in os.scandir(path):
        if entry.is_dir():
            child = _load(Path(entry.path), f"{under}/{entry.name}")
        else:
            data = Path(entry.path).read_bytes()
            child = Node(f"{under}/{entry.name}", data=data, synced_data=data)
        node.names[entry.name] = child
    node.synced_entries = dict(node.names)
    return node


def _all(node: Node) -> Iterator[Node]:
    yield node
    for child in {**node.synced_entries, **(node.entries or {})}.values():
        yield from _all(child)


def _image(node: Node, current: frozenset[int], survive: Callable[[Node], bytes]) -> Iterator[tuple[str, bytes | None]]:
    if node.entries is None:
        yield node.path, survive(node)
        return
    yield node.path, None
    for name, child in (node.entries if id(node) in current else node.synced_entries).items():
        for path, data in _image(child, current, survive):
            yield f"{node.path}/{name}{path.removeprefix(child.path)}", data


def _lost(node: Node) -> bytes:
    return node.synced_data


def _half(node: Node) -> bytes:
    if not node.data.startswith(node.synced_data):  # it was cut, which a crash may or may not have done
        return node.synced_data
    return node.data[: (len(node.synced_data) + len(node.data)) // 2]


def _zeros(node: Node) -> bytes:
    return node.synced_data + bytes(max(0, len(node.data) - len(node.synced_data)))


def _all_there(node: Node) -> bytes:
    return node.data


def build(image: dict[str, bytes | None], root: Path) -> None:
    """Make the directories and files of a state for real."""
    root.mkdir(mode=0o700)
    for path, data in image.items():
        if data is None:
            (root / path.lstrip("/")).mkdir(mode=0o700, exist_ok=True)
        else:
            fd = os.open(root / path.lstrip("/"), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            os.write(fd, data)
            os.close(fd)
