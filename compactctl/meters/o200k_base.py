"""The exact tokenizer of OpenAI's newer models (GPT-4o to GPT-5), offline."""

from __future__ import annotations

from compactctl.meters._bpe import Encoding, Exact, exact_meter
from compactctl.model import Session
from compactctl.ports import MeterSpec, RankSource

_UPPER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]"
_LOWER = r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
_ENDING = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"

ENCODING = Encoding(
    "o200k_base",
    "|".join(
        (
            rf"[^\r\n\p{{L}}\p{{N}}]?{_UPPER}*{_LOWER}+{_ENDING}",
            rf"[^\r\n\p{{L}}\p{{N}}]?{_UPPER}+{_LOWER}*{_ENDING}",
            r"\p{N}{1,3}",
            r" ?[^\s\p{L}\p{N}]+[\r\n/]*",
            r"\s*[\r\n]+",
            r"\s+(?!\S)",
            r"\s+",
        )
    ),
    "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d",
    (("<|endoftext|>", 199999), ("<|endofprompt|>", 200018)),
)


def _make(session: Session | None, ranks: RankSource | None = None) -> Exact:
    return exact_meter(ENCODING, ranks)


METER = MeterSpec("o200k_base", "tiktoken's o200k_base, exact for GPT-4o to GPT-5", _make)
