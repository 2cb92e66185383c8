"""What the measures of a replay cost, in one process: prints a JSON object of CPU seconds.

    python -m bench.measures SESSION.jsonl

``decode`` is D, ``pass`` one regular expression over all text, ``facts`` what is found in the text once for a session.
``rest`` is what else a session's first replay costs with all measures, ``steps`` the measures of a further replay that
makes every step, ``sweep`` those of a replay in a grid of settings, as a mean; each less the same without measures.
"""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Callable
from pathlib import Path

import orjson

from bench.yardstick import decode
from compactctl.context.authors import is_human
from compactctl.measures._facts import _CANDIDATE, Facts
from compactctl.measures._retention import find_rules
from compactctl.measures._spec import Prices
from compactctl.ports import CompactorSpec, HistoryMode
from compactctl.registry import plugin
from compactctl.runs import Setup, Window, Workbench, run
from compactctl.settings import compactor_options
from compactctl.summarizers import make_summarizer
from compactctl.transcripts import load

SOFT, FULL = (0.60, 0.65, 0.70, 0.75, 0.79), (0.80, 0.84, 0.88, 0.89)


def main() -> None:
    """Measure and print."""
    path = Path(sys.argv[1])
    found = {"decode": cpu(lambda: decode(str(path)))}
    [session] = load(path)
    # As the commands do: what is loaded lives on, so the collector need not walk through it again.
    gc.collect()
    gc.freeze()
    gc.disable()
    texts = [m.content for m in session.messages] + [c.arguments for m in session.messages for c in m.tool_calls]
    found["pass"] = cpu(lambda: [_CANDIDATE.findall(text) for text in texts])

    def facts() -> None:
        Facts(session.messages)
        find_rules(session.messages, [i for i, message in enumerate(session.messages) if is_human(message)])

    found["facts"] = cpu(facts)
    spec = plugin("compactctl.compactors", CompactorSpec, "progressive", "compactor")
    bench = Workbench(session, Window(200_000, "flag"), prices=lambda model: Prices(3.0, 15.0, 0.3, 3.75))

    def replay(soft: float, full: float, *measures: str, leap: bool) -> None:
        options = compactor_options(spec, {"soft": soft, "full": full})
        setup = Setup(spec, options, HistoryMode.WRITE_BACK)
        summarizer = make_summarizer("opaque")
        run(bench, setup, summarizer=summarizer, measures=measures, skip=leap, figures_only=leap)

    def sweep(*measures: str) -> None:
        for soft in SOFT:
            for full in FULL:
                replay(soft, full, *measures, leap=True)

    replay(0.70, 0.80, leap=False)
    plain = cpu(lambda: replay(0.70, 0.80, leap=False))
    found["rest"] = cpu(lambda: replay(0.70, 0.80, "all", leap=False)) - plain - found["facts"]
    found["steps"] = cpu(lambda: replay(0.72, 0.86, "all", leap=False)) - cpu(lambda: replay(0.72, 0.86, leap=False))
    sweep()
    found["sweep"] = -cpu(sweep)
    found["sweep"] = (found["sweep"] + cpu(lambda: sweep("all"))) / len(SOFT) / len(FULL)
    print(orjson.dumps(found).decode())


def cpu(work: Callable[[], object]) -> float:
    """Give the CPU seconds that something takes."""
    start = time.process_time()
    work()
    return time.process_time() - start


if __name__ == "__main__":
    main()
