"""Loaders of recorded sessions: one file a format, each ends in one ``FORMAT`` constant, behind one ``load()``.

``load(path) -> Iterator[Session]`` gives the sessions of one input, whatever its format. ``find_inputs(args) -> Found``
turns what a command was given into inputs, ``load_inputs(found, account) -> Iterator[Session]`` loads them all and
keeps account of what could not be used.
``distinct_ids(sessions)`` tells sessions with one id apart, ``inspect_facts(session)`` is what ``inspect`` prints, and
``write_neutral(session)`` what ``convert`` writes.
"""

from __future__ import annotations

from compactctl.transcripts._facts import inspect_facts
from compactctl.transcripts._inputs import (
    Account,
    Candidate,
    Found,
    distinct_ids,
    empty_roots,
    find_inputs,
    load_candidate,
    load_inputs,
)
from compactctl.transcripts._load import load
from compactctl.transcripts._neutral import write_neutral
from compactctl.transcripts._source import Limits
from compactctl.transcripts._spec import FormatSpec, SideThreadError

__all__ = [
    "Account",
    "Candidate",
    "FormatSpec",
    "Found",
    "Limits",
    "SideThreadError",
    "distinct_ids",
    "empty_roots",
    "find_inputs",
    "inspect_facts",
    "load",
    "load_candidate",
    "load_inputs",
    "write_neutral",
]
