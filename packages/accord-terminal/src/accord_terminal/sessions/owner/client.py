"""One client of a session: what it has seen of the journal, and what it wants to see."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import TYPE_CHECKING, Any, cast

import msgspec
from msgspec import UNSET, Raw, Struct

from accord.agent.updates import MessageUpdate, OptionsUpdate, TurnEnded, TurnError
from accord.agent.v1.client_adapter import ClientAdapterV1
from accord.connection.connection import Connection
from accord.errors import AccordError, TransportError
from accord_terminal.sessions.journal import Ended, Entry, OptionsSet, Started, Updated, cursor_of
from accord_terminal.sessions.owner.translate import SessionTranslator
from accord_terminal.sessions.records import Approvals

if TYPE_CHECKING:
    from accord.agent.client_adapter import ClientAdapter
    from accord_terminal.sessions.owner.owner import OwnerState


log: logging.Logger = logging.getLogger("accord.sessions")

_AT_ONCE = 64  # entries
ENTRY = "_accord/session/entry"
CLIENTS = "_accord/session/clients"


class ClientSettings(Struct, frozen=True, rename="camel", omit_defaults=True):
    """What a client of Accord says about itself by `_accord/session/client`."""

    name: str = ""
    follows: str = "all"  # own: only the turns of its own prompts
    decides: bool = True  # a user can answer permission requests and forms
    attached: bool = False  # its prompts are cancelled when it leaves
    entries: bool = False  # it gets the entries of the journal other than updates
    approvals: Approvals | None = None  # None: those of the session


class Client:
    """A connection of the owner to a client; it starts when the client opens the session."""

    def __init__(
        self, owner: OwnerState, adapter: ClientAdapter, connection: Any, number: int
    ) -> None:
        self.owner = owner
        self.adapter = adapter
        self.connection = cast("Connection", connection)
        self.settings: ClientSettings = ClientSettings()
        self.number = number
        self.is_open = False
        self.own_prompts: set[str] = set()
        self.own_changes: set[int] = set()  # entries of options that this client has set
        self.position = 0  # the last entry that was handled
        self._new = asyncio.Event()
        self._tells_clients = False
        self._moved = asyncio.Condition()
        self._feeding: asyncio.Task[None] | None = None
        self._translator: SessionTranslator | None = None
        if adapter.version != owner.protocol:
            self._translator = SessionTranslator(owner.protocol)

    @property
    def name(self) -> str:
        """How others see this client."""
        if self.settings.name:
            return self.settings.name
        info = self.adapter.client_info
        return f"client {self.number}" if info is None else info.title or info.name

    @property
    def has_ended(self) -> bool:
        """Whether the client has disconnected."""
        return self.connection.has_ended

    def wake(self) -> None:
        """Look at the journal: it has a new entry."""
        self._new.set()

    def tell_clients(self) -> None:
        """Tell which clients use the session, if it wants to know what is not an update."""
        if self.settings.entries:
            self._tells_clients = True
            self._new.set()

    def open(self, position: int) -> None:
        """Forward the entries after a position, from now on."""
        self.is_open = True
        read, self.position = self.position, position
        if self._feeding is None:
            self._feeding = asyncio.create_task(self._feed(read), name="accord feed")

    async def aclose(self) -> None:
        """Stop forwarding."""
        if self._feeding is not None:
            self._feeding.cancel()
            await asyncio.wait([self._feeding])

    async def wait_for(self, seq: int) -> None:
        """Wait until an entry was forwarded, or the client has left."""
        async with self._moved:
            await self._moved.wait_for(lambda: self.position >= seq or not self.is_open)

    async def fail(self, ended: Ended) -> None:
        """Report the end of a turn that could not be written; in version 1 the response does."""
        if self.adapter.version == 2 and self.is_open and ended.prompt in self.own_prompts:
            failure = TurnError(-32603, ended.error or "")
            turn = TurnEnded(ended.stop_reason, failure)
            with suppress(AccordError):
                await self.adapter.send_turn_end(
                    self.owner.record.id, turn, self.owner.no_background
                )

    async def replay(self) -> None:
        """Forward everything up to now; the session is not open yet."""
        last = self.owner.journal.last
        self.position = 0
        while self.position < last:
            for entry in self.owner.journal.after(self.position, _AT_ONCE):
                await self._forward(entry)
                self.position = entry.seq

    async def _feed(self, read: int) -> None:
        try:
            await self._skip(read)
            while True:
                self._new.clear()
                entries = self.owner.journal.after(self.position, _AT_ONCE)
                for entry in entries:
                    await self._forward(entry)
                    self.position = entry.seq
                async with self._moved:
                    self._moved.notify_all()
                if self._tells_clients:
                    self._tells_clients = False
                    await self.connection.notify(CLIENTS, {"clients": self.owner.client_names()})
                if not entries:
                    await self._new.wait()
        except TransportError:
            log.debug("= a client has left")
        except AccordError as exc:
            log.error("! a client is dropped: %s", exc)
            await self.connection.aclose()
        finally:
            self.is_open = False
            async with self._moved:
                self._moved.notify_all()

    async def _skip(self, read: int) -> None:
        """Read the entries up to the position that were not: later updates continue theirs."""
        while self._translator is not None and read < self.position:
            most = min(_AT_ONCE, self.position - read)
            for entry in self.owner.journal.after(read, most):
                if isinstance(entry, Updated) and self._follows(entry):
                    self._translator.skip(entry.session, self.owner.contexts.update_of(entry))
                read = entry.seq
            await asyncio.sleep(0)

    def _follows(self, entry: Entry) -> bool:
        return (
            self.settings.follows != "own"
            or entry.prompt is None
            or entry.prompt in self.own_prompts
        )

    async def _forward(self, entry: Entry) -> None:
        if not self._follows(entry):
            return
        if self.settings.entries and not isinstance(entry, Updated):
            value = {
                "cursor": cursor_of(self.owner.record.id, entry.seq),
                "entry": Raw(msgspec.json.encode(entry)),
            }
            await self.connection.notify(ENTRY, value)
        match entry:
            case Updated():
                await self._update(entry)
            case Started() if self.owner.protocol == 1:
                await self._started(entry)
            case Ended() if self.owner.protocol == 1 and self.adapter.version == 2:
                failure = None
                if entry.error is not None:
                    data = {"stderr": entry.stderr} if entry.stderr else UNSET
                    failure = TurnError(entry.code or -32603, entry.error, data)
                background = self.owner.no_background
                ended = TurnEnded(entry.stop_reason, failure)
                await self.adapter.send_turn_end(self.owner.record.id, ended, background)
            case Ended() if isinstance(self.adapter, ClientAdapterV1):  # its turn ends with it
                await self.adapter.flush_tool_content(self.owner.record.id)
            case OptionsSet() if entry.seq not in self.own_changes:
                options = self.owner.session.transcript.options
                update = OptionsUpdate(options, mode_changed=True)
                await self.adapter.send_update(self.owner.record.id, update)
            case _:
                pass

    async def _update(self, entry: Updated) -> None:
        found = self.owner.contexts.update_of(entry)
        if self._translator is None:
            session = self.owner.record.id if entry.session is None else entry.session
            params: dict[str, Any] = {"sessionId": session, "update": found}
            if entry.meta is not UNSET:
                params["_meta"] = entry.meta
            await self.connection.notify("session/update", params)
            return
        for update, meta in self._translator.updates(entry.session, found):
            is_user = isinstance(update, MessageUpdate) and update.role == "user"
            if is_user and self.adapter.version == 1 and entry.prompt in self.own_prompts:
                continue  # the client has its own prompt
            await self.adapter.send_update(self.owner.record.id, update, meta)

    async def _started(self, entry: Started) -> None:
        """Tell clients of an agent that does not echo prompts."""
        is_own = entry.prompt in self.own_prompts
        if is_own and self.adapter.version == 1:
            return
        content = self.owner.content_from_wire(entry.content)
        session_id = self.owner.record.id
        message = MessageUpdate("user", f"{entry.prompt}", content)
        await self.adapter.send_update(session_id, message)
        await self.adapter.send_state(session_id, "running", self.owner.no_background)
