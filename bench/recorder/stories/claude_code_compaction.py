# ruff: noqa: E501 - a script's sentences stay in one piece
"""A long look at eight logs in Claude Code, which compacts by itself at 155,000 tokens."""

from __future__ import annotations

from ..agent import Agent, Billing, bash, edit, grep, read, write
from ..conversation import Line
from ..story import Story
from ..trees import gatelog
from ..writers import claude_code
from ._summary import continuation

NODES = (
    ("01", "ordinary traffic", "edge-01 is quiet: three reset notices, none of them near an error."),
    (
        "02",
        "more notices than edge-01",
        "edge-02 has twice as many resets as edge-01 at nearly the same load. I keep that in mind.",
    ),
    (
        "03",
        "the login burst of 198.51.100.23",
        "Most of edge-03 is one client, 198.51.100.23, on /api/login. Its resets fall into the same minutes.",
    ),
    ("04", "the largest log", "edge-04 has the most lines, yet not the most errors."),
    (
        "05",
        "times with an offset",
        "edge-05 writes `+02:00` on every fourth line or so; those lines do not match LINE at all.",
    ),
    ("06", "ordinary traffic", "Nothing new on edge-06."),
    ("07", "times with an offset", "edge-07 has the offset too, as expected from firmware 7."),
    ("08", "ordinary traffic", "edge-08 closes the list; resets come singly here."),
)

TIMELINE = '''"""Errors and resets of one node, minute by minute."""
import re
from collections import Counter

RESET = re.compile(r"\\d{4}-\\d\\d-\\d\\dT(\\d\\d):(\\d\\d):\\d\\d\\.\\d{3}(?:Z|[+-]\\d\\d:\\d\\d) \\S+ upstream reset")


class TimelineError(ValueError):
    """A log whose minutes run backwards by more than an hour."""


def minutes(lines, hits):
    """(minute, requests, errors, resets) for every minute in which something happened."""
    requests, errors, resets = Counter(), Counter(), Counter()
    for hit in hits:
        requests[hit.second // 60] += 1
        errors[hit.second // 60] += hit.status == 500
    for line in lines:
        found = RESET.match(line)
        if found:
            resets[int(found[1]) * 60 + int(found[2])] += 1
    return [(minute, requests[minute], errors[minute], resets[minute]) for minute in sorted(requests | resets)]


def table(rows):
    return "\\n".join(f"{m // 60:02d}:{m % 60:02d} {n:>5} requests {e:>3} errors {r:>3} resets" for m, n, e, r in rows)
'''

TOOL = '''"""Print the timeline of one node: python3 tools/timeline.py FILE."""
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from gatelog.parse import read_log  # noqa: E402
from gatelog.timeline import minutes, table  # noqa: E402

path = ROOT / sys.argv[1]
hits, unmatched = read_log(path)
print(table(minutes(path.read_text().splitlines(), hits)))
print(f"{len(hits)} hits, {unmatched} lines did not match")
'''

TEST = '''"""Minutes."""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from checks import check

from gatelog.parse import parse_line
from gatelog.timeline import minutes

HIT = "2024-05-06T10:00:01.250Z edge-01 203.0.113.7 GET /api/orders/881 500 5120 38ms req=9f0c12ab tenant=acme"
RESET = "2024-05-06T10:01:02.000Z edge-01 upstream reset before headers, request 9f0c12ab will be retried"


def test_a_reset_has_its_own_minute():
    check(minutes([HIT, RESET], [parse_line(HIT)]), [(600, 1, 1, 0), (601, 0, 0, 1)])


def test_an_offset_is_taken_back():
    line = RESET.replace("10:01:02.000Z", "12:01:02.000+02:00")
    check(minutes([line], []), [(601, 0, 0, 1)])
'''


def _begin(agent: Agent) -> None:
    agent.user(
        "Our edge nodes log 'upstream reset before headers' now and then. I want to know whether these resets go together with status 500 or with load, "
        "node by node, and a command that prints it. Ground rules: never change rules/ or logs/, always run python3 tools/runtests.py before you commit, "
        "one commit per logical step, and do not push. Look at every log yourself first; I don't trust a summary made by a pattern that may not match."
    )
    agent.turn(
        "I'll start with the project and its history.",
        bash("git log --oneline && git status --short", "Recent history"),
        read("README.md"),
        thinking="The user wants per-node analysis and a new command. Read first, never change rules/ or logs/.",
    )
    agent.turn("", read("docs/format.md"), read("docs/runbook.md"))
    agent.turn(
        "The runbook mentions an incident on 2024-04-11 and GATE-212. Now the parser and what is built on it.",
        read("gatelog/parse.py"),
        read("gatelog/rules.py"),
    )
    agent.turn("", read("gatelog/window.py"), read("gatelog/report.py"), read("tools/scan.py"))
    agent.turn(
        "`read_log` counts lines that do not match, and both kinds would be among them: resets and anything with an unknown time. Baseline:",
        bash("python3 tools/runtests.py -v", "Run all tests"),
        bash("python3 tools/scan.py --all --top 20", "Scan all nodes"),
    )
    agent.turn(
        "",
        grep("upstream reset", "logs", "*.log"),
        thinking="The notices name a request id. Can they be joined with the requests? Check on each node.",
    )


def _node(agent: Agent, number: str, what: str, found: str) -> None:
    agent.turn(
        f"Node {number} ({what}), first half.",
        bash(f"sed -n '1,150p' logs/edge-{number}.log", f"First half of edge-{number}"),
    )
    agent.turn("", bash(f"sed -n '151,400p' logs/edge-{number}.log", f"Second half of edge-{number}"))
    agent.turn(
        found + " Requests and errors per minute, by shell only:",
        bash(
            f"grep -E ' [0-9]+ms ' logs/edge-{number}.log | cut -c12-16 | sort | uniq | while read m; do echo $m $(grep -c \"T$m\" logs/edge-{number}.log) "
            f"$(grep \"T$m\" logs/edge-{number}.log | grep -c ' 500 [0-9]') $(grep \"T$m\" logs/edge-{number}.log | grep -c 'upstream reset'); done"
        ),
        bash(f"grep -n -B2 -A2 'upstream reset' logs/edge-{number}.log"),
    )


def _build(agent: Agent) -> None:
    agent.user(
        "Good, that is what I wanted to see. Now write the command. The offsets must be handled in one place only."
    )
    agent.turn(
        "The one place is LINE in gatelog/parse.py. First a test that fails.",
        edit(
            "tests/test_parse.py",
            '\n\n@rows(("",)',
            '\n\n@rows(("+02:00", 28801), ("-01:30", 41401), ("Z", 36001))\ndef test_offset(zone, second):\n'
            '    check(parse_line(GOOD.replace("Z", zone, 1)).second, second)\n\n\n@rows(("",)',
        ),
    )
    agent.turn("", bash("python3 tools/runtests.py tests/test_parse.py"))
    agent.turn(
        "`'NoneType' object has no attribute 'second'` for both offsets, as it should be. Now the pattern.",
        edit("gatelog/parse.py", r"\.(?P<milli>\d{3})Z ", r"\.(?P<milli>\d{3})(?P<zone>Z|[+-]\d\d:\d\d) "),
        edit(
            "gatelog/parse.py",
            "    return Hit(\n        clock,",
            '    if found["zone"] != "Z":\n        sign = 1 if found["zone"][0] == "+" else -1\n'
            '        clock -= sign * (int(found["zone"][1:3]) * 3600 + int(found["zone"][4:6]) * 60)\n    return Hit(\n        clock,',
        ),
    )
    agent.turn("", bash("python3 tools/runtests.py"))
    agent.turn(
        "",
        bash(
            "git add -A && git commit -qm 'Accept times with an offset' && git log --oneline", "Commit the first step"
        ),
    )
    agent.turn(
        "Now the timeline module, its command and its test.",
        write("gatelog/timeline.py", TIMELINE),
        write("tools/timeline.py", TOOL),
        write("tests/test_timeline.py", TEST),
    )
    agent.turn("", bash("python3 tools/runtests.py tests/test_timeline.py"))
    agent.turn(
        "The offset of a reset line is not taken back: minute 721 instead of 601. And that is a second place that knows about offsets, which you forbade. So the clock "
        "becomes a function of parse.py that both use.",
        edit(
            "gatelog/parse.py",
            "def parse_line(line):",
            'STAMP = re.compile(r"\\d{4}-\\d\\d-\\d\\dT(\\d\\d):(\\d\\d):(\\d\\d)\\.\\d{3}(?:Z|([+-])(\\d\\d):(\\d\\d))")\n\n\n'
            'def clock(line):\n    """The second of the day in UTC that a line begins with; None when it begins with no time."""\n    found = STAMP.match(line)\n'
            "    if not found:\n        return None\n    second = int(found[1]) * 3600 + int(found[2]) * 60 + int(found[3])\n    if found[4]:\n"
            '        shift = int(found[5]) * 3600 + int(found[6]) * 60\n        second -= shift if found[4] == "+" else -shift\n    return second\n\n\ndef parse_line(line):',
        ),
    )
    agent.turn("", read("gatelog/parse.py"))
    agent.turn(
        "parse_line can lose its own arithmetic.",
        edit(
            "gatelog/parse.py",
            '    clock = int(found["hour"]) * 3600 + int(found["minute"]) * 60 + int(found["second"])\n    if found["zone"] != "Z":\n'
            '        sign = 1 if found["zone"][0] == "+" else -1\n        clock -= sign * (int(found["zone"][1:3]) * 3600 + int(found["zone"][4:6]) * 60)\n    return Hit(\n        clock,',
            "    return Hit(\n        clock(line.strip()),",
        ),
        edit(
            "gatelog/timeline.py",
            "    for line in lines:\n        found = RESET.match(line)\n        if found:\n            resets[int(found[1]) * 60 + int(found[2])] += 1\n",
            '    for line in lines:\n        if " upstream reset " in line:\n            resets[clock(line) // 60] += 1\n',
        ),
        edit(
            "gatelog/timeline.py",
            'import re\nfrom collections import Counter\n\nRESET = re.compile(r"\\d{4}-\\d\\d-\\d\\dT(\\d\\d):(\\d\\d):\\d\\d\\.\\d{3}(?:Z|[+-]\\d\\d:\\d\\d) \\S+ upstream reset")\n',
            "from collections import Counter\n\nfrom gatelog.parse import clock\n",
        ),
    )
    agent.turn("", bash("python3 tools/runtests.py"))
    agent.turn(
        "All green, and only parse.py knows about offsets.",
        bash(
            "git add -A && git commit -qm 'Add a timeline of errors and resets' && git log --oneline && git diff --stat HEAD~1"
        ),
    )


def _verify(agent: Agent) -> None:
    agent.turn(
        "The command against what I counted by hand, node by node. edge-01 first.",
        bash("python3 tools/timeline.py logs/edge-01.log"),
    )
    for number, what, _ in NODES[1:]:
        agent.turn(
            "" if number in ("04", "06") else f"edge-{number} ({what}):",
            bash(f"python3 tools/timeline.py logs/edge-{number}.log"),
            bash(f"grep -c 'upstream reset' logs/edge-{number}.log"),
        )
    agent.turn(
        "The sums agree on all eight nodes. The busiest single lines around the resets of edge-02, once more in the raw log, to judge load:",
        bash("grep -n -B4 -A4 'upstream reset' logs/edge-02.log"),
    )
    agent.turn("", bash("python3 tools/scan.py --all --slow --top 40", "Slowest requests"))
    agent.user("And? Do the resets go with the errors or with the load?")
    agent.turn(
        "With neither, as far as one morning can tell: on edge-01, 06 and 08 resets come singly in minutes without an error; on edge-02 there are twice as many at the same load; on edge-03 "
        "they fall into the minutes of the login burst of 198.51.100.23, but that is also where most lines are. I would look at edge-02's upstream first."
    )
    agent.user("Fine. Fix GATE-212 as well while you are here (sliding window), same ground rules as at the beginning.")
    agent.turn(
        "The rules were: nothing in rules/ or logs/ changes, tests before each commit, one commit a step, no push. The window module again:",
        read("gatelog/window.py"),
        read("tests/test_window.py"),
    )
    agent.turn(
        "",
        edit("tests/test_window.py", "([1, 2, 3, 70], 3))", "([1, 2, 3, 70], 3), ([58, 59, 60, 61], 4), ([0, 60], 1))"),
        bash("python3 tools/runtests.py tests/test_window.py"),
    )
    agent.turn(
        "Red: 2 instead of 4 across the minute's edge.",
        edit(
            "gatelog/window.py",
            "    buckets = Counter(second // length for second in seconds)\n    return max(buckets.values())",
            "    ordered = sorted(seconds)\n    best = first = 0\n    for last, second in enumerate(ordered):\n        while second - ordered[first] >= length:\n"
            "            first += 1\n        best = max(best, last - first + 1)\n    return best",
        ),
        edit("gatelog/window.py", "from collections import Counter\n\n\n", "\n"),
    )
    agent.turn("", bash("python3 tools/runtests.py"), bash("python3 tools/scan.py --all --top 20"))
    agent.turn(
        "198.51.100.23 shows its real rate now.",
        bash(
            "git add -A && git commit -qm 'Count in a sliding window (GATE-212)' && git log --oneline && git status --short"
        ),
    )
    agent.turn(
        "Finished: three commits on main, nothing pushed, rules/ and logs/ untouched. `python3 tools/timeline.py FILE` prints requests, errors and resets by minute; times with an offset are "
        "handled in `gatelog.parse.clock` alone; `busiest` uses a sliding window."
    )


def _play(agent: Agent) -> None:
    agent.summarise = _summary
    _begin(agent)
    for number, what, found in NODES:
        _node(agent, number, what, found)
    _build(agent)
    _verify(agent)


def _summary(lines: list[Line]) -> str:
    return continuation(
        lines,
        "Every log of the eight edge nodes was read in two halves, with requests, errors and resets counted per minute by shell. Findings: edge-02 has twice as many "
        "resets as edge-01 at the same load; edge-03 holds a login burst of 198.51.100.23 (tenant dunes); edge-05 and edge-07 write times with `+02:00`, which LINE in "
        "gatelog/parse.py refuses. The user then asked for a command that prints the timeline, with offsets handled in one place only.",
    )


STORY = Story(
    file="claude-code-automatic-compaction.jsonl",
    format="Claude Code JSONL",
    happens="Eight logs are read whole; Claude Code compacts by itself at 155,000 tokens and goes on. Usage on every row, several rows a reply.",
    files=lambda: gatelog.files(175),
    play=_play,
    write=claude_code.write,
    model="claude-sonnet-4-5-20250929",
    window=200_000,
    start=1_770_649_200_000,
    call_ids=("toolu_01", 22),
    billing=Billing(overhead=29_400, bytes_per_token=2.4, cached_overhead=16_587, compact_at=155_000),
    setup=(
        "git -c init.defaultBranch=main init -q",
        "git add -A && git commit -qm 'Import gatelog 1.4'",
        "echo '- 2024-05-07 review of resets begun' >> docs/changes.md && git commit -qam 'Note the review'",
    ),
)
