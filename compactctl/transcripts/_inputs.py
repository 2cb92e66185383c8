"""Turns what a command was given into inputs: files, directories, globs, lists of paths, standard input."""

from __future__ import annotations

import glob
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from compactctl.context.words import quantity
from compactctl.errors import (
    CompactctlError,
    EmptyTranscriptError,
    MissingPathError,
    NothingMatchedError,
    UnknownFormatError,
    UnreadableError,
    UsageError,
)
from compactctl.model import Session
from compactctl.transcripts._load import load
from compactctl.transcripts._source import Limits, open_regular
from compactctl.transcripts._spec import SideThreadError
from compactctl.transcripts._stores import Stores

# So many files are named of those that gave no session for one reason.
MOST_EXAMPLES = 3
_FILE, _DIRECTORY = "file", "directory"
_LIST_SIZE = 64 << 20  # bytes of a list of paths


@dataclass(frozen=True, slots=True)
class Candidate:
    """A file that may hold sessions; ``root`` is the directory under which it was found, empty where it was named."""

    path: str
    root: str = ""


@dataclass(frozen=True, slots=True)
class Found:
    """What the arguments of a command stand for.

    ``ignored`` counts, by reason, what lies under a directory and is not looked into. ``problems`` are the arguments
    that stand for nothing: all inputs are tried first, the errors are the command's to report at its end.
    """

    candidates: tuple[Candidate, ...]
    ignored: dict[str, int] = field(default_factory=dict)
    problems: tuple[CompactctlError, ...] = ()


@dataclass(slots=True)
class Account:
    """What became of the inputs of a command while they were loaded.

    ``loaded`` counts inputs that gave sessions; ``ignored`` counts files under a directory by the reason why they gave
    none, and ``examples`` names the first of each; ``problems`` are the errors of all others, in input order.
    """

    loaded: int = 0
    ignored: dict[str, int] = field(default_factory=dict)
    problems: list[CompactctlError] = field(default_factory=list)
    examples: dict[str, list[str]] = field(default_factory=dict)

    def ignore(self, reason: str, path: str) -> None:
        """Count a file under a directory that gives no session."""
        self.merge(Account(ignored={reason: 1}, examples={reason: [path]}))

    def merge(self, other: Account) -> None:
        """Add what another account says."""
        self.loaded += other.loaded
        self.problems.extend(other.problems)
        for reason, count in other.ignored.items():
            self.ignored[reason] = self.ignored.get(reason, 0) + count
        for reason, paths in other.examples.items():
            self.examples[reason] = [*self.examples.get(reason, ()), *paths][:MOST_EXAMPLES]


def find_inputs(arguments: Iterable[str], *, state_dir: str | None = None, records_dir: str | None = None) -> Found:
    """List the inputs that arguments stand for, in their order and each once; reads nothing but lists of paths.

    An argument is ``-``, ``@list.txt`` (a path a line; blank lines and those that begin with # are left out), a file, a
    directory (walked in the order of names; hidden directories and links to directories are not entered) or a pattern
    with ``*``, ``?``, ``[`` or ``**``. A path that exists is never taken as a pattern.
    What lies in the command's ``state_dir`` or ``records_dir``, or in any other state directory, is no input.
    """
    finder = _Finder(Stores(state_dir, records_dir))
    for argument in arguments:
        finder.add(argument)
    return Found(tuple(finder.candidates), dict(sorted(finder.ignored.items())), tuple(finder.problems))


def load_inputs(
    found: Found, account: Account, *, side_threads: bool = False, limits: Limits | None = None
) -> Iterator[Session]:
    """Give the sessions of all inputs one after another; what gives none goes to the account.

    A file that was named and gives no session is a problem. One that lies under a directory is only counted, unless it
    looks like a transcript and cannot be read; a directory without any session is a problem (NothingMatchedError).
    """
    account.problems.extend(found.problems)
    for reason, count in found.ignored.items():
        account.ignored[reason] = account.ignored.get(reason, 0) + count
    gave: list[bool] = []
    for candidate in found.candidates:
        before = account.loaded
        yield from load_candidate(candidate, account, side_threads=side_threads, limits=limits)
        gave.append(account.loaded > before)
    account.problems.extend(empty_roots(found, gave))


def load_candidate(
    candidate: Candidate, account: Account, *, side_threads: bool = False, limits: Limits | None = None
) -> Iterator[Session]:
    """Give the sessions of one input; whether it gave any, or why not, goes to the account."""
    given = False
    try:
        for session in load(candidate.path, side_threads=side_threads, limits=limits):
            given = True
            yield session
    except SideThreadError as error:
        _unused(account, candidate, error, "side threads only")
    except EmptyTranscriptError as error:
        _unused(account, candidate, error, "no message")
    except UnknownFormatError as error:
        _unused(account, candidate, error, f"no transcript ({error.what})" if error.what else "no transcript")
    except CompactctlError as error:
        account.problems.append(error)
    account.loaded += given


def empty_roots(found: Found, gave: Sequence[bool]) -> list[CompactctlError]:
    """Give an error for each directory under which no candidate gave a session; ``gave`` is in their order."""
    roots: dict[str, list[bool]] = {}
    for candidate, any_session in zip(found.candidates, gave, strict=True):
        if candidate.root:
            roots.setdefault(candidate.root, []).append(any_session)
    return [
        NothingMatchedError(
            f"{root}: {quantity(len(looked_at), 'file')} looked at, and none holds a session "
            "in a format that is known (see `list formats`; threads of subagents need --subagents); name another one"
        )
        for root, looked_at in roots.items()
        if not any(looked_at)
    ]


def distinct_ids(sessions: Iterable[Session]) -> list[Session]:
    """Tell sessions apart that have one id: each gets 8 hex digits of its input's hash, and a warning.

    Where that is not enough (one input named twice, many sessions of one id in a file) a number follows. Sessions
    whose id is their own come back as they are.
    """
    given = list(sessions)
    count = Counter(session.id for session in given)
    taken = {ident for ident, times in count.items() if times == 1}
    told = []
    for session in given:
        if count[session.id] == 1:
            told.append(session)
            continue
        wanted = f"{session.id}-{session.input_sha256[:8]}" if session.input_sha256 else session.id
        ident, number = wanted, 1
        while ident in taken or (ident == session.id):
            number += 1
            ident = f"{wanted}-{number}"
        taken.add(ident)
        warning = f"{count[session.id]} sessions have the id {session.id}; this one is called {ident}"
        told.append(replace(session, id=ident, warnings=(*session.warnings, warning)))
    return told


def _unused(account: Account, candidate: Candidate, error: CompactctlError, reason: str) -> None:
    if candidate.root:
        account.ignore(reason, candidate.path)
    else:
        account.problems.append(error)


class _Finder:
    def __init__(self, stores: Stores) -> None:
        self.stores = stores
        self.candidates: list[Candidate] = []
        self.ignored: dict[str, int] = {}
        self.problems: list[CompactctlError] = []
        self._seen: set[str] = set()

    def add(self, argument: str, *, listed: str = "") -> None:
        if argument == "-" and not listed:
            self._take(Candidate("-"))
        elif argument.startswith("@") and not listed:
            self._list(argument[1:])
        elif _exists(argument):
            self._path(argument)
        elif glob.has_magic(argument):
            self._pattern(argument)
        else:
            where = f"{listed}: " if listed else ""
            self.problems.append(MissingPathError(f"{where}{argument}: no such file or directory; check the path"))

    def _take(self, candidate: Candidate) -> None:
        key = candidate.path if candidate.path == "-" else os.path.realpath(candidate.path)
        if key in self._seen:
            self.ignored["named twice"] = self.ignored.get("named twice", 0) + 1
            return
        self._seen.add(key)
        self.candidates.append(candidate)

    def _path(self, path: str) -> None:
        if self.stores.holds(path):
            told = f"{path}: this is a state directory or lies in one; name the transcripts, or another --state-dir"
            self.problems.append(UsageError(told))
            return
        if not os.path.isdir(path):  # noqa: PTH112 -- Path's raises where a directory above may not be entered
            self._take(Candidate(path))
            return
        before = len(self.candidates)
        self._directory(path, path)
        if len(self.candidates) == before:
            self.problems.append(NothingMatchedError(f"{path}: no file under this directory; name another one"))

    def _pattern(self, pattern: str) -> None:
        matches = sorted(glob.glob(os.path.expanduser(pattern), recursive=True))  # noqa: PTH207, PTH111 -- absolute patterns, any ~name
        if not matches:
            self.problems.append(NothingMatchedError(f"{pattern}: the pattern matches nothing; check it"))
        for match in matches:
            if self.stores.holds(match):
                self._ignore("state directory")
            else:
                self._path(match)

    def _list(self, path: str) -> None:
        try:
            with open_regular(path) as file:
                content = file.read(_LIST_SIZE + 1)
        except (MissingPathError, UnreadableError) as error:
            self.problems.append(type(error)(f"@{error}"))
            return
        except OSError as error:
            self.problems.append(UnreadableError(f"@{path}: reading failed ({error.strerror}); name a sound list"))
            return
        if len(content) > _LIST_SIZE:
            self.problems.append(UnreadableError(f"@{path}: a list of more than {_LIST_SIZE:,} bytes; split it"))
            return
        text = content.decode("utf-8", "surrogateescape").removeprefix("\ufeff")
        for line in text.split("\n"):
            entry = line.strip()
            if entry.startswith("@") or entry == "-":
                self.problems.append(UsageError(f"@{path}: a list holds paths and patterns, not {entry!r}"))
            elif entry and not entry.startswith("#"):
                self.add(entry, listed=f"@{path}")

    def _directory(self, path: str, root: str) -> None:
        """Walk a directory; a stack of its own, since directories may be nested deeper than Python's."""
        todo = [path]
        while todo:
            here = todo.pop()
            try:
                with os.scandir(here) as listing:
                    entries = sorted(listing, key=lambda entry: entry.name)
            except OSError as error:
                self.problems.append(UnreadableError(f"{here}: cannot be listed ({error.strerror}); check its rights"))
                continue
            below = []
            for entry in entries:
                try:
                    kind = _kind(entry)
                except OSError:  # a link into a loop, or into a directory that may not be entered
                    kind = "link that cannot be followed"
                if kind == _DIRECTORY and self.stores.is_store(entry.path):
                    kind = "state directory"
                if kind == _FILE:
                    self._take(Candidate(entry.path, root))
                elif kind == _DIRECTORY:
                    below.append(entry.path)
                else:
                    self._ignore(kind)
            todo.extend(reversed(below))

    def _ignore(self, reason: str) -> None:
        self.ignored[reason] = self.ignored.get(reason, 0) + 1


def _kind(entry: os.DirEntry[str]) -> str:
    """Say what lies in a directory; what is not looked into has its reason. Raises OSError."""
    if entry.is_dir(follow_symlinks=False):
        return "hidden directory" if entry.name.startswith(".") else _DIRECTORY
    if entry.is_dir():
        return "link to a directory"
    return _FILE if entry.is_file() else "not a regular file"


def _exists(path: str) -> bool:
    try:
        return os.path.lexists(path)
    except ValueError:
        return False
