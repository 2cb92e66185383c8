"""What a finding is, and what the rules that look for them are given."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from compactctl.context.counting import MeterContext
from compactctl.measures._spec import Measured, Trace
from compactctl.meters._recorded import recorded_calls
from compactctl.model import CompactionRecord, Note
from compactctl.ports import Span

Figure = float | int | str | None


class Severity(StrEnum):
    """How bad a finding is: ``error`` breaks requests or loses the task, ``warn`` wastes or risks, ``info`` informs."""

    ERROR = "error"
    WARN = "warn"
    INFO = "info"


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that a person should look at: the turns concerned, the figures, and which option to change."""

    id: str
    severity: Severity
    turns: tuple[int, ...]
    figures: Mapping[str, Figure]
    message: str
    advice: str


@dataclass(frozen=True, slots=True)
class Situation:
    """What the rules must know of a replay beside its trace.

    ``history`` is ``view`` or ``write-back``; ``window_source`` is flag, recorded, inferred, table or assumed;
    ``needs_window`` says that the real harness does nothing without a known window; ``real_source`` is the sentence
    about real tokens. ``protect`` names the tools whose results no compactor may shorten. ``summarizer`` is empty for a
    compactor that asks none; ``recorded`` is ignore or follow; ``spill`` the bytes from which results go to files when
    they are written. ``defaults`` are the values that the compactor's options have where nobody sets them.
    """

    compactor: str
    history: str = ""
    meter: str = ""
    window_source: str = ""
    needs_window: bool = False
    real_source: str = ""
    protect: frozenset[str] = frozenset()
    summarizer: str = ""
    recorded: str = "ignore"
    spill: int | None = None
    defaults: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Shown:
    """What a rule found: a sentence, the ways out, the turns and the figures.

    Each way is a clause that may name flags; those that do not fit the run are left out (``Case.advice``). An option is
    turned by ``--raise NAME`` or ``--lower NAME``, a safer choice is ``--safer NAME``. ``cause`` are the turns of the
    compactions that did it, where these are not ``turns``.
    """

    message: str
    ways: tuple[str, ...]
    turns: tuple[int, ...] = ()
    figures: Mapping[str, Figure] = field(default_factory=dict)
    severity: Severity | None = None
    cause: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Case:
    """One replay as a rule sees it."""

    trace: Trace
    measured: Mapping[str, Measured]
    situation: Situation

    def value(self, key: str) -> float | int | None:
        """Give a figure; None where it was not measured or there is none."""
        found = self.measured.get(key)
        return None if found is None else found.value

    def above(self, key: str, limit: float) -> float | int | None:
        """Give a figure that is above a limit, otherwise None."""
        found = self.value(key)
        return found if found is not None and found > limit else None

    def below(self, key: str, limit: float) -> float | int | None:
        """Give a figure that is below a limit, otherwise None."""
        found = self.value(key)
        return found if found is not None and found < limit else None

    def records(self) -> Iterator[tuple[Span, CompactionRecord]]:
        """Give every record with its span."""
        for span in self.trace.spans:
            for record in span.records:
                yield span, record

    def acted(self, turns: Iterable[int]) -> list[CompactionRecord]:
        """Give the records that changed the view at some turns."""
        wanted = set(turns)
        return [record for span, record in self.records() if record.acted and span.turn in wanted]

    @property
    def writes_back(self) -> bool:
        """Whether a compaction's view becomes the history."""
        return self.situation.history == "write-back"

    def levels(self) -> list[tuple[str, float]]:
        """Give the thresholds of the compactor as (option, decision tokens), lowest first."""
        options, window = self.trace.options, self.trace.window
        found: list[tuple[str, float]] = []
        for name in _SHARES:
            share = options.get(name)
            if isinstance(share, int | float) and not isinstance(share, bool) and share > 0 and window > 0:
                found.append((name, share * window))
        for name in TOKENS:
            tokens = options.get(name)
            if isinstance(tokens, int) and not isinstance(tokens, bool) and tokens > 0:
                found.append((name, float(tokens)))
        return sorted(found, key=lambda level: level[1])

    @property
    def has_usage(self) -> bool:
        """Whether the session recorded prompts; otherwise its real tokens are an estimate that convicts no other."""
        shared = self.trace.shared  # each way out asks
        if "has usage" not in shared:
            shared["has usage"] = next(recorded_calls(self.trace.session), None) is not None
        return bool(shared["has usage"])

    @property
    def counts_tokens(self) -> bool:
        """Whether the compactor goes by what its meter counts: to one that does not, no count is wrong or better."""
        return self.situation.compactor not in _COUNT_NO_TOKENS

    def decision_tokens(self, span: Span, turn: int) -> int:
        """Give what the compactor's meter counts of what is sent at a turn of a span."""
        base, view = self.trace.base, span.view
        weight = view.weight + base.prefix[base.calls[turn]] - base.prefix[view.hi]
        return base.meter.tokens(weight, MeterContext(turn, view.pristine))

    @property
    def has_tiers(self) -> bool:
        """Whether the compactor has thresholds of tiers: Emergency is nothing special to one that only truncates."""
        return "emergency_threshold" in self.trace.options

    @property
    def is_brittle(self) -> bool:
        """Whether the compactor truncates to next to nothing where it acts often, since it does so afresh each time."""
        return self.situation.compactor in _BRITTLE and not self.writes_back

    def true_count(self) -> str:
        """Give the way to tiers that follow real tokens; then it acts more often, which the safer compactor bears."""
        if self.is_brittle:
            return "let a safer compactor count real tokens (--compactor progressive-safe --meter calibrated)"
        return "let it count real tokens (--meter calibrated)"

    def recorded_turns(self) -> set[int]:
        """Give the turns at which the recorded harness compacted by itself and the replay did the same."""
        own = {span.turn for span, record in self.records() if Note.AS_RECORDED in record.notes}
        if self.situation.recorded == "follow":
            own |= {compaction.before_model_call for compaction in self.trace.session.compactions}
        return own

    def advice(self, shown: Shown) -> str:
        """Give the ways out that this run leaves: none that is in use already, none that its compactor has not.

        An option is named as this compactor has it: ``tail`` of one is ``retain_ratio`` of dsh.
        """
        cause = shown.cause or shown.turns
        if cause and self.recorded_turns().issuperset(cause):
            return NOT_OURS
        # Two ways that turn the same option the same way are one.
        ways: dict[object, str] = {}
        for one in shown.ways:
            way = self._way(one)
            if way is not None:
                turned = tuple((turn, self._own(meant)) for turn, meant in _TURN.findall(one))
                ways.setdefault(turned or way, way)
        *others, last = list(ways.values()) or [NO_WAY]
        return f"{', '.join(others)}, or {last}" if others else last

    def _way(self, way: str) -> str | None:
        """Give a way in the words of this run; None where it does not lead anywhere."""
        way = _TURN.sub(lambda match: self._turned(match[1], match[2]), way)
        way = _SAFER.sub(lambda match: self._safer(match[1]), way)
        if _NOT_HAD in way:
            return None
        flags = _FLAG.findall(way)
        # Together with another compactor a meter is that one's.
        other = any(flag == "compactor" for flag, _ in flags)
        if not all(self._leads_on(flag, value, other) for flag, value in flags):
            return None
        return way if all(self.trace.options.get(option) is False for option in _SWITCH.findall(way)) else None

    def _leads_on(self, flag: str, value: str, other: bool) -> bool:
        """Whether a flag with this value would change the run at all; ``other``: for another compactor than now."""
        now = self.situation
        match flag:
            case "compactor":
                return value != now.compactor
            case "history":
                return value != now.history
            case "recorded":
                return value != now.recorded
            case "summarizer":
                return now.summarizer not in ("", value)
            case "summary-tokens":
                return now.summarizer != ""
            case "spill":
                return now.spill is None
            case "meter" if value in COUNTS_TRULY:
                return self.has_usage and (other or (self.counts_tokens and now.meter not in COUNTS_TRULY))
            case "meter":
                return other or (self.counts_tokens and value != now.meter)
        return True

    def _own(self, meant: str) -> str:
        """Give the name that this compactor has for an option; empty where it has none."""
        return next((name for name in _MEANT.get(meant, (meant,)) if name in self.trace.options), "")

    def _turned(self, turn: str, meant: str) -> str:
        """Give the flag that raises or lowers an option."""
        own = self._own(meant)
        # What never compacts by itself has no use for another trigger.
        idle = own in _TRIGGERS and self.trace.options.get("auto") is False
        if not own or idle or (turn == "raise" and own in _NEVER_RAISES):
            return _NOT_HAD
        return " ".join(f"--set {short_name(name)}=..." for name in (*self._in_the_way(turn, own), own))

    def _in_the_way(self, turn: str, own: str) -> Iterable[str]:
        """Give the thresholds that stand where this one does, and must be turned with it: their order is fixed."""
        options = self.trace.options
        if own not in _TIERS or not self.has_tiers:
            return ()
        at = _TIERS.index(own)
        if turn == "lower":
            return (name for name in _TIERS[:at] if options[name] >= options[own])
        return (name for name in _TIERS[at + 1 :] if options[name] <= options[own])

    def _safer(self, option: str) -> str:
        options = self.trace.options
        if option not in options:
            return "--compactor progressive-safe"
        return _NOT_HAD if options[option] else f"--set {option}={_SAFE_VALUES.get(option, 'true')}"


# They never compact, or go by the number of messages.
_COUNT_NO_TOKENS = ("none", "mask", "sliding-window")
# The tiered compactors as they are in the seed and in harness9.
_BRITTLE = ("progressive", "harness9")
COUNTS_TRULY = ("calibrated", "usage")
NO_WAY = "no option of this run changes that; `compactctl compare` shows what other compactors do"
NOT_OURS = (
    "the recorded harness did that itself, and no option of this run changes it: --recorded ignore shows what another "
    "compactor would have done instead"
)
_NOT_HAD = "\0"
_SWITCH = re.compile(r"--set (\w+)=true")
_FLAG = re.compile(r"--([a-z-]+) ([\w-]+)")
# A safer choice: an option of the tiered compactors, and to others a reason to take the compactor that has them all.
_SAFER = re.compile(r"--safer (\w+)")
_SAFE_VALUES = {"preview_bytes": "1000", "target": "0.5"}
_TURN = re.compile(r"--(raise|lower) (\w+)")
_TRIGGERS = ("threshold_ratio", "share", "trigger", "pct_override", "max_tokens", "max_messages")
# An option that brings compaction forward and never puts it off.
_NEVER_RAISES = ("pct_override",)
# What each short form stands for, first in the tiered compactors, then in the others.
_MEANT = {
    "warn": ("warn_threshold", *_TRIGGERS),
    "soft": ("soft_threshold", *_TRIGGERS),
    "full": ("full_threshold", *_TRIGGERS),
    "emergency": ("emergency_threshold",),
    "tail": ("min_tail_messages", "retain_ratio", "keep", "user_tokens"),
    "offload": ("offload_threshold", "prune_threshold"),
}
_TIERS = ("warn_threshold", "soft_threshold", "full_threshold", "emergency_threshold")
_SHARES = (*_TIERS, "threshold_ratio", "share")
TOKENS = ("trigger", "limit", "reset", "max_tokens")


@dataclass(frozen=True, slots=True)
class FindingKind:
    """A kind of finding: its id, severity and explanation, the measures that it needs, and the rule that looks for it.

    A rule may say that a case is more or less severe than the kind.
    """

    id: str
    severity: Severity
    help: str
    needs: tuple[str, ...]
    look: Callable[[Case], Shown | None]


def short_name(option: str) -> str:
    """Give the short form of an option that has one, and any other option as it is.

    >>> short_name("emergency_threshold"), short_name("min_tail_messages"), short_name("retain_ratio")
    ('emergency', 'tail', 'retain_ratio')
    """
    return next((short for short, meant in _MEANT.items() if meant[0] == option), option)


def at_turns(turns: Iterable[int]) -> str:
    """Say where turns are, folding runs, the first few of many.

    >>> at_turns([4]), at_turns([4, 5, 6, 9]), at_turns([1, 3, 5, 7])
    ('at turn 4', 'at turns 4-6 and 9', 'at turns 1, 3, 5 and 1 more')
    """
    runs: list[list[int]] = []
    for turn in turns:
        if runs and turn == runs[-1][1] + 1:
            runs[-1][1] = turn
        else:
            runs.append([turn, turn])
    words = [str(a) if a == b else f"{a}-{b}" for a, b in runs]
    if words == [word for word in words[:1] if "-" not in word]:
        return f"at turn {words[0]}" if words else "at no turn"
    if len(words) > _MOST_RUNS:
        rest = sum(b - a + 1 for a, b in runs[_MOST_RUNS:])
        return f"at turns {', '.join(words[:_MOST_RUNS])} and {rest} more"
    return "at turns " + (" and ".join([", ".join(words[:-1]), words[-1]]) if len(words) > 1 else words[0])


_MOST_RUNS = 3
