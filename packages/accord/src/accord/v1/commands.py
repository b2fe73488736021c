"""Slash commands of a session (v1)."""

from __future__ import annotations

from typing import TypeAlias

from accord.wire.base import Lenient, LenientList, Wire

__all__ = (
    "AvailableCommand",
    "AvailableCommandInput",
    "AvailableCommandsUpdate",
    "UnstructuredCommandInput",
)


class UnstructuredCommandInput(Wire):
    """All text after the command is its input; `hint` is shown while it is empty."""

    hint: str


AvailableCommandInput: TypeAlias = UnstructuredCommandInput


class AvailableCommand(Wire):
    """A command, which a prompt calls with `/name` at its beginning."""

    name: str
    description: str
    input: Lenient[AvailableCommandInput | None] = None


class AvailableCommandsUpdate(Wire, tag_field="sessionUpdate", tag="available_commands_update"):
    """All commands of the session."""

    available_commands: Lenient[LenientList[AvailableCommand]]
