"""The exact tokenizer of OpenAI's older models (GPT-3.5, GPT-4), offline."""

from __future__ import annotations

from compactctl.meters._bpe import Encoding, Exact, exact_meter
from compactctl.model import Session
from compactctl.ports import MeterSpec, RankSource

ENCODING = Encoding(
    "cl100k_base",
    "|".join(
        (
            r"'(?i:[sdmt]|ll|ve|re)",
            r"[^\r\n\p{L}\p{N}]?+\p{L}++",
            r"\p{N}{1,3}+",
            r" ?[^\s\p{L}\p{N}]++[\r\n]*+",
            r"\s++$",
            r"\s*[\r\n]",
            r"\s+(?!\S)",
            r"\s",
        )
    ),
    "223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7",
    (
        ("<|endoftext|>", 100257),
        ("<|fim_prefix|>", 100258),
        ("<|fim_middle|>", 100259),
        ("<|fim_suffix|>", 100260),
        ("<|endofprompt|>", 100276),
    ),
)


def _make(session: Session | None, ranks: RankSource | None = None) -> Exact:
    return exact_meter(ENCODING, ranks)


METER = MeterSpec("cl100k_base", "tiktoken's cl100k_base, exact for GPT-3.5 and GPT-4", _make)
