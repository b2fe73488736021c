"""What both sides know of a session, as far as it was said."""

from __future__ import annotations

from typing import Any

from msgspec import Struct, field

from accord.text.lenient_json import is_array, is_object
from accord_conformance.traffic.frame import Frame
from accord_conformance.traffic.message import Request

__all__ = ("ObservedEntity", "Session", "Turn")


class Turn(Struct, eq=False):
    """A prompt of version 1 and what happened until its answer."""

    request: Request
    cancelled: Frame | None = None  # the first session/cancel
    closed: Frame | None = None  # the session/close that came while it ran
    permission_pending_at_cancel: bool = False  # the agent was waiting for the user's permission
    tools: set[str] = field(default_factory=set[str])  # that were first told of in it


class ObservedEntity(Struct, eq=False):
    """A tool call or a terminal, as it was last told."""

    first: Frame
    last: Frame
    fields: dict[str, Any] = field(default_factory=dict[str, Any])
    turn: Turn | None = None

    @property
    def cancellable(self) -> bool:
        """Whether it offers to be cancelled alone."""
        capabilities = self.fields.get("capabilities")
        return is_object(capabilities) and is_object(capabilities.get("cancel"))


class Session(Struct, eq=False):
    """One session; `setup` is what opened it, None for one met before its setup was answered."""

    id: str
    setup: Request | None = None
    is_open: bool = False  # made, loaded or resumed here, and not closed
    parent_id: str | None = None
    is_cancellable: bool = False
    closed: Frame | None = None  # the answer to session/close
    turn: Turn | None = None
    last_turn: Turn | None = None
    tools: dict[str, ObservedEntity] = field(default_factory=dict[str, ObservedEntity])
    terminals: dict[str, ObservedEntity] = field(
        default_factory=dict[str, ObservedEntity]
    )  # terminals of v2
    state: str | None = None  # of v2, as last told
    has_been_running: bool = False
    modes: frozenset[str] | None = None
    options: list[Any] | None = None
    reports_background: bool = False
    background: list[Any] = field(default_factory=list[Any])

    def apply_setup(self, result: dict[str, Any]) -> None:
        """Take what the answer to a setup call says."""
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
