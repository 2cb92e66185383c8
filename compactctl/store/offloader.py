"""The offloader that keeps results as files of the state directory."""

from __future__ import annotations

from collections.abc import Callable, Iterator, MutableMapping

from compactctl.context.naming import SUFFIX, ResultNames
from compactctl.context.offload import DEFAULT_PREVIEW_LINES, DEFAULT_THRESHOLD, OffloaderBase
from compactctl.errors import OffloadError, StoreError
from compactctl.model import OffloadEntry
from compactctl.store.fs import Dir


class StoredTexts(MutableMapping[str, str]):
    """The texts of a session's result files by case-folded name; those of earlier runs are read when asked for."""

    def __init__(self, home: Dir) -> None:
        self._home = home
        self._names = {name.casefold(): name for name in home.names() if name.endswith(SUFFIX)}
        self._texts: dict[str, str] = {}

    def __getitem__(self, key: str) -> str:
        if key in self._texts:
            return self._texts[key]
        data = self._home.read(self._names[key])
        if data is None:
            raise KeyError(key)
        # A file that is no UTF-8 is nobody's result: the replacement makes it differ from any text that would be.
        return data.decode("utf-8", "surrogatepass" if _decodable(data) else "replace")

    def __setitem__(self, key: str, text: str) -> None:
        self._texts[key] = text

    def __delitem__(self, key: str) -> None:
        del self._texts[key]

    def __iter__(self) -> Iterator[str]:
        return iter({**self._names, **self._texts})

    def __len__(self) -> int:
        return len({**self._names, **self._texts})


def _decodable(data: bytes) -> bool:
    try:
        data.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return False
    return True


class FileOffloader(OffloaderBase):
    """Writes each result once, whole, and never over another; ``on_failure`` hears of each that could not be."""

    def __init__(
        self,
        session_id: str,
        home: Dir,
        on_failure: Callable[[StoreError], None],
        threshold: int = DEFAULT_THRESHOLD,
        preview_lines: int = DEFAULT_PREVIEW_LINES,
        preview_bytes: int | None = None,
    ) -> None:
        super().__init__(session_id, threshold, preview_lines, preview_bytes)
        self.names = ResultNames(session_id, StoredTexts(home))
        self.written = 0
        self._home = home
        self._on_failure = on_failure
        self._unsynced = False
        self._failed: set[str] = set()

    def put(self, entry: OffloadEntry, text: str) -> None:
        """Write one result durably; its name is durable after ``sync``. Raises OffloadError."""
        name = entry.file_path.rpartition("/")[2]
        data = text.encode("utf-8", "surrogatepass")
        try:
            self._unsynced = True
            if not self._home.publish(name, [data]) and self._home.read(name, len(data) + 1) != data:
                raise StoreError(f"{self._home.label(name)!r} is there with another content: move it away")
        except StoreError as exc:
            if entry.file_path not in self._failed:  # a compactor may ask again at every turn
                self._failed.add(entry.file_path)
                self._on_failure(exc)
            raise OffloadError(str(exc)) from exc
        self.written += 1

    def sync(self) -> None:
        """Make the names of all results written so far durable; raises StoreError."""
        if self._unsynced:
            self._home.sync()
            self._unsynced = False
