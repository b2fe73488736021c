"""`accord session prompt`: sends a prompt to a session and shows its turn."""

from __future__ import annotations

import asyncio
import atexit
import gc
import json
from typing import Any

import click

from accord_terminal.ask.options import AskOptions, Statuses, read_prompt, retries_option
from accord_terminal.ask.run import AskProgram
from accord_terminal.sessions.cli.held import Held
from accord_terminal.sessions.cli.options import (
    agent_option,
    approval_options,
    cwd_option,
    name_option,
)
from accord_terminal.sessions.cli.waiting import shows_wait
from accord_terminal.sessions.errors import FAILED, PERMISSION_DENIED, TIME_LIMIT
from accord_terminal.sessions.lookup import existing_session
from accord_terminal.sessions.named import joined_session
from accord_terminal.sessions.owners import transport_to
from accord_terminal.sessions.records import Store

STATUSES = Statuses(
    timeout=TIME_LIMIT, rejected=PERMISSION_DENIED, stopped_early=FAILED, refused=FAILED
)


@click.command("prompt")
@click.argument("words", nargs=-1, metavar="PROMPT…")
@name_option
@agent_option
@cwd_option
@click.option("--file", "-f", "source", metavar="FILE", help="Read the prompt from a file, or `-`.")
@click.option("--no-wait", is_flag=True, help="Queue the prompt and return.")
@click.option("--attached", is_flag=True, help="Cancel the prompt if this command is killed.")
@click.option("--model", metavar="NAME", help="Set the model first.")
@click.option("--mode", metavar="NAME", help="Set the mode first.")
@approval_options
@click.option(
    "--timeout",
    "timeout_s",
    metavar="SECONDS",
    type=click.FloatRange(min=0, min_open=True),
    help="Cancel the turn after this time, with exit status 3.",
)
@retries_option
@click.option("--thoughts", is_flag=True, help="Show the agent's thoughts.")
@click.option("--quiet", is_flag=True, help="Print only the answer; ask no questions.")
@click.option("--json", "as_json", is_flag=True, help="Print events as JSON lines.")
def prompt_command(**given: Any) -> int:
    """Send a prompt to a session and show its turn.

    Prompts of a session run one after another, in the order in which they were submitted. Ctrl-C
    cancels; a command that is killed leaves its prompt in the queue, unless --attached.

    Exit status: 0 turn completed, 1 error, 3 time limit, 4 no session, 5 permission denied
    without asking you, 130 cancelled.
    """
    # When it exits, Python would collect garbage again and again: an eighth of the whole command,
    # in which no code of users runs that could wait for it.
    atexit.register(gc.freeze)
    if given["quiet"] and given["as_json"]:
        raise click.UsageError("--quiet and --json exclude each other")
    if given["no_wait"] and given["retries"]:
        raise click.UsageError("--no-wait and --retries exclude each other")
    text = read_prompt(given["words"], given["source"])
    options = AskOptions(
        prompt=text,
        argv=("agent",),
        cwd=given["cwd"].absolute(),
        allow_rules=given["allow_rules"],
        deny_rules=given["deny_rules"],
        yes=given["yes"],
        model=given["model"],
        mode=given["mode"],
        timeout_s=given["timeout_s"],
        retries=given["retries"],
        as_json=given["as_json"],
        quiet=given["quiet"],
        thoughts=given["thoughts"],
        program="accord session prompt",
        statuses=STATUSES,
    )
    if given["no_wait"]:
        return asyncio.run(_submit(options, given["name"], given["agent"]))
    held = Held(
        given["name"], given["cwd"], given["agent"], create=False, attached=given["attached"]
    )
    return AskProgram(options, held).run()


async def _submit(options: AskOptions, name: str | None, agent: str | None) -> int:
    store = Store()
    record = existing_session(store, name, options.cwd, agent)
    async with shows_wait(record, options.program, quiet=options.quiet):
        opened = await transport_to(record, store)
    async with joined_session(store.read(record.id), opened) as shared:
        prompt_id = await shared.submit(options.prompt)
    if options.as_json:
        click.echo(json.dumps({"promptId": prompt_id, "sessionId": shared.record.id}))
    else:
        click.echo(f"queued {prompt_id}")
    return 0
