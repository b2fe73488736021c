"""The options of one run of `accord ask`, and its exit statuses."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct, field

if TYPE_CHECKING:
    from accord.types.mcp import McpServer
    from accord.types.session import StopReason
    from accord.version import ProtocolVersion

__all__ = (
    "CANCELLED",
    "EXIT_STATUSES",
    "FAILED",
    "STOPPED_EARLY",
    "AskOptions",
    "Statuses",
    "exit_status",
)

# Status 2 is a usage error.
FAILED, STOPPED_EARLY, REFUSED, CANCELLED = 1, 3, 4, 130
EXIT_STATUSES: dict[StopReason, int] = {
    "end_turn": 0,
    "error": FAILED,
    "max_tokens": STOPPED_EARLY,
    "max_turn_requests": STOPPED_EARLY,
    "refusal": REFUSED,
    "cancelled": CANCELLED,
}


class Statuses(Struct, frozen=True, kw_only=True):
    """The exit statuses that differ between commands."""

    timeout: int = STOPPED_EARLY
    rejected: int = STOPPED_EARLY  # a permission request, without asking the user
    stopped_early: int = STOPPED_EARLY  # by a limit of the model
    refused: int = REFUSED


_DEFAULT = Statuses()


class AskOptions(Struct, frozen=True, kw_only=True):
    """The command line of `accord ask`, combined with the settings file."""

    prompt: str
    argv: tuple[str, ...]  # the command that starts the agent, or the URL of a remote one
    token: str | None = None  # for a remote agent
    cwd: Path
    files: tuple[Path, ...] = ()
    env: Mapping[str, str | None] = field(default_factory=dict[str, str | None])  # of the agent
    protocol: ProtocolVersion | None = None  # None: the newest version that the agent speaks
    allow_rules: tuple[str, ...] = ()
    deny_rules: tuple[str, ...] = ()
    yes: bool = False
    model: str | None = None
    mode: str | None = None
    options: tuple[str, ...] = ()  # as ID=VALUE
    mcp_servers: tuple[McpServer, ...] = ()
    timeout_s: float | None = None  # of the turn
    terminals: bool = False
    as_json: bool = False
    quiet: bool = False
    thoughts: bool = False
    verbose: bool = False
    continue_latest: bool = False
    session_id: str | None = None
    program: str = "accord ask"  # for messages
    statuses: Statuses = _DEFAULT


def exit_status(stop_reason: StopReason | None, statuses: Statuses = _DEFAULT) -> int:
    """Return the exit status for a stop reason. An unknown reason counts as an early stop."""
    status = EXIT_STATUSES.get(stop_reason or "error", STOPPED_EARLY)
    if status == STOPPED_EARLY:
        return statuses.stopped_early
    return statuses.refused if status == REFUSED else status
