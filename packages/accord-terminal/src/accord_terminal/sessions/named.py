"""Uses a persistent session from Python: `accord_terminal.sessions.open_session`."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, Literal, Unpack

import msgspec
from msgspec import Struct

from accord.client.connect import ConnectedAgent, ConnectOptions, connect
from accord.client.permissions import Policy
from accord.client.session import ClientSession
from accord.client.turn import Fallback
from accord.errors import AccordError, ConnectionLost
from accord.transports.base import Transport
from accord.transports.stdio import PipeTransport
from accord_terminal.sessions.journal import Entry
from accord_terminal.sessions.owners import open_socket, transport_to
from accord_terminal.sessions.records import (
    NoSession,
    OwnerError,
    OwnerStarts,
    Record,
    Restored,
    Store,
    existing_session,
    named_agent,
    new_record,
)

CALL = "_accord/session/"
_STATUS_S = 5.0
_AT_ONCE = 16  # owners that are asked
_decode_entry: Callable[[bytes], Entry] = msgspec.json.Decoder(Entry).decode


class QueuedPrompt(Struct, frozen=True, rename="camel"):
    """A prompt that runs or waits; `state` is `running` or `queued`."""

    prompt_id: str
    state: str
    by: str  # the client that has submitted it
    text: str  # its beginning


class SessionStatus(Struct, frozen=True, rename="camel"):
    """What a session does; `cursor` is the end of its journal."""

    session_id: str
    cursor: str
    queue: tuple[QueuedPrompt, ...]
    clients: tuple[str, ...]
    restored: Restored | None = None
    questions: tuple[str, ...] = ()  # of the agent, that wait for an answer


class SaidInTurn(Struct, frozen=True, rename="camel"):
    """The outcome of a message for the running turn; see `accord.Steered`.

    `by` says who holds it while it is queued: the `agent`, or the `session`, as `prompt_id`.
    """

    outcome: Literal["injected", "queued", "restarted", "started"]
    by: str = "agent"
    reason: str = ""
    prompt_id: str | None = None


class SharedSession:
    """A connection to a persistent session."""

    def __init__(self, record: Record, agent: ConnectedAgent, session: ClientSession) -> None:
        self.record: Record = record
        """The record as it was when the session was opened."""
        self.agent: ConnectedAgent = agent
        """The owner: it has the name and the capabilities of the agent."""
        self.session: ClientSession = session
        """The session: prompts wait while another one runs."""

    async def status(self) -> SessionStatus:
        """Return the queue, the clients and the cursor."""
        return msgspec.convert(await self.agent.call_extension(f"{CALL}status"), SessionStatus)

    async def submit(self, text: str) -> str:
        """Append a prompt to the queue without waiting for its turn; return its id."""
        params = {"text": text}
        return (await self.agent.call_extension(f"{CALL}submit", params))["promptId"]

    async def steer(self, text: str, *, fallback: Fallback = "queue") -> SaidInTurn:
        """Say something to the agent in the running turn, which any client can have started.

        Like `ClientTurn.steer`, but what is queued is a prompt of the session. Raises
        `ResourceNotFound` if no turn is running.
        """
        params = {"text": text, "fallback": fallback}
        found = await self.agent.call_extension(f"{CALL}steer", params)
        return msgspec.convert(found, SaidInTurn)

    async def withdraw(self, prompt_id: str) -> None:
        """Remove a prompt from the queue, or cancel it if it runs."""
        await self.agent.call_extension(f"{CALL}withdraw", {"promptId": prompt_id})

    async def close(self) -> None:
        """Close the session for all its clients; the agent ends."""
        await self.agent.call_extension(f"{CALL}close")


@asynccontextmanager
async def open_session(
    name: str | None,
    cwd: str | os.PathLike[str] = ".",
    *,
    agent: str | None = None,
    create: bool = True,
    client_name: str = "",
    replay: bool = True,
    decides: bool = True,
    on_entry: Callable[[str, Entry], None] | None = None,
    permissions: Policy | None = None,
    **options: Unpack[ConnectOptions],
) -> AsyncGenerator[SharedSession, None]:
    """Open a persistent session; start its owner if no process holds the agent.

    The session is found by `name` in `cwd` and above it, for any `agent` if none is given. If
    there is none it is created, unless `create` is false. With `replay` the transcript contains
    the history. `on_entry` gets a cursor and the entries of the journal other than updates: who
    has submitted, asked and answered what. If `decides` is false, permission requests and forms
    of the agent go to other clients. The other options are those of `accord.connect`.

    Raises `NoSession`, and `OwnerError` if the agent cannot be started.
    """
    store = Store()
    record = find_or_create(store, name, Path(cwd), agent, create=create)
    opened = await transport_to(record, store)
    record = store.read(record.id)  # the version is known when the owner has started
    async with joined_session(
        record,
        opened,
        client_name=client_name,
        replay=replay,
        decides=decides,
        on_entry=on_entry,
        permissions=permissions,
        **options,
    ) as shared:
        yield shared


@asynccontextmanager
async def joined_session(
    record: Record,
    opened: Transport,
    *,
    client_name: str = "",
    replay: bool = False,
    decides: bool = False,
    follows: Literal["all", "own"] = "all",
    on_entry: Callable[[str, Entry], None] | None = None,
    permissions: Policy | None = None,
    **options: Unpack[ConnectOptions],
) -> AsyncGenerator[SharedSession, None]:
    """Open a session over a connection to its owner, as `open_session` does.

    With `follows="own"` there are updates and questions of the turns of its own prompts only.
    """
    extensions: dict[str, Any] = dict(options.pop("extensions", None) or {})
    if on_entry is not None:
        extensions[f"{CALL}entry"] = partial(_entry, on_entry)
    options["extensions"] = extensions
    options["versions"] = (record.protocol or 1,)
    settings = {
        "name": client_name,
        "decides": decides,
        "follows": follows,
        "entries": on_entry is not None,
    }
    try:
        async with connect(opened, permissions=permissions, **options) as connected:
            await connected.call_extension(f"{CALL}client", settings)
            session = await connected.load_session(record.id, record.cwd, replay=replay)
            yield SharedSession(record, connected, session)
    except ConnectionLost as exc:
        raise OwnerError(lost_text(record)) from exc


def find_or_create(
    store: Store, name: str | None, cwd: Path, agent: str | None, *, create: bool
) -> Record:
    """Return the session; of several processes that call this at once, one creates it."""
    try:
        return existing_session(store, name, cwd, agent)
    except NoSession:
        if not create:
            raise
    record, _ = store.find_or_create(new_record(name, cwd, named_agent(agent)))
    return record


async def owner_states(records: Iterable[Record]) -> dict[str, tuple[str, dict[str, Any]]]:
    """Ask the owners of sessions; return the state and the status of each session by its id.

    Without a response the status is empty.
    """
    free = asyncio.Semaphore(_AT_ONCE)  # an owner that is stopped does not delay the list by more

    async def ask(record: Record) -> tuple[str, tuple[str, dict[str, Any]]]:
        async with free:
            return record.id, await _owner_state(record)

    return dict(await asyncio.gather(*map(ask, records)))


async def _owner_state(record: Record) -> tuple[str, dict[str, Any]]:
    try:
        async with asyncio.timeout(_STATUS_S):
            opened = await open_socket(record.id)
            if opened is None:
                return "no response", {}  # it begins, or it ends
            fd = opened.detach()
            versions = (record.protocol or 1,)
            async with connect(PipeTransport(fd, fd), versions=versions) as agent:
                status = await agent.call_extension(f"{CALL}status")
    except OwnerStarts:
        return "starting", {}
    except (AccordError, TimeoutError):
        return "no response", {}
    return ("running" if status.get("queue") else "idle"), status


def lost_text(record: Record) -> str:
    """Return the message for clients whose owner has died."""
    return (
        f"The owner of the session {record.label} has ended: the running prompt may be unfinished. "
        "The next call starts it again"
    )


def _entry(on_entry: Callable[[str, Entry], None], params: Mapping[str, Any]) -> None:
    on_entry(params["cursor"], _decode_entry(msgspec.json.encode(params["entry"])))
