"""Limits as they are given on the command line."""

from __future__ import annotations

from collections.abc import Iterable
from typing import get_args

from accord_fleet.errors import FleetError
from accord_fleet.types.limits import LimitName

_NAMES: tuple[LimitName, ...] = get_args(LimitName)
_UNITS = {"k": 2**10, "m": 2**20, "g": 2**30}


def limits_from_words(words: Iterable[str]) -> tuple[dict[LimitName, float | None], list[str]]:
    """Return the limits of words such as `turn_s=60` and `memory_bytes=2g`, and every error."""
    found: dict[LimitName, float | None] = {}
    errors: list[str] = []
    for word in words:
        try:
            name, value = _limit(word)
        except FleetError as error:
            errors.append(f"--limit {word}: {error}")
        else:
            found[name] = value
    return found, errors


def _limit(word: str) -> tuple[LimitName, float | None]:
    name, equals, text = word.partition("=")
    if name not in _NAMES or not equals:
        raise FleetError(f"expected NAME=VALUE with a name of {', '.join(_NAMES)}")
    text = text.strip().lower()
    if text == "none":
        return name, None
    unit = _UNITS.get(text[-1:], 1) if name.endswith("_bytes") else 1
    try:
        value = float(text[:-1] if unit > 1 else text) * unit
    except ValueError:
        value = -1.0
    if not 0 < value < float("inf"):
        raise FleetError(f"expected a number above 0 or `none`, got {text!r}")
    return name, (value if name in ("turn_s", "wall_s", "cost") else int(value))
