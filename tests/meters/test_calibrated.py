"""The calibrated meter finds overhead and density in a session's own usage, and says how well it fits."""

from __future__ import annotations

import statistics
from dataclasses import replace
from pathlib import Path

import pytest

from compactctl.context.counting import MeterContext, Standing
from compactctl.errors import UsageError
from compactctl.meters import best_meter, make_meter
from compactctl.meters._choose import Recorded, WithOverhead
from compactctl.meters._fit import Calibrated, fit_usage
from compactctl.meters._images import IMAGE_TOKENS
from compactctl.meters._recorded import segments
from compactctl.model import Message, Origin, Parts, RecordedCompaction, Session, Usage, changed
from compactctl.transcripts import load

REAL = Path(__file__).parents[3] / "shared" / "sessions" / "claude-code-real"
PRISTINE, CHANGED, SENT = Standing.RECORDED, Standing.CHANGED, Standing.SENT


def charged(sizes: list[int], overhead: int, bytes_per_token: int, **more: object) -> Session:
    """A session whose prompts are exactly ``overhead`` + bytes / ``bytes_per_token``; replies are empty."""
    messages: list[Message] = []
    total = 0
    for size in sizes:
        messages.append(Message("user", "x" * size))
        total += size
        messages.append(Message("assistant", "", usage=Usage(overhead + total // bytes_per_token, 5)))
    return Session("s", tuple(messages), **more)  # type: ignore[arg-type]  # keywords as they come


def test_an_exact_line_is_found_exactly() -> None:
    """Prompts of 20,000 + bytes / 3 give that overhead, that density and no error."""
    fit = fit_usage(charged([3000, 6000, 9000, 1500], 20_000, 3))
    assert fit is not None
    assert fit.overhead == 20_000
    assert abs(fit.bytes_per_token - 3) < 1e-9
    assert fit.median_error is not None
    assert fit.median_error < 1e-12
    assert fit.sentence() == "20,000 + bytes / 3.00: fitted to 4 calls in 1 segment, median error 0.0%"


def test_the_meter_counts_what_was_fitted() -> None:
    """A view of 300 bytes is the overhead and a hundred tokens; an image has its fixed price on top."""
    fit = fit_usage(charged([3000, 6000, 9000, 1500], 20_000, 3))
    assert fit is not None
    meter = Calibrated(fit)
    context = MeterContext(0, False)
    assert meter.tokens(meter.weigh(Message("user", "x" * 300)), context) == 20_100
    picture = Message("user", "", parts=Parts(images=1, image_bytes=900_000))
    assert meter.tokens(meter.weigh(picture), context) == 20_000 + IMAGE_TOKENS


def test_base64_in_a_text_counts_by_the_character() -> None:
    """A data URL of 4,000 characters is 2,800 tokens, not a thousand."""
    fit = fit_usage(charged([4000, 8000, 4000], 0, 4))
    assert fit is not None
    meter = Calibrated(fit)
    url = Message("user", "base64," + "A" * 4000)
    # seven bytes are 1.75 tokens, 4,000 characters at 0.7 are 2,800
    assert meter.weigh(url) == 2_801_750


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ("recorded", "compaction"),
        ("unrecorded", "fall"),
        ("model", "model"),
    ],
)
def test_a_cut_of_the_history_begins_a_new_segment(change: str, reason: str) -> None:
    """A recorded compaction, a prompt that falls though the history grew, and another model are each told apart."""
    messages: list[Message] = []
    prompts = [
        21_000,
        22_000,
        23_000,
        *([9_000, 10_000, 11_000] if change == "unrecorded" else [24_000, 25_000, 26_000]),
    ]
    for number, prompt in enumerate(prompts):
        model = "two" if change == "model" and number >= 3 else "one"
        messages += [Message("user", "x" * 3000), Message("assistant", "", usage=Usage(prompt, 1), model=model)]
    compactions = (RecordedCompaction("full", "auto", at=6, before_model_call=3),) if change == "recorded" else ()
    found = segments(Session("s", tuple(messages), compactions=compactions))
    assert [(segment.reason, len(segment.calls)) for segment in found] == [("start", 3), (reason, 3)]
    assert found[1].context == (0 if change == "model" else 1)


def test_a_session_without_usage_cannot_be_fitted() -> None:
    """That is an error which says what to take instead, never another meter in silence."""
    bare = Session("s", (Message("user", "hello"), Message("assistant", "hi")))
    assert fit_usage(bare) is None
    with pytest.raises(UsageError, match="--meter bytes4"):
        make_meter("calibrated", bare)


def test_two_calls_measure_the_overhead_and_assume_the_density() -> None:
    """What the calls do not say is said to be assumed."""
    fit = fit_usage(charged([4000, 4000], 10_000, 4))
    assert fit is not None
    assert fit.assumed
    assert (fit.overhead, fit.bytes_per_token) == (10_000, 4.0)
    assert "assumed" in fit.sentence()


def test_the_truest_meter_is_recorded_usage_then_the_fit_then_bytes() -> None:
    """A view that was really sent has its recorded prompt, any other the fit; without usage it is bytes / 4."""
    session = charged([3000, 6000, 9001, 1500], 20_000, 3)
    meter, told = best_meter(session)
    assert isinstance(meter, Recorded)
    assert told.startswith("recorded usage, elsewhere 20,000 + bytes / 3.00")
    weight = sum(map(meter.weigh, session.messages[:5]))  # up to the third call, at turn 2
    assert meter.tokens(weight, MeterContext(2, PRISTINE)) == session.messages[5].usage.prompt  # type: ignore[union-attr]  # this message has usage
    assert meter.tokens(weight, MeterContext(2, CHANGED)) == meter.fallback.tokens(weight, MeterContext(2, CHANGED))
    bare = Session("s", session.messages[:1])
    assert best_meter(bare)[0].name == "bytes4"
    known = Session("s", session.messages[:1], overhead_tokens=700)
    over, _ = best_meter(known)
    assert isinstance(over, WithOverhead)
    assert over.tokens(400, MeterContext(0, True)) == 800


def test_recorded_usage_says_nothing_about_a_history_that_was_never_sent() -> None:
    """Behind a recorded compaction the whole history is what-if: only the fit counts it; the real one is recorded."""
    first, second = charged([6000, 6000, 6000], 1000, 3), charged([900, 900], 3000, 3)
    summary = Message("user", "what happened", origin=Origin.RECORDED_SUMMARY)
    messages = (*first.messages, summary, *second.messages)
    session = Session("s", messages, compactions=(RecordedCompaction("full", "auto", at=6, before_model_call=3),))
    meter, _ = best_meter(session)
    assert isinstance(meter, Recorded)
    whole = sum(map(meter.weigh, (*first.messages, *second.messages[:1])))
    followed = sum(map(meter.weigh, (summary, *second.messages[:1])))
    at = MeterContext(3, PRISTINE)
    assert meter.tokens(whole, at) == meter.fallback.tokens(whole, at)
    assert meter.tokens(followed, MeterContext(3, SENT)) == 3300


def test_the_whole_history_is_never_less_than_what_was_charged_for_a_part_of_it() -> None:
    """Prompts of 10,000 + bytes / 3 that fell without a record: turn 4 was charged more than the fit makes of it all.

    The prompts are 11,000 12,000 13,000, then 12,000 (a fall of 8 %) and 20,000. The fit of the five says far less than
    20,000 for turn 4; a view that a compactor changed has no prompt of its own.
    """
    session = charged([3000] * 5, 10_000, 3)
    messages = list(session.messages)
    for index, prompt in ((7, 12_000), (9, 20_000)):
        messages[index] = changed(messages[index], usage=Usage(prompt, 5))
    session = replace(session, messages=tuple(messages))
    meter, _ = best_meter(session)
    weights = [sum(map(meter.weigh, messages[:at])) for at in (7, 9)]

    assert [segment.context for segment in segments(session)] == [0, 1]
    assert meter.tokens(weights[1], MeterContext(4, PRISTINE)) == 20_000
    assert meter.tokens(weights[1], MeterContext(4, CHANGED)) < 20_000
    assert meter.tokens(weights[0], MeterContext(3, PRISTINE)) > 12_000


def test_the_usage_meter_adds_an_estimate_to_the_last_recorded_prompt_and_reply() -> None:
    """Claude Code's count: the last prompt, its reply, and bytes / 4 of what came after."""
    session = charged([3000, 6000, 9000, 1500], 20_000, 3)
    meter = make_meter("usage", session)
    weight = sum(map(meter.weigh, session.messages[:5]))
    # turn 2: the prompt of turn 1 was 23,000, its reply had 5 tokens, and 9,000 bytes came after
    assert meter.tokens(weight, MeterContext(2, PRISTINE)) == 23_000 + 5 + 2250
    assert meter.tokens(0, MeterContext(2, CHANGED)) == 20_000
    # before the first call nothing is recorded
    assert meter.tokens(1_000_000, MeterContext(0, PRISTINE)) == 21_000


def test_the_usage_meter_knows_what_the_harness_had_left_after_its_own_compaction() -> None:
    """Of what was really sent the next prompt tells it; of the whole history nothing does, and the fit counts."""
    session = replace(charged([6000, 6000, 6000], 1000, 3), compactions=(RecordedCompaction("micro", "auto", 4, 2),))
    meter = make_meter("usage", session)
    assert meter.tokens(0, MeterContext(2, SENT)) == 7000
    assert meter.tokens(0, MeterContext(2, PRISTINE)) == meter.tokens(0, MeterContext(2, CHANGED))


def test_the_usage_meter_counts_bytes_where_nothing_was_recorded() -> None:
    """Then everything came after the last recorded call."""
    meter = make_meter("usage", Session("s", (Message("user", "x" * 400), Message("assistant", "y"))))
    assert meter.steady
    assert meter.tokens(meter.weigh(Message("user", "x" * 400)), MeterContext(0, PRISTINE)) == 100


def test_the_errors_are_those_of_the_meter_in_use() -> None:
    """Two histories of other densities have one rate: what that misses is in the errors, call by call."""
    first, second = charged([6000, 6000, 6000, 6000], 1000, 3), charged([6000, 6000, 6000], 3000, 6)
    compaction = RecordedCompaction("full", "auto", at=8, before_model_call=4)
    session = Session("s", (*first.messages, *second.messages), compactions=(compaction,))
    fit = fit_usage(session)
    assert fit is not None
    meter, missed = Calibrated(fit), []
    for turn in range(4):
        prompt = first.messages[2 * turn + 1].usage.prompt  # type: ignore[union-attr]  # every reply has usage
        weight = sum(map(meter.weigh, first.messages[: 2 * turn + 1]))
        missed.append(abs(meter.tokens(weight, MeterContext(turn, CHANGED)) - prompt) / prompt)
    assert max(missed) > 0.05
    assert all(abs(told - seen) < 0.001 for told, seen in zip(fit.errors[:4], missed, strict=True))
    # The second history may start as it likes, but its slope is the common one.
    assert max(fit.errors[4:]) > 0.02


@pytest.mark.skipif(not REAL.is_dir(), reason="the real sessions are not at hand")
def test_the_fit_predicts_real_prompts(capsys: pytest.CaptureFixture[str]) -> None:
    """Median error at most 2 % over real sessions and 10 % in any one; each is printed."""
    errors: dict[str, float] = {}
    with capsys.disabled():
        for path in sorted(REAL.glob("*.jsonl.gz")):
            for session in load(str(path)):
                fit = fit_usage(session)
                assert fit is not None
                assert fit.median_error is not None
                errors[path.name] = fit.median_error
                print(f"\n{path.name}: {fit.median_error:.2%}, worst call {max(fit.errors):.1%}", end="")
        print()
    assert statistics.median(errors.values()) <= 0.02
    assert max(errors.values()) <= 0.10
