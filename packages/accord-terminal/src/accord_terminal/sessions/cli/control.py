"""`accord session cancel`, `set` and `close`."""

from __future__ import annotations

import asyncio
from pathlib import Path

import click

from accord.errors import LocalProtocolError, RequestError
from accord.transports.stdio import PipeTransport
from accord_terminal.sessions.cli.closing import close_owner
from accord_terminal.sessions.cli.options import (
    agent_option,
    cwd_option,
    json_option,
    name_option,
    print_result,
)
from accord_terminal.sessions.cli.waiting import shows_wait
from accord_terminal.sessions.errors import OwnerStarts, SessionsError
from accord_terminal.sessions.lookup import existing_session
from accord_terminal.sessions.named import joined_session
from accord_terminal.sessions.owners import has_owner, running_owner, transport_to
from accord_terminal.sessions.records import Record, Store
from accord_terminal.toolkit.session_setup import apply_session_options


@click.command("cancel")
@click.argument("prompt_id", required=False, metavar="[PROMPT_ID]")
@name_option
@agent_option
@cwd_option
@json_option
def cancel_command(
    prompt_id: str | None, name: str | None, agent: str | None, cwd: Path, as_json: bool
) -> int:
    """Cancel the running prompt, or the prompt with an id: `accord session show` lists them."""
    record = existing_session(Store(), name, cwd, agent)
    cancelled = asyncio.run(_cancel(record, prompt_id)) if has_owner(record.id) else None
    text = "nothing to cancel: no prompt is running"
    if cancelled is not None:
        text = f"cancelled {cancelled}"
    print_result({"cancelled": cancelled}, text, as_json=as_json)
    return 0


async def _cancel(record: Record, prompt_id: str | None) -> str | None:
    """Return the id of the prompt that was cancelled; while the agent starts, none runs."""
    try:
        opened = await running_owner(record)
    except OwnerStarts:
        if prompt_id is not None:
            raise
        opened = None
    if opened is None:
        return None
    fd = opened.detach()
    async with joined_session(Store().read(record.id), PipeTransport(fd, fd)) as shared:
        queue = (await shared.status()).queue
        if prompt_id is None:
            prompt_id = next((one.prompt_id for one in queue if one.state == "running"), None)
        if prompt_id is None:
            return None
        try:
            await shared.withdraw(prompt_id)
        except RequestError as exc:
            raise SessionsError(exc.message) from None
    return prompt_id


@click.command("set")
@click.argument("option")
@click.argument("value")
@name_option
@agent_option
@cwd_option
@json_option
@click.option("--by-id", is_flag=True, help="OPTION is an id, also if it is `mode` or `model`.")
def set_command(
    option: str,
    value: str,
    name: str | None,
    agent: str | None,
    cwd: Path,
    as_json: bool,
    by_id: bool,
) -> int:
    """Set an option of a session: `model`, `mode`, or another that the agent has, by its id."""
    record = existing_session(Store(), name, cwd, agent)
    asyncio.run(_set(record, option, value, by_id=by_id))
    print_result({"option": option, "value": value}, f"{option}: {value}", as_json=as_json)
    return 0


async def _set(record: Record, option: str, value: str, *, by_id: bool) -> None:
    kind = None if by_id else option
    store = Store()
    async with shows_wait(record):
        opened = await transport_to(record, store)
    async with joined_session(store.read(record.id), opened) as shared:
        try:
            await apply_session_options(
                shared.session,
                model=value if kind == "model" else None,
                mode=value if kind == "mode" else None,
                options=() if kind in ("model", "mode") else (f"{option}={value}",),
            )
        except click.UsageError as exc:  # it names options of `accord ask`
            why = exc.message.removeprefix("--").removeprefix("option ")
            raise click.UsageError(why) from None
        except (LocalProtocolError, RequestError) as exc:
            raise SessionsError(str(exc)) from None


@click.command("close")
@name_option
@agent_option
@cwd_option
@json_option
def close_command(name: str | None, agent: str | None, cwd: Path, as_json: bool) -> int:
    """Close a session: its prompts are cancelled and its agent ends. Its journal stays."""
    store = Store()
    record = existing_session(store, name, cwd, agent)
    if has_owner(record.id):
        asyncio.run(close_owner(record))
    if store.record_path(record.id).exists():  # else its agent has never started
        store.change(record.id, closed=True)
    result = {"id": record.id, "name": record.name}
    print_result({"closed": result}, f"closed the session {record.label}", as_json=as_json)
    return 0
