"""Text that came out of a transcript, made harmless for a terminal."""

from __future__ import annotations

import re

# One scan in C decides for nearly every text that nothing has to be done.
_PRINTABLE_ASCII = re.compile(r"[ -~]*")


def safe(text: str, *, newlines: bool = False) -> str:
    r"""Show control characters, invisible characters and lone surrogates as visible escapes.

    A terminal takes escape sequences, carriage returns and direction overrides in a text as orders; here they are
    letters. The result is always encodable and, unless ``newlines`` keeps them, always one line. It is plain text: give
    it to rich as ``Text``, never as markup.

    >>> safe("\x1b[2Jgone\r\n"), safe("a\u202eb"), safe("\ud83c")
    ('\\x1b[2Jgone\\r\\n', 'a\\u202eb', '\\ud83c')
    """
    if _PRINTABLE_ASCII.fullmatch(text):
        return text
    return "".join(c if c.isprintable() or (newlines and c == "\n") else _escape(c) for c in text)


def _escape(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")
