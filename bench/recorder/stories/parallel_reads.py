# ruff: noqa: E501 - a script's sentences stay in one piece
"""Nine results at once: the tail of six messages cuts the batch in two."""

from __future__ import annotations

from ..agent import Agent, bash, edit, grep, read
from ..story import Story
from ..trees import gatelog
from ..writers import neutral

SYSTEM = """You analyse and repair the gatelog project in /home/dev/project. Independent reads are made in parallel, in one reply.
Every claim about the logs names the node and the request id it rests on. Run the tests after each change."""


def _play(agent: Agent) -> None:
    agent.system(SYSTEM)
    agent.user("""Client 198.51.100.23 (tenant dunes) hammered our login on 6 May and we only got a mild alarm, 37 > 20. Operations say it was far more.
Find out what really happened and fix the counting. rules/limits.json must not change: other tools read it. Never print whole request bodies,
and always quote request ids so that I can look them up.""")
    agent.turn(
        "I read the description of the format and the runbook side by side.",
        read("docs/format.md"),
        read("docs/runbook.md"),
        read("rules/limits.json"),
    )
    agent.turn(
        "The incident of 2024-04-11 and GATE-212 fit: a limit per calendar minute misses a burst across the minute's edge. The code:",
        read("gatelog/window.py"),
        read("gatelog/rules.py"),
        read("gatelog/parse.py"),
    )
    agent.turn(
        "`busiest` counts in fixed buckets, `second // length`, so it does exactly what the incident describes. And LINE only accepts times that "
        "end in Z, while docs/format.md allows an offset since firmware 7. First the figures as they are.",
        bash("python3 tools/scan.py --all --top 20"),
    )
    agent.turn(
        "edge-05 and edge-07 have 34 and 43 lines that did not match; that is a quarter of each. All requests of this client:",
        bash("python3 tools/scan.py --all --client 198.51.100.23 --top 30", "Requests of the client, all nodes"),
    )
    agent.turn(
        "Only edge-03 sees this client. What was not matched on the others?",
        bash("grep -hvE 'Z edge-[0-9]+ [0-9.]+ [A-Z]+ ' logs/edge-05.log logs/edge-07.log | cut -c1-120"),
    )
    agent.turn(
        "Two kinds: `upstream reset before headers` notices, and all lines with `+02:00`. Before I change the pattern I want the tests' view.",
        bash("python3 tools/runtests.py -v"),
        grep("busiest|parse_line|second", "."),
    )
    agent.turn(
        "Nothing tests an offset or a window across an edge. How dense is the burst on edge-03, second by second?",
        bash("grep 198.51.100.23 logs/edge-03.log | cut -c12-19 | uniq | head -120"),
    )
    agent.turn(
        "I need to see the neighbouring traffic on every node in the same minutes, to know whether other clients belong to the burst. "
        "The eight logs and the trusted list are independent reads, so all in one go.",
        *(bash(f"sed -n '1,66p' logs/edge-{node:02d}.log", f"First minutes of node {node}") for node in range(1, 9)),
        read("rules/trusted.json"),
    )
    agent.turn(
        "The burst stays with one client: on edge-01, 02, 04, 06 and 08 no 198.51.100.* address appears, and on edge-05 and edge-07 the lines with "
        "an offset are ordinary traffic. Now the window. A sliding one over sorted seconds:",
        edit(
            "gatelog/window.py",
            "    buckets = Counter(second // length for second in seconds)\n    return max(buckets.values())",
            "    ordered = sorted(seconds)\n    best = first = 0\n    for last, second in enumerate(ordered):\n        while second - ordered[first] >= length:\n"
            "            first += 1\n        best = max(best, last - first + 1)\n    return best",
        ),
    )
    agent.turn(
        "Counter is not needed any more, and the edge case gets a test.",
        edit("gatelog/window.py", "from collections import Counter\n\n\n", "\n"),
        edit("tests/test_window.py", "([1, 2, 3, 70], 3))", "([1, 2, 3, 70], 3), ([58, 59, 60, 61], 4), ([0, 60], 1))"),
    )
    agent.turn("", bash("python3 tools/runtests.py"))
    agent.turn(
        "Green. The offsets: LINE accepts Z or +hh:mm, and the clock is taken back by the offset.",
        edit(
            "gatelog/parse.py",
            r"(?P<second>\d\d)\.(?P<milli>\d{3})Z ",
            r"(?P<second>\d\d)\.(?P<milli>\d{3})(?P<zone>Z|[+-]\d\d:\d\d) ",
        ),
        edit(
            "gatelog/parse.py",
            "    return Hit(\n        clock,",
            '    if found["zone"] != "Z":\n        sign = 1 if found["zone"][0] == "+" else -1\n'
            '        clock -= sign * (int(found["zone"][1:3]) * 3600 + int(found["zone"][4:6]) * 60)\n    return Hit(\n        clock,',
        ),
    )
    agent.turn("", bash("python3 tools/runtests.py tests/test_parse.py"), bash("python3 tools/scan.py --all --top 20"))
    agent.turn(
        "The unmatched lines of edge-05 and edge-07 are down to the reset notices, and the client now shows its real rate in the sliding window. "
        "A day could turn over with an offset (a clock below zero); I add that to the tests rather than guess.",
        edit(
            "tests/test_parse.py",
            '\n\n@rows(("",)',
            '\n\n@rows(("+02:00", 28801), ("-01:30", 41401), ("Z", 36001))\ndef test_offset(zone, second):\n'
            '    check(parse_line(GOOD.replace("Z", zone, 1)).second, second)\n\n\n@rows(("",)',
        ),
    )
    agent.turn("", bash("python3 tools/runtests.py -v"))
    agent.turn(
        "Done. Two faults hid the burst: fixed minutes in `busiest` (GATE-212) and, on edge-05 and edge-07, times with `+02:00` that LINE refused. Both have tests. "
        "For client 198.51.100.23 look at req=609241a5 and req=1f7b5772 on edge-03 as examples. rules/limits.json is unchanged."
    )
    agent.user("Thanks. One more: which nodes have firmware 7, judged by the logs?")
    agent.turn("", bash("grep -lE '[+]02:00' logs/*.log"))
    agent.turn("edge-05 and edge-07: only they write the time with an offset.")


STORY = Story(
    file="parallel-reads-split-by-the-tail.jsonl",
    format="neutral messages",
    happens="Nine parallel reads bring the session to Full; the tail of six cuts the batch, and unread results lose their call.",
    files=gatelog.files,
    play=_play,
    write=neutral.write,
    model="gpt-5",
    window=28_000,
    start=1_715_068_800_000,
    system=SYSTEM,
)
