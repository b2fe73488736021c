"""What several commands of `accord session` have: options, and notes about an agent that starts."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

import click

from accord_terminal.sessions.records import Record
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
    from accord.types.tool_calls import rule_error

    if value and (error := rule_error(value)) is not None:
        raise click.BadParameter(error)
    return value


QUIET_S = 1.0  # most agents start within it
AGAIN_S = 10.0


@asynccontextmanager
async def shows_wait(
    record: Record, program: str = "accord session", *, quiet: bool = False
) -> AsyncGenerator[None, None]:
    """Say after a second that the agent is starting, and every 10 s for how long."""
    if quiet or not has_terminal():
        yield
        return
    import asyncio

    saying = asyncio.create_task(_say(program, record), name="accord waiting")
    try:
        yield
    finally:
        saying.cancel()
        await asyncio.wait([saying])


def has_terminal() -> bool:
    """Return whether stderr is a terminal."""
    return sys.stderr is not None and sys.stderr.isatty()


def wait_text(record: Record) -> str:
    """Return what a command at a terminal says when it waits for an agent to start."""
    agent = one_line(os.path.basename(record.agent), 20)  # noqa: PTH119  # often only a name
    return f"waiting for the agent {agent} to start"


def still_text(program: str, seconds: float) -> str:
    """Return what it says when it has waited for long."""
    return f"{program}: still waiting after {seconds:.0f} s"


async def _say(program: str, record: Record) -> None:
    import asyncio

    from accord_terminal.ask.views import write_stderr

    loop = asyncio.get_running_loop()
    began = loop.time()
    await asyncio.sleep(QUIET_S)
    write_stderr([f"{program}: {wait_text(record)} (Ctrl-C ends this)"])
    while True:
        await asyncio.sleep(AGAIN_S)
        write_stderr([still_text(program, loop.time() - began)])
