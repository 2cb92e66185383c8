"""The ledgerline project: hand-written core, and the parts that repeat (rates, eight banks, data, logs) made here."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from ..dice import Dice
from . import unpack

REGIONS = ("north", "south", "east", "west", "coast", "hills", "isles", "border")
CLASSES = ("standard", "reduced", "books", "food")


@dataclass(frozen=True, slots=True)
class Bank:
    """How one invented bank writes its statements."""

    name: str
    title: str
    delimiter: str
    columns: tuple[str, ...]
    layout: str
    clean: str
    style: str
    rows: int


BANKS = (
    Bank(
        "nordhaven",
        "Nordhaven Savings",
        ";",
        ("day", "amount", "reference", "text"),
        "decimal comma, minus in front",
        'text.replace(",", ".")',
        "comma",
        64,
    ),
    Bank(
        "silverlake",
        "Silverlake Mutual",
        ",",
        ("reference", "day", "amount", "text"),
        "decimal point, minus in front",
        "text",
        "point",
        58,
    ),
    Bank(
        "quaymark",
        "Quaymark Trust",
        ";",
        ("day", "text", "amount", "reference"),
        "decimal comma, minus behind the number",
        '("-" + text[:-1] if text.endswith("-") else text).replace(",", ".")',
        "trailing",
        71,
    ),
    Bank(
        "tallport",
        "Tallport Bank",
        "|",
        ("day", "reference", "amount", "balance", "text"),
        "decimal comma, point as thousands separator",
        'text.replace(".", "").replace(",", ".")',
        "dotted",
        120,
    ),
    Bank(
        "brightwell",
        "Brightwell Direct",
        ";",
        ("day", "debit", "credit", "reference", "text"),
        "separate debit and credit columns, decimal point",
        "text",
        "columns",
        66,
    ),
    Bank(
        "oakmere",
        "Oakmere Cooperative",
        ";",
        ("reference", "amount", "day", "text"),
        "decimal comma; information rows have an empty amount",
        'text.replace(",", ".")',
        "gaps",
        83,
    ),
    Bank(
        "fernway",
        "Fernway Online",
        ",",
        ("day", "amount", "currency", "reference", "text"),
        "whole cents without any point",
        "str(int(text) / 100)",
        "cents",
        77,
    ),
    Bank(
        "stonebridge",
        "Stonebridge Union",
        "\t",
        ("day", "amount", "reference", "text"),
        "decimal point, an apostrophe as thousands separator",
        'text.replace("\'", "")',
        "quote",
        69,
    ),
)

_IMPORTER = '''"""Statements of {title}.

Layout: {columns}, separated by {delimiter!r}; amounts: {layout}.
"""
import pathlib

from ledgerline.statements import Entry, StatementError

NAME = "{name}"
COLUMNS = {columns!r}
DELIMITER = {delimiter!r}


def parse_amount(text):
    """Read one amount ({layout})."""
    text = text.strip()
    return float({clean})


def parse_line(number, line):
    """Read one line; the number is only for the message."""
    cells = line.rstrip("\\n").split(DELIMITER)
    if len(cells) != len(COLUMNS):
        raise StatementError(f"{{NAME}} line {{number}}: {{len(cells)}} cells, expected {{len(COLUMNS)}}")
    row = dict(zip(COLUMNS, cells))
    try:
{amount}
    except ValueError as error:
        raise StatementError(f"{{NAME}} line {{number}}: {{error}}") from None
    return Entry(NAME, row["day"], amount, row["reference"], row["text"].strip())


def read_statement(path):
    """Read a whole statement, or nothing."""
    entries = []
    for number, line in enumerate(pathlib.Path(path).read_text().splitlines(), 1):
        if number == 1 or not line.strip():
            continue
        entries.append(parse_line(number, line))
    return entries


def total(entries):
    """The sum of the entries, as the statement's last page states it."""
    return round(sum(entry.amount for entry in entries), 2)
'''

_TEST = '''"""Statements of {title}."""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from checks import check, fails

from ledgerline.importers import {name}
from ledgerline.statements import StatementError

STATEMENT = pathlib.Path(__file__).parent.parent / "data/statements/{name}-2024-03.csv"


def test_every_row_is_read():
    check(len({name}.read_statement(STATEMENT)), {rows})


def test_total_is_the_banks_own():
    check(str({name}.total({name}.read_statement(STATEMENT))), "{total}")


def test_a_short_line_names_bank_and_number():
    fails(StatementError, lambda: {name}.parse_line(9, "only one cell"), "{name} line 9: 1 cells")
'''

_SHOPS = (
    "Pelican Paper",
    "Orchard Books",
    "Harbour Tools",
    "Linden Cafe",
    "Maple Print",
    "Corner Lamps",
    "Tern Travel",
    "Willow Textiles",
    "Granite Works",
    "Blue Kettle",
    "Saffron Kitchen",
    "Northern Cables",
)
_WHY = (
    "goods",
    "rent",
    "insurance",
    "refund of a returned lamp",
    "subscription",
    "freight and customs",
    "salary advance",
    "office supplies, second half of the order",
    "invoice {}",
    "card fees",
)


def _signed(cents: int, style: str) -> str:
    whole, part = divmod(abs(cents), 100)
    sign = "-" if cents < 0 else ""
    return {
        "comma": f"{sign}{whole},{part:02d}",
        "gaps": f"{sign}{whole},{part:02d}",
        "point": f"{sign}{whole}.{part:02d}",
        "trailing": f"{whole},{part:02d}{sign}",
        "dotted": f"{sign}{whole:,}".replace(",", ".") + f",{part:02d}",
        "cents": str(cents),
        "quote": f"{sign}{whole:,}".replace(",", "'") + f".{part:02d}",
        "columns": f"{whole}.{part:02d}",
    }[style]


def statement(bank: Bank) -> tuple[str, int, int]:
    """One month's statement of a bank: its text, its number of entries and their sum in cents."""
    dice = Dice(len(bank.layout) * 131 + bank.rows)
    lines, total = [bank.delimiter.join(bank.columns)], 0
    balance = 1_250_000
    for index in range(bank.rows):
        cents = dice.between(150, 420_000) * (1 if dice.below(5) else -1)
        cells = {
            "day": f"2024-03-{1 + index * 30 // bank.rows:02d}",
            "reference": f"{bank.name[:3].upper()}{dice.between(10**7, 10**8 - 1)}",
            "text": f"{dice.pick(_SHOPS)}: {dice.pick(_WHY).format(f'INV-2024-{dice.between(1, 480):05d}')}",
            "currency": "EUR",
        }
        if bank.style == "gaps" and index % 17 == 11:
            lines.append(
                bank.delimiter.join({**cells, "amount": "", "text": "notice: terms changed"}[c] for c in bank.columns)
            )
            continue
        total += cents
        balance += cents
        cells |= {"amount": _signed(cents, bank.style), "balance": _signed(balance, bank.style)}
        cells["debit" if cents < 0 else "credit"] = _signed(cents, bank.style)
        lines.append(bank.delimiter.join(cells.get(column, "") for column in bank.columns))
    entries = bank.rows - sum(1 for index in range(bank.rows) if bank.style == "gaps" and index % 17 == 11)
    return "\n".join(lines) + "\n", entries, total


def _amount_code(bank: Bank) -> str:
    if bank.style == "columns":
        return '        amount = parse_amount(row["credit"] or "0") - parse_amount(row["debit"] or "0")'
    return '        amount = parse_amount(row["amount"])'


def _rates() -> str:
    rows = []
    for region_index, region in enumerate(REGIONS):
        for class_index, name in enumerate(CLASSES):
            base = (20 - region_index % 3, 7 + region_index % 2, 5, 9 - region_index % 4)[class_index]
            rows += [
                f'    ("{region}", "{name}", "2022-01-01", "0.{base + 1:02d}"),',
                f'    ("{region}", "{name}", "2024-01-01", "0.{base:02d}"),',
            ]
    table = "\n".join(rows)
    return f'''"""Tax rates by region, class and first day of validity."""


class TaxError(ValueError):
    """No rate is known."""


RATES = [
{table}
]


def rate_for(region, tax_class, day):
    """The rate that holds on a day, as a number."""
    best = None
    for known_region, known_class, first, rate in RATES:
        if (known_region, known_class) == (region, tax_class) and first <= day:
            best = rate
    if best is None:
        raise TaxError(f"no rate for {{region}}/{{tax_class}} on {{day}}")
    return float(best)
'''


def _rate(region: str, name: str) -> Fraction:
    region_index, class_index = REGIONS.index(region), CLASSES.index(name)
    return Fraction((20 - region_index % 3, 7 + region_index % 2, 5, 9 - region_index % 4)[class_index], 100)


def invoices(count: int, seed: int) -> str:
    """A month of invoices with the totals that the rounding rules give."""
    dice = Dice(seed)
    lines = ["number;region;day;lines;gross"]
    for index in range(1, count + 1):
        region, net = dice.pick(REGIONS), dict.fromkeys(CLASSES, 0)
        items = []
        for _ in range(dice.between(1, 6)):
            name, quantity, cents = dice.pick(CLASSES), dice.between(1, 9), dice.between(5, 29_999)
            net[name] += quantity * cents
            items.append(f"{name}:{quantity}:{cents // 100}.{cents % 100:02d}")
        gross = sum(net.values())
        for name, cents in net.items():
            gross += int(cents * _rate(region, name) + Fraction(1, 2))
        day = f"2024-03-{1 + index * 30 // count:02d}"
        lines.append(f"INV-2024-{index:05d};{region};{day};{'|'.join(items)};{gross // 100}.{gross % 100:02d}")
    return "\n".join(lines) + "\n"


def nightly_log(day: int, count: int) -> str:
    """What the nightly job wrote on one night of March."""
    dice = Dice(9000 + day)
    lines, second = [], 7_200
    for index in range(count):
        second += dice.between(1, 9)
        stamp = f"2024-03-{day:02d}T{second // 3600:02d}:{second // 60 % 60:02d}:{second % 60:02d}Z"
        bank = BANKS[index * len(BANKS) // count]
        kind = dice.below(23)
        number = f"INV-2024-{dice.between(1, 480):05d}"
        if kind == 0:
            cents = dice.pick(("0.01", "-0.01", "0.02"))
            lines.append(f"{stamp} WARN  match {number}: paid amount differs by {cents}, left open")
        elif kind == 1:
            text = f"{bank.name} line {dice.between(2, 99)}: not an amount"
            lines.append(f"{stamp} ERROR import {bank.name}: StatementError: {text}")
        elif kind < 9:
            lines.append(
                f"{stamp} INFO  import {bank.name}: entry {bank.name[:3].upper()}{dice.between(10**7, 10**8 - 1)} read"
            )
        else:
            lines.append(f"{stamp} INFO  match {number}: paid in full by {dice.pick(_SHOPS)} ({bank.name})")
    return "\n".join(lines) + "\n"


def files() -> dict[str, str]:
    """The whole project as path to text."""
    tree = unpack("ledgerline") | {"tools/runtests.py": unpack_runner(), "ledgerline/tax.py": _rates()}
    for bank in BANKS:
        text, rows, cents = statement(bank)
        fields = {"name": bank.name, "title": bank.title, "columns": bank.columns, "delimiter": bank.delimiter}
        tree[f"data/statements/{bank.name}-2024-03.csv"] = text
        tree[f"ledgerline/importers/{bank.name}.py"] = _IMPORTER.format(
            **fields, layout=bank.layout, clean=bank.clean, amount=_amount_code(bank)
        )
        sign = "-" if cents < 0 else ""
        stated = f"{sign}{abs(cents) // 100:,}.{abs(cents) % 100:02d}"
        tree[f"tests/test_import_{bank.name}.py"] = _TEST.format(**fields, rows=rows, total=stated)
    tree["data/invoices-2024-03.csv"] = invoices(420, 31)
    tree["data/archive/invoices-2023-12.csv"] = invoices(90, 12)
    for day in (16, 17, 18):
        tree[f"logs/nightly-2024-03-{day}.log"] = nightly_log(day, 150 + 20 * (day - 16))
    return tree


def unpack_runner() -> str:
    """The small test runner that all invented projects share."""
    from pathlib import Path

    return (Path(__file__).parent / "runtests.py.txt").read_text(encoding="utf-8")
