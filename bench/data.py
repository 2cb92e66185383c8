"""Makes the sessions that the benchmarks run on: seeded, so that everyone measures the same bytes.

    python -m bench.data OUT.jsonl                            the 100 MB session: 40,685 one-message lines
    python -m bench.data OUT.jsonl --messages 4069 --megabytes 10
    python -m bench.data OUT_DIRECTORY --sessions 200 --messages 400 --megabytes 1

The rows are the neutral format without its first line. Tool results are most of the bytes, as in recorded sessions:
about two thirds of all bytes are in results above 4,000 bytes, which compactors move to files.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson

MESSAGES = 40_685
MEGABYTES = 100.0
SEED = 20_260_801

# fmt: off
_STEMS = [
    "account", "archive", "balance", "batch", "border", "branch", "bucket", "buffer", "cache", "call", "candle",
    "channel", "checkout", "client", "cluster", "column", "commit", "config", "cursor", "daemon", "delta", "digest",
    "domain", "driver", "editor", "engine", "entry", "event", "export", "field", "filter", "folder", "format",
    "gateway", "graph", "handler", "header", "index", "input", "invoice", "job", "journal", "key", "lease",
    "ledger", "limit", "loader", "lock", "market", "merge", "message", "meter", "mirror", "model", "module",
    "monitor", "network", "node", "object", "offer", "option", "order", "output", "packet", "page", "parser",
    "patch", "payload", "pool", "portal", "prefix", "price", "probe", "query", "queue", "range", "record", "region",
    "registry", "release", "render", "report", "request", "reserve", "result", "route", "sample", "scale", "schema",
    "scope", "search", "section", "segment", "sensor", "session", "shard", "signal", "snapshot", "socket", "source",
    "stream", "summary", "switch", "symbol", "table", "target", "task", "thread", "ticket", "token", "trace",
    "transfer", "trigger", "update", "upload", "user", "vault", "vector", "version", "view", "volume", "wallet",
    "window", "worker", "writer", "zone",
]
_COMMON = [
    "the", "a", "of", "to", "in", "is", "was", "and", "not", "for", "with", "from", "that", "this", "it", "be",
    "on", "as", "at", "by", "if", "else", "return", "def", "class", "import", "self", "None", "True", "False", "==",
    "!=", "+=", "->", ":", ";", "(", ")", "[", "]", "{", "}", "=", "error", "warning", "ok", "passed", "failed",
    "line", "file", "test", "value",
]
# fmt: on
_TOOLS = ("read_file", "bash", "grep", "edit_file", "list_files", "web_fetch")


def rows(messages: int = MESSAGES, megabytes: float = MEGABYTES, seed: int = SEED) -> Iterator[dict[str, Any]]:
    """Give the messages of one session: user, assistant with calls, their results, and now and then the user again."""
    rng = random.Random(seed)
    words = _vocabulary(rng)
    # Results get what the small messages leave of the bytes (0.82 of two messages' worth each, found by measuring);
    # the mean of a log-normal is its median times exp(sigma squared / 2) = 2.86.
    mean = megabytes * 1e6 / messages * 2 * 0.82
    median = mean / 2.86
    written = 0
    call = 0
    while written < messages:
        yield _row("user", _prose(rng, words, rng.randint(200, 900)))
        written += 1
        for _ in range(rng.randint(10, 60)):
            if written >= messages:
                return
            parallel = 1 if rng.random() < 0.92 else rng.randint(2, 4)
            parallel = min(parallel, messages - written - 1)
            calls = []
            for _ in range(parallel):
                call += 1
                calls.append(_call(rng, words, f"call_{call:06d}"))
            yield _row("assistant", _prose(rng, words, rng.randint(40, 500)), tool_calls=calls)
            written += 1
            for made in calls:
                size = min(int(rng.lognormvariate(0.0, 1.45) * median), 120_000)
                yield _row("tool", _output(rng, words, max(size, 2)), tool_call_id=made["id"], name=made["name"])
                written += 1


def write(path: Path, messages: int = MESSAGES, megabytes: float = MEGABYTES, seed: int = SEED) -> None:
    """Write one session as a file of one-message lines."""
    with path.open("wb") as out:
        for row in rows(messages, megabytes, seed):
            out.write(orjson.dumps(row) + b"\n")


def session(room: Path, name: str, share: float) -> Path:
    """Give the benchmark session, or a share of it, made when it is first asked for."""
    path = room / f"{name}.jsonl"
    if not path.exists():
        messages = max(4, round(MESSAGES * share))
        write(path, messages, MEGABYTES * messages / MESSAGES)
    return path


def _vocabulary(rng: random.Random) -> list[str]:
    names = []
    for _ in range(12_000):
        first, second, third = rng.choices(_STEMS, k=3)
        form = rng.randrange(4)
        if form == 0:
            names.append(f"{first}_{second}_{rng.randrange(1000)}")
        elif form == 1:
            names.append(f"{first.title()}{second.title()}{third.title()}")
        elif form == 2:
            names.append(f"src/{first}/{second}/{third}_{rng.randrange(100)}.py")
        else:
            names.append(f"{first}.{second}({third})")
    # Names and plain words come about as often as in program text: one to four.
    return names + _COMMON * (36_000 // len(_COMMON)) + _STEMS * 40


def _row(role: str, content: str, **more: Any) -> dict[str, Any]:
    return {"role": role, "content": content, **more}


def _call(rng: random.Random, words: list[str], call_id: str) -> dict[str, str]:
    name = rng.choice(_TOOLS)
    arguments: dict[str, str] = {"path": rng.choice(words), "purpose": _prose(rng, words, 60)}
    if name == "edit_file":
        arguments["text"] = _output(rng, words, rng.randint(100, 1500))
    return {"id": call_id, "name": name, "arguments": orjson.dumps(arguments).decode()}


def _prose(rng: random.Random, words: list[str], size: int) -> str:
    text = " ".join(rng.choices(words, k=size // 6 + 1))[:size]
    # A few messages are not plain ASCII, as in real sessions.
    return text + " — déjà vu, 上下文" if rng.random() < 0.03 else text


def _output(rng: random.Random, words: list[str], size: int) -> str:
    parts = rng.choices(words, k=size // 6 + 1)
    for at in range(9, len(parts), 10):
        parts[at] = "\n"
    return " ".join(parts)[:size]


def main() -> None:
    """Write what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--messages", type=int, default=MESSAGES)
    parser.add_argument("--megabytes", type=float, default=MEGABYTES)
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--sessions", type=int, default=None, help="write so many sessions into a directory")
    given = parser.parse_args()
    if given.sessions is None:
        write(given.out, given.messages, given.megabytes, given.seed)
        return
    given.out.mkdir(parents=True, exist_ok=True)
    for number in range(given.sessions):
        write(given.out / f"bench-{number:04d}.jsonl", given.messages, given.megabytes, given.seed + number)


if __name__ == "__main__":
    main()
