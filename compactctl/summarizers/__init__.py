"""Summarizers: the stub and the opaque one without a model, and those with one, each behind the same port."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from compactctl import registry
from compactctl.errors import SettingsError
from compactctl.ports import BlobStore, MemoryExtractor, Summarizer, SummarizerSpec

if TYPE_CHECKING:
    from compactctl.summarizers._plan import Planner

PACKAGE = "compactctl.summarizers"
DEFAULT = "stub"


def names() -> list[str]:
    """List the summarizers by name; imports none."""
    return registry.names(PACKAGE)


def spec(name: str) -> SummarizerSpec:
    """Give a summarizer's description; an unknown name raises UnknownNameError, which lists the known ones."""
    return registry.plugin(PACKAGE, SummarizerSpec, name, "summarizer")


def make_summarizer(
    name: str,
    options: Mapping[str, Any] | None = None,
    *,
    blobs: BlobStore | None = None,
    cassette_mode: str | None = None,
    untrusted: Collection[str] = (),
) -> Summarizer:
    """Make the summarizer of that name; options that are not given have their default.

    ``blobs`` is where a cassette is kept unless ``cassette_file`` names a file; ``cassette_mode`` is short for the
    option ``cassette``. ``untrusted`` names the options whose value came from a settings file inside the working
    directory: those that decide where a transcript or a key goes, or what program runs, are refused from there.
    Raises SettingsError or UnknownNameError.
    """
    from compactctl.summarizers._options import TRUSTED_OPTIONS, resolve

    found = spec(name)
    given = dict(options or {})
    if cassette_mode:
        given["cassette"] = cassette_mode
    for option in TRUSTED_OPTIONS:
        flag = option.replace("_", "-")
        # A variable of the shell that is not set must not send a transcript to the default place.
        if given.get(option) == "":
            raise SettingsError(f"{option} is empty: give it a value, or leave --{flag} out")
        if option in untrusted and option in given:
            raise SettingsError(
                f"{option} is not taken from a settings file of the project, which may have come with it; "
                f"give --{flag} or COMPACTCTL_{option.upper()}"
            )
    return found.make(resolve(found, given), blobs)


def make_planner(summarizer: Summarizer) -> Planner | None:
    """Give a stand-in that counts what a summarizer would ask of a model; None for one that has no model behind it."""
    from compactctl.summarizers._model import ModelSummarizer
    from compactctl.summarizers._plan import Planner

    return Planner(summarizer) if isinstance(summarizer, ModelSummarizer) else None


def make_extractor(
    summarizer: Summarizer, sink: Callable[[Mapping[str, Any]], None], known: Iterable[str] = ()
) -> MemoryExtractor | None:
    """Give a memory extractor that asks the model of a summarizer, under the same caps; None where it has none.

    ``sink`` takes each new fact (the store's memories file), ``known`` are the contents of those that are not new. A
    planner's extractor is counted in its plan.
    """
    from compactctl.summarizers._memory import ModelExtractor
    from compactctl.summarizers._model import ModelSummarizer
    from compactctl.summarizers._plan import Planner

    if isinstance(summarizer, Planner):
        return ModelExtractor(summarizer, sink, known=known)
    return ModelExtractor(summarizer.asker, sink, known=known) if isinstance(summarizer, ModelSummarizer) else None
