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
