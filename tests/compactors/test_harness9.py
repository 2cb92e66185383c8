"""harness9 of today where it differs from the seed document: the second gate of its offloader."""

from __future__ import annotations

from typing import Any

import pytest

from compactctl.compactors.harness9 import COMPACTOR
from compactctl.context.offload import MemoryOffloader
from compactctl.meters.bytes4 import Bytes4
from compactctl.model import SYSTEM, Message, Tier
from compactctl.ports import Ports
from tests.compactors.scenes import Says, step, task

SESSION = [
    Message(SYSTEM, "s"),
    task(),
    *step("c0", 3500),
    *step("c1", 4500),
    *step("c2", 9500),
    *[m for i in range(3) for m in step(f"d{i}", 40)],
]


@pytest.mark.parametrize(("threshold", "files"), [(300, 2), (3000, 2), (4000, 2), (5000, 1), (10_000, 0)])
def test_its_threshold_can_be_raised_and_not_lowered(threshold: int, files: int) -> None:
    """A result of 4,000 bytes or less is never offloaded: the offloader asks again, with a number of its own."""
    options: dict[str, Any] = {option.name: option.default for option in COMPACTOR.options}
    ports = Ports(Says(), MemoryOffloader("s", threshold=0), Bytes4(), 7000)
    made: Any = COMPACTOR.make(options | {"offload_threshold": threshold}, None, ports)
    record = made.compact_with_record(SESSION)[1]

    # 1 + 400 + 3,500 + 4,500 + 9,500 + 3 x 40 = 18,021 bytes = 4,505 tokens, 64 %.
    assert record.tier is Tier.WARN
    assert len(record.offloaded) == files
