"""The sources of a rule, as links to pages."""

from __future__ import annotations

from typing import NamedTuple

from accord_conformance.rules.manifest import Requirement

_SITE = "https://agentclientprotocol.com"
_SDKS = {
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
