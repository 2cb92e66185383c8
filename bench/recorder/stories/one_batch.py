# ruff: noqa: E501 - a script's sentences stay in one piece
"""One large batch: from no tier at all to Emergency in a single turn."""

from __future__ import annotations

from ..agent import Agent, bash, grep, read, write
from ..story import Story
from ..trees import gatelog
from ..writers import neutral

SYSTEM = """You write reports about the edge nodes in /home/dev/project. Read what you need, in parallel where you can. Numbers in a report always come
from a command, never from memory."""

TALLY = '''"""Requests by node and status: python3 tools/tally.py."""
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from gatelog.parse import read_log  # noqa: E402

for path in sorted((ROOT / "logs").glob("edge-*.log")):
    hits, unmatched = read_log(path)
    errors = sum(1 for hit in hits if hit.status == 500)
    slow = sum(1 for hit in hits if hit.took > 800)
    print(f"{path.stem} hits={len(hits)} errors={errors} slow={slow} unmatched={unmatched}")
'''


def _play(agent: Agent) -> None:
    agent.system(SYSTEM)
    agent.user(
        "I need a short report on errors (status 500) and slow requests (above 800 ms) of the eight nodes on 6 May, for the review at 14:00. Do not "
        "change any code in gatelog/, a new script under tools/ is fine. Name at most three request ids per node, and always the slowest."
    )
    agent.turn("What the project already offers:", read("README.md"), read("gatelog/report.py"), read("tools/scan.py"))
    agent.turn(
        "`--slow` gives the slowest requests. For one node first.",
        bash("python3 tools/scan.py logs/edge-01.log --slow --top 15"),
    )
    agent.turn(
        "Good enough for the slow ones; errors by node are not there. I look at the raw lines of one node to be sure about the fields.",
        bash("cat logs/edge-01.log"),
    )
    agent.turn(
        "Status is field 7, the duration field 9. Some lines are no requests at all (`upstream reset before headers`). How many of those are there?",
        grep("upstream reset", "logs", "*.log"),
    )
    agent.turn(
        "They must not count as hits. read_log leaves them out as unmatched, which docs/format.md also says; I check that.",
        read("docs/format.md"),
        read("gatelog/parse.py"),
    )
    agent.turn("Every number should come from one script.", write("tools/tally.py", TALLY))
    agent.turn("", bash("python3 tools/tally.py"))
    agent.turn(
        "edge-05 and edge-07 have many unmatched lines, so their numbers would be too low. I'd rather read all the logs myself, in one batch, "
        "together with the rules that say which tenants to leave out.",
        *(bash(f"cat logs/edge-{node:02d}.log", f"Whole log of node {node}") for node in range(1, 9)),
        read("rules/trusted.json"),
        read("rules/limits.json"),
        read("docs/changes.md"),
        bash("python3 tools/runtests.py"),
        bash("grep -c ' 500 ' logs/edge-05.log"),
        bash("grep -c ' 500 ' logs/edge-07.log"),
    )
    agent.turn(
        "The unmatched lines of edge-05 and edge-07 carry `+02:00` instead of Z. They are requests like any other. Counting errors with grep does not "
        "depend on the pattern, so I take that for the table.",
        bash(
            "for node in 01 02 03 04 05 06 07 08; do echo edge-$node $(grep -c ' 500 [0-9]' logs/edge-$node.log); done"
        ),
    )
    agent.turn(
        "",
        bash(
            "for node in 01 02 03 04 05 06 07 08; do grep -E ' (8[0-9][0-9]|9[0-9][0-9])ms ' logs/edge-$node.log | "
            "sed 's/.* \\([0-9]*ms\\) req=\\([0-9a-f]*\\).*/\\1 \\2/' | LC_ALL=C sort -rn | sed -n '1,3s/^/edge-'$node' /p'; done"
        ),
    )
    agent.turn(
        "Do the trusted tenants matter? `quarry` and `monitor` are in rules/trusted.json.",
        bash("grep -hE ' 500 [0-9]' logs/*.log | grep -cE 'tenant=(quarry|monitor)'"),
    )
    agent.turn(
        "Report:\n\nErrors are spread evenly over the nodes, no node stands out; about a third of them belong to the trusted tenants quarry and monitor. The slowest requests "
        "are listed above, three per node, with their request ids. Note for the review: tools/tally.py undercounts edge-05 and edge-07, because gatelog "
        "refuses times with an offset (`+02:00`); I used grep for these. No code in gatelog/ was changed."
    )
    agent.user("Put the error table into docs/review-2024-05-06.md, nothing else.")
    agent.turn(
        "",
        bash(
            "{ echo '# Errors on 6 May'; echo; for node in 01 02 03 04 05 06 07 08; do echo \"- edge-$node: $(grep -c ' 500 [0-9]' logs/edge-$node.log)\"; done; } > docs/review-2024-05-06.md && cat docs/review-2024-05-06.md"
        ),
    )
    agent.turn("It is in docs/review-2024-05-06.md, one line a node.")


STORY = Story(
    file="one-batch-none-to-emergency.jsonl",
    format="neutral messages",
    happens="Fourteen results in one turn jump from None to Emergency, though offloading the large ones alone would have been enough.",
    files=gatelog.files,
    play=_play,
    write=neutral.write,
    model="gpt-5",
    window=36_000,
    start=1_715_000_400_000,
    system=SYSTEM,
)
