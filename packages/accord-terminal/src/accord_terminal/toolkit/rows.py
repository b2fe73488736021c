"""Lines of text with a gutter. In a pipe a row is one line; a terminal folds it."""

from __future__ import annotations

from msgspec import Struct

GUTTER = "  │ "


class Row(Struct, frozen=True):
    """A line of text; `lead` precedes its first terminal line, `rest` the folded ones."""

    text: str
    style: str = ""
    lead: str = ""
    rest: str | None = None  # as wide as `lead`; None: spaces
    lead_style: str = ""
    whole_words: bool = True

    @property
    def plain(self) -> str:
        """The row as one line."""
        return f"{self.lead}{self.text}"
