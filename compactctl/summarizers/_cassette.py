"""A cassette around a model: replies kept under the hash of what shaped them, so that a costly run costs once."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Mapping
from enum import StrEnum
from io import FileIO
from pathlib import Path
from typing import Any

import orjson

from compactctl.errors import StoreError
from compactctl.model import Usage
from compactctl.ports import BlobStore
from compactctl.summarizers._chat import Chat, Completion, Prompt, read_usage, request_key, well_formed
from compactctl.summarizers._failure import Failure, failure
from compactctl.summarizers._prompts import PROMPT_VERSION
from compactctl.summarizers._spending import Spending

_LARGEST_FILE = 256 << 20
_HEAD = b'{"key":'  # how every line begins
_STEP = 65_536  # bytes read at a time from the end of a file, in search of its last line


class CassetteMode(StrEnum):
    """What a cassette does with a request."""

    RECORD = "record"  # answer from the cassette where it can, else ask and keep
    REPLAY = "replay"  # answer from the cassette only; never open a connection
    REFRESH = "refresh"  # ask and keep, once for each request in a run


class CassetteChat:
    """A model whose replies are kept; see CassetteMode.

    The endpoint is not in the key, so that what was recorded on one machine replays on any other. A reply says which
    host gave it: the plan tells where that is another one than would be asked.
    """

    def __init__(self, inner: Chat, blobs: BlobStore, mode: CassetteMode) -> None:
        self._inner = inner
        self._blobs = blobs
        self._mode = mode
        self._fresh: set[str] = set()

    @property
    def identity(self) -> Mapping[str, Any]:
        """The settings of the model inside."""
        return self._inner.identity

    @property
    def host(self) -> str:
        """Where the model inside is; nowhere in replay mode."""
        return "cassette" if self._mode is CassetteMode.REPLAY else self._inner.host

    def complete(self, prompt: Prompt, spending: Spending) -> Completion:
        """Give the kept reply or ask for one. Raises SummarizerError as the model does, or ``missing_reply``."""
        key = request_key(self._inner.identity, prompt)
        kept = self._blobs.get(key)  # in every mode: what is no cassette is refused before a reply is paid for
        if kept is not None and (self._mode is not CassetteMode.REFRESH or key in self._fresh):
            return _decode(kept, key)
        if self._mode is CassetteMode.REPLAY:
            about = f"{self._inner.identity.get('provider')} {self._inner.identity.get('model')}".strip()
            raise failure(
                Failure.MISSING_REPLY,
                f"the cassette holds no reply to request {key[:12]} ({about}, {prompt.purpose} of {prompt.messages} "
                f"messages, prompt version {PROMPT_VERSION}); record it with --cassette record",
            )
        completion = self._inner.complete(prompt, spending)
        self._blobs.put(key, _encode(completion, self._inner, prompt))
        self._fresh.add(key)
        return completion

    def recorded_at(self, prompt: Prompt) -> str | None:
        """Give the host whose kept reply will answer a prompt, empty where it is not said; None where a call will."""
        if self._mode is CassetteMode.REFRESH:
            return None
        kept = self._blobs.get(request_key(self._inner.identity, prompt))
        return None if kept is None else _host(kept)

    def look(self) -> None:
        """Raise StoreError where what should be the cassette is none."""
        self._blobs.get("0" * 64)

    def prepare(self) -> None:
        """Make the model inside ready, where it may be asked."""
        if self._mode is not CassetteMode.REPLAY:
            self._inner.prepare()

    def stop(self) -> None:
        """Stop the model inside."""
        self._inner.stop()


class CassetteFile:
    """A cassette in one file that can be committed: a JSON object a line, in the order in which the replies came.

    Each reply is one line at the end, durable when ``put`` returns, so that neither a crash nor another writer takes a
    paid one away. Of two lines with one key the last one counts (a refreshed reply). A last line that a crash left
    unfinished is ignored, and taken off by the next ``put``; a damaged line elsewhere is an error. A new file is
    readable by its owner alone; what another process adds is seen by those who open the file afterwards.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._replies: dict[str, bytes] | None = None

    def get(self, key: str) -> bytes | None:
        """Give the reply under a key; raises StoreError where the file is damaged."""
        return self._load().get(key)

    def put(self, key: str, value: bytes) -> None:
        """Keep a reply; raises StoreError where it cannot be written."""
        replies = self._load()  # nothing is added to a file that is no cassette
        line = orjson.dumps({"key": key, "reply": orjson.Fragment(value)}) + b"\n"
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with open(self._path, "a+b", buffering=0, opener=_private) as file:
                # Dies with the process, and with the file closed.
                fcntl.flock(file, fcntl.LOCK_EX)
                _append(file, line)
        except OSError as error:
            raise StoreError(f"{self._path}: the cassette cannot be written: {error.strerror}") from None
        replies[key] = value

    def _load(self) -> dict[str, bytes]:
        if self._replies is None:
            self._replies = self._read()
        return self._replies

    def _read(self) -> dict[str, bytes]:
        try:
            if not self._path.exists():
                return {}
            if not self._path.is_file() or self._path.stat().st_size > _LARGEST_FILE:
                raise StoreError(f"{self._path}: not a cassette; it must be a regular file")
            rows = self._path.read_bytes().split(b"\n")
        except OSError as error:
            raise StoreError(f"{self._path}: the cassette cannot be read: {error.strerror}") from None
        found: dict[str, bytes] = {}
        for number, row in enumerate(rows, 1):
            if not row.strip():
                continue
            kept = _kept(row)
            if kept is not None:
                found[kept[0]] = kept[1]
            elif number < len(rows) or not _is_torn(row):
                raise StoreError(f"{self._path}:{number}: not a kept reply; restore the cassette or refresh it")
        return found


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _append(file: FileIO, line: bytes) -> None:
    """Put a line behind the last whole one, durably, or leave the file as it was; raises OSError."""
    end = _end_of_lines(file)
    try:
        if end > 0 and os.pread(file.fileno(), 1, end - 1) != b"\n":
            line = b"\n" + line
        file.truncate(end)
        left = memoryview(line)
        while left:
            left = left[file.write(left) :]
        os.fsync(file.fileno())
    except OSError:
        with contextlib.suppress(OSError):  # the next one to write takes a torn line off as well
            file.truncate(end)
        raise


def _end_of_lines(file: FileIO) -> int:
    """Give where the last whole line ends: a last one without its newline is whole where it is a reply."""
    size = os.fstat(file.fileno()).st_size
    at, last = size, b""
    while at > 0 and b"\n" not in last:
        before = max(at - _STEP, 0)
        last = os.pread(file.fileno(), at - before, before) + last
        at = before
    rest = last[last.rfind(b"\n") + 1 :]
    return size - len(rest) if _is_torn(rest) else size


def _is_torn(rest: bytes) -> bool:
    """Whether what stands behind the last newline is the beginning of a line of ours, and not the whole of one."""
    ours = rest.startswith(_HEAD) or _HEAD.startswith(rest)
    return ours and _kept(rest) is None


def _kept(row: bytes) -> tuple[str, bytes] | None:
    """Read a line of a cassette file: the key and the reply; None for anything else."""
    try:
        entry = orjson.loads(row)
        return str(entry["key"]), orjson.dumps(entry["reply"])
    except (orjson.JSONDecodeError, KeyError, TypeError):
        return None


def _encode(completion: Completion, chat: Chat, prompt: Prompt) -> bytes:
    usage, identity = completion.usage, chat.identity
    # What was paid for is kept whatever is in the names that it is kept with.
    entry = well_formed(
        {
            "provider": identity.get("provider"),
            "model": identity.get("model"),
            "host": chat.host,
            "prompt_version": PROMPT_VERSION,
            "purpose": prompt.purpose,
            "nonce": completion.nonce,
            "text": completion.text,
            "usage": None
            if usage is None
            else {
                "prompt": usage.prompt,
                "output": usage.output,
                "cache_read": usage.cache_read,
                "cache_write": usage.cache_write,
            },
            "notes": completion.notes,
        }
    )
    return orjson.dumps(entry, option=orjson.OPT_SORT_KEYS)


def _host(kept: bytes) -> str:
    try:
        return str(orjson.loads(kept).get("host") or "")
    except (orjson.JSONDecodeError, AttributeError):  # damaged, which is told where it is read
        return ""


def _decode(kept: bytes, key: str) -> Completion:
    try:
        entry = orjson.loads(kept)
        usage: Usage | None = None
        if entry.get("usage") is not None:
            stated = entry["usage"]
            usage, _ = read_usage(*(stated.get(name) for name in ("prompt", "output", "cache_read", "cache_write")))
        text, nonce = entry["text"], entry["nonce"]
        if not isinstance(text, str) or not isinstance(nonce, str):
            raise TypeError
        return Completion(text, nonce, usage, tuple(map(str, entry.get("notes") or ())))
    except (orjson.JSONDecodeError, KeyError, TypeError, AttributeError):
        raise failure(Failure.MALFORMED, f"the kept reply to request {key[:12]} is damaged; refresh it") from None
