"""The dsh meter prices blocks as dsh's own heuristic does."""

from compactctl.context.counting import MeterContext
from compactctl.meters._images import IMAGE_TOKENS
from compactctl.meters.dsh import Dsh
from compactctl.model import Message, Parts, ToolCall

meter = Dsh()


def test_texts_are_priced_in_utf16_quarters_rounded_up() -> None:
    """The four figures that were verified against dsh itself hold."""
    # ceil(3 / 4) + 4 + 4; ceil(23 / 4) + 8; five emoji are ten units: ceil(10 / 4) + 8; no block at all: 4
    assert [meter.weigh(Message("user", text)) for text in ("abc", "上" * 23, "🚀" * 5, "")] == [9, 14, 11, 4]


def test_a_call_is_priced_by_name_and_arguments_and_a_result_as_a_block_around_its_text() -> None:
    """The id of a call is free, a result costs a block more than its text."""
    call = Message("assistant", "", (ToolCall("a-very-long-identifier", "read", '{"path": "x"}'),))
    # ceil(4 / 4) + ceil(13 / 4) + 4 for the call, 4 for the message
    assert meter.weigh(call) == 1 + 4 + 4 + 4
    # ceil(5 / 4) + 4 for the text, 4 for the result around it, 4 for the message
    assert meter.weigh(Message("tool", "12345", tool_call_id="c")) == 2 + 4 + 4 + 4


def test_a_system_message_has_no_message_overhead_and_an_empty_reply_is_free() -> None:
    """What is not sent costs nothing."""
    assert meter.weigh(Message("system", "12345")) == 2 + 4
    assert meter.weigh(Message("system", "")) == 0
    assert meter.weigh(Message("assistant", "")) == 0


def test_blocks_are_rounded_one_by_one() -> None:
    """Three texts of one character cost three blocks, not one text of three."""
    message = Message("user", "abc", parts=Parts(texts=("a", "b", "c")))
    assert meter.weigh(message) == 3 * (1 + 4) + 4


def test_an_image_has_a_fixed_price() -> None:
    """Two images cost the same whatever their bytes."""
    small, large = (Message("user", "", parts=Parts(images=2, image_bytes=n)) for n in (10, 2_000_000))
    assert meter.weigh(small) == meter.weigh(large) == 2 * (IMAGE_TOKENS + 4) + 4


def test_a_lone_surrogate_is_one_unit() -> None:
    """Ill-formed text is counted, not refused."""
    assert meter.weigh(Message("user", "\ud83d")) == 1 + 4 + 4
    assert meter.tokens(9, MeterContext(0, True)) == 9
