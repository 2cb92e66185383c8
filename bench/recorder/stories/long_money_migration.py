# ruff: noqa: E501 - a script's sentences stay in one piece
"""The long sample: floats become whole cents in a whole library, bank by bank, until the window is far behind."""

from __future__ import annotations

from ..agent import Agent, bash, edit, grep, read, write
from ..story import Story
from ..trees import ledgerline
from ..writers import neutral
from ._money_banks import BANKS, move_bank
from ._money_core import rewrite_core

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
    rewrite_core(agent)
    for index in range(len(BANKS)):
        move_bank(agent, index)
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
)
