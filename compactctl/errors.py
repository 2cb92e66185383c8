"""Every error that compactctl raises on purpose, and the exit status of each.

The tree:

    CompactctlError                  70  something that should not happen
    ├── UsageError                    2  an option, setting or name is wrong
    │   ├── SettingsError             2  a settings file or a value is wrong
    │   ├── UnknownNameError          2  no such compactor, meter, measure, ...
    │   └── MissingPathError          2  a named path does not exist
    ├── InputError                    3  a transcript could not be read or holds nothing usable
    │   ├── UnreadableError           3  not a regular file, no permission, damaged compression
    │   ├── UnknownFormatError        3  no loader knows this content
    │   └── EmptyTranscriptError      3  a known format, but no message in it
    ├── NothingMatchedError           4  no transcript under a directory, no such session
    ├── StoreError                    5  the state directory could not be written
    │   ├── UnsafeStoreError          5  a link, a foreign owner, a wrong type of file
    │   ├── OffloadError              5  one result could not be offloaded (compactors go on without)
    │   └── NotConfirmedError         5  a deletion was not confirmed
    ├── LockedError                   6  another process works on this session
    ├── SummarizerError               7  no summary could be had (compactors take their fallback)
    ├── BudgetError                   1  a budget or a baseline failed, verify found damage
    ├── WorkerError                  70  a process to share the work was not to be had, or was ended from outside
    └── Interrupted                 130  Ctrl-C (143 for SIGTERM)
"""

from __future__ import annotations

from collections.abc import Iterable
from copy import copy
from typing import Self

# Where several apply, the first one of this order is the exit status of the command.
PRECEDENCE = (130, 143, 70, 6, 5, 7, 2, 3, 4, 1)


class CompactctlError(Exception):
    """The root of all errors that compactctl raises; its text is one line that says what to do."""

    exit_status = 70

    def of(self, place: str) -> Self:
        """Give the same error with the session or file that it is about before its words.

        >>> SummarizerError("it took too long", "timeout").of("s1")
        SummarizerError('s1: it took too long')
        """
        told = copy(self)
        told.args = (f"{place}: {self}",)
        return told


class UsageError(CompactctlError):
    """The command was given something that it cannot use."""

    exit_status = 2


class SettingsError(UsageError):
    """A settings file holds an unknown key or an impossible value."""


class UnknownNameError(UsageError):
    """A plug-in was asked for by a name that nothing has; the text lists the known ones."""


class MissingPathError(UsageError):
    """A path that the user named does not exist."""


class InputError(CompactctlError):
    """An input could not be used; the others were."""

    exit_status = 3


class UnreadableError(InputError):
    """The file cannot be read: its type, its permissions or its compression."""


class UnknownFormatError(InputError):
    """No loader recognises the content of the file; ``what`` says what it is, where that is known."""

    def __init__(self, message: str, what: str = "") -> None:
        super().__init__(message)
        self.what = what


class EmptyTranscriptError(InputError):
    """The format is known, but the file holds no message."""


class NothingMatchedError(CompactctlError):
    """A directory or glob holds no transcript, or the store no such session."""

    exit_status = 4


class StoreError(CompactctlError):
    """The state directory could not be written or read."""

    exit_status = 5


class UnsafeStoreError(StoreError):
    """The state directory holds a link, a foreign owner or another type of file than expected."""


class OffloadError(StoreError):
    """A tool result could not be offloaded; the compactor keeps its text (seed section 6.1)."""


class NotConfirmedError(StoreError):
    """A deletion needs a confirmation that was not given."""


class LockedError(CompactctlError):
    """Another process works on the session."""

    exit_status = 6


class SummarizerError(CompactctlError):
    """A summarizer gave no summary; the compactor takes its fallback (seed section 6.1).

    ``reason`` is one word for records and reports: ``timeout``, ``rate_limited``, ``truncated``, ... (the list is in
    summarizers/_failure.py); ``failed`` where nothing closer is known.
    """

    exit_status = 7

    def __init__(self, message: str = "", reason: str = "failed") -> None:
        super().__init__(message)
        self.reason = reason


class BudgetError(CompactctlError):
    """A budget or the baseline failed, or verify found damage."""

    exit_status = 1


class WorkerError(CompactctlError):
    """A process to share the work could not be started, or was ended from outside, as one is for want of memory."""


class Interrupted(CompactctlError):
    """The user or the system asked the command to stop."""

    exit_status = 130


def plain(error: CompactctlError) -> CompactctlError:
    """Give an error of this module with the same words: a user's own class may be one that cannot be sent or copied."""
    if type(error).__module__ == __name__:
        return error
    known = next(kind for kind in type(error).__mro__ if kind.__module__ == __name__)
    if isinstance(error, SummarizerError):
        return SummarizerError(str(error), str(error.reason))
    return known(str(error))  # type: ignore[no-any-return]  # the tree ends in CompactctlError


def worst(statuses: list[int] | set[int] | tuple[int, ...]) -> int:
    """Give the exit status of a command in which all of these happened.

    >>> worst([3, 1])
    3
    >>> worst([])
    0
    """
    return next((status for status in PRECEDENCE if status in statuses), 0)


def nearest(name: str, known: Iterable[str]) -> str:
    """Give the sentence that offers the nearest known name and lists all.

    >>> nearest("sofd", ["soft", "full"]), nearest("soft", [])
    (" Did you mean 'soft'? Known: full, soft", ' There is none.')
    """
    import difflib

    listed = sorted(known)
    if not listed:
        return " There is none."
    near = difflib.get_close_matches(name, listed, n=1)
    return (f" Did you mean {near[0]!r}?" if near else "") + f" Known: {', '.join(listed)}"
