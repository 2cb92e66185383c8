"""Puts a summarizer together: a model, around it a cassette, in front of it the reader and the account."""

from __future__ import annotations

from pathlib import Path

from compactctl.errors import SettingsError
from compactctl.ports import BlobStore
from compactctl.summarizers._cassette import CassetteChat, CassetteFile
from compactctl.summarizers._chat import Chat
from compactctl.summarizers._model import ModelSummarizer
from compactctl.summarizers._settings import CommonSettings
from compactctl.summarizers._spending import Spending


def model_summarizer(chat: Chat, settings: CommonSettings, blobs: BlobStore | None) -> ModelSummarizer:
    """Give the summarizer for a model; raises SettingsError where a cassette has no place to be kept."""
    if settings.cassette is not None:
        place = CassetteFile(Path(settings.cassette_file)) if settings.cassette_file else blobs
        if place is None:
            raise SettingsError("--cassette needs a state directory or --cassette-file")
        chat = CassetteChat(chat, place, settings.cassette)
    return ModelSummarizer(
        chat,
        require_anchors=settings.require_anchors,
        strict_fence=settings.strict_fence,
        spending=Spending(settings.caps, settings.price),
    )
