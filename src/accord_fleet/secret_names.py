"""Which variables of an environment hold secrets, by their names."""

from __future__ import annotations

from collections.abc import Mapping

from accord.text.secret_names import SHORTEST, is_secret_name, secret_variables

__all__ = ("is_secret_name", "secret_variables", "why_not_redacted")


def why_not_redacted(name: str, environment: Mapping[str, str]) -> str | None:
    """Return why the value of a variable cannot be removed from what is stored; None if it is."""
    value = environment.get(name)
    if value is None:
        return f"expected the environment variable {name}, which is not set"
    if len(value) < SHORTEST:
        return (
            f"expected a value of {SHORTEST} characters or more in {name}, it has {len(value)}:"
            " a short text occurs by chance"
        )
    return None
