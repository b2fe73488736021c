"""Why an agent was not found or not installed."""

from __future__ import annotations

from accord.errors import AccordError


class RegistryError(AccordError):
    """The index of a registry cannot be loaded or read, or has no such agent."""


class InstallError(AccordError):
    """An agent was not installed; what was installed before is as it was."""
