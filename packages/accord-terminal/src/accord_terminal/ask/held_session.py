"""The interface of a session that another process holds; other packages implement it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from accord.client.connect import ConnectedAgent
    from accord.client.handlers import Extension
    from accord.errors import AccordError
    from accord.transports.base import TransportFactory
    from accord_terminal.ask.options import AskOptions


class HeldSession(Protocol):
    """A session that stays open when `accord ask` has ended."""

    async def reach(self, options: AskOptions) -> tuple[AskOptions, TransportFactory]:
        """Find or start the process that holds the session; return what talks to it."""
        ...

    def extensions(self, show: Callable[[str], None]) -> Mapping[str, Extension]:
        """Return the methods to serve; `show` gets lines about what others have answered."""
        ...

    async def connected(self, agent: ConnectedAgent, interactive: bool) -> None:
        """Called after `initialize`, with whether a user can be asked."""
        ...

    def explain(self, error: AccordError | OSError) -> AccordError | OSError:
        """Return the error to report for one that has ended the run."""
        ...

    def offers_login(self, error: AccordError | OSError) -> bool:
        """Log in to the agent, if that is what is missing and the user at the terminal wants to."""
        ...

    def exit_status(self, error: AccordError | OSError) -> int:
        """Return the exit status for an error."""
        ...
