"""Terminals that the client runs for the agent (v1)."""

from __future__ import annotations

from accord.v1.ids import SessionId, TerminalId
from accord.wire.base import Lenient, NullAsEmpty, UInt32, UInt64, Wire
from accord.wire.method import Method

__all__ = (
    "CreateTerminalRequest",
    "CreateTerminalResponse",
    "EnvVariable",
    "KillTerminalRequest",
    "KillTerminalResponse",
    "ReleaseTerminalRequest",
    "ReleaseTerminalResponse",
    "TerminalExitStatus",
    "TerminalOutputRequest",
    "TerminalOutputResponse",
    "WaitForTerminalExitRequest",
    "WaitForTerminalExitResponse",
)


class EnvVariable(Wire):
    """An environment variable, added to the existing ones."""

    name: str
    value: str


class CreateTerminalRequest(Wire):
    """Starts a command without a shell, and does not wait for it."""

    session_id: SessionId
    command: str
    args: NullAsEmpty[list[str]] = []
    env: NullAsEmpty[list[EnvVariable]] = []
    cwd: str | None = None
    output_byte_limit: UInt64 | None = None  # of what is kept: the end


class CreateTerminalResponse(Wire):
    """The command runs, or has run; its terminal exists until it is released."""

    terminal_id: TerminalId


class TerminalOutputRequest(Wire):
    """Asks for the output of a terminal so far."""

    session_id: SessionId
    terminal_id: TerminalId


class TerminalExitStatus(Wire):
    """How a command ended: with an exit code or by a signal."""

    exit_code: Lenient[UInt32 | None] = None
    signal: Lenient[str | None] = None


class TerminalOutputResponse(Wire):
    """The output of a terminal, without its beginning if `truncated`."""

    output: str
    truncated: bool
    exit_status: Lenient[TerminalExitStatus | None] = None  # None: it still runs


class WaitForTerminalExitRequest(Wire):
    """Asks for a response when a command ends."""

    session_id: SessionId
    terminal_id: TerminalId


class WaitForTerminalExitResponse(Wire):
    """A command ended: with an exit code or by a signal."""

    exit_code: Lenient[UInt32 | None] = None
    signal: Lenient[str | None] = None


class KillTerminalRequest(Wire):
    """Ends a command; its terminal can still be read."""

    session_id: SessionId
    terminal_id: TerminalId


class KillTerminalResponse(Wire):
    """The command has ended."""


class ReleaseTerminalRequest(Wire):
    """Ends a command if it still runs, and releases its terminal."""

    session_id: SessionId
    terminal_id: TerminalId


class ReleaseTerminalResponse(Wire):
    """The terminal's id is now invalid."""


METHODS: tuple[Method, ...] = (
    Method(
        name="terminal/create",
        call="create_terminal",
        params=CreateTerminalRequest,
        result=CreateTerminalResponse,
        to="client",
        gate="client.terminal",
    ),
    Method(
        name="terminal/output",
        call="terminal_output",
        params=TerminalOutputRequest,
        result=TerminalOutputResponse,
        to="client",
        gate="client.terminal",
    ),
    Method(
        name="terminal/wait_for_exit",
        call="wait_for_terminal_exit",
        params=WaitForTerminalExitRequest,
        result=WaitForTerminalExitResponse,
        to="client",
        gate="client.terminal",
    ),
    Method(
        name="terminal/kill",
        call="kill_terminal",
        params=KillTerminalRequest,
        result=KillTerminalResponse,
        to="client",
        gate="client.terminal",
    ),
    Method(
        name="terminal/release",
        call="release_terminal",
        params=ReleaseTerminalRequest,
        result=ReleaseTerminalResponse,
        to="client",
        gate="client.terminal",
    ),
)
