"""Which context window a session is judged against, and where the figure is from (DESIGN.md, Replay 5)."""

from __future__ import annotations

from collections.abc import Callable

from compactctl.model import Session

ASSUMED_WINDOW = 200_000
LARGE_WINDOW = 1_000_000
FLAG, RECORDED, INFERRED, TABLE, ASSUMED = "flag", "recorded", "inferred", "table", "assumed"


def choose_window(
    flag: int | None, session: Session, table: Callable[[str], tuple[int, str] | None] | None = None
) -> tuple[int, str]:
    """Give the window in tokens and the word for its source: flag, recorded, inferred, table or assumed.

    Inferred: a prompt or a recorded automatic compaction above 200,000 tokens means a window of a million, an automatic
    compaction below it one of 200,000, since harnesses compact a little before the end (formats.md 3.1 d). Claude Code
    gives a model its large window only where the user asks for it, so that a session of it whose prompts stay below
    200,000 had 200,000. ``table`` knows the windows of models.

    >>> choose_window(None, Session("s", ()))
    (200000, 'assumed')
    """
    if flag is not None:
        return flag, FLAG
    if session.context_window:
        return session.context_window, RECORDED
    automatic = [c.tokens_before or 0 for c in session.compactions if c.kind == "full" and c.trigger == "auto"]
    prompts = [message.usage.prompt for message in session.messages if message.usage is not None]
    largest = max([*automatic, *prompts], default=0)
    if largest > ASSUMED_WINDOW:
        return LARGE_WINDOW, INFERRED
    if automatic or session.harness == "claude-code":
        return ASSUMED_WINDOW, INFERRED
    known = table(session.model) if table is not None and session.model else None
    if known is not None:
        return known[0], TABLE
    return ASSUMED_WINDOW, ASSUMED
