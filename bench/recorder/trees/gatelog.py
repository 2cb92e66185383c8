"""The gatelog project: a log analyser and eight nodes' access logs."""

from __future__ import annotations

from ..dice import Dice
from . import unpack
from .ledgerline import unpack_runner

_TENANTS = ("acme", "borealis", "quarry", "dunes", "harbor", "monitor")
_PATHS = (
    "/api/orders/{}",
    "/api/search?q={}",
    "/api/orders/{}/lines",
    "/assets/app-{}.js",
    "/api/profile/{}",
    "/health",
)


def access_log(node: int, count: int) -> str:
    """One node's log of a morning; nodes 5 and 7 write offsets, node 3 holds a burst across a minute's edge."""
    dice = Dice(500 + node)
    lines, milli = [], 36_000_000 + node * 137
    for index in range(count):
        milli += dice.between(20, 2600)
        client = f"203.0.113.{dice.between(2, 40)}"
        path, tenant = dice.pick(_PATHS).format(dice.between(100, 999)), dice.pick(_TENANTS)
        if node == 3 and index % 3:
            client, path, tenant = "198.51.100.23", f"/api/login?try={index}", "dunes"
            milli -= milli % 3 * 300
        offset = 2 if node in (5, 7) and index % 4 == 0 else 0
        second = milli // 1000 + offset * 3600
        stamp = f"2024-05-06T{second // 3600:02d}:{second // 60 % 60:02d}:{second % 60:02d}.{milli % 1000:03d}"
        zone = "+02:00" if offset else "Z"
        status = (200, 200, 200, 304, 404, 429, 500)[dice.below(7)]
        size, took = dice.between(0, 90_000), dice.between(1, 900)
        request = f"{dice.between(2**28, 2**32 - 1):08x}"
        method = "GET" if dice.below(4) else "POST"
        lines.append(
            f"{stamp}{zone} edge-{node:02d} {client} {method} {path} {status} {size} {took}ms "
            f"req={request} tenant={tenant}"
        )
        if dice.below(60) == 0:
            lines.append(
                f"{stamp}{zone} edge-{node:02d} upstream reset before headers, request {request} will be retried"
            )
    return "\n".join(lines) + "\n"


def files(percent: int = 100) -> dict[str, str]:
    """The whole project as path to text; ``percent`` scales the length of the logs."""
    tree = unpack("gatelog") | {"tools/runtests.py": unpack_runner()}
    for node in range(1, 9):
        tree[f"logs/edge-{node:02d}.log"] = access_log(node, (130 + 17 * (node % 5)) * percent // 100)
    return tree
