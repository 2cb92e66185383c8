"""The ways in which a summary can fail, each with one word for records and reports (trust.md 2f)."""

from __future__ import annotations

from enum import StrEnum

from compactctl.errors import SummarizerError


class Failure(StrEnum):
    """Why there is no summary."""

    TIMEOUT = "timeout"  # no connection, no next byte or no end in time
    CONNECTION = "connection"  # no connection could be made
    DROPPED = "dropped"  # the connection or the stream ended in the middle
    RATE_LIMITED = "rate_limited"
    SERVER_ERROR = "server_error"
    REJECTED = "rejected"  # the server refused the request itself (400, 404, ...)
    AUTH = "auth"  # the key was refused or is missing
    REDIRECT = "redirect"
    TOO_LARGE = "too_large"  # more bytes than a summary may have
    MALFORMED = "malformed"  # not the JSON, stream or fence that was agreed
    TRUNCATED = "truncated"  # the model ran into its token cap
    REFUSED = "refused"  # the model or a filter declined
    NO_TEXT = "no_text"  # a tool call, an image or nothing instead of text
    SEVERAL_CHOICES = "several_choices"
    EMPTY = "empty"  # text without any anchor or section that says something
    ANCHOR_CONFLICT = "anchor_conflict"
    ANCHORS_UNVERIFIED = "anchors_unverified"
    NOT_SMALLER = "not_smaller"
    REPEATED = "repeated"  # this very request failed before
    BUDGET_SPENT = "budget_spent"
    INTERRUPTED = "interrupted"
    MISSING_REPLY = "missing_reply"  # a cassette in replay mode does not hold it
    COMMAND_FAILED = "command_failed"
    UNSAFE_ENDPOINT = "unsafe_endpoint"


# After these nothing else of the run can succeed, so nothing else is sent.
FINAL = frozenset({Failure.AUTH, Failure.BUDGET_SPENT, Failure.INTERRUPTED, Failure.UNSAFE_ENDPOINT, Failure.REDIRECT})
# What stays true of a request however often it is sent: the same span is not paid for twice.
LASTING = frozenset(
    {
        Failure.REJECTED,
        Failure.TRUNCATED,
        Failure.REFUSED,
        Failure.NO_TEXT,
        Failure.SEVERAL_CHOICES,
        Failure.EMPTY,
        Failure.ANCHOR_CONFLICT,
        Failure.ANCHORS_UNVERIFIED,
        Failure.NOT_SMALLER,
        Failure.TOO_LARGE,
        Failure.MALFORMED,
    }
)


def failure(reason: Failure, text: str) -> SummarizerError:
    """Make the error for a failure; ``text`` must already be free of the key."""
    return SummarizerError(f"{text} ({reason})", str(reason))
