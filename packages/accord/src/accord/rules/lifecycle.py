"""The lifecycle of a connection on the agent's side: when `initialize` is allowed.

The table is the rule; only this file changes the state.
"""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

from accord.errors import InvalidRequest
from accord.text.excerpt import excerpt
from accord.version import ProtocolVersion

State: TypeAlias = Literal["new", "initializing", "ready", "in use"]

# Whether `initialize` is allowed, by state and by the version spoken so far.
_INITIALIZE: Final[dict[tuple[State, ProtocolVersion | None], bool]] = {
    ("new", None): True,
    ("initializing", None): False,  # R-INIT-34
    ("initializing", 1): False,
    ("initializing", 2): False,
    ("ready", 1): True,  # R-INIT-39
    ("ready", 2): True,  # R-INIT-33
    ("in use", 1): True,  # R-INIT-39
    ("in use", 2): False,  # R-INIT-34
}


class AgentLifecycle:
    """The state of an agent's connection."""

    def __init__(self) -> None:
        self.state: State = "new"
        self.version: ProtocolVersion | None = None
        self._before: State = "new"

    def begin(self, requested: int) -> None:
        """Begin an `initialize`; raise `InvalidRequest` if it is not allowed."""
        if not _INITIALIZE[self.state, self.version]:
            when = "while it is being handled" if self.state == "initializing" else "any more"
            raise InvalidRequest(f"initialize may not be sent {when}")
        if self.version == 2 and requested < 2:
            raise InvalidRequest("initialize may not ask for less than the version spoken")
        self._before, self.state = self.state, "initializing"

    def fail(self) -> None:
        """Return to the state before a failed `initialize` (R-INIT-30)."""
        self.state = self._before

    def complete(self, version: ProtocolVersion) -> None:
        """Finish a successful `initialize`."""
        self.version = version
        self.state = "in use" if self._before == "in use" else "ready"

    def use(self) -> None:
        """Note a request other than `initialize`."""
        self.state = "in use"

    @staticmethod
    def too_early(method: str) -> InvalidRequest:
        """Return the error for requests before `initialize` succeeded (R-INIT-30, R-INIT-35)."""
        return InvalidRequest(f"initialize comes before {excerpt(method)}")
