"""Runs the login command of an agent while the chat has left the terminal."""

from __future__ import annotations

import asyncio
import shlex
import sys
from collections.abc import Mapping, Sequence

from accord.client.agent_adapter import AuthMethod
from accord_terminal.toolkit.login import run_terminal_login, without_interrupts
from accord_terminal.toolkit.text import one_line

MAX_COMMAND = 2000


async def log_in_here(
    command: Sequence[str], env: Mapping[str, str | None], method: AuthMethod
) -> int:
    """Say what is run, run it, and return its status; after a failure the user goes back."""
    _say(f"{one_line(method.name, 60)}: the chat comes back when this command ends.")
    _say(f"$ {one_line(shlex.join([*command, *method.args]), MAX_COMMAND)}\n")
    with without_interrupts():
        status = await run_terminal_login(command, env, method)
        if status != 0 and sys.stdin is not None:
            _say("\nThe login has failed. Press Enter to go back to the chat.")
            await asyncio.to_thread(sys.stdin.readline)
    return status


def _say(text: str) -> None:
    print(text, flush=True)  # noqa: T201  # the terminal is not the screen of the chat now
