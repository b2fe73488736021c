"""The rules of the protocol as data: the requirement, the side, and how it is judged."""

from __future__ import annotations

import tomllib
from functools import cache
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct, convert, structs

from accord.text.lenient_json import is_object
from accord_conformance.rules.authority import AUTHORITIES, Authority, Demand, read_demand
from accord_conformance.rules.extensions import load_extensions

How = Literal["checked", "observed", "untestable", "planned"]

_folders = [Path(__file__).parent / "data"]


class Requirement(Struct, frozen=True, kw_only=True):
    """One rule; `area` is the middle of its id.

    A `level` in capitals is the protocol's own word; in lower case it follows from the schema,
    from another rule or from the reference implementation. `how` is the way of judging: by a
    scenario (checked), in any traffic (observed), not at all for a `reason` (untestable), or not
    yet (planned).

    `authority` has the kind of source for each version, and `demand` the place that demands the
    rule. Only a MUST with a place in the schema or in the text of the protocol decides whether a
    program conforms; other rules are advice. `hint` describes how to fix a frequent failure.
    """

    id: str
    area: str
    rule: str
    level: str
    who: str
    versions: tuple[int, ...]
    stability: Literal["stable", "unstable", "optional"] = "stable"
    source: str
    authority: dict[int, Authority]
    demand: dict[int, Demand]
    how: How
    reason: str = ""
    hint: str = ""

    @property
    def is_must(self) -> bool:
        """Whether a program that breaks it does not conform."""
        return self.level.upper() in ("MUST", "MUST NOT")

    @property
    def is_should(self) -> bool:
        """Whether a program needs a good reason to break it."""
        return self.level.upper() in ("SHOULD", "SHOULD NOT")

    def demand_in(self, version: int | None) -> Demand:
        """Return what demands the rule in a version, or the weakest of all without a version."""
        if version in self.demand:
            return self.demand[version]
        return max(self.demand.values(), key=lambda one: list(AUTHORITIES).index(one.kind))

    def authority_in(self, version: int | None) -> Authority:
        """Return the authority of the rule in a version, or the weakest one of all."""
        return self.demand_in(version).kind

    def is_normative(self, version: int | None) -> bool:
        """Whether the protocol itself requires the rule in a version."""
        return self.authority_in(version) in ("schema", "text")

    def decides(self, version: int | None) -> bool:
        """Whether a program that breaks the rule in a version does not conform."""
        demand = self.demand_in(version)
        return self.is_must and demand.kind in ("schema", "text") and bool(demand.place)


@cache
def requirements() -> dict[str, Requirement]:
    """Return all rules by id, ordered by area and number."""
    return {
        name: _requirement(name, area, row)
        for area, file in _files()
        for name, row in file.items()
        if is_object(row)
    }


def _requirement(name: str, area: str, row: dict[str, Any]) -> Requirement:
    """Return a rule from its entry, in which one authority may apply to all versions."""
    said: Any = row.get("authority")
    draft = row.get("stability", "stable") != "stable"
    demand = {
        version: read_demand(said[f"v{version}"] if is_object(said) else said, version, draft=draft)
        for version in row["versions"]
    }
    authority = {version: one.kind for version, one in demand.items()}
    rest = {"id": name, "area": area, **row, "authority": authority, "demand": {}}
    return structs.replace(convert(rest, Requirement), demand=demand)


@cache
def areas() -> dict[str, str]:
    """Return the title of each area, in the order of reports."""
    return {area: file["title"] for area, file in _files()}


def add_rules(folder: Path) -> None:
    """Add the rules of an extension: the TOML files of a folder, one for each area."""
    _folders.append(folder)
    for cached in (requirements, areas, _files):
        cached.cache_clear()


def rule_files() -> list[Path]:
    """Return the files that have the rules, those of extensions included."""
    load_extensions()
    return [path for folder in _folders for path in folder.glob("*.toml")]


@cache
def _files() -> list[tuple[str, dict[str, Any]]]:
    files = [(path.stem.upper(), tomllib.loads(path.read_text("utf-8"))) for path in rule_files()]
    return sorted(files, key=lambda item: item[1]["place"])
