"""From tokens back to weights: where a meter's total reaches a number of tokens."""

from __future__ import annotations

from compactctl.context.view import Meter, MeterContext


def weight_reaching(meter: Meter, tokens: int) -> int:
    """Give the smallest weight that counts for so many tokens in a view that is not the recorded one.

    The meter must never fall when the weight grows.
    """
    context = MeterContext(0, False)
    low, high = 0, 1
    while meter.tokens(high, context) < tokens:
        high *= 2
    while low < high:
        middle = (low + high) // 2
        if meter.tokens(middle, context) >= tokens:
            high = middle
        else:
            low = middle + 1
    return low
