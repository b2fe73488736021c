"""Which variables of an environment hold secrets, by their names."""

from __future__ import annotations

import re
from collections.abc import Mapping

__all__ = ("SHORTEST", "is_secret_name", "secret_variables")

_SECRET = re.compile(
    r"(?i)(?:KEYS?|TOKENS?|SECRETS?|PASSWORDS?|PASSWD|_PWD|PASSPHRASE|CREDENTIALS?)(?:_|-|\d|$)"
)
_PLACE = re.compile(r"(?i)_(?:PATH|FILE|DIR|SOCK)$")
SHORTEST = 8  # characters; shorter values are numbers and switches


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
        if len(value) >= SHORTEST and is_secret_name(name)
    }
