"""How a program under test ended and what it said last, as a report may show it."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

from accord.errors import ConnectionLost
from accord.text.excerpt import excerpt, visible
from accord.transports.process_group import exit_text

__all__ = ("SecretMask", "describe_exit", "last_stderr_lines")

_LINES = 20  # below an error there may be a trace
_CHARACTERS = 200
_SECRET = re.compile("key|token|secret|passw|credential", re.IGNORECASE)
_SHORTEST = 4  # what is shorter stands in other words, too


class SecretMask:
    """Puts names in the place of secrets: of all that `env` gives, and of our own environment."""

    def __init__(self, env: Mapping[str, str]) -> None:
        secret = {name: value for name, value in os.environ.items() if _SECRET.search(name)}
        named = {value: f"${name}" for name, value in {**secret, **env}.items()}
        self._names = {
            value: named[value]
            for value in sorted(named, key=len, reverse=True)
            if len(value) >= _SHORTEST
        }

    def __call__(self, text: str) -> str:
        """Return a text that may be shown, its control characters spelt out."""
        for value, name in self._names.items():
            text = text.replace(value, name)
        return visible(text)


def describe_exit(lost: Exception | None) -> str:
    """Say how a process ended, as far as it did; empty when there is nothing to say."""
    if not isinstance(lost, ConnectionLost) or lost.exit_status is None:
        return ""
    return f"it {exit_text(lost.exit_status)}"


def last_stderr_lines(lost: Exception | None, veil: SecretMask) -> list[str]:
    """Return the last lines of what a process wrote to stderr."""
    if not isinstance(lost, ConnectionLost) or not lost.stderr:
        return []
    # Before it is cut: half a secret is one as well.
    lines = [line.rstrip() for line in veil(lost.stderr).splitlines() if line.strip()]
    return [excerpt(line, _CHARACTERS) for line in lines[-_LINES:]]
