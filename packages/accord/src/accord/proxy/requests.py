"""What a proxy sees of the requests that pass it, the same in both versions."""

from __future__ import annotations

from typing import Any, Literal

from msgspec import Struct

from accord.types.mcp import McpServer


class OpeningSession(Struct, kw_only=True):
    """A session that the client opens; changes before `forward()` reach the agent.

    `mcp_servers` also has servers of kinds that only the version knows, as its wire values.
    """

    action: Literal["new", "load", "resume", "fork"]
    session_id: str | None  # of the stored session; None for a new one
    cwd: str
    additional_directories: tuple[str, ...] = ()
    mcp_servers: list[McpServer | Any]
    meta: dict[str, Any] | None = None


class FileRead(Struct, frozen=True, kw_only=True):
    """The agent reads a text file of the client (version 1); the first line is 1."""

    session_id: str
    path: str
    line: int | None = None
    limit: int | None = None


class FileWrite(Struct, frozen=True, kw_only=True):
    """The agent writes a text file of the client (version 1)."""

    session_id: str
    path: str
    text: str


class TerminalStart(Struct, frozen=True, kw_only=True):
    """The agent starts a command in a terminal of the client (version 1)."""

    session_id: str
    command: str
    args: tuple[str, ...] = ()
    env: dict[str, str]
    cwd: str | None = None
    output_byte_limit: int | None = None
