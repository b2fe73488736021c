"""The judges, one file per area."""

from __future__ import annotations

from collections.abc import Iterable

from accord_conformance.judges.auth import Auth
from accord_conformance.judges.base import Judge
from accord_conformance.judges.compaction import Compaction
from accord_conformance.judges.content import Content
from accord_conformance.judges.directories import Directories
from accord_conformance.judges.elicitation import Elicitation
from accord_conformance.judges.files_and_terminals import FilesAndTerminals
from accord_conformance.judges.framing import Framing
from accord_conformance.judges.gates import Gates
from accord_conformance.judges.handshake import Handshake
from accord_conformance.judges.late_updates import LateUpdates
from accord_conformance.judges.mcp_over_acp import McpOverAcp
from accord_conformance.judges.options import Options
from accord_conformance.judges.paths import Paths
from accord_conformance.judges.permissions import Permissions
from accord_conformance.judges.providers import Providers
from accord_conformance.judges.request_cancellation import RequestCancellation
from accord_conformance.judges.session_list import SessionList
from accord_conformance.judges.sessions import Sessions
from accord_conformance.judges.state_updates import SessionStates
from accord_conformance.judges.system_prompt import SystemPrompt
from accord_conformance.judges.tools import Tools
from accord_conformance.judges.turns import Turns
from accord_conformance.judges.wire_types import WireTypes
from accord_conformance.rules.extensions import load_extensions

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
]


def all_judges() -> tuple[type[Judge], ...]:
    """Return the judges of the protocol and of extensions."""
    load_extensions()
    return tuple(_judges)


def add_judges(judges: Iterable[type[Judge]]) -> None:
    """Add the judges of an extension."""
    _judges.extend(judges)
