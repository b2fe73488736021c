"""The judges, one file per area."""

from __future__ import annotations

from accord_conformance.judges.auth import Login
from accord_conformance.judges.base import Judge
from accord_conformance.judges.content import Contents
from accord_conformance.judges.elicitation import Elicitation
from accord_conformance.judges.extras import Extras
from accord_conformance.judges.files_and_terminals import Services
from accord_conformance.judges.framing import Framing
from accord_conformance.judges.gates import Gates
from accord_conformance.judges.handshake import Handshake
from accord_conformance.judges.late_updates import LateWords
from accord_conformance.judges.mcp_over_acp import McpOverAcp
from accord_conformance.judges.nes import Nes
from accord_conformance.judges.options import Options
from accord_conformance.judges.paths import Paths
from accord_conformance.judges.permissions import Permissions
from accord_conformance.judges.session_list import Listing
from accord_conformance.judges.session_state import States
from accord_conformance.judges.sessions import Sessions
from accord_conformance.judges.tools import Tools
from accord_conformance.judges.turns import Turns
from accord_conformance.judges.wire_types import Shapes

__all__ = ("JUDGES",)

JUDGES: tuple[type[Judge], ...] = (
    Framing,
    Shapes,
    Handshake,
    Gates,
    Login,
    Paths,
    Sessions,
    Listing,
    Turns,
    States,
    LateWords,
    Tools,
    Permissions,
    Services,
    Options,
    Elicitation,
    Contents,
    Extras,
    McpOverAcp,
    Nes,
)
