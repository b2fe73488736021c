"""The rules of the protocol as data: what is asked, of whom, and how it is judged."""

from __future__ import annotations

import tomllib
from functools import cache
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct, convert

from accord.jsontext import is_object

__all__ = ("How", "Requirement", "areas", "requirements")

How = Literal["checked", "observed", "untestable", "planned"]

_FOLDER = Path(__file__).parent / "requirements"


class Requirement(Struct, frozen=True, kw_only=True):
    """One rule; `area` is the middle of its id.

    A `level` in capitals is the protocol's own word; in lower case it follows from the schema,
    from another rule or from the reference implementation. `how` says who judges it: a scenario
    that a program of the kit plays (checked), the observer on whatever is said (observed), or
    nobody (untestable, with the `reason`; planned, as long as nobody has come to it).
    """

    id: str
    area: str
    rule: str
    level: str
    who: str
    versions: tuple[int, ...]
    stability: Literal["stable", "unstable", "optional"] = "stable"
    source: str
    how: How
    reason: str = ""

    @property
    def is_must(self) -> bool:
        """Whether breaking it is breaking the protocol."""
        return self.level.upper() in ("MUST", "MUST NOT")

    @property
    def is_should(self) -> bool:
        """Whether breaking it needs a good reason."""
        return self.level.upper() in ("SHOULD", "SHOULD NOT")


@cache
def requirements() -> dict[str, Requirement]:
    """Return all rules by id: area after area, each in the order of its numbers."""
    return {
        name: convert({"id": name, "area": area, **row}, Requirement)
        for area, file in _files()
        for name, row in file.items()
        if is_object(row)
    }


@cache
def areas() -> dict[str, str]:
    """Return the title of each area, in the order in which they are shown."""
    return {area: file["title"] for area, file in _files()}


@cache
def _files() -> list[tuple[str, dict[str, Any]]]:
    files = [
        (path.stem.upper(), tomllib.loads(path.read_text("utf-8")))
        for path in _FOLDER.glob("*.toml")
    ]
    return sorted(files, key=lambda item: item[1]["place"])
