"""`accord session steer`: says something to the agent in the running turn of a session."""

from __future__ import annotations

import asyncio
from pathlib import Path

import click
from msgspec.structs import asdict

from accord.client.turn import Fallback
from accord.errors import MethodNotFound, RequestError, ResourceNotFound
from accord.transports.stdio import PipeTransport
from accord_terminal.ask.options import read_prompt
from accord_terminal.sessions.cli.options import (
    agent_option,
    cwd_option,
    json_option,
    name_option,
    print_result,
)
from accord_terminal.sessions.named import SaidInTurn, joined_session
from accord_terminal.sessions.owners import running_owner
from accord_terminal.sessions.records import Record, SessionsError, Store, existing_session
from accord_terminal.toolkit.text import steered_text

PROGRAM = "accord session steer"


@click.command("steer")
@click.argument("words", nargs=-1, metavar="TEXT…")
@name_option
@agent_option
@cwd_option
@click.option("--file", "-f", "source", metavar="FILE", help="Read the text from a file, or `-`.")
@click.option(
    "--fallback",
    type=click.Choice(["queue", "cancel"]),
    default="queue",
    help="For an agent that cannot be steered: queue the text as a prompt, or cancel the turn and "
    "continue with it [default: queue].",
)
@json_option
def steer_command(
    words: tuple[str, ...],
    name: str | None,
    agent: str | None,
    cwd: Path,
    source: str | None,
    fallback: Fallback,
    as_json: bool,
) -> int:
    """Say something to the agent in the running turn, and print the outcome.

    The turn continues. It can be one that another client has started. A question of the agent that
    is open is neither answered nor cancelled: until then, the text is queued instead of
    cancelling the turn.

    Exit status: 0 the agent has it, or gets it next, 1 no turn is running, or another error,
    2 usage error, 4 no session.
    """
    text = read_prompt(words, source, what="TEXT")
    record = existing_session(Store(), name, cwd, agent)
    said = asyncio.run(_steer(record, text, fallback))
    result = {key: value for key, value in asdict(said).items() if value}
    if (prompt_id := result.pop("prompt_id", None)) is not None:
        result["promptId"] = prompt_id
    print_result(result | {"sessionId": record.id}, _line(said), as_json=as_json)
    return 0


def _line(said: SaidInTurn) -> str:
    line = steered_text(said.outcome, said.by, said.reason)
    return line if said.prompt_id is None else f"{line} (prompt {said.prompt_id})"


async def _steer(record: Record, text: str, fallback: Fallback) -> SaidInTurn:
    opened = await running_owner(record)
    if opened is None:
        raise SessionsError(_nothing_runs(record))
    fd = opened.detach()
    try:
        async with joined_session(
            Store().read(record.id), PipeTransport(fd, fd), client_name=PROGRAM
        ) as shared:
            return await shared.steer(text, fallback=fallback)
    except ResourceNotFound:
        raise SessionsError(_nothing_runs(record)) from None
    except MethodNotFound:
        raise SessionsError(
            "The session was started by an older version of Accord, which cannot steer: close it"
        ) from None
    except RequestError as exc:
        raise SessionsError(f"The agent refuses the message: {exc.message}") from None


def _nothing_runs(record: Record) -> str:
    which = "" if record.name is None else f"-s {record.name} "
    return (
        f"No turn of the session {record.label} is running. To send it as a prompt, type "
        f"`accord session prompt {which}…`"
    )
