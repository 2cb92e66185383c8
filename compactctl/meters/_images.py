"""What images and base64 data count in every meter that counts them at all."""

from __future__ import annotations

import re

from compactctl.model import Message

# Providers charge by pixels, which transcripts do not hold; harnesses shrink screenshots to about a megapixel, for
# which the published rule (pixels / 750) gives about this. The base64 form says nothing: its length is the file's.
IMAGE_TOKENS = 1500
# Base64 that stands in a text is charged as text. Random bytes measured 0.68 (o200k_base) and 0.76 (cl100k_base)
# tokens a character, three times what bytes / 4 says.
BASE64_TOKENS = 0.7
_RUN = re.compile(r"[A-Za-z0-9+/_-]{200,}={0,2}")


def base64_length(text: str) -> int:
    """Give how many characters of a text are base64 data: its runs of 200 and more, where it names base64 at all.

    >>> base64_length("data:image/png;base64," + "iVBO" * 100), base64_length("x" * 400)
    (400, 0)
    """
    if "base64" not in text:
        return 0
    return sum(len(run) for run in _RUN.findall(text))


def image_count(message: Message) -> int:
    """Give how many images a message holds."""
    return message.parts.images if message.parts is not None else 0
