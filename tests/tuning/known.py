"""Sessions with a threshold that is known to be best, and sessions for which no threshold matters."""

from __future__ import annotations

from pathlib import Path

import orjson

# In tokens, which are bytes / 4 here: nothing records usage.
WINDOW = 20_000
MODEL = "claude-sonnet-4-5"
SECRET = "src/ledger/balance_sheet_{}.py"


def write(path: Path, rows: list[dict[str, object]]) -> None:
    """Write rows in the neutral format."""
    path.write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in rows))


def matters(path: Path, number: int) -> None:
    """Write a session that names a file early, works until 66 % of the window, and comes back to that file at its end.

    A summary by the opaque summarizer forgets the name, and reads 50 KB at the full price to save a few cached tokens.
    So soft = full = 0.60 forgets and costs more, while from 0.70 on nothing is ever summarised: a plateau.
    """
    name = SECRET.format(number)
    rows: list[dict[str, object]] = [
        {"compactctl": 1, "session_id": f"matters-{number}", "model": MODEL, "context_window": WINDOW},
        {"role": "user", "content": f"repair {name} " + "a" * 100},
    ]
    # 22 turns of 2,400 bytes: 52,800 bytes, 13,200 tokens, 66 % of the window, and more than the 8,000 tokens that M6
    # looks back over; no result is large enough to be offloaded.
    for turn in range(22):
        call = {"id": f"c{turn}", "name": "bash", "arguments": "{}"}
        rows.append({"role": "assistant", "content": "w" * 100, "tool_calls": [call]})
        rows.append({"role": "tool", "content": f"{turn} " + "o" * 2290, "tool_call_id": f"c{turn}"})
    rows.append({"role": "assistant", "content": f"now I edit {name}"})
    write(path, rows)


def does_not_matter(path: Path, number: int) -> None:
    """Write a session that never comes near any threshold."""
    rows: list[dict[str, object]] = [
        {"compactctl": 1, "session_id": f"short-{number}", "context_window": WINDOW},
        {"role": "user", "content": "what is src/ledger/balance.py?"},
        {"role": "assistant", "content": "it adds up " + "x" * 50 * number},
    ]
    write(path, rows)
