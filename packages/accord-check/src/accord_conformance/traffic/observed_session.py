"""The state of a session, as messages show it."""

from __future__ import annotations

from typing import Any

from msgspec import Struct, field

from accord.text.lenient_json import is_array, is_object
from accord_conformance.traffic.frame import Frame
from accord_conformance.traffic.message import Request


class Turn(Struct, eq=False):
    """A turn of version 1, until the response to its prompt."""

    request: Request
    cancelled: Frame | None = None  # the first session/cancel
    closed: Frame | None = None  # the session/close during the turn
    permission_pending_at_cancel: bool = False  # a permission request was pending
    tools: set[str] = field(default_factory=set[str])  # that were first reported in this turn


class ObservedEntity(Struct, eq=False):
    """A tool call or a terminal, as it was last reported."""

    first: Frame
    last: Frame
    fields: dict[str, Any] = field(default_factory=dict[str, Any])
    turn: Turn | None = None

    @property
    def cancellable(self) -> bool:
        """Whether it can be cancelled individually."""
        capabilities = self.fields.get("capabilities")
        return is_object(capabilities) and is_object(capabilities.get("cancel"))


class Session(Struct, eq=False):
    """One session; `setup` is the request that opened it, None before its response."""

    id: str
    setup: Request | None = None
    is_open: bool = False  # created, loaded or resumed on this connection, and not closed
    parent_id: str | None = None
    is_cancellable: bool = False
    closed: Frame | None = None  # the response to session/close
    turn: Turn | None = None
    last_turn: Turn | None = None
    tools: dict[str, ObservedEntity] = field(default_factory=dict[str, ObservedEntity])
    terminals: dict[str, ObservedEntity] = field(
        default_factory=dict[str, ObservedEntity]
    )  # terminals of v2
    state: str | None = None  # of v2, as last reported
    has_been_running: bool = False
    modes: frozenset[str] | None = None
    options: list[Any] | None = None
    reports_background: bool = False
    background: list[Any] = field(default_factory=list[Any])

    def apply_setup(self, result: dict[str, Any]) -> None:
        """Apply the result of a setup request."""
        modes = result.get("modes")
        if is_object(modes) and is_array(modes.get("availableModes")):
            ids = (mode.get("id") for mode in modes["availableModes"] if is_object(mode))
            self.modes = frozenset(ident for ident in ids if isinstance(ident, str))
        if is_array(result.get("configOptions")):
            self.options = result["configOptions"]

    def option(self, ident: Any) -> dict[str, Any] | None:
        """Return a config option by its id."""
        for option in self.options or ():
            if is_object(option) and ident in (option.get("id"), option.get("configId")):
                return option
        return None
