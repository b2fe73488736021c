"""The rules of the protocol as data: the requirement, what demands it, and how it is judged.

`requirements()` has every rule by its id, from the TOML files of `data/` and those of extensions;
`select_rules` and `select_scenarios` find those that a user names.

"""

from __future__ import annotations

import importlib
import tomllib
from collections.abc import Iterable, Sequence
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol, TypeAlias, TypeVar

from msgspec import Struct, convert, structs

from accord.text.lenient_json import is_object

# The authority of a rule, which is what demands it: the JSON schema, the text of the protocol (its
# pages and proposals, and the JSON-RPC specification that it follows), only the reference SDKs, or
# Accord, which derived it from other rules.
Authority: TypeAlias = Literal["schema", "text", "sdk", "derived"]

# Descriptions of the authorities, the strongest first.
AUTHORITIES: dict[Authority, str] = {
    "schema": "the schema of the protocol",
    "text": "the text of the protocol",
    "sdk": "only the reference SDKs",
    "derived": "derived by Accord",
}

_SITE = "https://agentclientprotocol.com"
_JSON_RPC = "https://www.jsonrpc.org/specification"


class Demand(Struct, frozen=True):
    """What demands a rule in a version: a definition of the schema, or a section of the text.

    `place` is a definition with a member or without one (`ToolCallUpdate.title`), or a page with a
    section (`overview#error-handling`, `rfds/…#…`, `json-rpc#…`), or the address of a page, for
    rules of extensions. A page without a section means its opening. `words` say in our words what
    it demands. Without a place, only the kind of the authority is known: the rule does not decide.
    """

    kind: Authority
    version: int
    place: str = ""
    words: str = ""
    draft: bool = False

    @property
    def label(self) -> str:
        """The place as a short text: `v1 schema: ToolCallUpdate.title`."""
        page, _, section = self.place.partition("#")
        match self.kind, page.partition("/"):
            case "schema", _:
                return f"v{self.version} schema: {self.place}"
            case "text", ("rfds", _, name):
                return f"RFD: {name}#{section}" if section else f"RFD: {name}"
            case "text", ("json-rpc", _, _):
                return f"JSON-RPC 2.0: {section}"
            case "text", _ if _is_url(self.place):
                return self.place
            case "text", _:
                return f"v{self.version} docs: {self.place}"
            case _:
                return AUTHORITIES[self.kind]

    @property
    def url(self) -> str:
        """The address of the place."""
        if _is_url(self.place):
            return self.place
        page, _, section = self.place.partition("#")
        anchor = f"#{section}" if section else ""
        if self.kind == "schema":
            draft = "draft/" if self.draft else ""
            definition = self.place.partition(".")[0].lower()
            return f"{_SITE}/protocol/v{self.version}/{draft}schema#{definition}"
        if page == "json-rpc":
            return f"{_JSON_RPC}{anchor}"
        if page.startswith("rfds/"):
            return f"{_SITE}/{page}{anchor}"
        return f"{_SITE}/protocol/v{self.version}/{page}{anchor}"


def _is_url(place: str) -> bool:
    return place.startswith("https://")


def read_demand(text: str, version: int, *, draft: bool) -> Demand:
    """Read an entry of the data: the kind, and for most rules a place, a colon and words."""
    head, _, words = text.partition(": ")  # a space follows: addresses have colons
    kind, _, place = head.partition(" ")
    for known in AUTHORITIES:
        if kind == known:
            return Demand(known, version, place, words, draft)
    raise ValueError(f"unknown authority {kind!r}: expected one of {', '.join(AUTHORITIES)}")


# Loads the packages that add rules, judges and scenarios to the kit.

# An installed package names its module under this group of entry points.
GROUP = "accord_conformance.extensions"
_OF_ACCORD = ("accord_conformance.nes.conformance",)

_is_loaded = False


def load_extensions() -> None:
    """Import each extension once; it registers what it adds by `add_extension`."""
    global _is_loaded  # once per process
    if _is_loaded:
        return
    _is_loaded = True  # before the imports: extensions read what they extend
    for name in _OF_ACCORD:
        importlib.import_module(name)
    for entry in entry_points(group=GROUP):
        entry.load()


# Rules.

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


# The sources of a rule, as links to pages.

_SDKS = {
    "claude-agent-acp": "https://github.com/agentclientprotocol/claude-agent-acp",
    "TypeScript SDK": "https://github.com/agentclientprotocol/typescript-sdk",
    "Rust SDK": "https://github.com/agentclientprotocol/rust-sdk",
}


class Link(NamedTuple):
    """A source of a rule; `url` is empty if no page has it."""

    label: str
    url: str


def links(rule: Requirement, version: int | None = None) -> list[Link]:
    """Return the sources of a rule, only those of a version if it has any."""
    parts = [part.strip() for part in rule.source.split(",")]
    other = f"v{3 - version}" if version in (1, 2) else "none"
    mine = [part for part in parts if other not in part.split(":")[0].split()]
    return [Link(part, _url(part, rule)) for part in mine or parts]


def _url(part: str, rule: Requirement) -> str:
    head, _, page = part.partition(": ")
    match head.split():
        case [version, "docs"]:
            return f"{_SITE}/protocol/{version}/{page}"
        case ["schema", version]:
            draft = "" if rule.stability == "stable" else "draft/"
            return f"{_SITE}/protocol/{version}/{draft}schema"
        case ["RFD"]:
            return f"{_SITE}/rfds/{page}"
        case ["site"]:
            return f"{_SITE}/{page}"
        case _:
            return next((url for name, url in _SDKS.items() if part.startswith(name)), "")


# Selects rules and scenarios by the names of `--only`: areas, rules and scenarios.


class NamedScenario(Protocol):
    """What a selection needs to know of a scenario."""

    @property
    def name(self) -> str:
        """The area, a slash, and the name of the scenario in it."""
        ...

    @property
    def area(self) -> str:
        """The first part of the name."""
        ...

    @property
    def rules(self) -> tuple[str, ...]:
        """The rules that the scenario judges."""
        ...


ScenarioT = TypeVar("ScenarioT", bound=NamedScenario)


class UnknownName(ValueError):
    """An unknown name; the message lists the known ones."""


def select_rules(names: Sequence[str], scenarios: Iterable[NamedScenario]) -> list[Requirement]:
    """Return the rules with these names, or all rules without names; raise `UnknownName`."""
    if not names:
        return list(requirements().values())
    scenarios = list(scenarios)
    chosen: set[str] = set()
    for name in names:
        found = _rules_named(name) or {
            rule for one in scenarios if name in (one.name, one.area) for rule in one.rules
        }
        if not found and not any(name in (one.name, one.area) for one in scenarios):
            raise UnknownName(_unknown(name, scenarios))
        chosen |= found
    return [rule for rule in requirements().values() if rule.id in chosen]


def select_scenarios(names: Sequence[str], scenarios: Iterable[ScenarioT]) -> list[ScenarioT]:
    """Return the scenarios with these names, or all without names; raise `UnknownName`."""
    scenarios = list(scenarios)
    if not names:
        return scenarios
    chosen: set[str] = set()
    for name in names:
        found = {one.name for one in scenarios if name in (one.name, one.area)}
        rules = _rules_named(name)
        found = found or {one.name for one in scenarios if rules.intersection(one.rules)}
        if rules and not found:
            raise UnknownName(
                f"No scenario is about {name}; see `accord check rules --only {name}`"
            )
        if not found:
            raise UnknownName(_unknown(name, scenarios))
        chosen |= found
    return [one for one in scenarios if one.name in chosen]


def validate_skips(names: Iterable[str], scenarios: Iterable[NamedScenario]) -> None:
    """Raise `UnknownName` if a name under `[skip]` matches no scenario or area."""
    scenarios = list(scenarios)
    for name in names:
        if not any(name in (one.name, one.area) for one in scenarios):
            known = dict.fromkeys(name for one in scenarios for name in (one.area, one.name))
            raise UnknownName(
                f"[skip]: unknown scenario {name!r}; expected one of {', '.join(known)}"
            )


def _rules_named(name: str) -> set[str]:
    """Return the rules of the area, or the rule, with this name."""
    upper = name.upper()
    return {rule.id for rule in requirements().values() if upper in (rule.id, rule.area)}


def _unknown(name: str, scenarios: Iterable[NamedScenario]) -> str:
    if name.upper().startswith("R-"):
        area = name.upper().split("-")[1]
        there = [rule.id for rule in requirements().values() if rule.area == area]
        if there:
            return f"Unknown rule {name}; {area} has {there[0]} to {there[-1]}"
    parts = dict.fromkeys(one.area for one in scenarios)
    return (
        f"Unknown area, rule or scenario {name!r}; the areas of rules are "
        f"{', '.join(areas())}, those of scenarios {', '.join(parts)}"
    )
