# ruff: noqa: E501 - a script's sentences stay in one piece
"""The long sample, second act: money, tax and invoices go over to whole cents."""

from __future__ import annotations

from ..agent import Agent, bash, edit, grep, read, write

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


def rewrite_core(agent: Agent) -> None:
    """Rewrite money.py, then the tax by class, with one wrong turn that the user corrects."""
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
