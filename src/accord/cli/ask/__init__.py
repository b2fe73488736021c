"""`accord ask`: sends one prompt to an agent and shows the turn."""

from __future__ import annotations

from accord.cli.ask.command import command

__all__ = ("command",)
