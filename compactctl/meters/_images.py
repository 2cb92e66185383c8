"""What an image counts in every meter that counts images at all."""

from __future__ import annotations

# Providers charge by pixels, which transcripts do not hold; harnesses shrink screenshots to about a megapixel, for
# which the published rule (pixels / 750) gives about this. The base64 form says nothing: its length is the file's.
IMAGE_TOKENS = 1500
