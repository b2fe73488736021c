"""How the process under test exited, and its last lines on stderr, without secrets."""

from __future__ import annotations

import os
from collections.abc import Mapping

from accord.errors import ConnectionLost
from accord.text.excerpt import excerpt, visible
from accord.text.redact import is_secret_name
from accord.text.secrets import redacted_text
from accord.transports.base import Transport
from accord.transports.process import ProcessTransport
from accord.transports.process_group import exit_text

_LINES = 20  # an error may be above a stack trace
_CHARACTERS = 200
_SHORTEST = 4  # characters; shorter values occur in other words, too


class SecretMask:
    """Replaces secrets by their names: those in `env` and in the environment of this process."""

    def __init__(self, env: Mapping[str, str]) -> None:
        secret = {name: value for name, value in os.environ.items() if is_secret_name(name)}
        named = {value: f"${name}" for name, value in {**secret, **env}.items()}
        self._names = {
            value: named[value]
            for value in sorted(named, key=len, reverse=True)
            if len(value) >= _SHORTEST
        }

    def __call__(self, text: str) -> str:
        """Return a text without secrets, with control characters escaped."""
        for value, name in self._names.items():
            text = text.replace(value, name)
        return visible(redacted_text(text))


async def exit_error(transport: Transport) -> Exception | None:
    """Return how the peer exited, with its whole stderr: `SecretMask` names the secrets in it."""
    error = await transport.exit_error()
    if isinstance(error, ConnectionLost) and isinstance(transport, ProcessTransport):
        error.stderr = transport.stderr_tail
    return error


def describe_exit(lost: Exception | None) -> str:
    """Describe how a process exited; empty if that is not known."""
    if not isinstance(lost, ConnectionLost) or lost.exit_status is None:
        return ""
    return f"it {exit_text(lost.exit_status)}"


def last_stderr_lines(lost: Exception | None, mask: SecretMask) -> list[str]:
    """Return the last lines that a process wrote to stderr."""
    if not isinstance(lost, ConnectionLost) or not lost.stderr:
        return []
    # Before the text is shortened: a part of a secret has to be hidden, too.
    lines = [line.rstrip() for line in mask(lost.stderr).splitlines() if line.strip()]
    return [excerpt(line, _CHARACTERS) for line in lines[-_LINES:]]
