# ruff: noqa: E501 - a script's sentences stay in one piece
"""Codex repairs a parser, fault by fault, over a large corpus, and compacts at nine tenths of its window."""

from __future__ import annotations

from ..agent import Agent, Billing, bash, edit, grep, read, write
from ..conversation import Line
from ..story import Story
from ..trees import sift
from ..writers import codex
from ._summary import continuation

SYSTEM = """You are a coding agent that runs in a terminal. Work until the task is done. Use the shell tool to read files and run commands,
and apply_patch to change files. Keep messages short and name the files you changed."""

COLUMNS = ("price", "name", "sold", "stock.count", "stock.place", "note", "supplier_id", "weight")


def _begin(agent: Agent) -> None:
    agent.user(
        "sift refuses queries that our users really type. data/queries.txt has 240 of them. Go through all faults of the parser and the evaluator, one after the other. Rules: docs/grammar.md is "
        "the truth and must not be edited; never edit data/; after each fix run the tests and the corpus; always add a test first. Chained comparisons stay refused, with the exact text of the grammar."
    )
    agent.turn(
        "I start with the grammar and the tests.",
        read("docs/grammar.md"),
        read("tests/test_parser.py"),
        thinking="**Reading the grammar first**",
    )
    agent.turn("", read("sift/parser.py"), read("sift/lexer.py"))
    agent.turn("", read("sift/evaluate.py"), read("sift/errors.py"), read("sift/show.py"))
    agent.turn("Where do we stand?", bash("python3 tools/runtests.py"))
    agent.turn(
        "Six failures: `not`, minus, escapes, chains, `1.2.3`, and text compared with a number. The refused queries of the corpus:",
        bash("python3 tools/corpus.py --errors"),
    )
    agent.turn(
        "And the trees of those that parse. They may parse wrongly, so I read them in parts.",
        bash("python3 tools/corpus.py | sed -n '1,420p'"),
    )
    agent.turn("", bash("python3 tools/corpus.py | sed -n '421,860p'"))
    agent.turn(
        "`not price or ...` is right, but `not a and b` has the whole conjunction under `not`, for example in the first query. The rest of the trees:",
        bash("python3 tools/corpus.py | sed -n '861,1300p'"),
    )
    agent.turn(
        "", bash("python3 tools/corpus.py | sed -n '1301,2000p'"), thinking="**Listing the faults in order of damage**"
    )
    agent.turn(
        "Order of work: 1. `not`, silently wrong results; 2. minus, the most refusals; 3. escapes; 4. the message for chains; 5. `1.2.3`; 6. text against number."
    )


def _fix(agent: Agent) -> None:
    agent.turn(
        "1. `not`. The test is there already and red.",
        edit("sift/parser.py", 'return ("not", self.both())', 'return ("not", self.negation())'),
    )
    agent.turn("", bash("python3 tools/runtests.py tests/test_parser.py"), bash("python3 tools/corpus.py --only not"))
    agent.turn(
        '`not` binds as the grammar says. 2. minus: in `value`, and the tree is ("minus", value).',
        edit(
            "sift/parser.py",
            '        if self.take("["):',
            '        if self.take("-"):\n            return ("minus", self.value())\n        if self.take("["):',
        ),
    )
    agent.turn("", bash("python3 tools/runtests.py"), bash("python3 tools/corpus.py --errors"))
    agent.turn(
        'Parsed, but evaluate does not know "minus" yet; first its test.',
        edit(
            "tests/test_evaluate.py",
            '    ("note > 3", False),'.replace('"note > 3"', "'note > 3'"),
            '    (\'note > 3\', False),\n    ("price > -20", True),\n    ("-price < -49", True),',
        ),
    )
    agent.turn("", bash("python3 tools/runtests.py tests/test_evaluate.py"))
    agent.turn(
        "",
        edit(
            "sift/evaluate.py",
            '    if kind == "not":',
            '    if kind == "minus":\n        value = evaluate(tree[1], row)\n        if not isinstance(value, float):\n'
            '            raise QueryError(f"minus needs a number, got {value!r}", 1)\n        return -value\n    if kind == "not":',
        ),
    )
    agent.turn(
        "",
        bash("python3 tools/runtests.py tests/test_evaluate.py"),
        bash("python3 tools/run.py 'weight > -27 and price > 350' data/stock.csv"),
    )
    agent.turn(
        "show.py prints minus as any inner node. Its trees, to be sure:", bash("python3 tools/corpus.py --only '> -'")
    )
    agent.turn(
        "3. escapes, with a function of its own in the lexer.",
        edit(
            "sift/lexer.py",
            '            end = query.find(\'"\', at + 1)\n            if end < 0:\n                raise QueryError("string is not closed", at + 1)\n'
            '            found.append(Token("string", query[at + 1 : end], at + 1))\n            at = end + 1\n',
            '            text, end = string(query, at)\n            found.append(Token("string", text, at + 1))\n            at = end\n',
        ),
        edit(
            "sift/lexer.py",
            "def tokens(query):",
            'def string(query, start):\n    text, at = "", start + 1\n    while at < len(query):\n        if query[at] == \'"\':\n            return text, at + 1\n'
            '        if query[at] == "\\\\":\n            at += 1\n            if query[at : at + 1] not in (\'"\', "\\\\"):\n                raise QueryError(f"unknown escape {query[at : at + 1]!r}", at)\n'
            '        text += query[at]\n        at += 1\n    raise QueryError("string is not closed", start + 1)\n\n\ndef tokens(query):',
        ),
    )
    agent.turn("", bash("python3 tools/runtests.py tests/test_parser.py"), bash("python3 tools/corpus.py --only size"))
    agent.turn(
        "4. chains. The grammar's words are `comparisons do not chain`.",
        edit(
            "sift/parser.py",
            "            tree = (sign.text, tree, self.value())\n",
            '            tree = (sign.text, tree, self.value())\n            if self.now.kind in ("word", "sign") and self.now.text in COMPARISONS:\n'
            '                raise QueryError("comparisons do not chain", self.now.column)\n',
        ),
    )
    agent.turn("", bash("python3 tools/runtests.py tests/test_parser.py"), bash("python3 tools/corpus.py --errors"))
    agent.turn(
        "Only chains are refused now, each with the right text. 5. `1.2.3`, in the lexer, because it knows the column.",
        edit(
            "sift/lexer.py",
            '            found.append(Token("number", query[at:end], at + 1))',
            '            if query[at:end].count(".") > 1:\n                raise QueryError(f"not a number: {query[at:end]}", at + 1)\n'
            '            found.append(Token("number", query[at:end], at + 1))',
        ),
    )
    agent.turn("", bash("python3 tools/runtests.py"))
    agent.turn(
        "6. `note > 3` where note is text: the test says False, no error. Equality between text and number is False already; for the order signs the same.",
        edit(
            "sift/evaluate.py",
            "    return COMPARE[kind](left, right)",
            '    if isinstance(left, str) != isinstance(right, str) and kind not in ("=", "!="):\n        return False\n    return COMPARE[kind](left, right)',
        ),
    )
    agent.turn("", bash("python3 tools/runtests.py"), thinking="**Checking every column against the table**")


def _sweep(agent: Agent) -> None:
    agent.user(
        "Good. Now run each column's queries against data/stock.csv and look at the rows, not only at the trees. I want to be sure that no query crashes."
    )
    for column in COLUMNS:
        agent.turn(
            "" if column in ("sold", "note") else f"Queries with `{column}`, and the rows of one of them.",
            bash(f"python3 tools/corpus.py --only '{column}' | grep -A9 '^query' | sed -n '1,230p'"),
            bash(
                f"grep -E '^{column.replace('.', '[.]')} [<>=!]' data/queries.txt | grep -vE ' and | or ' | sed -n '1,2p' | while read -r query; do echo \"$query\"; python3 tools/run.py \"$query\" data/stock.csv; done"
            ),
        )
    agent.turn(
        "Rows look right. A script that runs all queries against the table finds crashes, and stays as a tool.",
        write(
            "tools/sweep.py",
            '''"""Run every query of the corpus against a table: python3 tools/sweep.py."""
import csv
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from sift.errors import QueryError  # noqa: E402
from sift.evaluate import evaluate  # noqa: E402
from sift.parser import parse  # noqa: E402

rows = list(csv.DictReader((ROOT / "data/stock.csv").open(newline="")))
for number, query in enumerate((ROOT / "data/queries.txt").read_text().splitlines(), 1):
    try:
        tree = parse(query)
        kept = sum(bool(evaluate(tree, row)) for row in rows)
    except QueryError as error:
        print(f"{number:>4} refused {error}")
    except Exception as error:
        print(f"{number:>4} CRASHED {type(error).__name__}: {error}")
    else:
        print(f"{number:>4} {kept:>4} rows")
''',
        ),
    )
    agent.turn("", bash("python3 tools/sweep.py"))
    agent.turn("", bash("python3 tools/sweep.py | grep -v rows"))
    agent.turn(
        "No crash is left; the refused ones are chains only. `column 1` in evaluate's errors is a guess, since a tree has no columns. I leave that and say so.",
        grep("QueryError\\(", "sift"),
    )
    agent.user("Leave it. Add tests for `in` with text and for nested lists, then finish.")
    agent.turn(
        "",
        edit(
            "tests/test_evaluate.py",
            '    ("price > -20", True),',
            '    ("price > -20", True),\n    (\'name in ["desk lamp", "x"]\', True),\n    ("price in [1, [49.9]]", False),',
        ),
    )
    agent.turn("", bash("python3 tools/runtests.py -v"))
    agent.turn(
        "A nested list is a value like any other, so it is not searched. That is what the grammar allows, and the test pins it.",
        bash("cat docs/grammar.md"),
    )
    agent.turn("", bash("python3 tools/corpus.py --errors | tail -1"), bash("python3 tools/runtests.py"))
    agent.turn(
        "Done. Six faults repaired in sift/parser.py, sift/lexer.py and sift/evaluate.py, each with a test; tools/sweep.py is new. Of the 240 queries only the chained comparisons are refused, with `comparisons do not chain`. docs/grammar.md and data/ are untouched."
    )


def _play(agent: Agent) -> None:
    agent.summarise = _summary
    _begin(agent)
    _fix(agent)
    _sweep(agent)


def _summary(lines: list[Line]) -> str:
    return continuation(
        lines,
        "The six faults are repaired as listed. The user asked for the queries of each column to be run against data/stock.csv, to be sure that none crashes; "
        "this sweep is under way, column by column. docs/grammar.md and data/ must not be edited.",
    )


STORY = Story(
    file="codex-compacted-at-its-window.jsonl",
    format="Codex rollout",
    happens="A parser is repaired over a large corpus; Codex compacts at nine tenths of its recorded window of 96,000 and keeps the users' words.",
    files=sift.files,
    play=_play,
    write=codex.write,
    model="gpt-5.2-codex",
    window=96_000,
    start=1_768_900_000_000,
    system=SYSTEM,
    call_ids=("call_", 24),
    billing=Billing(overhead=9_300, bytes_per_token=2.9, cached_overhead=8_960, compact_at=86_400),
)
