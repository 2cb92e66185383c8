# ruff: noqa: E501 - a script's sentences stay in one piece
"""The long sample, third act: eight importers, one after the other."""

from __future__ import annotations

from ..agent import Agent, bash, edit, read
from ..trees import ledgerline

# bank, what the agent says on reading it, the expression that replaces the float, what it says afterwards
BANKS = (
    (
        "nordhaven",
        "nordhaven writes a decimal comma and a minus in front. No surprises, I hope: it is the simplest of the eight.",
        'Money.parse(text.replace(",", "."))',
        "nordhaven is green. The pattern holds, so the other banks follow it.",
    ),
    (
        "silverlake",
        "silverlake uses a comma as delimiter. The very first run said `silverlake line 18: 5 cells, expected 4`, so there "
        "is a second fault here besides the float.",
        "Money.parse(text)",
        "Both silverlake faults are gone.",
    ),
    (
        "quaymark",
        "quaymark puts the minus behind the number, `12,50-`. `Money.parse` must not learn that: it is the bank's shape and "
        "belongs in the bank's module.",
        'Money.parse(("-" + text[:-1] if text.endswith("-") else text).replace(",", "."))',
        "quaymark reads all 71 rows and its total agrees with the bank's own.",
    ),
    (
        "tallport",
        "tallport has points as thousands separators and a running balance. The balance is worth a check: if the entries are "
        "right, they explain every step of it.",
        'Money.parse(text.replace(".", "").replace(",", "."))',
        "tallport agrees to the cent, balance included.",
    ),
    (
        "brightwell",
        'brightwell has two columns, debit and credit, and one of them is always empty. `"0"` stands in for the empty one, '
        "that still parses.",
        "Money.parse(text)",
        "brightwell done; subtraction of two Money values works as it did with floats.",
    ),
    (
        "oakmere",
        "oakmere is the one with information rows: `oakmere line 13` failed with an empty amount at the very start. Those rows are "
        "not payments and must be left out, but only when the amount is empty.",
        'Money.parse(text.replace(",", "."))',
        "78 entries: 83 rows less five notices. That is the number the test expects.",
    ),
    (
        "fernway",
        "fernway writes whole cents and, like silverlake, has its free text last behind a comma delimiter. Here the float was worst: "
        "cents were divided by 100 just to be multiplied again.",
        "Money(int(text))",
        "fernway no longer touches a float at all.",
    ),
    (
        "stonebridge",
        "stonebridge is last: tabs, and an apostrophe as thousands separator.",
        'Money.parse(text.replace("\'", ""))',
        "All eight banks are on whole cents.",
    ),
)

LOOKS = (
    "I don't trust a total alone: two wrong entries can cancel out. The entries as they are read now:",
    "The entries, to see that the text behind the comma is really kept.",
    "Here the trailing minus matters, so I look at the signs.",
    "The entries again, now that the balance agrees.",
    "Debits must come out negative.",
    "No notice may be among the entries.",
    "Cents in, cents out:",
    "And the entries of the last bank, the apostrophes are the thing to look at.",
)

LISTING = """python3 -c "
from ledgerline.importers import {name} as bank
for number, entry in enumerate(bank.read_statement('data/statements/{name}-2024-03.csv'), 1):
    print(number, entry.day, entry.amount.format(), entry.reference, entry.text, sep=' | ')
\""""


def move_bank(agent: Agent, index: int) -> None:
    """Move one bank's importer to whole cents and look at what it reads."""
    name, before, expression, after = BANKS[index]
    module, test = f"ledgerline/importers/{name}.py", f"tests/test_import_{name}.py"
    agent.turn(before, read(module), bash(f"cat data/statements/{name}-2024-03.csv"))
    old = next(bank for bank in ledgerline.BANKS if bank.name == name).clean
    agent.turn(
        "",
        edit(module, f"return float({old})", f"return {expression}"),
        edit(module, "from ledgerline.statements", "from ledgerline.money import Money\nfrom ledgerline.statements"),
    )
    if index == 0:
        agent.turn("", bash(f"python3 tools/runtests.py {test}"))
        agent.turn(
            "The total still uses round() on a sum of numbers: `TypeError: unsupported operand`. It should add Money values and print them "
            "by rule R6, the test expects `62,420.83`.",
            edit(
                module,
                "return round(sum(entry.amount for entry in entries), 2)",
                "return sum((entry.amount for entry in entries), Money(0)).format()",
            ),
        )
    else:
        agent.turn(
            "The same change to `total` as in nordhaven.py.",
            edit(
                module,
                "return round(sum(entry.amount for entry in entries), 2)",
                "return sum((entry.amount for entry in entries), Money(0)).format()",
            ),
        )
    agent.turn("", bash(f"python3 tools/runtests.py {test}"))
    if name in ("silverlake", "fernway"):
        agent.turn(
            "Now the comma inside the text. The text is the last column, so a limit on the number of splits keeps it whole.",
            edit(module, "split(DELIMITER)\n", "split(DELIMITER, len(COLUMNS) - 1)\n"),
        )
        agent.turn("", bash(f"python3 tools/runtests.py {test}"))
    if name == "oakmere":
        agent.turn(
            "`oakmere line 13: not an amount: ''`, the information row. read_statement should skip it, parse_line should not know about it.",
            edit(
                module,
                "        if number == 1 or not line.strip():",
                '        if number == 1 or not line.strip() or line.split(DELIMITER)[1] == "":',
            ),
        )
        agent.turn("", bash(f"python3 tools/runtests.py {test}"))
    if name == "tallport":
        agent.turn(
            "I check the running balance with a throw-away command.",
            bash(
                'python3 -c "\nfrom ledgerline.importers.tallport import *\nfrom ledgerline.money import Money\nlast = Money(1250000)\n'
                "for line in open('data/statements/tallport-2024-03.csv').read().splitlines()[1:]:\n    day, ref, amount, balance, text = line.split('|')\n"
                "    step = parse_amount(balance) - last\n    print(day, ref, amount, balance, 'ok' if step == parse_amount(amount) else 'DIFFERS')\n"
                '    last = parse_amount(balance)\n"'
            ),
        )
    agent.turn(LOOKS[index], bash(LISTING.format(name=name), f"Entries of {name}"))
    if index % 3 != 1:
        agent.turn(
            after + " A run over everything, to see that nothing else moved.", bash("python3 tools/runtests.py -v")
        )
    else:
        agent.turn(after, bash("python3 tools/runtests.py | grep -E '^tests|passed'"))
