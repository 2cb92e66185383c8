"""Puts a summarizer together: a model, inside it an account, around both a cassette, and the reader in front."""

from __future__ import annotations

from pathlib import Path

from compactctl.errors import SettingsError
from compactctl.ports import BlobStore
from compactctl.summarizers._cassette import CassetteChat, CassetteFile
from compactctl.summarizers._chat import Chat
from compactctl.summarizers._model import ModelSummarizer
from compactctl.summarizers._settings import CommonSettings
from compactctl.summarizers._spending import MeteredChat, Spending


def model_summarizer(
    chat: Chat, settings: CommonSettings, blobs: BlobStore | None, output_tokens: int = 0
) -> ModelSummarizer:
    """Give the summarizer for a model; raises SettingsError where a cassette has no place to be kept."""
    spending = Spending(settings.caps, settings.price)
    behind: Chat = MeteredChat(chat, spending, settings.concurrency, output_tokens)
    if settings.cassette is not None:
        place = CassetteFile(Path(settings.cassette_file)) if settings.cassette_file else blobs
        if place is None:
            raise SettingsError("--cassette needs a state directory or --cassette-file")
        behind = CassetteChat(behind, place, settings.cassette)
    return ModelSummarizer(
        behind,
        require_anchors=settings.require_anchors,
        strict_fence=settings.strict_fence,
        spending=spending,
    )
