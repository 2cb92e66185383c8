"""The measures M1 to M8 in eight lines: what each says about a session, in words that carry their unit."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from compactctl.context.words import plural
from compactctl.measures._spec import dollars
from compactctl.reports._words import percent, tokens

Say = Callable[[float], str]

NOTE = "M6: that a name is still in view does not mean that a model recalls it; keyword survival overstates recall."


def _count(what: str, several: str = "") -> Say:
    return lambda value: f"{value:,.0f} {what if value == 1 else several or plural(what)}"


def _share(what: str) -> Say:
    return lambda value: f"{percent(value)} {what}"


def _tokens(what: str) -> Say:
    return lambda value: f"{tokens(value)} {what}"


def _ratio(what: str) -> Say:
    return lambda value: f"{value:.2f} {what}"


def _dollars(what: str) -> Say:
    return lambda value: f"{dollars(value)} US dollars{what}"


def _kept(what: str) -> Say:
    return lambda value: f"{what} {'kept' if value else 'GONE'}"


# What is shown of each measure, in this order; every key is in the JSON and in `list measures`.
_LINES: tuple[tuple[str, tuple[tuple[str, Say], ...]], ...] = (
    (
        "M1 window safety",
        (
            ("m1.peak_occupancy", _share("of the window at the peak (real tokens)")),
            ("m1.overshoot_turns", _count("turn over it", "turns over it")),
            ("m1.estimate_ratio", _ratio("real / decision tokens")),
        ),
    ),
    (
        "M2 context load",
        (
            ("m2.tokens_sent", _tokens("real tokens sent")),
            ("m2.mean_occupancy", _share("mean occupancy")),
            ("m2.share_of_uncompacted", _share("of what is sent without compaction")),
        ),
    ),
    (
        "M3 cost",
        (
            ("m3.cost_usd", _dollars("")),
            ("m3.uncompacted_cost_usd", _dollars(" without compaction")),
            ("m3.recorded_cost_usd", _dollars(" by recorded usage")),
            ("m3.cache_hit_ratio", _share("from the prompt cache")),
            ("m3.unpaid_compactions", _count("compaction that never pays back", "compactions that never pay back")),
        ),
    ),
    (
        "M4 summarizer",
        (
            ("m4.summarizer_calls", _count("call")),
            ("m4.summary_input_tokens", _tokens("real tokens read")),
            ("m4.cost_share", _share("of the cost")),
            ("m4.avoidable_calls", _count("avoidable", "avoidable")),
        ),
    ),
    (
        "M5 validity",
        (
            ("m5.faulty_turns", _count("turn with a fault", "turns with faults")),
            ("m5.faults", _count("fault introduced", "faults introduced")),
            ("m5.unread_results_lost", _count("result lost unread", "results lost unread")),
        ),
    ),
    (
        "M6 recall (D = 8,000)",
        (
            ("m6.recall_visible", _share("in view")),
            ("m6.recall_reachable", _share("in view or in a named file")),
            ("m6.references", lambda value: f"of {value:,.0f} names that replies took up again"),
        ),
    ),
    (
        "M7 retention",
        (
            ("m7.first_user_kept", _kept("task")),
            ("m7.constraints_kept", _share("of binding sentences kept")),
            ("m7.anchors_filled", lambda value: f"{value:.0f} of 5 anchors"),
            ("m7.grounding", _share("of their names grounded")),
        ),
    ),
    (
        "M8 stability",
        (
            ("m8.compactions", _count("compaction")),
            ("m8.emergency_run", lambda value: f"longest Emergency {value:,.0f}"),
            ("m8.spiral", lambda value: f"longest spiral {value:,.0f}"),
            ("m8.noop_turns", _count("idle turn")),
        ),
    ),
)


def measure_lines(measures: Mapping[str, Mapping[str, Any]]) -> Iterator[tuple[str, str]]:
    """Give a title and its figures for each measure that was computed; what is unknown is n/a with its reason."""
    for title, figures in _LINES:
        shown: list[str] = []
        missing: dict[str, list[str]] = {}
        for key, say in figures:
            found = measures.get(key)
            if found is None:
                continue
            if found["value"] is None:
                missing.setdefault(found.get("reason") or "not measured", []).append(key.partition(".")[2])
            else:
                shown.append(say(found["value"]))
        shown += [f"{', '.join(keys)} n/a: {reason}" for reason, keys in missing.items()]
        if shown:
            yield title, ", ".join(shown)
