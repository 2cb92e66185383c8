"""The headings of the summary forms other than anchors (dsh.md 2.5): what summarizers write and the fence guards."""

from __future__ import annotations

DSH_HEADINGS = (
    "Primary Request and Intent",
    "Key Technical Concepts",
    "Files and Code",
    "Errors and Fixes",
    "Pending Jobs",
    "Current Work",
    "Next Step",
    "Critical Context",
)
DSH_NOTHING = "(none)"
DSH_TAG = "<compacted-summary>"
DSH_PREAMBLE = (  # what a checkpoint of dsh begins with (dsh.md 2.5)
    "The earlier part of this conversation was compacted into the checkpoint below to free context. "
    "Treat it as established and continue with the messages that follow."
)
