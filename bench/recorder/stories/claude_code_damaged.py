# ruff: noqa: E501 - a script's sentences stay in one piece
"""A transcript as power cuts, full disks and two writers leave it; what is whole in it must still load."""

from __future__ import annotations

from ..agent import Agent, Billing, bash, edit, grep, read
from ..story import Story
from ..trees import sift
from ..writers import claude_code


def _play(agent: Agent) -> None:
    agent.user(
        'Strings with escaped quotes do not work in sift: `note = "size \\"L\\""` gives `unexpected character`. Only \\" and \\\\ are escapes, anything else after a '
        "backslash must be refused with its column. Never touch data/queries.txt."
    )
    agent.turn("The grammar first, then the lexer.", read("docs/grammar.md"), read("sift/lexer.py"))
    agent.turn(
        "The lexer ends a string at the next quote, escaped or not. How often does that hit the corpus?",
        bash("python3 tools/corpus.py --errors | grep -B1 'unexpected character'"),
    )
    agent.turn(
        "A dozen queries. The string branch has to walk the characters.",
        edit(
            "sift/lexer.py",
            '            end = query.find(\'"\', at + 1)\n            if end < 0:\n                raise QueryError("string is not closed", at + 1)\n'
            '            found.append(Token("string", query[at + 1 : end], at + 1))\n            at = end + 1\n',
            '            text, end = string(query, at)\n            found.append(Token("string", text, at + 1))\n            at = end\n',
        ),
        edit(
            "sift/lexer.py",
            "def tokens(query):",
            'def string(query, start):\n    """The text of the string that begins at a quote, and the place behind it."""\n    text, at = "", start + 1\n'
            '    while at < len(query):\n        char = query[at]\n        if char == \'"\':\n            return text, at + 1\n        if char == "\\\\":\n'
            '            at += 1\n            char = query[at : at + 1]\n            if char not in (\'"\', "\\\\"):\n                raise QueryError(f"unknown escape {char!r}", at)\n'
            '        text += char\n        at += 1\n    raise QueryError("string is not closed", start + 1)\n\n\ndef tokens(query):',
        ),
    )
    agent.turn("", bash("python3 tools/runtests.py tests/test_parser.py"))
    agent.turn(
        "`char not in` a tuple of two is right for one character, and the empty text at the end of the query is refused as an unknown escape; good. The corpus again:",
        bash("python3 tools/corpus.py --only size"),
    )
    agent.turn("", bash("python3 tools/corpus.py --errors | tail -1"), grep("escape", "."))
    agent.user("Does it also hold for a string that ends in a backslash? And for an emoji like 🙂 in a string?")
    agent.turn(
        "",
        bash(
            "python3 -c \"\nfrom sift.lexer import tokens\nfor query in ['a = \\\"x\\\\\\\\\\\\\\\\\\\"', 'a = \\\"x\\\\\\\\']:\n    try:\n        print(query, tokens(query)[2])\n    except ValueError as error:\n"
            "        print(query, 'refused:', error)\n\""
        ),
    )
    agent.turn(
        "", bash('python3 -c "\nfrom sift.lexer import tokens\nprint(tokens(\'note = \\"ok \U0001f642\\"\')[2])\n"')
    )
    agent.turn(
        "Both hold: an escaped backslash closes properly, an open one is refused, and 🙂 passes through as one character."
    )
    agent.user("Then run everything once more and stop.")
    agent.turn("", bash("python3 tools/runtests.py"))
    agent.turn(
        "Strings with escapes work; five failures are left that have nothing to do with strings: `not`, unary minus, chained comparisons, `1.2.3`, and text compared with a number."
    )


def _damage(written: bytes) -> bytes:
    """Damage the file at six places, each as seen in real ones."""
    rows = written.split(b"\n")[:-1]
    assistant = [index for index, row in enumerate(rows) if b'"type":"assistant"' in row]
    # A writer was killed in the middle of a row; the next one began with a new line.
    torn = assistant[9]
    rows[torn] = rows[torn][: len(rows[torn]) // 2] + b"\n"
    # Two whole objects on one line: the line end was lost between two writers.
    glued = assistant[4]
    rows[glued] = rows[glued] + rows[glued + 1]
    rows[glued + 1] = b""
    # Blocks that the file system had reserved and never wrote.
    rows[assistant[6]] = b"\0" * 512 + rows[assistant[6]]
    # A truncator cut a surrogate pair in two.
    smile = next(index for index, row in enumerate(rows) if "🙂".encode() in row and b'"tool_result"' in row)
    rows[smile] = rows[smile].replace("🙂".encode(), b"\\ud83d", 1)
    # A row that was written twice, and a byte order mark from an editor.
    rows.insert(assistant[2] + 1, rows[assistant[2]])
    whole = b"\xef\xbb\xbf" + b"\n".join(rows)
    # And the last write never finished.
    return whole[:-200]


STORY = Story(
    file="claude-code-torn-glued-and-nul.jsonl",
    format="Claude Code JSONL",
    happens="A torn line, two objects on one line, a run of NUL bytes, half a surrogate pair, a repeated row, a byte order mark and a torn end: the rest still loads.",
    files=sift.files,
    play=_play,
    write=claude_code.write,
    model="claude-opus-4-5-20251101",
    window=200_000,
    start=1_770_300_000_000,
    call_ids=("toolu_01", 22),
    billing=Billing(overhead=24_100, bytes_per_token=2.8, cached_overhead=15_200),
    damage=_damage,
)
