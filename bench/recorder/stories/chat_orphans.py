# ruff: noqa: E501 - a script's sentences stay in one piece
"""A chat array as it comes out of a home-made harness that truncated its prompt: pairs are broken."""

from __future__ import annotations

from dataclasses import replace

from ..agent import Agent, bash, edit, read
from ..story import Story
from ..trees import sift
from ..writers import openai_chat


def _play(agent: Agent) -> None:
    agent.system(
        "You are a coding agent working on sift, a filter language. Project folder: /home/dev/project. Run the tests after each change."
    )
    agent.user(
        "`not sold and price > 20` gives the wrong rows: sold things are in it. Please fix it, and do not change docs/grammar.md."
    )
    agent.turn("", read("docs/grammar.md"), read("sift/parser.py"))
    agent.turn(
        "The grammar says `not a and b` is `(not a) and b`, but `negation` calls `both`, so `not` swallows the whole conjunction.",
        bash("python3 tools/runtests.py tests/test_parser.py"),
    )
    agent.turn(
        "`not` must apply to the next comparison, or to another `not`.",
        edit("sift/parser.py", 'return ("not", self.both())', 'return ("not", self.negation())'),
    )
    agent.turn("", bash("python3 tools/runtests.py tests/test_parser.py"))
    agent.turn(
        "The two `not` cases pass. Which queries of the corpus change their meaning?",
        bash("python3 tools/corpus.py --only not | sed -n 1,120p"),
    )
    agent.turn(
        "",
        bash("python3 tools/run.py 'not sold and price > 400' data/stock.csv"),
        bash("python3 tools/run.py 'not (sold and price > 400)' data/stock.csv | tail -3"),
    )
    agent.user(
        "That is what I expected. Also `1.2.3 = a` crashes with a ValueError; it should be a QueryError that says `not a number`."
    )
    agent.turn(
        "The lexer takes digits and dots as they come; the place to refuse is there, it knows the column.",
        read("sift/lexer.py"),
    )
    agent.turn(
        "",
        edit(
            "sift/lexer.py",
            '            found.append(Token("number", query[at:end], at + 1))',
            '            if query[at:end].count(".") > 1:\n                raise QueryError(f"not a number: {query[at:end]}", at + 1)\n'
            '            found.append(Token("number", query[at:end], at + 1))',
        ),
    )
    agent.turn("", bash("python3 tools/runtests.py"))
    agent.turn(
        "`column 1: not a number: 1.2.3` now, and the precedence of `not` is as in docs/grammar.md. Three failures remain, and they were there before: unary minus, escapes in "
        "strings, and chained comparisons."
    )
    _break_pairs(agent)


def _break_pairs(agent: Agent) -> None:
    """Do to the recording what a careless harness does: lose one result, keep an orphan, use one id twice."""
    lines = agent.lines
    results = [index for index, line in enumerate(lines) if line.role == "tool"]
    # The last two calls get the id of the first one, as where ids start again in each process; their results differ.
    first = lines[results[0]].call_id
    last = results[-1]
    lines[last] = replace(lines[last], call_id=first)
    caller = lines[last - 1]
    lines[last - 1] = replace(caller, calls=(replace(caller.calls[0], id=first),))
    del lines[results[3]]  # the result of the edit was never stored
    orphan = replace(
        lines[2],
        role="tool",
        text="docs  sift  tests  tools  data  README.md",
        calls=(),
        call_id="call_before_truncation",
    )
    lines.insert(2, orphan)


STORY = Story(
    file="chat-orphan-missing-and-repeated-ids.json",
    format="OpenAI chat array",
    happens="A plain chat array with an orphan result, a call whose result is missing, and one tool-call id used twice with different texts.",
    files=sift.files,
    play=_play,
    write=openai_chat.write,
    model="gpt-4.1",
    window=128_000,
    start=1_712_000_000_000,
)
