"""Does one thing with every session of the inputs, in this process or in several, in the order of the inputs.

Ids must be told apart before the first session is worked on, so each worker first loads its share and says what ids it
found, and then does the work; what it loaded it keeps, as far as that is little.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from compactctl.cli._hands import Failed, Hands, Local, Result, Task, Worker, input_bytes
from compactctl.model import Session
from compactctl.transcripts import Account, Found, distinct_ids, empty_roots


def each_session(
    found: Found,
    account: Account,
    task: Task[Result],
    context: Any,
    *,
    jobs: int = 1,
    loaders: int | None = None,
    side_threads: bool = False,
    progress: Callable[[int, int, str], None] = lambda done, total, label: None,
) -> Iterator[Result | Failed]:
    """Give what the task made of each session. What could not be loaded goes to the account.

    The results are in input order whatever the number of jobs. ``loaders`` is how many processes may be at work while
    one of them loads (default: the jobs). ``progress`` hears how many bytes of how many are done.
    """
    account.problems.extend(found.problems)
    for reason, count in found.ignored.items():
        account.ignored[reason] = account.ignored.get(reason, 0) + count
    candidates = found.candidates
    hands = min(jobs, len(candidates))

    def maker() -> Hands[Result]:
        if hands < 2:
            return Local(Worker(task, context, side_threads, cores=loaders or jobs))
        from compactctl.cli._pools import Processes

        return Processes(task, context, side_threads, candidates, hands)

    total = 2 * sum(map(input_bytes, candidates))
    done = 0
    with maker() as workers:
        identified: list[list[Session]] = []
        for candidate, (sessions, seen) in zip(candidates, workers.identify(candidates), strict=True):
            identified.append(sessions)
            account.merge(seen)
            done += input_bytes(candidate)
            progress(done, total, candidate.path)
        account.problems.extend(empty_roots(found, [bool(sessions) for sessions in identified]))
        named = iter(distinct_ids(session for sessions in identified for session in sessions))
        shares = [[next(named) for _ in sessions] for sessions in identified]
        for candidate, results in zip(candidates, workers.perform(candidates, shares), strict=True):
            yield from results
            done += input_bytes(candidate)
            progress(done, total, candidate.path)
