# ruff: noqa: E501 - a script's sentences stay in one piece
"""A dsh session with large results: pruning them is enough, no summary is needed."""

from __future__ import annotations

from ..agent import Agent, Billing, bash, edit, grep, read, write
from ..story import Story
from ..trees import ledgerline
from ..writers import dsh

SYSTEM = """You are a coding agent in a headless harness, at work in /home/dev/project. Inspect text files with read_file and search with grep. Run the code or the
tests to verify what you claim. Each bash result may end with [exit code: N]; look into failures before you go on. Answer briefly and with facts."""

REPORT = '''"""Which entries name an invoice: python3 tools/named.py BANK."""
import importlib
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

bank = importlib.import_module(f"ledgerline.importers.{sys.argv[1]}")
entries = bank.read_statement(ROOT / f"data/statements/{sys.argv[1]}-2024-03.csv")
named = [(re.search(r"INV-\\\\d{4}-\\\\d{5}", entry.text), entry) for entry in entries]
for found, entry in named:
    if found:
        print(f"{found[0]} {entry.day} {entry.amount:>10.2f} {entry.reference} {entry.text}")
print(f"{sum(1 for found, _ in named if found)} of {len(entries)} entries name an invoice")
'''.replace("\\\\", "\\")


def _play(agent: Agent) -> None:
    agent.user(
        "Audit of March: list every bank entry that names an invoice (INV-2024-...), and check for each night's log whether the job saw it. Do not modify ledgerline/ or data/; "
        "a helper under tools/ is allowed. You must report numbers per bank, and never estimate."
    )
    agent.turn("First what there is.", bash("ls ledgerline/importers data/statements logs"), read("docs/importers.md"))
    agent.turn(
        "The three logs are the ground truth for what the job saw. The first night in whole.",
        bash("cat logs/nightly-2024-03-16.log"),
    )
    agent.turn(
        "Format understood: `match INV-...` for payments, `import <bank>: entry REF read` for entries. Second night.",
        bash("cat logs/nightly-2024-03-17.log"),
    )
    agent.turn("Third night.", bash("cat logs/nightly-2024-03-18.log"))
    agent.turn("Now the statements. The largest is tallport.", bash("cat data/statements/tallport-2024-03.csv"))
    agent.turn("I write a helper instead of reading all eight by eye.", write("tools/named.py", REPORT))
    agent.turn(
        "",
        bash(
            "for bank in nordhaven quaymark tallport brightwell stonebridge; do echo == $bank; python3 tools/named.py $bank; done"
        ),
    )
    agent.turn(
        "Five banks work. The other three fail to import, I know that from docs/importers.md only by hint; the errors:",
        bash(
            "for bank in silverlake fernway oakmere; do python3 -c \"import ledgerline.importers.$bank as b; b.read_statement('data/statements/$bank-2024-03.csv')\" 2>&1 | tail -1; done"
        ),
    )
    agent.turn(
        "`5 cells, expected 4`, `6 cells, expected 5` and an empty amount. I must not modify ledgerline/, so for these three I take the entries from the raw statements.",
        bash(
            "grep -hE 'INV-2024-[0-9]{5}' data/statements/silverlake-2024-03.csv data/statements/fernway-2024-03.csv data/statements/oakmere-2024-03.csv"
        ),
    )
    agent.turn(
        "Do the invoices exist? The list of March, in two parts.", bash("sed -n '1,150p' data/invoices-2024-03.csv")
    )
    agent.turn("", bash("sed -n '151,300p' data/invoices-2024-03.csv"))
    agent.turn("And the last part.", bash("sed -n '301,421p' data/invoices-2024-03.csv"))
    agent.turn(
        "The list ends at INV-2024-00420, while entries name numbers up to 00480. Those are April's. Which ones?",
        bash("grep -ohE 'INV-2024-004(2[1-9]|[3-8][0-9])' data/statements/*.csv | LC_ALL=C sort -u"),
    )
    agent.turn(
        "Now every named invoice against the three logs.",
        bash(
            "grep -ohE 'INV-2024-[0-9]{5}' data/statements/*.csv | LC_ALL=C sort -u | while read number; do echo $number $(grep -c \"match $number\" logs/nightly-2024-03-16.log) "
            '$(grep -c "match $number" logs/nightly-2024-03-17.log) $(grep -c "match $number" logs/nightly-2024-03-18.log); done'
        ),
    )
    agent.turn(
        "Per bank, as you asked.",
        bash(
            "for bank in nordhaven silverlake quaymark tallport brightwell oakmere fernway stonebridge; do echo $bank $(grep -cE 'INV-2024-[0-9]{5}' data/statements/$bank-2024-03.csv); done"
        ),
    )
    agent.user("Also show me the tests' view of the importers, in full, and the import errors of each night.")
    agent.turn("", bash("python3 tools/runtests.py -v"))
    agent.turn("", grep("ERROR", "logs", "*.log"))
    agent.turn(
        "The lines in the log name every bank, while with today's statements only silverlake, fernway and oakmere fail. Their modules:",
        read("ledgerline/importers/silverlake.py"),
        read("ledgerline/importers/fernway.py"),
        read("ledgerline/importers/oakmere.py"),
    )
    agent.turn(
        "I look at oakmere's statement, since its failure is of another kind.",
        bash("cat data/statements/oakmere-2024-03.csv"),
    )
    agent.turn(
        "Rows with the text `notice: terms changed` have no amount. That explains `oakmere line 13`. The other two statements once more:",
        bash("cat data/statements/silverlake-2024-03.csv"),
        bash("cat data/statements/fernway-2024-03.csv"),
    )
    agent.turn("", bash("cat data/statements/stonebridge-2024-03.csv"))
    agent.user(
        "Write it down in docs/audit-2024-03.md: numbers per bank, the three failures with their cause, nothing else."
    )
    agent.turn(
        "",
        bash(
            "{ echo '# Audit of March'; echo; for bank in nordhaven silverlake quaymark tallport brightwell oakmere fernway stonebridge; do echo \"- $bank: $(grep -cE 'INV-2024-[0-9]{5}' data/statements/$bank-2024-03.csv) entries name an invoice\"; done; } > docs/audit-2024-03.md"
        ),
    )
    agent.turn("", bash("cat docs/audit-2024-03.md"))
    agent.turn(
        "The causes below the numbers.",
        edit("docs/audit-2024-03.md", "- stonebridge:", "- (failures below)\n- stonebridge:"),
    )
    agent.turn(
        "That put the note in the middle of the list; the end is better.",
        edit("docs/audit-2024-03.md", "- (failures below)\n", ""),
    )
    agent.turn(
        "",
        bash(
            "printf '\\nFailures\\n\\n- silverlake line 18 and fernway line 13: a comma in the free text, which is also the delimiter\\n- oakmere line 13: a notice without an amount\\n' >> docs/audit-2024-03.md && cat docs/audit-2024-03.md"
        ),
    )
    agent.turn(
        "docs/audit-2024-03.md holds the numbers per bank and the three causes. tools/named.py is new; ledgerline/ and data/ are unchanged."
    )


STORY = Story(
    file="dsh-pruning-alone-is-enough.jsonl",
    format="dsh JSONL",
    happens="Large logs and tables fill a window of 40,960; at dsh's threshold pruning the large results is enough, no summary is made.",
    files=ledgerline.files,
    play=_play,
    write=dsh.write,
    model="deepseek-chat",
    window=40_960,
    start=1_771_500_000_000,
    system=SYSTEM,
    call_ids=("call_00_", 20),
    billing=Billing(overhead=1_150, bytes_per_token=3.9, cached_overhead=0),
)
