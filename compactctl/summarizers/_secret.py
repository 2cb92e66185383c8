"""The key of an endpoint: where it comes from, and that it never leaves except to that endpoint (trust.md O8)."""

from __future__ import annotations

import json
import stat
from collections.abc import Iterable, Mapping
from pathlib import Path
from urllib.parse import quote

from compactctl.errors import SettingsError

_LARGEST_KEY = 16_384
_SHORTEST = 6  # a shorter text occurs by chance; no provider's key is as short
SHOWN = 200  # characters of a foreign error text that may be repeated


class Secret:
    """A text that shows itself as ``***`` wherever it is printed; ``reveal()`` is for the client alone."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        """Give the text itself."""
        return self._value

    def __repr__(self) -> str:
        return "***"

    __str__ = __repr__

    def __bool__(self) -> bool:
        return bool(self._value)

    def __reduce__(self) -> tuple[type[Secret], tuple[str]]:
        raise TypeError("a secret is not to be copied or stored")


def read_secret(environ: Mapping[str, str], variable: str, path: str = "") -> Secret | None:
    """Give the key from a file (if one is named) or from an environment variable; None where neither has one.

    Raises SettingsError for a file that cannot be read, is larger than 16 KiB or is open to others.
    """
    if not path:
        value = environ.get(variable, "").strip()
        return Secret(value) if value else None
    file = Path(path).expanduser()
    try:
        status = file.stat()
        if not stat.S_ISREG(status.st_mode) or status.st_size > _LARGEST_KEY:
            raise SettingsError(f"{path}: not a key file; it must be a regular file with the key alone in it")
        if status.st_mode & 0o077:
            raise SettingsError(f"{path}: other users can read this key; chmod 600 it")
        value = file.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeError) as error:
        raise SettingsError(f"{path}: the key cannot be read: {type(error).__name__}") from None
    if not value or any(c.isspace() for c in value):
        raise SettingsError(f"{path}: the key must be one word")
    return Secret(value)


class Redactor:
    """Takes the keys out of every text that is not meant for the endpoint, in each form in which they may be echoed."""

    def __init__(self, secrets: Iterable[Secret | None]) -> None:
        forms: set[str] = set()
        for secret in secrets:
            if secret and len(secret.reveal()) >= _SHORTEST:
                value = secret.reveal()
                forms |= {value, quote(value, safe=""), json.dumps(value)[1:-1], repr(value)[1:-1]}
        self._forms = sorted(forms, key=len, reverse=True)

    def __call__(self, text: str) -> str:
        """Give the text with ``***`` in place of the keys."""
        for form in self._forms:
            text = text.replace(form, "***")
        return text

    def cut(self, text: str) -> str:
        """Give a text whose end was cut off on reading, without the end, which may be the beginning of a key."""
        longest = len(self._forms[0]) if self._forms else 0
        text = self(text)
        return text[: max(len(text) - longest, 0)]

    def shown(self, text: str) -> str:
        """Give the beginning of a foreign text on one line: first redacted, then cut, never the other way round."""
        flat = " ".join("".join(c if c.isprintable() else " " for c in self(text)).split())
        return flat if len(flat) <= SHOWN else f"{flat[:SHOWN]}..."

    def __repr__(self) -> str:
        return "Redactor(***)"
