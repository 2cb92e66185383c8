# ruff: noqa: E501 - a script's sentences stay in one piece
"""A short task that never comes near its window: the healthy twin of the long one."""

from __future__ import annotations

from ..agent import Agent, bash, edit, grep, read
from ..story import Story
from ..trees import ledgerline
from ..writers import neutral

SYSTEM = """You are a careful coding agent. You work in /home/dev/project with the tools read_file, grep, bash, edit_file and
write_file. Read before you edit, run the tests after every change, and report what you did in a few sentences. Never touch
files under data/archive."""


def _play(agent: Agent) -> None:
    agent.system(SYSTEM)
    agent.user("""The silverlake import has been failing since Monday. The nightly log says StatementError. Please find out why and
fix it. You must not change the statement file itself, and only touch the silverlake module.""")
    agent.turn(
        "I'll start with what the log says about this bank.",
        grep("silverlake.*Error|Error.*silverlake", "logs", "*.log"),
    )
    agent.turn(
        "The line numbers in the log vary, so it is not one bad row. Now the module and its test.",
        read("ledgerline/importers/silverlake.py"),
        bash("python3 tools/runtests.py tests/test_import_silverlake.py"),
    )
    agent.turn(
        "The failure is `silverlake line 18: 5 cells, expected 4`. Let me look at that row.",
        bash("sed -n '1p;18p' data/statements/silverlake-2024-03.csv"),
    )
    agent.turn(
        'The text column holds a comma of its own ("office supplies, second half of the order"), and the bank does not quote it. '
        "The text is the last column, so splitting at most three times keeps it whole.",
        edit(
            "ledgerline/importers/silverlake.py",
            'cells = line.rstrip("\\n").split(DELIMITER)',
            'cells = line.rstrip("\\n").split(DELIMITER, len(COLUMNS) - 1)',
        ),
    )
    agent.turn("", bash("python3 tools/runtests.py tests/test_import_silverlake.py"))
    agent.turn(
        "Every row is read now. The remaining failure is about the number format of the total, and it is there on other "
        "banks too. I check that before I say so.",
        bash("python3 tools/runtests.py -k total | tail -30"),
    )
    agent.turn(
        "`parse_line` splits into at most four cells now, so a comma inside the last column no longer breaks the import: all 58 "
        "rows of data/statements/silverlake-2024-03.csv are read. I changed one line in ledgerline/importers/silverlake.py and "
        "nothing else. The test of the total still fails, for this and other banks: it expects `92,565.02` while the module "
        "returns a bare float. That is a different fault (see rule R6 in docs/rounding.md), so I left it alone."
    )
    agent.user("Good. Does fernway have the same fault? Just look, do not fix it.")
    agent.turn(
        "",
        grep("DELIMITER = |split\\(", "ledgerline/importers/fernway.py"),
        bash("python3 tools/runtests.py tests/test_import_fernway.py"),
    )
    agent.turn(
        "Yes. fernway also uses a comma as delimiter and has its free text last: `fernway line 13: 6 cells, expected 5`. The same "
        "change, `split(DELIMITER, len(COLUMNS) - 1)`, would repair it. I have not touched it."
    )


STORY = Story(
    file="short-healthy-fix.jsonl",
    format="neutral messages",
    happens="A one-line fix with a system message, far below every threshold: no tier ever fires (the healthy twin).",
    files=ledgerline.files,
    play=_play,
    write=neutral.write,
    model="gpt-5-mini",
    window=128_000,
    start=1_710_756_000_000,
)
