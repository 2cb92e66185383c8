"""A summarizer with a model behind it: asks, reads the answer through the fence, and verifies what it says."""

from __future__ import annotations

import secrets
from collections.abc import Callable

from compactctl.context.anchors import parse_anchors_and_summary
from compactctl.context.fence import Fence, Reading, read_anchors, read_prose, read_sections, unfence
from compactctl.context.provenance import check_anchors
from compactctl.context.sections import DSH_HEADINGS, DSH_NOTHING
from compactctl.model import Anchor, Note, byte_length
from compactctl.ports import SummaryFormat, SummaryReply, SummaryRequest
from compactctl.summarizers._asker import Asker
from compactctl.summarizers._chat import Chat, Completion, Prompt
from compactctl.summarizers._failure import Failure, failure
from compactctl.summarizers._prompts import summary_prompt
from compactctl.summarizers._spending import Caps, Spending


def fresh_nonce() -> str:
    """Give 64 random bits as text; it never reaches a summary, so results stay the same."""
    return secrets.token_hex(8)


class ModelSummarizer:
    """Summarises with a model.

    ``require_anchors`` makes a failed verification an error, ``strict_fence`` a reply without the fence. ``asker`` is
    what a memory extractor with the same model shares.
    """

    def __init__(
        self,
        chat: Chat,
        *,
        require_anchors: bool = False,
        strict_fence: bool = False,
        spending: Spending | None = None,
        nonces: Callable[[], str] = fresh_nonce,
    ) -> None:
        self.asker = Asker(chat, spending or Spending(Caps()))
        self._require_anchors = require_anchors
        self._strict_fence = strict_fence
        self._nonces = nonces

    @property
    def chat(self) -> Chat:
        """The model."""
        return self.asker.chat

    @property
    def spending(self) -> Spending:
        """The account."""
        return self.asker.spending

    def charge_to(self, spending: Spending) -> None:
        """Ask on another account from now on: summarizers that may spend the same money share one."""
        self.asker.spending = spending

    def summarize(self, request: SummaryRequest) -> SummaryReply:
        """Give the summary in its exact form; raises SummarizerError with its reason."""
        return self.asker.ask(self.prompt(request), lambda completion: self._read(request, completion))

    def prompt(self, request: SummaryRequest) -> Prompt:
        """Make the prompt for a request, with a fresh nonce."""
        return summary_prompt(request, self._nonces())

    def close(self) -> None:
        """End a call that is under way in another thread, and send nothing more."""
        self.chat.stop()

    def _read(self, request: SummaryRequest, completion: Completion) -> SummaryReply:
        if not completion.text.strip():
            raise failure(Failure.EMPTY, "the reply is empty")
        body, odd = unfence(completion.text, Fence(completion.nonce))
        if Note.REPLY_UNFENCED in odd and self._strict_fence:
            raise failure(Failure.MALFORMED, "the reply does not stand in the fence that it was asked for")
        reading = _reading(body, request.format)
        before = byte_length(request.conversation) + byte_length(request.previous)
        if byte_length(reading.text) >= before:
            raise failure(
                Failure.NOT_SMALLER,
                f"the summary has {byte_length(reading.text)} bytes, what it stands for only {before}",
            )
        notes = (*completion.notes, *odd, *reading.notes)
        anchors: tuple[Anchor, ...] = ()
        if request.format is SummaryFormat.ANCHORS:
            anchors, checked = self._verify(request, reading)
            notes += checked
        return SummaryReply(reading.text, completion.usage, notes, anchors)

    def _verify(self, request: SummaryRequest, reading: Reading) -> tuple[tuple[Anchor, ...], tuple[str, ...]]:
        anchors, prose = parse_anchors_and_summary(reading.text)
        check = check_anchors(anchors, prose, request.messages, request.anchors, reading.missing)
        if self._require_anchors and check.faults:
            raise failure(Failure.ANCHORS_UNVERIFIED, f"the anchors do not hold: {', '.join(check.faults)}")
        return check.anchors, (*check.notes(), *(f"anchor_fault:{fault}" for fault in check.faults))


def _reading(body: str, form: SummaryFormat) -> Reading:
    if form is SummaryFormat.ANCHORS:
        return read_anchors(body)
    if form is SummaryFormat.DSH:
        return read_sections(body, DSH_HEADINGS, DSH_NOTHING)
    return read_prose(body)
