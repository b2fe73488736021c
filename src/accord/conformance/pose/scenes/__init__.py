"""The scenarios for clients, in the order in which `check: all` plays them."""

from __future__ import annotations

from accord.conformance.play.scenario import Scenario
from accord.conformance.pose.scene import Scene
from accord.conformance.pose.scenes import (
    files,
    forms,
    permissions,
    shown_families,
    shown_messages,
    shown_meta,
    shown_session,
    shown_states,
    shown_terminals,
    shown_tools,
    terminals,
    updates,
    user,
    wire,
)

__all__ = ("SCENARIOS",)

SCENARIOS: tuple[Scenario[Scene], ...] = (
    *wire.SCENES,
    *updates.SCENES,
    *shown_messages.SCENES,
    *shown_tools.SCENES,
    *shown_terminals.SCENES,
    *shown_session.SCENES,
    *shown_states.SCENES,
    *shown_families.SCENES,
    *shown_meta.SCENES,
    *permissions.SCENES,
    *files.SCENES,
    *terminals.SCENES,
    *forms.SCENES,
    *user.SCENES,
)
