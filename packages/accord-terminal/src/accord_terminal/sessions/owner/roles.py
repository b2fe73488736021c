"""Serves the session to a client in either version of the protocol.

Extension methods of Accord are for the settings of the client, the queue, the journal and the end.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Generator
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeVar

import msgspec
from msgspec import Struct

from accord import v1, v2
from accord.agent.agent import client_adapter
from accord.agent.client_adapter import usage_to_wire
from accord.agent.updates import CommandsUpdate
from accord.agent.v1 import ClientAdapterV1, modes_to_wire
from accord.agent.v2 import commands_to_wire, options_to_wire
from accord.errors import (
    DecodeError,
    InternalError,
    InvalidParams,
    LocalProtocolError,
    MethodNotFound,
    RequestCancelled,
    RequestError,
    ResourceNotFound,
)
from accord.types import convert_v1, convert_v2
from accord.types.steering import ADVERTISED, STEERING, requires_prompt
from accord.types.steering import result as steering_result
from accord.wire.codec import convert
from accord_terminal.sessions.journal import Ended, cursor_of
from accord_terminal.sessions.owner.state import Client, ClientSettings, Prompt
from accord_terminal.sessions.records import SessionsError

if TYPE_CHECKING:
    from accord.types.content import ContentBlock
    from accord.version import ProtocolVersion
    from accord_terminal.sessions.owner.owner import Owner


# The extension methods of a session: client settings, queue, journal, end.

_PREFIX = "_accord/session/"
_Response = TypeVar("_Response")


class _Submit(Struct, rename="camel"):
    text: str


class _Steer(Struct, rename="camel"):
    text: str
    fallback: Literal["queue", "cancel"] = "queue"


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
        case "steer":
            said = _read(params, _Steer)
            return await owner.steer((said.text,), client, said.fallback)
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


class _Withdrawable(Awaitable[_Response]):
    """A response whose task may be cancelled, also before its first step: `withdraw` is called."""

    def __init__(
        self, response: Coroutine[Any, Any, _Response], withdraw: Callable[[], None]
    ) -> None:
        self._response = response
        self._withdraw = withdraw

    def __await__(self) -> Generator[Any, Any, _Response]:
        try:
            return (yield from self._response.__await__())
        except asyncio.CancelledError:
            self._withdraw()
            raise

    def close(self) -> None:
        """Withdraw what was not begun."""
        self._response.close()
        self._withdraw()


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
            adapter = client_adapter(self.version, params, context, unstable=False)
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

    def _request(
        self, prompt: Prompt, context: Any, response: Coroutine[Any, Any, _Response]
    ) -> Awaitable[_Response]:
        """Return the response to a prompt; a client that withdraws its request cancels it."""

        def withdraw() -> None:
            if not context.has_ended:
                self._owner.cancel(prompt)

        return _Withdrawable(response, withdraw)

    async def extension_request(self, method: str, params: Any, context: Any) -> Any:
        """Serve the methods for the queue, the journal and steering; the agent serves others."""
        if method == STEERING and self._owner.agent.supports("steer"):
            return await self._steer(params)
        found = await extension_request(self._owner, self.client, method, params)
        if found is NotImplemented:
            raise MethodNotFound(data={"method": method})
        return found

    async def _steer(self, params: Any) -> dict[str, Any]:
        """Pass a message for the running turn on to the agent."""
        try:
            request = convert(params, self.types.PromptRequest)
        except DecodeError as exc:
            raise InvalidParams(f"Expected the params of a prompt: {exc}") from None
        self._require(request.session_id)
        wire = convert_v1 if self.version == 1 else convert_v2
        content = tuple(wire.content_from_wire(block) for block in request.prompt)
        if not content:
            raise InvalidParams("The message is empty")
        starts = not requires_prompt(request.meta)
        outcome = await self._owner.pass_steer(content, self.client, starts=starts)
        return {} if outcome is None else steering_result(outcome)

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
            meta=ADVERTISED if self._owner.agent.supports("steer") else None,
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

    def prompt(
        self, params: v1.PromptRequest, context: v1.AgentContext
    ) -> Awaitable[v1.PromptResponse]:
        self._require(params.session_id)
        content = tuple(convert_v1.content_from_wire(block) for block in params.prompt)
        # Now, not with the first step of a task: a cancel may come right after it.
        prompt = self._submit(content)
        return self._request(prompt, context, self._response(prompt))

    async def _response(self, prompt: Prompt) -> v1.PromptResponse:
        ended = await asyncio.shield(prompt.ended)
        await self.client.wait_for(ended.seq)
        if (failure := _failure(ended)) is not None:
            raise failure
        adapter = self.client.adapter
        assert isinstance(adapter, ClientAdapterV1)
        usage = None if ended.usage is None else usage_to_wire(v1, ended.usage)
        return v1.PromptResponse(stop_reason=adapter.stop_reason(ended.stop_reason), usage=usage)

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
            meta=ADVERTISED if self._owner.agent.supports("steer") else None,
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

    def prompt(
        self, params: v2.PromptRequest, context: v2.AgentContext
    ) -> Awaitable[v2.PromptResponse]:
        self._require(params.session_id)
        content = tuple(convert_v2.content_from_wire(block) for block in params.prompt)
        prompt = self._submit(content)  # now: see version 1
        return self._request(prompt, context, self._response(prompt))

    async def _response(self, prompt: Prompt) -> v2.PromptResponse:
        await asyncio.wait([prompt.started, prompt.ended], return_when=asyncio.FIRST_COMPLETED)
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
