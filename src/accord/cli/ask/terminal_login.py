"""Logs in with a terminal auth method: runs the agent's own login command."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from accord.errors import AccordError

if TYPE_CHECKING:
    from accord.client.agent_adapter import AuthMethod

__all__ = ("TerminalLoginChosen", "run_terminal_login")


class TerminalLoginChosen(AccordError):
    """The user chose an auth method that runs the agent's program at the terminal."""

    def __init__(self, method: AuthMethod) -> None:
        super().__init__(f"The login {method.name!r} runs at the terminal")
        self.method = method


async def run_terminal_login(
    command: Sequence[str], env: Mapping[str, str | None], method: AuthMethod
) -> int:
    """Run the agent's command with the arguments of the method; return its status (R-AUTH-15).

    The command has the terminal until it exits. Cancelling this call terminates it.
    """
    base = {**os.environ, **env, **dict(method.env)}
    process = await asyncio.create_subprocess_exec(
        *command,
        *method.args,
        env={name: value for name, value in base.items() if value is not None},
    )
    try:
        return await process.wait()
    finally:
        if process.returncode is None:
            process.terminate()
            await process.wait()
