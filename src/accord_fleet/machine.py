"""What the attempts on one machine share."""

from __future__ import annotations

import os
import platform
from pathlib import Path

from accord_fleet.engines.engine import RunSettings
from accord_fleet.parts import Breaker, Gateway, Graders, Sandbox, Workspaces

__all__ = ("Machine",)


class Machine:
    """The parts that attempts use; made by `open_machine`, once for each process of an engine."""

    def __init__(
        self,
        settings: RunSettings,
        scratch: Path,
        *,
        workspaces: Workspaces,
        graders: Graders,
        sandbox: Sandbox | None = None,
        gateway: Gateway | None = None,
        breaker: Breaker | None = None,
    ) -> None:
        self.settings: RunSettings = settings
        self.scratch: Path = scratch
        """A folder for workspaces and recordings of running attempts."""
        self.workspaces: Workspaces = workspaces
        self.graders: Graders = graders
        self.sandbox: Sandbox | None = sandbox
        self.gateway: Gateway | None = gateway
        self.breaker: Breaker | None = breaker
        self.name: str = f"{platform.node()}:{os.getpid()}"
        """What results have as `machine`."""
