"""The scenarios for clients, in the order in which `check: all` plays them."""

from __future__ import annotations

from accord.conformance.play.scenario import Scenario
from accord.conformance.pose.scene import Scene
from accord.conformance.pose.scenes import (
    files,
    forms,
    permissions,
    terminals,
    updates,
    user,
    wire,
)

__all__ = ("SCENARIOS",)

SCENARIOS: tuple[Scenario[Scene], ...] = (
    *wire.SCENES,
    *updates.SCENES,
    *permissions.SCENES,
    *files.SCENES,
    *terminals.SCENES,
    *forms.SCENES,
    *user.SCENES,
)
