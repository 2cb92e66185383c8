"""The yardstick D: decode a file line by line with orjson, and nothing else."""

from __future__ import annotations

import sys

import orjson


def decode(path: str) -> int:
    """Decode every line and give how many there were."""
    lines = 0
    with open(path, "rb", buffering=1 << 20) as file:  # noqa: PTH123 - the yardstick is the plainest loop
        for line in file:
            orjson.loads(line)
            lines += 1
    return lines


if __name__ == "__main__":
    decode(sys.argv[1])
