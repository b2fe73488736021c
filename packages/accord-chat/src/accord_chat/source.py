"""Where the agent of a chat comes from: a process or a server, and how it is logged in to."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from msgspec import Struct, field

from accord.transports.base import Transport, TransportFactory
from accord.transports.process import process
from accord.transports.registry import RemoteOptions, is_url, transport_for_url
from accord.types.mcp import McpServer
from accord.version import ProtocolVersion
from accord_terminal.sessions.owners import transport_to
from accord_terminal.sessions.records import Store, existing_session

STOP_TIMES_S = (0.5, 1.0, 2.0)  # to exit after EOF, after SIGTERM and after SIGKILL


class Source(Protocol):
    """What a chat connects to."""

    @property
    def label(self) -> str:
        """The name of the agent for the user, as it can be given to `--agent`."""
        ...

    @property
    def is_remote(self) -> bool:
        """Whether a lost connection can be established again."""
        ...

    @property
    def login_command(self) -> Sequence[str] | None:
        """The command that a terminal login adds arguments to; None if it cannot be run here."""
        ...

    @property
    def setup(self) -> SourceSetup:
        """What sessions of the agent are opened with."""
        ...

    def transport(
        self, on_stderr: Callable[[str], None], on_noise: Callable[[str], None]
    ) -> TransportFactory:
        """Return what makes a connection."""
        ...


class GivenOptions(Struct, frozen=True, kw_only=True):
    """What the command line sets: sessions that are opened again get it, too."""

    model: str | None = None
    mode: str | None = None
    options: tuple[str, ...] = ()


class SourceSetup(Struct, frozen=True, kw_only=True):
    """The options for the sessions of an agent, from the command line and the settings."""

    protocol: ProtocolVersion | None = None
    model: str | None = None
    mode: str | None = None
    options: tuple[str, ...] = ()
    mcp_servers: tuple[McpServer, ...] = ()
    allow_rules: tuple[str, ...] = ()
    deny_rules: tuple[str, ...] = ()
    terminals: bool = False
    env: Mapping[str, str | None] = field(default_factory=dict[str, str | None])
    given: GivenOptions = field(default_factory=lambda: GivenOptions())


class OwnAgent:
    """An agent that this program starts, or a server that it connects to."""

    def __init__(
        self,
        label: str,
        argv: Sequence[str],
        setup: SourceSetup,
        *,
        token: str | None = None,
        cwd: Path | None = None,
    ) -> None:
        self.label = label
        self.argv = tuple(argv)
        self.setup = setup
        self.token = token
        self._cwd = cwd

    @property
    def is_remote(self) -> bool:
        """Whether it is a URL."""
        return is_url(self.argv[0])

    @property
    def login_command(self) -> Sequence[str] | None:
        """The agent's command."""
        return None if self.is_remote else self.argv

    def transport(
        self, on_stderr: Callable[[str], None], on_noise: Callable[[str], None]
    ) -> TransportFactory:
        """Return what starts the process or connects to the server.

        Raises `ValueError` for a URL that must not be used.
        """
        if self.is_remote:
            return transport_for_url(
                self.argv[0], RemoteOptions(token=self.token, ends_when_cut=True)
            )
        return process(
            *self.argv,
            cwd=self._cwd,
            env=self.setup.env,
            on_stderr=on_stderr,
            on_stdout_noise=on_noise,
            stop_times_s=STOP_TIMES_S,
        )


class MissingAgent:
    """An agent that could not be found: its sessions say why, and can look for it again."""

    is_remote = False
    login_command = None

    def __init__(self, label: str, why: Exception) -> None:
        self.label = label
        self.setup = SourceSetup()
        self._why = why

    def transport(
        self, on_stderr: Callable[[str], None], on_noise: Callable[[str], None]
    ) -> TransportFactory:
        """Raise why it was not found."""
        raise self._why


class SharedSession:
    """A session of `accord session`: its owner holds the agent, and outlives this program."""

    PREFIX = "session "

    def __init__(self, name: str, folder: Path, setup: SourceSetup) -> None:
        self.label = f"{self.PREFIX}{name}"
        self.is_remote = False
        self.login_command = None
        self.setup = setup
        self._name = name
        self._folder = folder
        self._opened: Transport | None = None

    async def reach(self) -> None:
        """Connect to the owner, and start it again if it has ended; the version is then known.

        With the version of the agent nothing is translated: all that it sends arrives.
        """
        store = Store()
        record = existing_session(store, self._name, self._folder)
        self._opened = await transport_to(record, store)
        protocol = store.read(record.id).protocol
        self.setup = SourceSetup(protocol=2 if protocol == 2 else 1)

    def transport(
        self, on_stderr: Callable[[str], None], on_noise: Callable[[str], None]
    ) -> TransportFactory:
        """Return the connection to the owner."""
        opened, self._opened = self._opened, None
        assert opened is not None, "`reach` was called"
        return lambda: opened
