"""The authority of a rule: what demands it, and where."""

from __future__ import annotations

from typing import Literal, TypeAlias

from msgspec import Struct

# The authority of a rule: the JSON schema, the text of the protocol (its pages and proposals, and
# the JSON-RPC specification that it follows), only the reference SDKs, or Accord, which derived it
# from other rules.
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
