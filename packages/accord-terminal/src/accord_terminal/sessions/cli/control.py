"""The commands that create, change and end sessions.

`attach`, `new`, `ensure`, `fork`, `cancel`, `set`, `close` and `prune` of `accord session`.
"""

from __future__ import annotations

import asyncio
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import click
from msgspec.structs import replace

from accord.errors import AccordError, LocalProtocolError, RequestError, TransportError
from accord.transports.stdio import PipeTransport
from accord_terminal.ask.options import meta_option
from accord_terminal.sessions.cli.options import (
    agent_option,
    approval_options,
    cwd_option,
    json_option,
    name_option,
    print_result,
    shows_wait,
)
from accord_terminal.sessions.journal import Journal, JournalReader
from accord_terminal.sessions.owners import (
    end_start,
    reach_owner,
    running_owner,
    transport_to,
)
from accord_terminal.sessions.records import (
    FAILED,
    Approvals,
    LoginRequired,
    LookupFailed,
    NoSession,
    OwnerStarts,
    Record,
    SessionsError,
    Store,
    StoreError,
    check_name,
    existing_session,
    has_owner,
    login_words,
    named_agent,
    new_record,
    now,
    offer_login,
)
from accord_terminal.toolkit.options import budget_options, checked_budget
from accord_terminal.toolkit.text import one_line


@click.command("attach")
@click.argument("name", required=False)
@agent_option
@cwd_option
def attach_command(name: str | None, agent: str | None, cwd: Path) -> int:
    """Be an agent on stdin and stdout that is the session NAME: for the settings of an editor.

    A new session of the editor shows the conversation so far. When the editor ends, the session
    stays open.
    """
    from accord.local.run import run_program
    from accord.transports.memory import relay
    from accord.transports.stdio import stdio

    store = Store()
    record = existing_session(store, name, cwd, agent)

    async def run() -> Exception | None:
        return await relay(stdio(restore=False), await transport_to(record, store))

    try:
        ended = run_program(run())
    except TransportError as error:
        ended = error
    if ended is None:
        return 0
    click.echo(f"accord session attach: {ended}", err=True)
    return 1


_END_S = 10.0
_PAUSE_S = 0.02


async def close_owner(record: Record) -> None:
    """Close a session, also while its agent starts.

    Raises `SessionsError` if its owner does not end.
    """
    from accord_terminal.sessions.named import joined_session

    try:
        opened = await running_owner(record)
        if opened is not None:
            fd = opened.detach()
            async with joined_session(Store().read(record.id), PipeTransport(fd, fd)) as shared:
                await shared.close()
    except OwnerStarts:
        await end_start(record.id)
    except AccordError as exc:
        if has_owner(record.id) and not isinstance(exc, SessionsError):
            raise SessionsError(str(exc)) from None
    loop = asyncio.get_running_loop()
    until = loop.time() + _END_S
    while has_owner(record.id):
        if loop.time() > until:
            raise SessionsError("The owner of the session has not ended: see `accord session show`")
        await asyncio.sleep(_PAUSE_S)


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
        budget_options,
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
        budget=checked_budget(given["budget"], given["unmetered"]),
        unmetered=given["unmetered"],
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


@click.command("fork")
@click.argument("new_name")
@name_option
@agent_option
@cwd_option
@json_option
def fork_command(
    new_name: str, name: str | None, agent: str | None, cwd: Path, as_json: bool
) -> int:
    """Start the session NEW_NAME as a copy of another: both continue from here on their own.

    The agent must be able to fork its sessions.
    """
    store = Store()
    source = existing_session(store, name, cwd, agent)
    if source.agent_session is None:
        raise SessionsError(f"The session {source.label} has not been used yet")
    copy = replace(
        source,
        id=Store.new_id(),
        name=check_name(new_name),
        created_at=now(),
        used_at=now(),
        agent_session=None,
        restored=None,
        owner=None,
        last_exit=None,
        closed=False,
        forked_from=source.id,
        fork_of=source.agent_session,
    )
    asyncio.run(_fork(store, source, copy))
    result = {"id": copy.id, "name": copy.name, "forkedFrom": source.id}
    text = f"created the session {copy.label} ({copy.id}) as a copy of {source.label}"
    print_result(result, text, as_json=as_json)
    return 0


async def _fork(store: Store, source: Record, copy: Record) -> None:
    try:
        _copy_journal(store.journal_path(source.id), store.journal_path(copy.id))
        _, is_new = store.find_or_create(copy)
        if not is_new:
            raise LookupFailed(f"There is a session {copy.label} already")
        async with shows_wait(copy):
            (await reach_owner(copy, store)).close()
    except SessionsError:
        store.delete(copy.id)
        raise


def _copy_journal(source: Path, copy: Path) -> None:
    journal = Journal(copy)
    try:
        for entry in JournalReader(source).new_entries():
            journal.append(entry)
    finally:
        journal.close()


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
    from accord_terminal.sessions.named import joined_session

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
    from accord_terminal.sessions.named import joined_session
    from accord_terminal.toolkit.session_setup import apply_session_options

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


@click.command("prune")
@click.option(
    "--older-than",
    "days",
    metavar="DAYS",
    type=click.FloatRange(min=0),
    help="Only sessions that were not used for so many days.",
)
@click.option(
    "--before",
    metavar="DATE",
    type=click.DateTime(["%Y-%m-%d"]),
    help="Only sessions that were last used before this day, such as 2026-11-30.",
)
@click.option("--dry-run", is_flag=True, help="Only print what would be deleted.")
@json_option
def prune_command(days: float | None, before: datetime | None, dry_run: bool, as_json: bool) -> int:
    """Delete closed sessions and their journals. Open sessions stay."""
    store = Store()
    limit = _limit(days, before)
    found: list[Record] = []
    errors: list[str] = []
    for record in store:
        if not record.closed or has_owner(record.id) or not _is_before(record, limit):
            continue
        if not dry_run:
            try:
                store.delete(record.id)
            except StoreError as exc:
                errors.append(str(exc))
                continue
        elif not as_json:
            click.echo(f"{record.id}  {record.used_at}  {one_line(record.label)}")
        found.append(record)
    for error in (*store.unreadable, *errors):
        click.echo(f"accord session prune: {one_line(error)}", err=True)
    result = [{"id": record.id, "name": record.name} for record in found]
    what = "would delete" if dry_run else "deleted"
    text = f"{what} {len(found)} session{'s' * (len(found) != 1)}"
    print_result({"dryRun": dry_run, "deleted": result}, text, as_json=as_json)
    return FAILED if errors else 0


def _limit(days: float | None, before: datetime | None) -> datetime | None:
    """Return the time before which sessions must have been used last."""
    limits: list[datetime] = []
    try:
        if days is not None:
            limits.append(datetime.now(UTC) - timedelta(days=days))
        if before is not None:
            limits.append(before.astimezone(UTC))
    except (OverflowError, ValueError):
        raise click.UsageError("--older-than or --before is not a day of the calendar") from None
    return min(limits, default=None)


def _is_before(record: Record, limit: datetime | None) -> bool:
    if limit is None:
        return True
    try:
        return datetime.fromisoformat(record.used_at) < limit
    except (ValueError, TypeError):
        return False
