"""The clients of a session: each is served in its version, and has its place in the journal.

`Client` knows what a client has seen and wants to see; the roles serve it the session, and the
extension methods for its settings, the queue, the journal and the end.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import TYPE_CHECKING, Any, ClassVar, cast

import msgspec
from msgspec import UNSET, Raw, Struct

from accord import v1, v2
from accord.agent import lazy_imports
from accord.agent.updates import CommandsUpdate, MessageUpdate, OptionsUpdate, TurnEnded, TurnError
from accord.agent.v1.client_adapter import ClientAdapterV1
from accord.agent.v1.updates import modes_to_wire
from accord.agent.v2.updates import commands_to_wire, options_to_wire
from accord.connection.connection import Connection
from accord.errors import (
    AccordError,
    InternalError,
    InvalidParams,
    LocalProtocolError,
    MethodNotFound,
    RequestCancelled,
    RequestError,
    ResourceNotFound,
    TransportError,
)
from accord.types import convert_v1, convert_v2
from accord_terminal.sessions.journal import Ended, Entry, OptionsSet, Started, Updated, cursor_of
from accord_terminal.sessions.owner.translate import SessionTranslator
from accord_terminal.sessions.records import Approvals, SessionsError

if TYPE_CHECKING:
    from accord.agent.client_adapter import ClientAdapter
    from accord.types.content import ContentBlock
    from accord.version import ProtocolVersion
    from accord_terminal.sessions.owner.owner import Owner, OwnerState, Prompt

# One client of a session: what it has seen of the journal, and what it wants to see.

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


# The extension methods of a session: client settings, queue, journal, end.

_PREFIX = "_accord/session/"


class _Submit(Struct, rename="camel"):
    text: str


class _PromptId(Struct, rename="camel"):
    prompt_id: str


async def extension_request(owner: Owner, client: Client, method: str, params: Any) -> Any:
    """Serve a method of Accord; pass others to the agent."""
    match method.removeprefix(_PREFIX) if method.startswith(_PREFIX) else None:
        case "client":
            client.settings = _read(params, ClientSettings)
            lost, owner.tells_lost_context = owner.tells_lost_context, False
            return _status(owner) | {"contextLost": lost}
        case "status":
            return _status(owner)
        case "submit":
            prompt = owner.submit((_read(params, _Submit).text,), client, detached=True)
            return {"promptId": prompt.id, "before": len(owner.queue) - 1}
        case "withdraw":
            prompt = owner.queue.find(_read(params, _PromptId).prompt_id)
            if prompt is None:
                raise ResourceNotFound("No prompt of this id is queued or running")
            owner.cancel(prompt)
            return {}
        case "close":
            try:
                owner.close_session()
            except SessionsError as exc:  # the record cannot be written
                raise InternalError(str(exc)) from None
            return {}
        case "stop":
            owner.stop("it was asked to leave")
            return {}
        case _:
            return await owner.agent.call_extension(method, params)


def _status(owner: Owner) -> dict[str, Any]:
    """Return what the session does, and where its journal ends."""
    return {
        "sessionId": owner.record.id,
        "restored": owner.record.restored,
        "cursor": cursor_of(owner.record.id, owner.journal.last),
        "clients": owner.client_names(),
        "questions": owner.questions.open_titles,
        "queue": [
            {"promptId": prompt.id, "state": prompt.state, "by": prompt.by, "text": prompt.text}
            for prompt in owner.queue.prompts
        ],
    }


def _read(params: Any, kind: type[Any]) -> Any:
    try:
        return msgspec.convert(params, kind)
    except msgspec.ValidationError as exc:
        raise InvalidParams(str(exc)) from None


_SERVED = frozenset(
    {
        "new_session",
        "resume_session",
        "list_sessions",
        "close_session",
        "prompt",
        "cancel",
        "set_session_config_option",
    }
)


class _Shared:
    """What both versions do alike."""

    version: ClassVar[ProtocolVersion]
    types: ClassVar[Any]

    def __init__(self, owner: Owner) -> None:
        self._owner = owner
        self._client: Client | None = None

    @property
    def client(self) -> Client:
        """The client, after `initialize`."""
        assert self._client is not None, "initialize has been handled"
        return self._client

    @property
    def has_joined(self) -> bool:
        """Whether the client has sent `initialize` in this version."""
        return self._client is not None

    def _join(self, params: Any, context: Any) -> None:
        if self._client is None:
            adapter = lazy_imports.client_adapter(self.version, params, context, unstable=False)
            self._client = self._owner.join(adapter, context.connection)

    def _require(self, session_id: str) -> None:
        if session_id != self._owner.record.id:
            raise ResourceNotFound(
                "This connection serves one session", data={"sessionId": session_id}
            )

    def _open(self, position: int | None = None) -> None:
        """Forward what follows; everything if the position is 0."""
        journal = self._owner.journal
        self.client.open(journal.last if position is None else position)
        self._owner.has_joined()

    def _info(self) -> Any:
        record = self._owner.record
        return self.types.SessionInfo(
            session_id=record.id,
            cwd=record.cwd,
            additional_directories=[],
            title=record.name or self._owner.session.transcript.title,
        )

    def list_sessions(self, params: Any, context: Any) -> Any:
        """Return the one session."""
        found = [self._info()] if params.cwd in (None, self._owner.record.cwd) else []
        return self.types.ListSessionsResponse(sessions=found)

    async def close_session(self, params: Any, context: Any) -> Any:
        """Let the client go: the session stays open for the others."""
        self._require(params.session_id)
        await self.client.aclose()
        return self.types.CloseSessionResponse()

    def cancel(self, params: Any, context: Any) -> None:
        """Cancel the prompts of this client; without any, the running one. Or a subagent."""
        if params.session_id == self._owner.record.id:
            self._owner.cancel_by(self.client)
        else:
            context.start(self._owner.cancel_subagent(params.session_id))

    async def _set(self, option_id: str, value: str | bool) -> None:
        try:
            await self._owner.set_option(option_id, value, self.client)
        except LocalProtocolError as exc:
            raise InvalidParams(str(exc)) from None

    def _submit(self, content: tuple[ContentBlock, ...]) -> Prompt:
        client = self.client
        if not client.is_open:
            raise ResourceNotFound("Open the session first")
        return self._owner.submit(content, client)

    async def _ended(self, prompt: Prompt, context: Any) -> Ended:
        """Wait for the end of a turn; a client that withdraws its request cancels it."""
        try:
            return await asyncio.shield(prompt.ended)
        except asyncio.CancelledError:
            if not context.has_ended:
                self._owner.cancel(prompt)
            raise

    async def extension_request(self, method: str, params: Any, context: Any) -> Any:
        """Serve the methods for the queue and the journal; the agent serves others."""
        found = await extension_request(self._owner, self.client, method, params)
        if found is NotImplemented:
            raise MethodNotFound(data={"method": method})
        return found

    async def extension_notification(self, method: str, params: Any, context: Any) -> None:
        """Pass a notification to the agent."""
        await self._owner.agent.notify_extension(method, params)


def _failure(ended: Ended) -> RequestError | None:
    if ended.error is None:
        return None
    data = {"stderr": ended.stderr} if ended.stderr else None
    return RequestError.of(ended.code or -32603, ended.error, data)


class OwnerRoleV1(_Shared, v1.AgentRole):
    """Serves version 1: the response to a prompt ends its turn."""

    version: ClassVar[ProtocolVersion] = 1
    types = v1
    served: frozenset[str] | None = _SERVED | {"load_session", "set_session_mode"}

    def initialize(
        self, params: v1.InitializeRequest, context: v1.AgentContext
    ) -> v1.InitializeResponse:
        self._join(params, context)
        info = self._owner.agent.info
        kinds = self._owner.agent.supports_content
        derived = super().capabilities()
        return v1.InitializeResponse(
            protocol_version=1,
            agent_info=v1.Implementation(name=info.name, version=info.version, title=info.title),
            agent_capabilities=msgspec.structs.replace(
                derived,
                prompt_capabilities=v1.PromptCapabilities(
                    image=kinds("image"),
                    audio=kinds("audio"),
                    embedded_context=kinds("resource"),
                ),
            ),
        )

    def _fields(self, context: v1.AgentContext) -> dict[str, Any]:
        transcript = self._owner.session.transcript
        if transcript.commands:  # after the response: this version has no field for them
            update = CommandsUpdate(transcript.commands)
            context.start(self.client.adapter.send_update(self._owner.record.id, update))
        if not transcript.options:
            return {}
        adapter = self.client.adapter
        assert isinstance(adapter, ClientAdapterV1)
        return {
            "modes": modes_to_wire(transcript.options),
            "config_options": adapter.options_to_wire(transcript.options),
        }

    def new_session(
        self, params: v1.NewSessionRequest, context: v1.AgentContext
    ) -> v1.NewSessionResponse:
        self._open(0)
        return v1.NewSessionResponse(session_id=self._owner.record.id, **self._fields(context))

    async def load_session(
        self, params: v1.LoadSessionRequest, context: v1.AgentContext
    ) -> v1.LoadSessionResponse:
        self._require(params.session_id)
        await self.client.replay()
        self._open(self.client.position)
        return v1.LoadSessionResponse(**self._fields(context))

    def resume_session(
        self, params: v1.ResumeSessionRequest, context: v1.AgentContext
    ) -> v1.ResumeSessionResponse:
        self._require(params.session_id)
        self._open()
        return v1.ResumeSessionResponse(**self._fields(context))

    async def prompt(self, params: v1.PromptRequest, context: v1.AgentContext) -> v1.PromptResponse:
        self._require(params.session_id)
        content = tuple(convert_v1.content_from_wire(block) for block in params.prompt)
        ended = await self._ended(self._submit(content), context)
        await self.client.wait_for(ended.seq)
        if (failure := _failure(ended)) is not None:
            raise failure
        adapter = self.client.adapter
        assert isinstance(adapter, ClientAdapterV1)
        return v1.PromptResponse(stop_reason=adapter.stop_reason(ended.stop_reason))

    async def set_session_mode(
        self, params: v1.SetSessionModeRequest, context: v1.AgentContext
    ) -> v1.SetSessionModeResponse:
        self._require(params.session_id)
        option = self._owner.session.transcript.mode_option
        if option is None:
            raise InvalidParams("The session has no modes")
        await self._set(option.id, params.mode_id)
        return v1.SetSessionModeResponse()

    async def set_session_config_option(
        self, params: v1.SetSessionConfigOptionRequest, context: v1.AgentContext
    ) -> v1.SetSessionConfigOptionResponse:
        self._require(params.session_id)
        await self._set(params.config_id, params.value)
        adapter = self.client.adapter
        assert isinstance(adapter, ClientAdapterV1)
        options = adapter.options_to_wire(self._owner.session.transcript.options)
        return v1.SetSessionConfigOptionResponse(config_options=options)


class OwnerRoleV2(_Shared, v2.AgentRole):
    """Serves version 2: states report when turns start and end."""

    version: ClassVar[ProtocolVersion] = 2
    types = v2
    served: frozenset[str] | None = _SERVED

    def initialize(
        self, params: v2.InitializeRequest, context: v2.AgentContext
    ) -> v2.InitializeResponse:
        self._join(params, context)
        info = self._owner.agent.info
        kinds = self._owner.agent.supports_content
        derived = super().capabilities()
        prompt = v2.PromptCapabilities(
            image=v2.PromptImageCapabilities() if kinds("image") else None,
            audio=v2.PromptAudioCapabilities() if kinds("audio") else None,
            embedded_context=v2.PromptEmbeddedContextCapabilities() if kinds("resource") else None,
        )
        session = msgspec.structs.replace(
            derived.session or v2.SessionCapabilities(), prompt=prompt
        )
        return v2.InitializeResponse(
            protocol_version=2,
            info=v2.Implementation(name=info.name, version=info.version, title=info.title),
            capabilities=msgspec.structs.replace(derived, session=session),
            auth_methods=[],
        )

    def _fields(self) -> dict[str, Any]:
        transcript = self._owner.session.transcript
        return {
            "config_options": options_to_wire(transcript.options),
            "available_commands": commands_to_wire(transcript.commands),
        }

    def new_session(
        self, params: v2.NewSessionRequest, context: v2.AgentContext
    ) -> v2.NewSessionResponse:
        self._open(0)
        return v2.NewSessionResponse(session_id=self._owner.record.id, **self._fields())

    async def resume_session(
        self, params: v2.ResumeSessionRequest, context: v2.AgentContext
    ) -> v2.ResumeSessionResponse:
        self._require(params.session_id)
        if params.replay_from is not None:
            await self.client.replay()
            self._open(self.client.position)
        else:
            self._open()
        state = "running" if self._owner.queue.running is not None else "idle"
        adapter = self.client.adapter
        await adapter.send_state(self._owner.record.id, state, self._owner.no_background)
        return v2.ResumeSessionResponse(**self._fields())

    async def prompt(self, params: v2.PromptRequest, context: v2.AgentContext) -> v2.PromptResponse:
        self._require(params.session_id)
        content = tuple(convert_v2.content_from_wire(block) for block in params.prompt)
        prompt = self._submit(content)
        try:
            await asyncio.wait([prompt.started, prompt.ended], return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            if not context.has_ended:
                self._owner.cancel(prompt)
            raise
        if prompt.started.done() and not prompt.started.cancelled():
            return v2.PromptResponse(message_id=prompt.started.result())
        ended = prompt.ended.result()
        raise _failure(ended) or RequestCancelled("The prompt was withdrawn from the queue")

    async def set_session_config_option(
        self, params: v2.SetSessionConfigOptionRequest, context: v2.AgentContext
    ) -> v2.SetSessionConfigOptionResponse:
        match params:
            case v2.SetSessionConfigOptionId() | v2.SetSessionConfigOptionBoolean():
                self._require(params.session_id)
                await self._set(params.config_id, params.value)
            case _:
                raise InvalidParams("Unknown type of value")
        options = options_to_wire(self._owner.session.transcript.options)
        return v2.SetSessionConfigOptionResponse(config_options=options)
