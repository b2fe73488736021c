"""An agent that a fleet gives tasks to."""

from __future__ import annotations

import msgspec

_TOKEN = "ACCORD_TOKEN"  # the name of a variable


class Resources(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What an attempt reserves on the machine that runs it."""

    cpus: float = 1.0
    memory_bytes: int | None = None
    custom: dict[str, float] = {}
    """Resources that the cluster defines, for example `{"gpu_lane": 1}`."""


class AgentSpec(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An agent: how it is started, and what it needs."""

    name: str
    """Names the agent in results; unique in a fleet."""
    command: tuple[str, ...]
    """The command and its arguments, or one URL of a remote agent."""
    env: dict[str, str] = {}
    secrets: tuple[str, ...] = ()
    """Names of environment variables of the machine that the agent gets. Their values are never
    stored."""
    token: str | None = None
    """Name of the environment variable of the machine with the token of a remote agent; without
    it, `ACCORD_TOKEN` if that is set."""
    provider: str | None = None
    """Name of the provider in `Providers` whose gateway the agent uses."""
    packages: tuple[str, ...] = ()
    """Packages that a cluster installs for the agent, as `pip install` takes them."""
    resources: Resources = Resources()
    versions: tuple[int, ...] = (1, 2)
    """Versions of the protocol that are offered."""
    warm: bool = True
    """Whether one process serves several attempts, each in a new session."""

    @property
    def token_variable(self) -> str:
        """Name of the environment variable with the token, if the agent is at a URL."""
        return self.token or _TOKEN
