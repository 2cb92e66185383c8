"""Lines and aligned columns of text, in colour or not; what is put on it must be safe already."""

from __future__ import annotations

from collections.abc import Sequence

RESET = "\x1b[0m"
CODES = {
    "bold": "1",
    "dim": "2",
    "warn": "33",
    "soft": "36",
    "full": "34",
    "emergency": "1;31",
    "error": "1;31",
    "info": "2",
}


class Paper:
    """Collects lines; ``width`` None takes as much as the content needs."""

    def __init__(self, *, width: int | None = None, colour: bool = False) -> None:
        self.width = width
        self._colour = colour
        self._lines: list[str] = []

    def text(self) -> str:
        """Give all lines, each with a newline; spaces at line ends are left out."""
        return "".join([f"{line.rstrip()}\n" for line in self._lines])

    def line(self, words: str = "", style: str = "") -> None:
        """Write one line."""
        self._lines.append(self.styled(words, style))

    def styled(self, words: str, style: str) -> str:
        """Give words in a style of ``CODES``; as they are where there is no colour."""
        code = CODES.get(style) if self._colour else None
        return f"\x1b[{code}m{words}{RESET}" if code and words.strip() else words

    def wrapped(self, words: str, indent: str, style: str = "", hang: int = 0) -> None:
        """Write words on as many lines as the width asks for, each after ``indent``, later ones ``hang`` further in."""
        if self.width is None:
            self.line(indent + words, style)
            return
        import textwrap

        room = max(20, self.width - len(indent))
        for part in textwrap.wrap(words, room, break_on_hyphens=False, subsequent_indent=" " * hang) or [""]:
            self.line(indent + part, style)

    def columns(
        self,
        rows: Sequence[Sequence[str]],
        right: Sequence[bool],
        styles: Sequence[str] = (),
        indent: str = "",
    ) -> None:
        """Write rows with aligned columns; ``right`` says which are aligned to the right, ``styles`` is for rows."""
        sizes = [[cells(cell) for cell in row] for row in rows]
        widths = [max(column) for column in zip(*sizes, strict=True)]
        for number, row in enumerate(rows):
            padded = [
                " " * (width - taken) + cell if to_right else cell + " " * (width - taken)
                for cell, taken, width, to_right in zip(row, sizes[number], widths, right, strict=True)
            ]
            self.line(indent + "  ".join(padded).rstrip(), styles[number] if styles else "")


def cells(words: str) -> int:
    """Give how many cells of a terminal a text takes; wide characters take two."""
    if words.isascii():
        return len(words)
    from rich.cells import cell_len

    return cell_len(words)
