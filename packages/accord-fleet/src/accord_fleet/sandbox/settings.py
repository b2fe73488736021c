"""What a sandbox lets an agent reach, and which agents it cannot isolate."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from pathlib import PurePosixPath
from typing import Literal

import msgspec

from accord.errors import AccordError
from accord.text.excerpt import one_line
from accord.transports.registry import is_url
from accord_fleet.types import AgentSpec

SandboxMode = Literal["off", "models", "no-network", "network"]
"""Which network an agent reaches in its sandbox.

- `off`: there is no sandbox.
- `models`: the model gateway of its provider, and the hosts that are allowed.
- `no-network`: nothing, not even services of this machine.
- `network`: everything that this machine reaches, services on its loopback included.
"""

_HTTPS = 443


class SandboxError(AccordError):
    """A sandbox is not available here, or it cannot run an agent."""


class HostRule(msgspec.Struct, frozen=True):
    """A host that agents may reach: `example.com`, `*.example.com` or `example.com:8443`."""

    name: str
    port: int = _HTTPS

    @classmethod
    def parse(cls, text: str) -> HostRule:
        """Read a rule; raise `SandboxError` for another text."""
        name, colon, port = text.strip().lower().rpartition(":")
        if not colon:
            name, port = port, str(_HTTPS)
        plain = name.removeprefix("*.")
        ok = plain and not set(plain) & set("*/:@[] ") and port.isdecimal()
        if not ok or not 0 < int(port) < 65536:
            raise SandboxError(
                "Expected a host to allow, such as `example.com`, `*.example.com` or"
                f" `example.com:8443`, got {text!r}"
            )
        return cls(name, int(port))

    def allows(self, host: str, port: int) -> bool:
        """Return whether the rule covers an address."""
        if port != self.port:
            return False
        host = host.lower().rstrip(".")
        if self.name.startswith("*."):
            return host.endswith(self.name[1:])
        return host == self.name


class SandboxSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The sandbox of all agents of a fleet."""

    mode: SandboxMode = "off"
    allow_hosts: tuple[str, ...] = ()
    """Hosts that agents reach through a proxy, see `HostRule`; for `models` only."""
    read: tuple[str, ...] = ()
    """Absolute paths, or paths that begin with `~/`, that agents can read: their credentials, and
    programs outside the system's directories."""
    processes: int = 512
    """Processes and threads of one attempt."""
    files: int = 4096
    """Files that one process can have open."""
    file_bytes: int = 4 * 2**30
    """Size of one file."""
    tmp_bytes: int = 2**30
    """Size of the private `/tmp` and home directory, each."""

    def check(self) -> None:
        """Raise `SandboxError` with everything that is wrong."""
        if errors := self.errors():
            raise SandboxError("\n".join(errors))

    def errors(self) -> list[str]:
        """Return everything that is wrong on any machine."""
        errors: list[str] = []
        for text in self.allow_hosts:
            try:
                HostRule.parse(text)
            except SandboxError as error:
                errors.append(str(error))
        if self.allow_hosts and self.mode != "models":
            errors.append(
                f"Hosts can be allowed in the sandbox `models` only, not in `{self.mode}`"
            )
        errors += [
            f"Expected an absolute path, or one that begins with `~/`, got {path!r}"
            for path in self.read
            if not path.startswith("~/") and not PurePosixPath(path).is_absolute()
        ]
        return errors


def why_not_isolated(
    sandbox: SandboxSettings | None, agents: Iterable[AgentSpec], in_process: Collection[str] = ()
) -> list[str]:
    """Return an error for each agent that runs elsewhere, or in this process (`in_process`)."""
    if sandbox is None or sandbox.mode == "off":
        return []
    errors: list[str] = []
    for agent in agents:
        if agent.name in in_process:
            errors.append(f"The sandbox cannot isolate {agent.name}, which runs in this process")
        elif is_url(agent.command[0]):
            place = one_line(agent.command[0], 200)
            errors.append(f"The sandbox cannot isolate {agent.name}, which runs elsewhere: {place}")
    return errors
