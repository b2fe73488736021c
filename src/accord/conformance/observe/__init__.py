"""The judges, one file per area."""

from __future__ import annotations

from accord.conformance.judge import Judge
from accord.conformance.observe.content import Contents
from accord.conformance.observe.elicitation import Elicitation
from accord.conformance.observe.extras import Extras
from accord.conformance.observe.framing import Framing
from accord.conformance.observe.gates import Gates
from accord.conformance.observe.handshake import Handshake
from accord.conformance.observe.late import LateWords
from accord.conformance.observe.listing import Listing
from accord.conformance.observe.login import Login
from accord.conformance.observe.mcp_over_acp import McpOverAcp
from accord.conformance.observe.nes import Nes
from accord.conformance.observe.options import Options
from accord.conformance.observe.paths import Paths
from accord.conformance.observe.permissions import Permissions
from accord.conformance.observe.services import Services
from accord.conformance.observe.sessions import Sessions
from accord.conformance.observe.shape import Shapes
from accord.conformance.observe.states import States
from accord.conformance.observe.tools import Tools
from accord.conformance.observe.turns import Turns

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
