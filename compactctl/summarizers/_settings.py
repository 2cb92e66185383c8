"""What summarizers with a model behind them are made with, taken out of their options."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from compactctl.errors import SettingsError
from compactctl.summarizers._calls import Limits
from compactctl.summarizers._cassette import CassetteMode
from compactctl.summarizers._spending import Caps, Price


@dataclass(frozen=True, slots=True)
class CommonSettings:
    """What every summarizer with a model behind it has."""

    model: str
    total: float
    caps: Caps
    price: Price | None
    require_anchors: bool
    strict_fence: bool
    cassette: CassetteMode | None
    cassette_file: str

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> CommonSettings:
        """Take the settings out of checked options; raises SettingsError where they do not fit together."""
        prices = (options["input_price"], options["output_price"])
        if (prices[0] is None) != (prices[1] is None):
            raise SettingsError("--input-price and --output-price come together")
        price = Price(*prices) if prices[0] is not None else None
        if options["max_cost"] is not None and price is None:
            raise SettingsError(f"--max-cost needs the price of {options['model'] or 'the model'}: give both prices")
        if options["cassette_file"] and not options["cassette"]:
            raise SettingsError("--cassette-file needs --cassette record, replay or refresh")
        return cls(
            model=options["model"],
            total=options["timeout"],
            caps=Caps(options["max_calls"], options["max_input_tokens"], options["max_cost"]),
            price=price,
            require_anchors=options["require_anchors"],
            strict_fence=options["strict_fence"],
            cassette=CassetteMode(options["cassette"]) if options["cassette"] else None,
            cassette_file=options["cassette_file"],
        )


@dataclass(frozen=True, slots=True)
class RemoteSettings:
    """What an endpoint is asked, where it is, and how long it may take."""

    common: CommonSettings
    base_url: str
    key_env: str
    key_file: str
    max_output_tokens: int
    temperature: float | None
    stream: bool
    limits: Limits
    allow_insecure_endpoint: bool

    @property
    def model(self) -> str:
        """The name of the model."""
        return self.common.model

    @classmethod
    def of(cls, options: Mapping[str, Any], default_url: str, default_key: str) -> RemoteSettings:
        """Take the settings out of checked options; raises SettingsError where no model is named."""
        common = CommonSettings.of(options)
        if not common.model:
            raise SettingsError("no model: name one with --model")
        return cls(
            common=common,
            base_url=options["base_url"] or default_url,
            key_env=options["key_env"] or default_key,
            key_file=options["key_file"],
            max_output_tokens=options["max_output_tokens"],
            temperature=options["temperature"],
            stream=options["stream"],
            limits=Limits(
                connect=options["connect_timeout"],
                idle=options["idle_timeout"],
                total=common.total,
                tries=options["tries"],
            ),
            allow_insecure_endpoint=options["allow_insecure_endpoint"],
        )
