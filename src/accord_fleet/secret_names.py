"""Which variables of an environment hold secrets, by their names."""

from __future__ import annotations

import re
from collections.abc import Mapping

__all__ = ("is_secret_name", "secret_variables", "why_not_redacted")

_SECRET = re.compile(
    r"(?i)(?:KEYS?|TOKENS?|SECRETS?|PASSWORDS?|PASSWD|_PWD|PASSPHRASE|CREDENTIALS?)(?:_|-|\d|$)"
)
_PLACE = re.compile(r"(?i)_(?:PATH|FILE|DIR|SOCK)$")
_SHORTEST = 8  # characters; shorter values are numbers and switches


def is_secret_name(name: str) -> bool:
    """Return whether a variable with this name holds a secret, such as `ANTHROPIC_API_KEY`.

    Names of places, such as `SSL_KEY_FILE`, are not.
    """
    return _SECRET.search(name) is not None and _PLACE.search(name) is None


def secret_variables(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that hold secrets; those with values under 8 characters do not."""
    return {
        name: value
        for name, value in environment.items()
        if len(value) >= _SHORTEST and is_secret_name(name)
    }


def why_not_redacted(name: str, environment: Mapping[str, str]) -> str | None:
    """Return why the value of a variable cannot be removed from what is stored; None if it is."""
    value = environment.get(name)
    if value is None:
        return f"expected the environment variable {name}, which is not set"
    if len(value) < _SHORTEST:
        return (
            f"expected a value of {_SHORTEST} characters or more in {name}, it has {len(value)}:"
            " a short text occurs by chance"
        )
    return None
