"""The judges: each sees every message of a connection and judges the rules of its area.

`base` has what all of them do. Then in the order of a connection: `messages`, `handshake`,
`sessions`, `turns`, `tools`, `client_services`, `steering`; `fields` has the rules about single
fields as a table. An `Observer` (`observer`) calls all judges, in the order below.
"""

from __future__ import annotations

from collections.abc import Iterable

from accord_conformance.judges.base import Judge, Paths
from accord_conformance.judges.client_services import Elicitation, FilesAndTerminals, McpOverAcp
from accord_conformance.judges.handshake import Auth, Gates, Handshake, Providers
from accord_conformance.judges.messages import Framing, RequestCancellation, WireTypes
from accord_conformance.judges.sessions import (
    Directories,
    Options,
    SessionList,
    Sessions,
    SystemPrompt,
)
from accord_conformance.judges.steering import Steering
from accord_conformance.judges.tools import Permissions, Tools
from accord_conformance.judges.turns import Compaction, Content, LateUpdates, SessionStates, Turns
from accord_conformance.rules.manifest import load_extensions

__all__ = ("add_judges", "all_judges")

_judges: list[type[Judge]] = [
    Framing,
    WireTypes,
    Handshake,
    Gates,
    Auth,
    Paths,
    Sessions,
    SessionList,
    Turns,
    SessionStates,
    LateUpdates,
    Tools,
    Permissions,
    FilesAndTerminals,
    Options,
    Elicitation,
    Content,
    RequestCancellation,
    Providers,
    Compaction,
    SystemPrompt,
    Directories,
    McpOverAcp,
    Steering,
]


def all_judges() -> tuple[type[Judge], ...]:
    """Return the judges of the protocol and of extensions."""
    load_extensions()
    return tuple(_judges)


def add_judges(judges: Iterable[type[Judge]]) -> None:
    """Add the judges of an extension."""
    _judges.extend(judges)
