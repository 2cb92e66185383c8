"""The sift project: a filter language, with a corpus of queries and a table."""

from __future__ import annotations

from ..dice import Dice
from . import unpack
from .ledgerline import unpack_runner

_NAMES = ("price", "name", "sold", "stock.count", "stock.place", "note", "supplier_id", "weight")
_WORDS = ("lamp", "desk", "north hall", "returned", "b-ware", 'size \\"L\\"', "oak")


def _term(dice: Dice) -> str:
    kind, name = dice.below(8), dice.pick(_NAMES)
    if kind == 0:
        return f"not {name}"
    if kind == 1:
        return f'{name} contains "{dice.pick(_WORDS)}"'
    if kind == 2:
        return f"{name} in [{dice.below(90)}, {dice.below(90)}, {dice.below(90)}]"
    if kind == 3:
        return f"{name} > -{dice.below(50)}"
    if kind == 4 and dice.below(4) == 0:
        return f"{dice.below(9)} < {name} < {dice.between(10, 90)}"
    return f"{name} {dice.pick(('=', '!=', '<', '<=', '>', '>='))} {dice.below(400)}.{dice.below(10)}"


def queries(count: int) -> str:
    """Queries as users of the shop typed them."""
    dice = Dice(77)
    lines = []
    for _ in range(count):
        parts = [_term(dice) for _ in range(dice.between(1, 4))]
        if len(parts) > 2 and dice.below(2):
            parts[-2:] = [f"({parts[-2]} or {parts[-1]})"]
        lines.append(" and ".join(parts) if dice.below(3) else " or ".join(parts))
    return "\n".join(lines) + "\n"


def stock(count: int) -> str:
    """The table that the queries are run on."""
    dice = Dice(78)
    lines = ["name,price,sold,stock.count,stock.place,note,supplier_id,weight"]
    for index in range(count):
        name = f"{dice.pick(('desk', 'floor', 'wall', 'reading'))} {dice.pick(('lamp', 'shelf', 'clock'))} {index:03d}"
        place, note = dice.pick(("north hall", "south hall", "yard")), dice.pick(("", "returned", "b-ware", "last one"))
        cells = (
            name,
            f"{dice.between(5, 480)}.{dice.below(100):02d}",
            dice.pick(("", "yes")),
            dice.below(60),
            place,
            note,
        )
        lines.append(
            ",".join(str(cell) for cell in (*cells, dice.between(1, 40), f"{dice.between(1, 30)}.{dice.below(10)}"))
        )
    return "\n".join(lines) + "\n"


def files() -> dict[str, str]:
    """The whole project as path to text."""
    tree = unpack("sift") | {"tools/runtests.py": unpack_runner()}
    return tree | {"data/queries.txt": queries(240), "data/stock.csv": stock(260)}
