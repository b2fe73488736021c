"""Why the settings of an editor were not changed."""

from __future__ import annotations

from accord.errors import AccordError


class EditorError(AccordError):
    """The settings of an editor cannot be changed; nothing was written."""


class JsoncError(EditorError):
    """A text is not JSON with comments, or has another shape than expected.

    `line` and `column` count from 1.
    """

    def __init__(self, message: str, text: str, at: int) -> None:
        before = text[:at].replace("\r\n", "\n").replace("\r", "\n")
        self.line = before.count("\n") + 1
        self.column = len(before) - before.rfind("\n")
        super().__init__(f"line {self.line}, column {self.column}: {message}")
