"""The kucun project: stock records of a warehouse, in Chinese throughout."""

from __future__ import annotations

from ..dice import Dice
from . import unpack
from .ledgerline import unpack_runner

GOODS = ("台灯", "落地灯", "书架", "挂钟", "折叠椅", "办公桌", "文件柜", "白板", "投影幕布", "饮水机")
_NOTES = (
    "正常入库，已由王师傅验收",
    "客户自提，签收单另存",
    "包装破损，按原数量登记",
    "夜班补录，数量待核",
    "调拨至二号仓库",
    "供应商送货，随货附发票",
    "退货，外观完好可再售",
    "线上订单发货",
)


def records(count: int) -> tuple[str, dict[str, int]]:
    """A month of records, and the stock that the rules give for it."""
    dice = Dice(314)
    lines, stock = ["日期,单号,货物,类型,数量,备注"], dict.fromkeys(GOODS, 0)
    for index in range(count):
        day = 1 + index * 30 // count
        goods, kind = dice.pick(GOODS), "入库" if dice.below(3) else "出库"
        amount = dice.between(1, 60)
        if kind == "出库" and dice.below(6) == 0:
            amount = -amount
        text = str(amount)
        if day == 12 and amount > 0:
            text = "".join(chr(ord(char) - ord("0") + ord("０")) for char in text)
        number = f"{'R' if kind == '入库' else 'C'}{1000 + index}"
        line = f"2024-03-{day:02d},{number},{goods},{kind},{text},{dice.pick(_NOTES)}"
        lines.append(line)
        stock[goods] += amount if kind == "入库" else -amount
        if index % 41 == 40:
            lines.append(line)
    return "\n".join(lines) + "\n", stock


def files() -> dict[str, str]:
    """The whole project as path to text."""
    text, stock = records(330)
    count = "货物,数量\n" + "".join(f"{name},{number - (name == '挂钟')}\n" for name, number in stock.items())
    tree = unpack("kucun") | {"tools/runtests.py": unpack_runner()}
    return tree | {"data/jilu-2024-03.csv": text, "data/pandian-2024-03.csv": count}
