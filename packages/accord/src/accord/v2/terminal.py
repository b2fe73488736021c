"""Terminals of the agent, shown by the client (v2)."""

from __future__ import annotations

from typing import Annotated, TypeAlias

from msgspec import Meta

from accord.v2.ids import AbsolutePath, Base64, TerminalId
from accord.wire.base import UNSET, Int64, Lenient, Patch, UnsetType, Wire

__all__ = (
    "TerminalCancelCapabilities",
    "TerminalCapabilities",
    "TerminalExitStatus",
    "TerminalOutput",
    "TerminalOutputChunk",
    "TerminalSize",
    "TerminalUpdate",
)

_Cells: TypeAlias = Annotated[int, Meta(ge=1, le=2**16 - 1)]


class TerminalOutput(Wire):
    """All bytes of the output so far, as base64."""

    data: Base64


class TerminalExitStatus(Wire):
    """The command has ended, even if nothing more is known."""

    exit_code: Lenient[Int64 | None] = None
    signal: Lenient[str | None] = None


class TerminalSize(Wire):
    """The size for which the command writes, in cells."""

    cols: _Cells
    rows: _Cells


class TerminalCancelCapabilities(Wire):
    """The command can be cancelled."""


class TerminalCapabilities(Wire):
    """What the client can do with a terminal."""

    cancel: Lenient[TerminalCancelCapabilities | None] = None


class TerminalUpdate(Patch, tag_field="sessionUpdate", tag="terminal_update"):
    """Creates or patches a terminal; `output` replaces all bytes so far."""

    terminal_id: TerminalId
    command: Lenient[str | None | UnsetType] = UNSET
    cwd: Lenient[AbsolutePath | None | UnsetType] = UNSET
    output: Lenient[TerminalOutput | None | UnsetType] = UNSET
    exit_status: Lenient[TerminalExitStatus | None | UnsetType] = UNSET
    size: Lenient[TerminalSize | None | UnsetType] = UNSET
    capabilities: Lenient[TerminalCapabilities | None | UnsetType] = UNSET


class TerminalOutputChunk(Wire, tag_field="sessionUpdate", tag="terminal_output_chunk"):
    """Bytes to append; each chunk is encoded separately and may split a character."""

    terminal_id: TerminalId
    data: Base64
