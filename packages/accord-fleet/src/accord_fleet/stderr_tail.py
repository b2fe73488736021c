"""The end of what an agent writes to its stderr, without secrets."""

from __future__ import annotations

from accord.text.redact import MASK
from accord.text.secrets import redacted_text
from accord_fleet.redaction import Redactor
from accord_fleet.split_secrets import SplitSecrets


class StderrTail:
    """Keeps the last lines; a secret that is on several of them is removed, too."""

    def __init__(self, redactor: Redactor, chars: int) -> None:
        self._redactor = redactor
        self._chars = chars
        self._text = ""
        self._lines = SplitSecrets(redactor.values, MASK, self._write)

    def add(self, line: str) -> None:
        """Add a line, or a part of a very long one."""
        self._lines.add(line, len(line), text=line)

    def text(self) -> str:
        """Return the end of all lines so far."""
        self._lines.flush()
        return self._text

    def _write(self, line: str, changed: str | None) -> None:
        # Redacted before it is cut: half a secret is not found later.
        line = redacted_text(self._redactor.text(line if changed is None else changed))
        self._text = f"{self._text}{line}\n"[-self._chars :]
