# ruff: noqa: E501 - a script's sentences stay in one piece
"""The long sample: floats become whole cents in a whole library, bank by bank, until the window is far behind."""

from __future__ import annotations

from ..agent import Agent, bash, edit, grep, read, write
from ..story import Story
from ..trees import ledgerline
from ..writers import neutral

SYSTEM = """You are a coding agent that works in /home/dev/project. You have read_file, grep, bash, edit_file and write_file.
Read a file before you change it. Run the tests after every change. Say what you are about to do in a sentence or two, then do
it. When a command fails, read its output before you try again. Keep to the user's constraints for the whole session."""

TASK = """Some of our customers complain about invoices that are one cent off, for example INV-2024-00330. I want ledgerline to
count in whole cents everywhere instead of floats. Some rules for this work:

- You must never change anything under data/, and data/archive is not even to be read by new code.
- Always run python3 tools/runtests.py after a change, and do not go to the next module while the current one is red.
- The output formats in ledgerline/export.py must stay byte for byte the same (rule R6 in docs/rounding.md).
- Only the standard library. Do not add a dependency.
- Keep `Money.amount` working for now, other teams read it. It may become a property.

Start by reading what is there and tell me your plan before you change any code."""

MONEY = '''"""Amounts of money, as whole minor units (rule R1 of docs/rounding.md)."""
import re
from fractions import Fraction

PLAIN = re.compile(r"(-?)(\\d+|\\d{1,3}(?:,\\d{3})+)(?:\\.(\\d{1,2}))?")


class MoneyFormatError(ValueError):
    """A text that is not an amount."""


def round_half_away(value):
    """A fraction as the nearest whole number; halves go away from zero (rule R3)."""
    sign = -1 if value < 0 else 1
    return sign * int(abs(value) + Fraction(1, 2))


class Money:
    """An amount in one currency."""

    __slots__ = ("minor", "currency")

    def __init__(self, minor, currency="EUR"):
        if not isinstance(minor, int):
            raise TypeError(f"Money takes whole minor units, got {type(minor).__name__}")
        self.minor = minor
        self.currency = currency

    @classmethod
    def parse(cls, text, currency="EUR"):
        found = PLAIN.fullmatch(text.strip())
        if not found:
            raise MoneyFormatError(f"not an amount: {text!r}")
        sign, whole, part = found.groups()
        minor = int(whole.replace(",", "")) * 100 + int((part or "0").ljust(2, "0"))
        return cls(-minor if sign else minor, currency)

    @property
    def amount(self):
        """The amount as a float, for the teams that still read it."""
        return self.minor / 100

    def __add__(self, other):
        if self.currency != other.currency:
            raise ValueError(f"cannot add {other.currency} to {self.currency}")
        return Money(self.minor + other.minor, self.currency)

    def __sub__(self, other):
        return self + Money(-other.minor, other.currency)

    def __eq__(self, other):
        return isinstance(other, Money) and (self.minor, self.currency) == (other.minor, other.currency)

    def __hash__(self):
        return hash((self.minor, self.currency))

    def __repr__(self):
        return f"Money({self.format()!r}, {self.currency!r})"

    def times(self, factor):
        """The amount times an exact factor, rounded once."""
        return Money(round_half_away(self.minor * Fraction(factor)), self.currency)

    def split(self, parts):
        """Equal parts; the first get the remainder (rule R5)."""
        share, rest = divmod(abs(self.minor), parts)
        sign = -1 if self.minor < 0 else 1
        return [Money(sign * (share + (index < rest)), self.currency) for index in range(parts)]

    def format(self):
        whole, part = divmod(abs(self.minor), 100)
        return f"{'-' if self.minor < 0 else ''}{whole:,}.{part:02d}"
'''

# bank, what the agent says on reading it, the expression that replaces the float, what it says afterwards
BANKS = (
    ("nordhaven", "nordhaven writes a decimal comma and a minus in front. No surprises, I hope: it is the simplest of the eight.",
     'Money.parse(text.replace(",", "."))', "nordhaven is green. The pattern holds, so the other banks follow it."),
    ("silverlake", "silverlake uses a comma as delimiter. The very first run said `silverlake line 18: 5 cells, expected 4`, so there "
     "is a second fault here besides the float.", "Money.parse(text)", "Both silverlake faults are gone."),
    ("quaymark", "quaymark puts the minus behind the number, `12,50-`. `Money.parse` must not learn that: it is the bank's shape and "
     "belongs in the bank's module.", 'Money.parse(("-" + text[:-1] if text.endswith("-") else text).replace(",", "."))',
     "quaymark reads all 71 rows and its total agrees with the bank's own."),
    ("tallport", "tallport has points as thousands separators and a running balance. The balance is worth a check: if the entries are "
     "right, they explain every step of it.", 'Money.parse(text.replace(".", "").replace(",", "."))',
     "tallport agrees to the cent, balance included."),
    ("brightwell", "brightwell has two columns, debit and credit, and one of them is always empty. `\"0\"` stands in for the empty one, "
     "that still parses.", "Money.parse(text)", "brightwell done; subtraction of two Money values works as it did with floats."),
    ("oakmere", "oakmere is the one with information rows: `oakmere line 13` failed with an empty amount at the very start. Those rows are "
     "not payments and must be left out, but only when the amount is empty.", 'Money.parse(text.replace(",", "."))',
     "78 entries: 83 rows less five notices. That is the number the test expects."),
    ("fernway", "fernway writes whole cents and, like silverlake, has its free text last behind a comma delimiter. Here the float was worst: "
     "cents were divided by 100 just to be multiplied again.", "Money(int(text))", "fernway no longer touches a float at all."),
    ("stonebridge", "stonebridge is last: tabs, and an apostrophe as thousands separator.", 'Money.parse(text.replace("\'", ""))',
     "All eight banks are on whole cents."),
)  # fmt: skip

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


def _explore(agent: Agent) -> None:
    agent.system(SYSTEM)
    agent.user(TASK)
    agent.turn(
        "I'll get an overview first.",
        bash("find . -type f | grep -v data/archive | sort | head -60"),
        read("README.md"),
    )
    agent.turn("The rounding rules decide what is right, so I read them before the code.", read("docs/rounding.md"))
    agent.turn("", read("ledgerline/money.py"))
    agent.turn(
        "`Money.amount` is a float, `times` uses round() on floats, which is half to even on a binary value, and `split` "
        "ignores the remainder: R1, R3 and R5 are all broken here. Next the invoice and the tax code.",
        read("ledgerline/invoice.py"),
        read("ledgerline/tax.py"),
    )
    agent.turn(
        "Tax is added line by line, against R4. Now how the output is made.",
        read("ledgerline/export.py"),
        read("docs/importers.md"),
    )
    agent.turn("Where are floats used at all?", grep("float\\(|round\\(|\\.amount"))
    agent.turn(
        "Each importer has its own `float(...)` and its own `round(sum(...))`. Let me see where the tests stand before I touch "
        "anything.",
        bash("python3 tools/runtests.py", "Run all tests for a baseline"),
    )
    agent.turn(
        "18 failures before I begin. I want the names of all tests as well, so that I can compare later.",
        bash("python3 tools/runtests.py -v | grep -E ' (ok|FAILED)$'"),
    )
    agent.turn(
        "The importers in one go, to see how alike they are.", bash("cat ledgerline/importers/*.py", "All importers")
    )
    agent.turn(
        "And the complaint itself.", bash("python3 tools/reconcile.py data/invoices-2024-03.csv --only INV-2024-00330")
    )
    agent.turn(
        "INV-2024-00330 really differs by two cents. How many others do?",
        bash("python3 tools/reconcile.py data/invoices-2024-03.csv"),
    )
    agent.turn(
        "So these are not single cases. I'd like to see one nightly log, since it names what was left open.",
        bash("cat logs/nightly-2024-03-18.log"),
    )
    agent.turn(
        "`paid amount differs by 0.01, left open` appears there too. What do the invoices themselves look like?",
        bash("sed -n '1,140p' data/invoices-2024-03.csv"),
    )
    agent.turn(
        "Prices have two digits everywhere, quantities are small. One night earlier, to see whether the errors repeat.",
        bash("cat logs/nightly-2024-03-17.log"),
    )
    agent.turn(
        "Plan:\n\n1. `Money` on whole cents (`minor`), `amount` as a read-only property, `MoneyFormatError` kept.\n2. Rates as exact "
        "fractions in `tax.py`; tax per rate in `Invoice.tax_total` (R4).\n3. The eight importers, one after the other, tests green after "
        "each. Two have faults beyond floats: silverlake line 18 (comma in text) and oakmere line 13 (empty amount).\n4. Reconcile March "
        "with tools/reconcile.py; the aim is `0 of 420 invoices differ`.\n5. Docs and a version number.\n\nexport.py stays as it is. "
        "Nothing under data/ is written."
    )
    agent.user(
        "Good plan. One more constraint: the class name MoneyFormatError and its message `not an amount:` must stay, the alerting "
        "searches for it. Go ahead."
    )


def _core(agent: Agent) -> None:
    agent.turn("First I check who depends on that message.", grep("not an amount", ".", "*"))
    agent.turn(
        "The log lines come from it, so the text stays exactly. Let me see the money tests.",
        read("tests/test_money.py"),
    )
    agent.turn(
        "One row stands against R1: `2.675` is not a whole number of cents and should be refused, not rounded on reading. I write the "
        "new module now and come back to that row.",
        write("ledgerline/money.py", MONEY),
    )
    agent.turn("", bash("python3 tools/runtests.py tests/test_money.py"))
    agent.turn(
        "As expected only the row with 2.675 is left: `MoneyFormatError: not an amount: '2.675'`. I replace it with a case that tests "
        "the same half on a real amount: 26.75 times 0.1 is 2.675, so 2.68.",
        edit("tests/test_money.py", '("2.675", "1", "2.68")', '("26.75", "0.1", "2.68")'),
    )
    agent.turn("", bash("python3 tools/runtests.py tests/test_money.py"))
    agent.turn(
        "Money is green: R1, R3 and R5 hold. Now `Fraction(factor)` must never see a float, or the binary error comes back by the "
        "rear door. The rates are kept as text in RATES and turned into floats at the end of rate_for; that is the place.",
        edit("ledgerline/tax.py", "return float(best)", "return Fraction(best)"),
    )
    agent.turn("", bash("python3 tools/runtests.py tests/test_invoice.py"))
    agent.turn(
        "I forgot the import.",
        edit("ledgerline/tax.py", "\n\nclass TaxError", "\nfrom fractions import Fraction\n\n\nclass TaxError"),
    )
    agent.turn("", bash("python3 tools/runtests.py tests/test_invoice.py"))
    agent.turn(
        "What is left is R4: '0.08' expected, '0.09' got, because three pens of 0.13 are taxed one by one. Sum per class first, then tax.",
        edit(
            "ledgerline/invoice.py",
            "        total = Money(0)\n        for line in self.lines:\n            rate = rate_for(self.region, line.tax_class, self.day)\n"
            "            total = total + line.net().times(rate)\n        return total",
            "        sums = {}\n        for line in self.lines:\n            sums[line.tax_class] = sums.get(line.tax_class, Money(0)) + line.net()\n"
            "        total = Money(0)\n        for tax_class, net in sums.items():\n"
            "            total = total + net.times(rate_for(self.region, tax_class, self.day))\n        return total",
        ),
    )
    agent.turn("", bash("python3 tools/runtests.py tests/test_invoice.py"))
    agent.turn(
        'R4 says "the lines of one rate", and two classes could have the same rate on one day. Is that so anywhere in RATES?',
        bash("grep -E '\"(coast|hills)\"' ledgerline/tax.py"),
    )
    agent.turn(
        "It can happen (for instance when reduced and food meet at one rate). To be true to the words of R4 I group by the rate itself.",
        edit(
            "ledgerline/invoice.py",
            "            sums[line.tax_class] = sums.get(line.tax_class, Money(0)) + line.net()\n        total = Money(0)\n"
            "        for tax_class, net in sums.items():\n            total = total + net.times(rate_for(self.region, tax_class, self.day))",
            "            rate = rate_for(self.region, line.tax_class, self.day)\n            sums[rate] = sums.get(rate, Money(0)) + line.net()\n"
            "        total = Money(0)\n        for rate, net in sums.items():\n            total = total + net.times(rate)",
        ),
    )
    agent.turn(
        "",
        bash("python3 tools/runtests.py tests/test_invoice.py"),
        bash("python3 tools/runtests.py tests/test_export.py"),
    )
    agent.turn(
        "Invoice and export are green and export.py is untouched. What does the reconciliation say now?",
        bash("python3 tools/reconcile.py data/invoices-2024-03.csv"),
    )
    agent.turn(
        "A few are left. They must be the ones where two classes share a rate: the accountant's figures seem to be taken by class. "
        "I look at one of them.",
        bash(
            "python3 tools/reconcile.py data/invoices-2024-03.csv | sed -n 1p | cut -d' ' -f1 | "
            "while read number; do grep $number data/invoices-2024-03.csv; done"
        ),
    )
    agent.turn(
        "Yes, reduced and food, or two others of the same rate, in one invoice. The recorded totals follow classes, the sentence in R4 "
        "follows rates. That is a question for you, not for me to decide."
    )
    agent.user(
        "Ah. The accountant means tax classes, the sentence in R4 is sloppy. Do it by class, and correct the sentence in docs/rounding.md "
        "when you come to the docs. Never mix two classes."
    )
    agent.turn(
        "Then back to the first version.",
        edit(
            "ledgerline/invoice.py",
            "            rate = rate_for(self.region, line.tax_class, self.day)\n            sums[rate] = sums.get(rate, Money(0)) + line.net()\n"
            "        total = Money(0)\n        for rate, net in sums.items():\n            total = total + net.times(rate)",
            "            sums[line.tax_class] = sums.get(line.tax_class, Money(0)) + line.net()\n        total = Money(0)\n"
            "        for tax_class, net in sums.items():\n            total = total + net.times(rate_for(self.region, tax_class, self.day))",
        ),
    )
    agent.turn(
        "",
        bash("python3 tools/runtests.py tests/test_invoice.py"),
        bash("python3 tools/reconcile.py data/invoices-2024-03.csv"),
    )
    agent.turn(
        "`0 of 420 invoices differ`, INV-2024-00330 among them. The core is done; now the banks, which are red because they still make "
        "floats.",
        bash("python3 tools/runtests.py"),
    )


def _bank(agent: Agent, index: int) -> None:
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


def _finish(agent: Agent) -> None:
    agent.turn("No float should be left outside `Money.amount`.", grep("float\\(|round\\("))
    agent.turn("Only words in comments. The whole suite, in full.", bash("python3 tools/runtests.py -v"))
    agent.user(
        "Nice. Before you write the docs: in last night's log there are warnings about paid amounts that differ by a cent. Are these explained by "
        "the same fault? Check the three logs, and do not forget that you must not write into data/."
    )
    agent.turn("", bash("grep -h 'differs by' logs/nightly-2024-03-1*.log"))
    agent.turn(
        "I need the numbers of those invoices against the list of invoices that differed before the change. The old code is gone, "
        "but the old figures are in the first reconciliation; I rather count from the log.",
        bash(
            "grep -h 'differs by' logs/nightly-2024-03-1*.log | sed 's/.*match \\(INV-[0-9-]*\\):.*/\\1/' | LC_ALL=C sort -u"
        ),
    )
    agent.turn(
        "Several are numbers above INV-2024-00420, which are not in data/invoices-2024-03.csv at all. Let me see what else the job says about them.",
        bash(
            "grep -hE 'INV-2024-004(2[1-9]|[3-8][0-9])' logs/nightly-2024-03-16.log logs/nightly-2024-03-17.log logs/nightly-2024-03-18.log"
        ),
    )
    agent.turn(
        "And the 17th in whole, because the import errors are in it too.", bash("cat logs/nightly-2024-03-17.log")
    )
    agent.turn("", bash("cat logs/nightly-2024-03-16.log"))
    agent.turn(
        "The errors name lines and banks, `StatementError: oakmere line ...: not an amount`, in all banks, not only in those two. That text comes "
        "from parse_amount of each module.",
        grep("ERROR", "logs", "*.log"),
    )
    agent.turn(
        "So: the warnings of one or two cents have the size of the old fault, but the log does not hold enough to prove it for each invoice. The "
        "numbers above 00420 belong to April and cannot be checked against March's list. The import errors are the silverlake and fernway "
        "commas and the oakmere notices as far as these banks go; for the other banks the statement of that night is not in the repository."
    )
    agent.user(
        "Fair. Write a small regression test for the reconciliation so that we notice it, then the docs. Do not put the test's data into data/."
    )
    agent.turn(
        "The test builds its rows in code.",
        write(
            "tests/test_reconcile.py",
            '''"""March's complaints stay solved."""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from checks import check, rows

from ledgerline.invoice import invoice_from_row

ROOT = pathlib.Path(__file__).parent.parent


def test_every_invoice_of_march_agrees():
    differing = []
    for row in (ROOT / "data/invoices-2024-03.csv").read_text().splitlines()[1:]:
        invoice, recorded = invoice_from_row(row)
        if invoice.gross_total() != recorded:
            differing.append(invoice.number)
    check(differing, [])


@rows(("standard:1:0.13|standard:1:0.13|standard:1:0.13", "0.47"), ("standard:3:0.05|food:3:0.05", "0.34"))
def test_tax_is_taken_by_class(lines, gross):
    invoice, _ = invoice_from_row(f"INV-2024-09999;north;2024-03-18;{lines};0.00")
    check(invoice.gross_total().format(), gross)
''',
        ),
    )
    agent.turn("", bash("python3 tools/runtests.py tests/test_reconcile.py"))
    agent.turn(
        "Let me do the arithmetic of my own rows again: north has 20 % standard, so 0.39 gives tax 0.078, that is 0.08 and 0.47 gross. "
        "For the second: 0.15 at 20 % is 0.03, 0.15 at 9 % is 0.0135, that is 0.01; gross 0.34. Both hold. I break the code on purpose to see the test go red.",
        bash(
            "sed -i.bak 's/sums.get(line.tax_class, Money(0)) + line.net()/line.net()/' ledgerline/invoice.py && "
            "python3 tools/runtests.py tests/test_reconcile.py | cut -c1-400; mv ledgerline/invoice.py.bak ledgerline/invoice.py"
        ),
    )
    agent.turn(
        "Red as it should be, and restored.",
        bash("python3 tools/runtests.py tests/test_reconcile.py tests/test_invoice.py"),
    )
    agent.turn(
        "Now the sentence of R4.",
        edit(
            "docs/rounding.md",
            "R4. Tax is computed on the sum of the lines of one rate, not line by line.",
            "R4. Tax is computed on the sum of the lines of one tax class, not line by line. Two classes are never mixed, "
            "even where their rates are equal.",
        ),
    )
    agent.turn(
        "And the incident that started this, in the same list as INV-2023-01188.",
        edit(
            "docs/rounding.md",
            "Led to R5.",
            "Led to R5.\n- 2024-03: floats made INV-2024-00330 and others one or two cents wrong. Led to whole cents in `ledgerline/money.py`.",
        ),
    )
    agent.turn(
        "The importers page should say what the banks taught us.",
        edit(
            "docs/importers.md",
            "Statements are never edited by hand.",
            "Statements are never edited by hand.\n\nFree text may hold the delimiter (silverlake, fernway): it is the last column, so the line is split at most\n"
            "`len(COLUMNS) - 1` times. Rows without an amount (oakmere) are notices and are skipped by `read_statement`.",
        ),
    )
    agent.turn("", bash("cat docs/rounding.md docs/importers.md"))
    agent.turn(
        "Version: the public names are the same, but `Money(12.5)` now raises TypeError, so this is not a patch release.",
        edit("ledgerline/__init__.py", 'VERSION = "3.4.1"', 'VERSION = "3.5.0"'),
    )
    agent.turn("", bash("python3 tools/runtests.py"), bash("python3 tools/build.py"))
    agent.user(
        "Does anything else construct Money from a float? And confirm that export.py has not changed since the start."
    )
    agent.turn("", grep("Money\\(", "ledgerline"))
    agent.turn(
        "Only `Money(0)`, `Money(int(text))` in fernway and the class itself. For export.py I compare its length and check sum with what build.py "
        "prints, and read it once more.",
        bash("python3 tools/build.py | grep export"),
        read("ledgerline/export.py"),
    )
    agent.turn(
        "It is the file I read at the start: `CSV_HEADER`, `csv_line`, `text_page`, nothing moved. A last look at the whole reconciliation, both ways.",
        bash(
            "python3 tools/reconcile.py data/invoices-2024-03.csv; python3 tools/reconcile.py data/invoices-2024-03.csv --only INV-2024-00330"
        ),
    )
    agent.turn(
        "Done. Summary:\n\n- `ledgerline/money.py` counts whole cents; `amount` is a property; `MoneyFormatError` with `not an amount:` is unchanged.\n"
        "- `tax.py` gives exact fractions, `Invoice.tax_total` sums by tax class (R4 as you corrected it).\n- All eight importers are moved; silverlake "
        "and fernway keep commas in their text, oakmere skips notices.\n- `tests/test_reconcile.py` holds March to the cent: 0 of 420 invoices differ.\n"
        "- docs/rounding.md and docs/importers.md say why. Version 3.5.0.\n\nNothing under data/ was written, export.py is untouched, no dependency was added."
    )


def _play(agent: Agent) -> None:
    _explore(agent)
    _core(agent)
    for index in range(len(BANKS)):
        _bank(agent, index)
    _finish(agent)


STORY = Story(
    file="long-migration-permanent-emergency.jsonl",
    format="neutral messages",
    happens="Floats become whole cents, bank by bank. In view mode every tier fires and then Emergency never ends; with "
    "write-back the same session stays healthy.",
    files=ledgerline.files,
    play=_play,
    write=neutral.write,
    model="claude-sonnet-4-5",
    window=64_000,
    start=1_710_842_400_000,
    system=SYSTEM,
)  # fmt: skip
