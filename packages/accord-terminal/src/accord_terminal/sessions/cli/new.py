"""`accord session new` and `ensure`: create a session and start its agent."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import click

from accord_terminal.ask.options import meta_option
from accord_terminal.sessions.cli.closing import close_owner
from accord_terminal.sessions.cli.options import (
    agent_option,
    approval_options,
    cwd_option,
    json_option,
    print_result,
)
from accord_terminal.sessions.cli.waiting import shows_wait
from accord_terminal.sessions.errors import LoginRequired, NoSession, SessionsError
from accord_terminal.sessions.login import login_words, offer_login
from accord_terminal.sessions.lookup import existing_session, named_agent, new_record
from accord_terminal.sessions.owners import has_owner, reach_owner
from accord_terminal.sessions.records import Approvals, Record, Store


def _options(function: Any) -> Any:
    for option in (
        json_option,
        click.option(
            "--ttl",
            "ttl_s",
            metavar="SECONDS",
            type=click.FloatRange(min=0),
            default=300.0,
            help="The agent ends after this time without clients and prompts; 0: never "
            "[default: 300].",
        ),
        approval_options,
        click.option("--terminals", is_flag=True, help="Let v1 agents run commands here."),
        click.option(
            "--mcp",
            "mcp_files",
            metavar="FILE",
            multiple=True,
            type=click.Path(exists=True, dir_okay=False, path_type=Path),
            help="Give the agent the MCP servers in this JSON file; repeatable.",
        ),
        meta_option,
        click.option(
            "--option", "options", metavar="ID=VALUE", multiple=True, help="Set an option."
        ),
        click.option("--mode", metavar="NAME", help="Mode of the session."),
        click.option("--model", metavar="NAME", help="Model of the session."),
        click.option(
            "--protocol",
            type=click.Choice(["1", "2"]),
            help="Protocol version [default: the newest that the agent speaks].",
        ),
        cwd_option,
        agent_option,
        click.option("-s", "--session", "name", metavar="NAME", help="Name of the session."),
    ):
        function = option(function)
    return function


@click.command("new")
@_options
def new_command(as_json: bool, **given: Any) -> int:
    """Create a session and start its agent.

    An open session of the same agent, directory and name is closed.
    """
    return _created(_record(given), as_json=as_json, replace=True)


@click.command("ensure")
@_options
def ensure_command(as_json: bool, **given: Any) -> int:
    """Create a session and start its agent, unless it exists."""
    store = Store()
    try:
        record = existing_session(store, given["name"], given["cwd"], given["agent"])
    except NoSession:
        return _created(_record(given), as_json=as_json, replace=False)
    _print(record, "found", as_json=as_json)
    return 0


def _record(given: dict[str, Any]) -> Record:
    approvals = Approvals(given["allow_rules"], given["deny_rules"], given["yes"])
    return new_record(
        given["name"],
        given["cwd"],
        named_agent(given["agent"]),
        protocol=None if given["protocol"] is None else int(given["protocol"]),
        model=given["model"],
        mode=given["mode"],
        options=given["options"],
        mcp_files=given["mcp_files"],
        meta=given["meta"],
        terminals=given["terminals"],
        approvals=approvals,
        ttl_s=given["ttl_s"],
    )


def _created(fresh: Record, *, as_json: bool, replace: bool) -> int:
    """Create a session, after a login at the terminal if the agent needs one."""
    try:
        return asyncio.run(_create(fresh, as_json=as_json, replace=replace))
    except LoginRequired as error:
        has_user = not as_json and sys.stdin.isatty() and sys.stderr.isatty()
        if not (has_user and offer_login(error, login_words(fresh), fresh.cwd)):
            raise
    return asyncio.run(_create(fresh, as_json=as_json, replace=replace))


async def _create(fresh: Record, *, as_json: bool, replace: bool) -> int:
    store = Store()
    if replace:
        for old in store:
            if not old.closed and old.scope == fresh.scope and has_owner(old.id):
                await close_owner(old)
    record, is_new = store.find_or_create(fresh, replace=replace)
    try:
        async with shows_wait(record):
            (await reach_owner(record, store)).close()
    except SessionsError:
        if is_new:
            store.delete(record.id)  # its agent has never started
        raise
    _print(store.read(record.id), "created" if is_new else "found", as_json=as_json)
    return 0


def _print(record: Record, what: str, *, as_json: bool) -> None:
    result = {
        "id": record.id,
        "name": record.name,
        "created": what == "created",
        "cwd": record.cwd,
        "agent": record.agent,
        "agentSession": record.agent_session,
    }
    text = f"{what} the session {record.label} ({record.id}) in {record.cwd}"
    print_result(result, text, as_json=as_json)
