"""From tokens back to weights: where a meter's total is enough."""

from __future__ import annotations

from collections.abc import Callable

from compactctl.context.counting import Meter, MeterContext


def weight_where(meter: Meter, is_enough: Callable[[int], bool]) -> int:
    """Give the smallest weight whose tokens are enough, in a view that is not the recorded one.

    The meter's tokens must never fall when the weight grows, and enough must stay enough.
    """
    context = MeterContext(0, False)
    low, high = 0, 1
    while not is_enough(meter.tokens(high, context)):
        high *= 2
    while low < high:
        middle = (low + high) // 2
        if is_enough(meter.tokens(middle, context)):
            high = middle
        else:
            low = middle + 1
    return low


def weight_reaching(meter: Meter, tokens: int) -> int:
    """Give the smallest weight that counts for so many tokens.

    >>> from compactctl.meters.bytes4 import Bytes4
    >>> weight_reaching(Bytes4(), 10)
    40
    """
    return weight_where(meter, lambda total: total >= tokens)
