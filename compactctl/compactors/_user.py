"""Compactors that are not the package's: by import path, by file, or from an installed package.

``module:Class``, ``path/to/file.py:Class``, or a name that a package offers in the entry point group
``compactctl.compactors``. A class is given what its constructor asks for by name; ``context_window`` and ``summarizer``
are what most need. Its other keywords that have a number, a text or a truth value as default become options.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from importlib.machinery import SourceFileLoader
from math import isfinite
from types import CodeType
from typing import Any

from compactctl.compactors._ask import Answer, taken
from compactctl.compactors._list_face import ListCompactor, ListFace
from compactctl.context.anchors import parse_anchors_and_summary
from compactctl.context.counting import Meter
from compactctl.context.view import View
from compactctl.errors import CompactctlError, MissingPathError, UsageError
from compactctl.meters.bytes4 import Bytes4
from compactctl.model import Anchor, Message, Session, Trigger, changed, sha256_text
from compactctl.ports import (
    CompactorSpec,
    HistoryMode,
    Option,
    Ports,
    Step,
    StepCompactor,
    Summarizer,
    SummaryFormat,
    SummaryReply,
    SummaryRequest,
)
from compactctl.registry import names, plugin, unknown
from compactctl.settings import shown

GROUP = "compactctl.compactors"
PACKAGE = "compactctl.compactors"
FACES = ("step", "compact_with_record", "compact", "compact_force")
OPTION_TYPES = (bool, int, float, str)
# All that a user's code may raise but Ctrl-C, which is not its own; ending the process is not its business.
_FAILURES = (Exception, SystemExit, GeneratorExit)


def is_user_code(text: str) -> bool:
    """Say whether a compactor is named by a module or file, whose code would be run to load it."""
    return ":" in text


def load_compactor(text: str) -> CompactorSpec:
    """Give the compactor that a user named: a plug-in, an entry point, ``module:Class`` or ``file.py:Class``.

    Raises UnknownNameError, MissingPathError for a file that is not there, and UsageError for what cannot be imported
    or is no compactor.
    """
    place, colon, attribute = text.rpartition(":")
    if colon and place and attribute.isidentifier():
        return as_spec(_attribute(_module(place), attribute, text), text)
    if text in names(PACKAGE):
        return plugin(PACKAGE, CompactorSpec, text, "compactor")
    # Looking through all that is installed takes longer than all else here.
    from importlib.metadata import entry_points

    offered = {point.name: point for point in entry_points(group=GROUP)}
    if text not in offered:
        raise unknown("compactor", text, [*names(PACKAGE), *offered, "module:Class", "path.py:Class"])
    try:
        found = offered[text].load()
    except _FAILURES as error:
        raise UsageError(f"the compactor {text!r} could not be imported: {_said(error)}") from error
    return as_spec(found, text)


def as_spec(found: Any, name: str) -> CompactorSpec:
    """Make a plug-in of what a user's module holds: a class or a function that gives a compactor, or a spec itself."""
    if isinstance(found, CompactorSpec):
        return found
    if not callable(found):
        raise UsageError(f"{name}: this is no compactor but {type(found).__name__}; name a class or a function")
    if isinstance(found, type) and not any(callable(getattr(found, face, None)) for face in FACES):
        raise UsageError(f"{name}: the class has no method compact(messages), which is all that it needs")
    keywords = _keywords(found, name)
    options = tuple(
        Option(parameter.name, parameter.default, "see the compactor's own documentation", type(parameter.default))
        for parameter in keywords.values()
        if parameter.name not in _GIVEN and _is_settable(parameter.default)
    )

    def make(chosen: Mapping[str, Any], session: Session | None, ports: Ports) -> UserCompactor:
        heard = _Heard(ports.summarizer, ports.meter or Bytes4()) if ports.summarizer is not None else None
        if heard is not None:
            ports = replace(ports, summarizer=heard)
        given = {key: give(session, ports) for key, give in _GIVEN.items() if key in keywords}
        try:
            built = found(**given, **{option.name: chosen[option.name] for option in options})
        except CompactctlError:
            raise
        except _FAILURES as error:
            raise UsageError(f"{name} could not be built: {_said(error)}") from error
        return UserCompactor(built, name, ports.meter, heard)

    return CompactorSpec(
        name,
        (inspect.getdoc(found) or "a compactor of the user's").partition("\n")[0],
        make,
        options,
        models="the user's own",
        meter=str(getattr(found, "meter_name", "bytes4")),
        history=_history(found, name),
        needs_window="context_window" in keywords,
        uses_summarizer="summarizer" in keywords,
    )


def _is_settable(default: Any) -> bool:
    """Whether a keyword can be an option: its default is a plain value that every output can show."""
    return type(default) in OPTION_TYPES and (not isinstance(default, float) or isfinite(default))


def _history(found: Any, name: str) -> HistoryMode:
    mode = getattr(found, "history", HistoryMode.WRITE_BACK)
    try:
        return HistoryMode(mode)
    except ValueError:
        known = " or ".join(HistoryMode)
        raise UsageError(f"{name}: its history is {shown(mode)}, and must be {known}") from None


class UserCompactor(ListFace):
    """Drives a user's object and turns what goes wrong in it into one line that names it and the turn."""

    def __init__(self, user: Any, name: str, meter: Meter | None = None, heard: _Heard | None = None) -> None:
        self.name = name
        self._heard = heard
        self.meter: Meter = meter or Bytes4()
        self._driver: StepCompactor = user if hasattr(user, "step") else ListCompactor(_Checked(user, name), name)

    def step(self, view: View, trigger: Trigger) -> Step:
        """Let the user's object do it; raises UsageError where it fails."""
        if self._heard is not None:
            self._heard.answers.clear()
        try:
            step = self._driver.step(view, trigger)
        except CompactctlError:
            raise
        except _FAILURES as error:
            raise UsageError(f"{self.name} failed at turn {view.turn}: {_said(error)}") from error
        record = step.record
        if self._heard is None or not self._heard.answers or record.summaries:
            return step
        answers = self._heard.answers
        told = changed(
            record,
            summaries=tuple(call for answer in answers for call in answer.calls),
            summary_text=record.summary_text or answers[-1].text,
            anchors=record.anchors or self._heard.anchors,
        )
        return Step(step.view, told, step.write_back, step.quiet)


class _Heard:
    """A summarizer whose answers to a user's compactor are known, since the compactor's own records do not tell."""

    def __init__(self, summarizer: Summarizer, meter: Meter) -> None:
        self._summarizer = summarizer
        self._meter = meter
        self.answers: list[Answer] = []
        self.anchors: tuple[Anchor, ...] = ()  # of the last answer, where it was to have some

    def summarize(self, request: SummaryRequest) -> SummaryReply:
        """Pass the question on, and keep what it took; raises SummarizerError."""
        reply = self._summarizer.summarize(request)
        self.answers.append(taken(reply, self._meter, sum(map(self._meter.weigh, request.messages))))
        has_anchors = request.format is SummaryFormat.ANCHORS
        self.anchors = parse_anchors_and_summary(reply.text)[0] if has_anchors else ()
        return reply


class _Checked:
    """A user's object whose answers are seen to be lists of messages."""

    def __init__(self, user: Any, name: str) -> None:
        self._user = user
        self._name = name
        if hasattr(user, "compact_with_record"):
            self.compact_with_record = self._with_record
        if hasattr(user, "compact_force"):
            self.compact_force = lambda messages: self._checked(user.compact_force(messages))

    def compact(self, messages: Sequence[Message]) -> list[Message]:
        """Hand the messages on and look at what comes back."""
        run: Callable[[Sequence[Message]], Any] = getattr(self._user, "compact", None) or self._user.compact_force
        return self._checked(run(messages))

    def _with_record(self, messages: Sequence[Message]) -> Any:
        result, record = self._user.compact_with_record(messages)
        return self._checked(result), record

    def _checked(self, result: Any) -> list[Message]:
        if not isinstance(result, Sequence) or not all(isinstance(message, Message) for message in result):
            raise UsageError(f"{self._name} must give a list of compactctl.Message, it gave {type(result).__name__}")
        return list(result)


_GIVEN: dict[str, Callable[[Session | None, Ports], Any]] = {
    "context_window": lambda session, ports: ports.context_window,
    "summarizer": lambda session, ports: ports.summarizer,
    "offloader": lambda session, ports: ports.offloader,
    "meter": lambda session, ports: ports.meter,
    "session": lambda session, ports: session,
    "session_id": lambda session, ports: session.id if session else "",
    "summary_tokens": lambda session, ports: ports.summary_tokens,
    "protect": lambda session, ports: ports.protect,
}


def _keywords(found: Callable[..., Any], name: str) -> dict[str, inspect.Parameter]:
    """Give the keywords that a constructor takes; raises UsageError where one is needed that nobody can give."""
    try:
        parameters = inspect.signature(found).parameters
    except (TypeError, ValueError):
        return {}
    taken = {
        key: parameter
        for key, parameter in parameters.items()
        if parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
    }
    missing = [key for key, parameter in taken.items() if parameter.default is parameter.empty and key not in _GIVEN]
    if missing:
        raise UsageError(
            f"{name} asks for {', '.join(missing)}, which nobody gives: have a default, or one of {', '.join(_GIVEN)}"
        )
    return taken


def _module(place: str) -> Any:
    if not place.endswith(".py"):
        # An installed command does not look for modules in the working directory, where users keep theirs.
        here = "" not in sys.path
        if here:
            sys.path.append("")
        try:
            return importlib.import_module(place)
        except _FAILURES as error:
            raise UsageError(f"the module {place!r} could not be imported: {_said(error)}") from error
        finally:
            if here:
                sys.path.remove("")
    return _module_of_file(place)


class _SourceAlone(SourceFileLoader):
    """Loads a file from its text: bytecode kept beside it is taken for its own by second and size, and may be older."""

    def get_code(self, fullname: str) -> CodeType:
        """Compile the file as it is now, and leave nothing beside it."""
        return self.source_to_code(self.get_data(self.path), self.path)


def _module_of_file(place: str) -> Any:
    # Files in two folders may have one name, which may be that of a module as well: the path tells them apart.
    name = f"compactctl_user_{sha256_text(place)[:16]}"
    spec = importlib.util.spec_from_file_location(name, place, loader=_SourceAlone(name, place))
    if spec is None or spec.loader is None:
        raise UsageError(f"{place!r} could not be imported")
    module = importlib.util.module_from_spec(spec)
    # Dataclasses and pickle look there for the module of a class, already while it is executed.
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException as error:
        del sys.modules[name]
        if isinstance(error, FileNotFoundError) and error.filename in (place, spec.origin):
            raise MissingPathError(f"no such file: {place!r}") from error
        if isinstance(error, _FAILURES):
            raise UsageError(f"{place!r} could not be imported: {_said(error)}") from error
        raise
    return module


def _attribute(module: Any, attribute: str, text: str) -> Any:
    try:
        return getattr(module, attribute)
    except AttributeError as error:
        raise UsageError(f"{text}: there is no {attribute!r} in it") from error


def _said(error: BaseException) -> str:
    lines = str(error).splitlines() or [""]
    return f"{type(error).__name__}: {lines[0]}"
