"""Every compactor keeps the contract, and every guard of the contract catches one that does not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from compactctl.compactors._list_face import ListFace, record_of, unchanged
from compactctl.context.offload import MemoryOffloader
from compactctl.context.view import View
from compactctl.contract import Broken, Guard, check_compactor, check_session, orphans, written_cases
from compactctl.meters.bytes4 import Bytes4
from compactctl.model import ASSISTANT, SYSTEM, TOOL, USER, Message, Tier, ToolCall, Trigger, changed
from compactctl.ports import CompactorSpec, Ports, Quiet, Step
from compactctl.registry import plugins
from compactctl.summarizers.opaque import SUMMARIZER as OPAQUE

SPECS = plugins("compactctl.compactors", CompactorSpec)

# Options that make a compactor work on small sessions; one that is not named here has its defaults.
SMALL: dict[str, dict[str, Any]] = {
    "clear-tool-uses": {"trigger": 300, "keep": 2},
    "claude-code": {"output_reserve": 1, "reread_tokens": 50},
    "codex": {"user_tokens": 100},
    "dsh": {"prune_threshold": 400, "prune_head": 100, "prune_tail": 50},
    "mask": {"keep": 2},
    "progressive": {"offload_threshold": 300},
    "progressive-safe": {"offload_threshold": 300, "preview_bytes": 60},
    "sliding-window": {"max_messages": 8},
}
# Where the system that a compactor follows breaks a guard, it is let through by name.
ALLOWED: dict[str, set[Guard]] = {
    # The pair repair knows ids only: where one id is called twice, the first result answers both calls.
    "harness9": {Guard.ALL_ANSWERED},
    # An Emergency keeps the last message, which in an agent loop is a result without its call.
    "progressive": {Guard.ALL_ANSWERED, Guard.NOT_SYSTEM_ALONE},
    "token-budget": {Guard.ALL_ANSWERED, Guard.NOT_SYSTEM_ALONE},
}
WINDOWS = {"claude-code": 14_600}


def maker(spec: CompactorSpec, **options: Any) -> Callable[[], Any]:
    """Give what makes a compactor of a spec for a window of 1,500 tokens, or for one of which it uses as much."""
    chosen = {option.name: option.default for option in spec.options} | SMALL.get(spec.name, {}) | options
    assert not list(spec.check(chosen))

    def make() -> Any:
        summarizer = OPAQUE.make({option.name: option.default for option in OPAQUE.options}, None)
        ports = Ports(
            summarizer=summarizer,
            offloader=MemoryOffloader("s", threshold=0),
            meter=Bytes4(),
            context_window=WINDOWS.get(spec.name, 1500),
            summary_tokens=100,
        )
        return spec.make(chosen, None, ports)

    return make


@pytest.mark.parametrize("name", SPECS)
def test_every_compactor_keeps_the_contract(name: str) -> None:
    """Whatever prefix a replay sends, a compactor that ships breaks no guard but those named here."""
    check_compactor(maker(SPECS[name]), allow=ALLOWED.get(name, set()), examples=25)


@pytest.mark.parametrize("name", sorted(set(SPECS) - {"none"}))
def test_the_contract_is_not_kept_by_doing_nothing(name: str) -> None:
    """Every compactor but ``none`` acts on some of the written cases, so that the guards have something to see."""
    acted = [check_session(maker(SPECS[name]), messages, set(Guard)) for messages in written_cases()]

    assert any(acted)


@pytest.mark.parametrize("name", ["progressive", "dsh", "codex", "claude-code"])
def test_the_library_has_the_defaults_of_the_commands(name: str) -> None:
    """A compactor that is built by hand with a window alone is the one that the commands replay with."""
    spec = SPECS[name]
    options = {option.name: option.default for option in spec.options}
    of_commands: Any = spec.make(options, None, Ports(context_window=200_000))
    by_hand = type(of_commands)(None, 200_000)

    def plain(compactor: Any) -> dict[str, Any]:
        return {key: value for key, value in vars(compactor).items() if isinstance(value, bool | int | float | str)}

    assert plain(by_hand) == plain(of_commands)
    assert "summary_tokens" in plain(by_hand)


# -- each guard, seen red --------------------------------------------------------------------------------------------


class Bad(ListFace):
    """Keeps the newest half of the messages in a way that breaks one guard."""

    name = "bad"

    def __init__(self) -> None:
        self.meter = Bytes4()
        self.steps = 0

    def after(self, view: View) -> View:
        """Give another view."""
        raise NotImplementedError

    def step(self, view: View, trigger: Trigger) -> Step:
        """Change the view once it holds more than six messages."""
        self.steps += 1
        if len(view) <= 6:
            return unchanged(view, compactor=self.name, trigger=trigger)
        after = self.after(view)
        record = record_of(view, after, tier=Tier.EMERGENCY, compactor=self.name, trigger=trigger)
        return Step(after, record, True)


class Mutating:
    """Drops messages out of the very list that it was handed."""

    def compact(self, messages: list[Message]) -> list[Message]:
        """Drop the second message."""
        if len(messages) > 6:
            del messages[1]
        return messages


class Forgetful(Bad):
    """Drops the system message."""

    def after(self, view: View) -> View:
        """Drop all but the last six, whatever they are."""
        return view.replaced(0, len(view) - 6, ()).repaired()


class Tearing(Bad):
    """The compactor that passed a contract of whole sessions: it keeps the last three messages."""

    def after(self, view: View) -> View:
        """Keep the system message and the last three."""
        return view.replaced(1, len(view) - 3, ())


class Deaf(Bad):
    """Drops the last result, as a compactor does that keeps only what is old."""

    def after(self, view: View) -> View:
        """Drop the last message."""
        return view.replaced(len(view) - 1, len(view), ())


class Bare(Bad):
    """Keeps the system message alone."""

    def after(self, view: View) -> View:
        """Drop everything else."""
        return view.replaced(1, len(view), ())


class Moody(Bad):
    """Says something else each time, to everybody."""

    moods = 0

    def after(self, view: View) -> View:
        """Drop one message and number what it puts there instead."""
        Moody.moods += 1
        return view.rebuilt([*view[:1], Message(USER, f"summary {Moody.moods}")])


class Growing(Bad):
    """Makes the view larger and does not say so."""

    def after(self, view: View) -> View:
        """Add a message that is larger than all others."""
        return view.rebuilt([*view, Message(USER, "x" * 100_000)])

    def step(self, view: View, trigger: Trigger) -> Step:
        """Leave out the note that the record would have."""
        step = super().step(view, trigger)
        return Step(step.view, changed(step.record, notes=()), True)


class Boasting(Bad):
    """Claims to have freed more than it did."""

    def after(self, view: View) -> View:
        """Keep what is there, as another view."""
        return view.rebuilt(list(view))

    def step(self, view: View, trigger: Trigger) -> Step:
        """Say that the view has no tokens left."""
        step = super().step(view, trigger)
        return Step(step.view, changed(step.record, tokens_after=0, compression_ratio=0.0), True)


class Sleepy(Bad):
    """Promises to be quiet for ever and is not."""

    def after(self, view: View) -> View:
        """Keep the system message and a note."""
        return view.rebuilt([*view[:1], Message(USER, "summary")])

    def step(self, view: View, trigger: Trigger) -> Step:
        """Promise too much."""
        step = super().step(view, trigger)
        return Step(step.view, step.record, step.write_back, Quiet())


BAD: list[tuple[Guard, Callable[[], Any]]] = [
    (Guard.INPUT_UNTOUCHED, Mutating),
    (Guard.DETERMINISTIC, Moody),
    (Guard.SYSTEM_FIRST, Forgetful),
    (Guard.NOT_SYSTEM_ALONE, Bare),
    (Guard.NO_ORPHAN, Tearing),
    (Guard.ALL_ANSWERED, Deaf),
    (Guard.SAYS_WHEN_LARGER, Growing),
    (Guard.RECORD_ADDS_UP, Boasting),
    (Guard.QUIET_KEPT, Sleepy),
]


def test_every_guard_is_proven() -> None:
    """There is a bad compactor for each guard."""
    assert {guard for guard, _ in BAD} == set(Guard)


@pytest.mark.parametrize(("guard", "make"), BAD)
def test_a_bad_compactor_is_caught(guard: Guard, make: Callable[[], Any]) -> None:
    """The written cases alone name the guard that a bad compactor breaks."""
    with pytest.raises(Broken) as caught:
        check_compactor(make, examples=0, allow=set(Guard) - {guard})

    assert caught.value.guard is guard


def test_whole_sessions_would_not_have_caught_it() -> None:
    """A finished session ends tidily: only some of its prefixes show a compactor that tears pairs."""
    tidy = [Message(SYSTEM, "s"), Message(USER, "u")]
    for i in range(3):
        tidy += [Message(ASSISTANT, "", (ToolCall(f"c{i}", "bash", "{}"),)), Message(TOOL, "r", tool_call_id=f"c{i}")]
        tidy += [Message(ASSISTANT, "so"), Message(USER, "and"), Message(ASSISTANT, "yes")]
    whole = View.of(tidy, Bytes4())
    kept = list(Tearing().step(whole, Trigger.PRESSURE).view)

    assert len(kept) < len(tidy)
    assert not orphans(kept)
    with pytest.raises(Broken, match="no-orphan"):
        check_session(Tearing, tidy)


class Lucky(Tearing):
    """Tears pairs, but in none of the sessions that are written down."""

    def after(self, view: View) -> View:
        """Leave a session alone that has their task."""
        return view if any("fix the build" in message.content for message in view) else super().after(view)


def test_generated_sessions_catch_it_too() -> None:
    """The generated sessions show what the written ones do not."""
    check_compactor(Lucky, examples=0)

    with pytest.raises(Broken, match="no-orphan"):
        check_compactor(Lucky, examples=20)
