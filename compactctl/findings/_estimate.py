"""Does the compactor count truly where it matters: at its own thresholds? (M1, W8)"""

from __future__ import annotations

from compactctl.context.counting import MeterContext, Standing
from compactctl.findings._kinds import Case, FindingKind, Severity, Shown
from compactctl.meters._images import base64_length, image_count

LOW, HIGH = 0.9, 1.1  # an estimate ratio between them is true enough
TELLING = 0.05  # of a threshold, so much must have been seen to judge it


def _estimate(case: Case) -> Shown | None:
    line = true_line(case)
    levels = case.levels()
    if line is None or case.trace.window <= 0:
        return None
    overhead, slope, seen = line
    window = float(case.trace.window)
    # A compactor without thresholds of its own is judged at the window.
    named = levels or [("the window", window)]
    judged = [(name, level, (overhead + slope * level) / level) for name, level in named]
    name, level, ratio = next((one for one in judged if one[0] == "full_threshold"), judged[-1])
    over = case.value("m1.overshoot_turns") or 0
    if all(LOW <= each <= HIGH for _, _, each in judged) and LOW <= ratio <= HIGH:
        return None
    # What little a short session holds tells its rate, but not that of a session that comes to its thresholds.
    late = bool(levels) and level * ratio > window and seen >= TELLING * level
    really = f"; {name} {level / window:.2f} is {level * ratio / window:.2f} of the real window" if levels else ""
    what = "fewer tokens than there are" if ratio > 1 else "more tokens than there are"
    meter = case.situation.meter or "its own"
    ways = ["let it count real tokens (--meter calibrated)"]
    if LOW <= slope <= HIGH and overhead > 0:
        ways.append(f"name the fixed part (--overhead {round(overhead / slope)})")
    elif levels and ratio > HIGH and level > overhead:
        # The decision tokens at which the real ones are what the threshold says; the fixed part does not scale.
        lower = (level - overhead) / slope
        ways.append(
            f"lower the thresholds ({name} {lower / window:.2f} acts at {level / window:.2f} of the real window)"
        )
    rate = f", and {slope:.2f} real tokens for each {meter} token" if case.has_usage else ""
    return Shown(
        f"the compactor counts {what}: a fixed part of {overhead:,.0f} tokens that it does not see{rate}{really}",
        tuple(ways),
        (),
        {
            "estimate_ratio": case.value("m1.estimate_ratio"),
            "ratio_at_threshold": ratio,
            "unseen_tokens": round(overhead),
            "slope": slope if case.has_usage else None,
            "meter": case.situation.meter,
            "real_source": case.situation.real_source,
        },
        Severity.ERROR if ratio > HIGH and (late or over > 0) else None,
    )


def true_line(case: Case) -> tuple[float, float, int] | None:
    """Give (a, b, n) of real tokens = a + b * decision tokens, from n decision tokens; None where nothing counts.

    Of text alone: what images and base64 data cost is another finding's. Without recorded usage nobody knows b, which
    is 1 then; a fixed part may be recorded all the same.
    """
    trace = case.trace
    base, scale, none = trace.base, trace.scale, MeterContext(0, Standing.CHANGED)
    own = base.meter.tokens(base.prefix[base.offset], none)
    real = scale.meter.tokens(scale.prefix[base.offset], none)
    counted, weight = _text_weights(case)
    seen = base.meter.tokens(base.prefix[base.offset] + counted, none) - own
    if seen <= 0:
        return None
    if not case.has_usage:
        return float(real - own), 1.0, seen
    slope = (scale.meter.tokens(scale.prefix[base.offset] + weight, none) - real) / seen
    return real - slope * own, slope, seen


def _text_weights(case: Case) -> tuple[int, int]:
    """Give what all messages of text alone weigh under the compactor's meter and under that of real tokens."""
    base, scale = case.trace.base, case.trace.scale
    key = f"text weights {base.meter.name} {base.offset} {base.prefix[-1]} {scale.meter.name} {scale.prefix[-1]}"
    known: tuple[int, int] | None = case.trace.shared.get(key)
    if known is None:
        text = [
            at
            for at, message in enumerate(base.messages)
            if at >= base.offset and not image_count(message) and not base64_length(message.content)
        ]
        counted, real = (sum(one[at + 1] - one[at] for at in text) for one in (base.prefix, scale.prefix))
        known = case.trace.shared[key] = (counted, real)
    return known


ESTIMATE_OFF = FindingKind(
    "estimate-off",
    Severity.WARN,
    "real / decision tokens at the thresholds are outside 0.9 to 1.1; an error where the full one comes too late",
    ("m1",),
    _estimate,
)
