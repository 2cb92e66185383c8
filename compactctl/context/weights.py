"""Between tokens and weights: where a meter's total is enough, and what messages count by themselves."""

from __future__ import annotations

from collections.abc import Callable

from compactctl.context.counting import Meter, MeterContext

# A view that nobody ever sent: its tokens depend on its weight alone.
_CHANGED = MeterContext(0, False)


def weight_where(meter: Meter, is_enough: Callable[[int], bool]) -> int:
    """Give the smallest weight whose tokens are enough, in a view that is not the recorded one.

    The meter's tokens must never fall when the weight grows, and enough must stay enough.
    """
    low, high = 0, 1
    while not is_enough(meter.tokens(high, _CHANGED)):
        high *= 2
    while low < high:
        middle = (low + high) // 2
        if is_enough(meter.tokens(middle, _CHANGED)):
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


def weight_adding(meter: Meter, tokens: int) -> int:
    """Give the smallest weight that adds so many tokens to what the meter counts for a view of no messages.

    >>> from compactctl.meters.bytes4 import Bytes4
    >>> weight_adding(Bytes4(), 10), weight_adding(Bytes4(), 0)
    (40, 0)
    """
    return weight_reaching(meter, meter.tokens(0, _CHANGED) + tokens)


def tokens_added(meter: Meter, weight: int) -> int:
    """Give the tokens of some messages alone, without those that the meter counts for a view of no messages.

    >>> from compactctl.meters.bytes4 import Bytes4
    >>> tokens_added(Bytes4(), 43)
    10
    """
    return meter.tokens(weight, _CHANGED) - meter.tokens(0, _CHANGED)
