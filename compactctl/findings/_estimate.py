"""Does the compactor count truly where it matters: at its own thresholds? (M1, W8)"""

from __future__ import annotations

from compactctl.context.counting import MeterContext, Standing
from compactctl.context.words import quantity
from compactctl.findings._kinds import TOKENS, Case, FindingKind, Severity, Shown, short_name
from compactctl.meters._images import base64_length, image_count

LOW, HIGH = 0.9, 1.1  # an estimate ratio between them is true enough
TELLING = 0.05  # of a threshold, so much must have been seen to judge it
LEAST = 0.02  # of the window; a threshold below it would always be reached


def _estimate(case: Case) -> Shown | None:
    line = true_line(case)
    if line is None or case.trace.window <= 0 or not case.counts_tokens:
        return None
    overhead, slope, seen = line
    window = float(case.trace.window)
    levels = case.levels()
    # A compactor without thresholds of its own is judged at the window.
    judged = [(each, (overhead + slope * each) / each) for _, each in levels or [("", window)]]
    name, level = _decisive(case) or ("the window", window)
    ratio = (overhead + slope * level) / level
    over = case.value("m1.overshoot_turns") or 0
    if all(LOW <= each <= HIGH for _, each in judged) and LOW <= ratio <= HIGH:
        return None
    meant = _meant(case, name, level)
    if level != meant and LOW <= level * ratio / meant <= HIGH:
        return None  # it was set so that it acts where it is meant to
    late = bool(levels) and level * ratio > window
    telling = seen >= TELLING * level
    really = f"; {name} {level / window:.2f} is {level * ratio / window:.2f} of the real window" if levels else ""
    if late and not telling and not over:
        really += f", if that holds beyond the {quantity(seen, 'token')} of text that the session has"
    what = "fewer tokens than there are" if ratio > 1 else "more tokens than there are"
    meter = case.situation.meter or "its own"
    ways = [case.true_count()]
    lower = lowered(case)
    if LOW <= slope <= HIGH and overhead > 0:
        ways.append(f"name the fixed part (--overhead {round(overhead / slope)})")
    elif lower is not None:
        ways.append(lower)
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
        # What little a short session holds tells its rate, but not that of one that comes to its thresholds.
        Severity.ERROR if ratio > HIGH and ((late and telling) or over > 0) else None,
    )


def lowered(case: Case) -> str | None:
    """Give the way to set all thresholds so that they act where they are meant to; None where they come in time.

    All of them, since their order must hold and each is as late as the others: one alone would be refused.
    """
    line, decisive = true_line(case), _decisive(case)
    if line is None or decisive is None:
        return None
    overhead, slope, _ = line
    window = case.trace.window
    if overhead + slope * decisive[1] <= HIGH * _meant(case, *decisive):
        return None
    new = {name: min((_meant(case, name, level) - overhead) / slope, level) for name, level in case.levels()}
    # The fixed part does not scale: no threshold makes a compactor act below it.
    if min(new.values()) < LEAST * window:
        return None
    acts = [f"{(overhead + slope * level) / window:.2f}" for level in new.values()]
    target = case.trace.options.get("target")
    if target:
        # What a compaction comes down to must stay below Soft, and is no threshold.
        meant = case.situation.defaults.get("target") or target
        new["target"] = max(min((meant * window - overhead) / slope, target * window), 0.0)
    flags = " ".join(f"--set {short_name(name)}={_written(name, level, window)}" for name, level in new.items())
    if case.is_brittle:  # each turn would truncate afresh
        flags += " --history write-back"
    *others, last = acts
    where = f"{', '.join(others)} and {last}" if others else last
    return (
        f"lower the thresholds together ({flags}), so that they act at {where} of the real window"
        if others
        else f"lower the threshold ({flags}), so that it acts at {where} of the real window"
    )


def _written(name: str, level: float, window: int) -> str:
    """Give a threshold as its option takes it: a share, rounded so that two of them rarely become one, or tokens."""
    return f"{round(level)}" if name in TOKENS else f"{level / window:.2f}"


def _decisive(case: Case) -> tuple[str, float] | None:
    """Give the threshold by which a compactor is judged: the full one, else the highest."""
    levels = case.levels()
    return next((one for one in levels if one[0] == "full_threshold"), levels[-1]) if levels else None


def _meant(case: Case, name: str, level: float) -> float:
    """Give the tokens at which a threshold is meant to act: those of its default, whatever it was set to.

    A threshold may have been lowered because the count is off. One that has no default is meant as it is.
    """
    default = case.situation.defaults.get(name)
    if not isinstance(default, int | float) or default <= 0:
        return level
    return float(default) if name in TOKENS else default * case.trace.window


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
    "real / decision tokens at the thresholds are outside 0.9 to 1.1; an error where requests do not fit, or where the "
    "full one comes too late and the session has at least 5 % of its tokens",
    ("m1",),
    _estimate,
)
