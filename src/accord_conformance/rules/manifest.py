"""The rules of the protocol as data: what is asked, of whom, and how it is judged."""

from __future__ import annotations

import tomllib
from functools import cache
from pathlib import Path
from typing import Any, Literal, TypeAlias

from msgspec import Struct, convert

from accord.text.lenient_json import is_object
from accord_conformance.rules.extensions import load_extensions

__all__ = (
    "AUTHORITIES",
    "Authority",
    "How",
    "Requirement",
    "add_rules",
    "areas",
    "requirements",
    "rule_files",
)

How = Literal["checked", "observed", "untestable", "planned"]

# Who demands a rule: the JSON schema, the text of the protocol (its pages and proposals), only the
# reference SDKs, or Accord, which derived it from other rules.
Authority: TypeAlias = Literal["schema", "text", "sdk", "derived"]

# The authorities in words, the strongest first.
AUTHORITIES: dict[Authority, str] = {
    "schema": "the schema of the protocol",
    "text": "the text of the protocol",
    "sdk": "only the reference SDKs",
    "derived": "derived by Accord",
}

_folders = [Path(__file__).parent / "data"]


class Requirement(Struct, frozen=True, kw_only=True):
    """One rule; `area` is the middle of its id.

    A `level` in capitals is the protocol's own word; in lower case it follows from the schema,
    from another rule or from the reference implementation. `how` says who judges it: a scenario
    that a program of the kit plays (checked), the observer on whatever is said (observed), or
    nobody (untestable, with the `reason`; planned, as long as nobody has come to it).

    `authority` says, for each version, who demands the rule. Only the schema and the text of the
    protocol decide whether a program conforms; what rests on anything else is advice. `hint` says
    how what is often broken can be fixed.
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
    how: How
    reason: str = ""
    hint: str = ""

    @property
    def is_must(self) -> bool:
        """Whether breaking it is breaking the protocol."""
        return self.level.upper() in ("MUST", "MUST NOT")

    @property
    def is_should(self) -> bool:
        """Whether breaking it needs a good reason."""
        return self.level.upper() in ("SHOULD", "SHOULD NOT")

    def authority_in(self, version: int | None) -> Authority:
        """Return who demands the rule in a version, the weakest of all if none was agreed."""
        if version in self.authority:
            return self.authority[version]
        return max(self.authority.values(), key=list(AUTHORITIES).index)

    def is_normative(self, version: int | None) -> bool:
        """Whether the protocol itself demands the rule in a version."""
        return self.authority_in(version) in ("schema", "text")


@cache
def requirements() -> dict[str, Requirement]:
    """Return all rules by id: area after area, each in the order of its numbers."""
    return {
        name: _requirement(name, area, row)
        for area, file in _files()
        for name, row in file.items()
        if is_object(row)
    }


def _requirement(name: str, area: str, row: dict[str, Any]) -> Requirement:
    """Return a rule from its row, where one authority stands for all versions."""
    said: Any = row.get("authority")
    per_version = {
        version: said.get(f"v{version}") if is_object(said) else said for version in row["versions"]
    }
    return convert({"id": name, "area": area, **row, "authority": per_version}, Requirement)


@cache
def areas() -> dict[str, str]:
    """Return the title of each area, in the order in which they are shown."""
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
