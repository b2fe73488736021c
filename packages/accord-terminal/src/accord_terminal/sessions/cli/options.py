"""Options that several commands of `accord session` have."""

from __future__ import annotations

import asyncio
import json
import math
import os
import sys
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

import click

from accord.types.tool_calls import rule_error
from accord_terminal.ask.views import write_stderr
from accord_terminal.sessions.owners import has_owner, open_socket
from accord_terminal.sessions.records import OwnerStarts, Record, SessionsError
from accord_terminal.toolkit.text import one_line

F = TypeVar("F", bound=Callable[..., Any])


def name_option(function: F) -> F:
    """Add -s."""
    option = click.option(
        "-s", "--session", "name", metavar="NAME", help="Name of the session, or its id."
    )
    return option(function)


def json_option(function: F) -> F:
    """Add --json."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON.")(function)


def print_result(result: Any, text: str, *, as_json: bool) -> None:
    """Print what a command has done."""
    click.echo(json.dumps(result, ensure_ascii=False) if as_json else text)


def cwd_option(function: F) -> F:
    """Add --cwd."""
    option = click.option(
        "--cwd",
        type=click.Path(exists=True, file_okay=False, path_type=Path),
        default=".",
        help="Directory of the session [default: .].",
    )
    return option(function)


def agent_option(function: F) -> F:
    """Add --agent."""
    option = click.option(
        "--agent", metavar="NAME|COMMAND", help="Name from `accord agents`, or a command."
    )
    return option(function)


def approval_options(function: F) -> F:
    """Add --allow, --deny and --yes, as `accord ask` has them."""
    for option in (
        click.option("--yes", is_flag=True, help="Allow all permission requests."),
        click.option(
            "--deny",
            "deny_rules",
            metavar="RULE",
            multiple=True,
            callback=check_rules,
            help="Reject matching actions; repeatable.",
        ),
        click.option(
            "--allow",
            "allow_rules",
            metavar="RULE",
            multiple=True,
            callback=check_rules,
            help="Allow matching actions, such as `edit` or `execute:pytest*`; repeatable.",
        ),
    ):
        function = option(function)
    return function


def check_rules(
    _context: click.Context, _option: click.Parameter, value: tuple[str, ...]
) -> tuple[str, ...]:
    """Return rules; raise `click.BadParameter` for an invalid one."""
    if value and (error := rule_error(value)) is not None:
        raise click.BadParameter(error)
    return value


# Says at a terminal that a command waits for an agent to start.

_QUIET_S = 1.0  # most agents start within it
_AGAIN_S = 10.0


@asynccontextmanager
async def shows_wait(
    record: Record, program: str = "accord session", *, quiet: bool = False
) -> AsyncGenerator[None, None]:
    """Say after a second that the agent is starting, and every 10 s for how long."""
    if quiet or not _has_terminal():
        yield
        return
    saying = asyncio.create_task(_say(program, record), name="accord waiting")
    try:
        yield
    finally:
        saying.cancel()
        await asyncio.wait([saying])


class StartNotes:
    """Says at a terminal that the agent of a session is starting, for a command that follows it."""

    def __init__(self, record: Record) -> None:
        self._record = record
        self._next = time.monotonic() + _QUIET_S if _has_terminal() else math.inf
        self._since: float | None = None

    def look(self) -> None:
        """Look at the session, once in a while; call this often."""
        at = time.monotonic()
        if at < self._next:
            return
        self._next = at + _QUIET_S
        if not has_owner(self._record.id) or not asyncio.run(_is_starting(self._record.id)):
            self._since = None
        elif self._since is None:
            self._since = at
            write_stderr([f"accord session watch: {_wait_text(self._record)}"])
        elif at - self._since >= _AGAIN_S:
            self._next = at + _AGAIN_S
            write_stderr([_still_text("accord session watch", at - self._since)])


async def _is_starting(record_id: str) -> bool:
    try:
        opened = await open_socket(record_id)
    except OwnerStarts:
        return True
    except SessionsError:
        return False
    if opened is not None:
        opened.close()
    return False


def _has_terminal() -> bool:
    return sys.stderr is not None and sys.stderr.isatty()


def _wait_text(record: Record) -> str:
    agent = one_line(os.path.basename(record.agent), 20)  # noqa: PTH119  # often only a name
    return f"waiting for the agent {agent} to start"


def _still_text(program: str, seconds: float) -> str:
    return f"{program}: still waiting after {seconds:.0f} s"


async def _say(program: str, record: Record) -> None:
    loop = asyncio.get_running_loop()
    began = loop.time()
    await asyncio.sleep(_QUIET_S)
    write_stderr([f"{program}: {_wait_text(record)} (Ctrl-C ends this)"])
    while True:
        await asyncio.sleep(_AGAIN_S)
        write_stderr([_still_text(program, loop.time() - began)])
