"""Sessions with a threshold that is known to be best, and sessions for which no threshold matters."""

from __future__ import annotations

from pathlib import Path

import orjson

# With a window of 10,000 tokens under bytes / 4.
WINDOW = 10_000
SECRET = "src/ledger/balance_sheet_{}.py"


def write(path: Path, rows: list[dict[str, object]]) -> None:
    """Write rows in the neutral format."""
    path.write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in rows))


def matters(path: Path, number: int) -> None:
    """Write a session that names a file early, works until 66 % of the window, and comes back to that file at its end.

    A summary by the opaque summarizer forgets the name. So full = soft = 0.60 forgets it, 0.70 and more never
    summarise and keep it; with more than that nothing changes, so 0.70 is the first of a plateau.
    """
    name = SECRET.format(number)
    rows: list[dict[str, object]] = [
        {"compactctl": 1, "session_id": f"matters-{number}", "context_window": WINDOW},
        {"role": "user", "content": f"repair {name} " + "a" * 100},
    ]
    # 22 turns of 1,200 bytes: 26,400 bytes, 6,600 tokens, 66 % of the window; no result is large enough to offload.
    for turn in range(22):
        call = {"id": f"c{turn}", "name": "bash", "arguments": "{}"}
        rows.append({"role": "assistant", "content": "w" * 100, "tool_calls": [call]})
        rows.append({"role": "tool", "content": f"{turn} " + "o" * 1090, "tool_call_id": f"c{turn}"})
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
