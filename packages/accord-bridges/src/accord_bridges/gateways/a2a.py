"""Agents behind A2A: each has a card and an endpoint below `/a2a/AGENT`.

A message begins a task, which is a turn of the agent; a context is a session. The turn goes on
without its caller, who asks for the task, subscribes to it, cancels it, or answers its questions by
a message to it. The library `a2a-sdk` reads and writes the requests of all its bindings.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import Any
from urllib.parse import quote

from a2a.auth.user import User
from a2a.extensions.common import HTTP_EXTENSION_HEADER, get_requested_extensions
from a2a.server.context import ServerCallContext
from a2a.server.request_handlers.request_handler import RequestHandler
from a2a.server.request_handlers.response_helpers import agent_card_to_dict
from a2a.server.routes import create_jsonrpc_routes, create_rest_routes
from a2a.server.routes.common import ServerCallContextBuilder
from a2a.types import (
    AgentCapabilities,
    AgentCard,
    AgentInterface,
    AgentSkill,
    CancelTaskRequest,
    DeleteTaskPushNotificationConfigRequest,
    GetExtendedAgentCardRequest,
    GetTaskPushNotificationConfigRequest,
    GetTaskRequest,
    HTTPAuthSecurityScheme,
    ListTaskPushNotificationConfigsRequest,
    ListTaskPushNotificationConfigsResponse,
    ListTasksRequest,
    ListTasksResponse,
    Message,
    SecurityRequirement,
    SecurityScheme,
    SendMessageRequest,
    StringList,
    SubscribeToTaskRequest,
    Task,
    TaskPushNotificationConfig,
    TaskState,
)
from a2a.utils.errors import (
    ExtendedAgentCardNotConfiguredError,
    InternalError,
    InvalidParamsError,
    PushNotificationNotSupportedError,
    TaskNotCancelableError,
    TaskNotFoundError,
    UnsupportedOperationError,
)
from a2a.utils.proto_utils import validate_proto_required_fields
from a2a.utils.task import apply_history_length, validate_history_length
from google.protobuf.json_format import MessageToDict
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from accord import ContentBlock
from accord.errors import AccordError
from accord.remote.access import Principal
from accord.types.session import AvailableCommand, Implementation
from accord.version import __version__
from accord_bridges.gateways.a2a_tasks import Notifier, StoredTasks, check_id
from accord_bridges.gateways.a2a_turns import TaskEvent, TaskTurn, content_of
from accord_bridges.gateways.app import Mount
from accord_bridges.gateways.turns import (
    AgentSessions,
    GatewayError,
)

log: logging.Logger = logging.getLogger("accord.gateway")
# It logs what callers send.
logging.getLogger("a2a").setLevel(logging.CRITICAL)

_WELL_KNOWN = "/.well-known/agent-card.json"
_SUBMITTED, _WORKING = TaskState.TASK_STATE_SUBMITTED, TaskState.TASK_STATE_WORKING
_LOOK_S = 10.0  # for an agent to start, so that its card has its commands
_LOOK_AGAIN_S = 60.0


class A2a:
    """Serves agents by A2A; `push_hosts` may get push notifications.

    Without `login`, cards do not ask for a token. Without `public_url`, they have the address of
    the request for them.
    """

    def __init__(
        self,
        sessions: AgentSessions,
        *,
        push_hosts: Sequence[str] = (),
        login: bool = True,
        public_url: str | None = None,
    ) -> None:
        self.sessions = sessions
        self.stored = StoredTasks(sessions.database, sessions.folder)
        self.notifier = Notifier(self.stored, push_hosts)
        self.running: dict[str, TaskTurn] = {}
        self._login = login
        self._public_url = public_url
        self._looks: dict[str, asyncio.Task[_Facts]] = {}
        sessions.at_end.append(self._end)

    def routes(self) -> list[Mount]:
        """Return the paths: those of each agent, and the well-known one for the first."""
        first, *_ = self.sessions.agents
        card = Route(_WELL_KNOWN, self._card_of(first), methods=["GET"])
        mounts = [Mount(_error_body, _WELL_KNOWN, Starlette(routes=[card]))]
        for agent in self.sessions.agents:
            root = f"/a2a/{agent}"
            handler, context = _Handler(self, agent), _ContextBuilder()
            found = [Route(f"{root}{_WELL_KNOWN}", self._card_of(agent), methods=["GET"])]
            for path in (root, f"{root}/"):
                found += create_jsonrpc_routes(handler, path, context, enable_v0_3_compat=True)
            rest = create_rest_routes(handler, context, path_prefix=root)
            # Without the paths of tenants, which begin with any word.
            found += (route for route in rest if isinstance(route, Route))
            mounts.append(Mount(_error_body, root, Starlette(routes=found)))
        return mounts

    def _card_of(self, agent: str) -> Any:
        async def respond(request: Request) -> Response:
            facts = await self._facts(agent)
            base = self._public_url
            if base is None:
                # Not by the headers of a proxy, which anybody can send (R-SEC-11).
                root = request.scope.get("root_path", "").rstrip("/")
                base = f"{request.url.scheme}://{request.url.netloc}{root}"
            return JSONResponse(agent_card_to_dict(self._card(agent, facts, base)))

        return respond

    async def _facts(self, agent: str) -> _Facts:
        """Return what an agent says about itself; it is started for that, once."""
        look = self._looks.get(agent)
        if look is None or (look.done() and look.result().is_old):
            look = asyncio.create_task(self._look(agent), name="accord gateway card")
            self._looks[agent] = look
        await asyncio.wait([look], timeout=_LOOK_S)
        return look.result() if look.done() else _Facts(None, ())

    async def _look(self, agent: str) -> _Facts:
        try:
            return _Facts(*await self.sessions.look(agent))
        except (AccordError, TimeoutError) as error:
            log.warning("! the agent %s could not be started for its card: %s", agent, error)
            return _Facts(None, ())

    def _card(self, agent: str, facts: _Facts, base: str) -> AgentCard:
        about = facts.about or Implementation(agent, __version__)
        url = f"{base}/a2a/{quote(agent)}"
        bindings = (("JSONRPC", "1.0"), ("HTTP+JSON", "1.0"), ("JSONRPC", "0.3"))
        card = AgentCard(
            name=agent,
            description=f"{about.title or about.name}, an agent of the Agent Client Protocol",
            version=about.version,
            supported_interfaces=[
                AgentInterface(url=url, protocol_binding=binding, protocol_version=version)
                for binding, version in bindings
            ],
            capabilities=AgentCapabilities(streaming=True, push_notifications=self.notifier.is_on),
            default_input_modes=["text/plain", "image/*", "audio/*", "application/json"],
            default_output_modes=["text/markdown", "text/x-diff", "application/json"],
            skills=[
                AgentSkill(
                    id="prompt",
                    name="Work on a task",
                    description="Works on what a message says, in the directory of its context.",
                    tags=["agent"],
                ),
                *(
                    AgentSkill(
                        id=f"/{command.name}",
                        name=f"/{command.name}",
                        description=command.description or command.name,
                        tags=["command"],
                        examples=[" ".join((f"/{command.name}", command.hint or "")).strip()],
                    )
                    for command in facts.commands
                ),
            ],
        )
        if self._login:
            scheme = HTTPAuthSecurityScheme(scheme="Bearer", description="The gateway's token")
            card.security_schemes["bearer"].CopyFrom(
                SecurityScheme(http_auth_security_scheme=scheme)
            )
            card.security_requirements.append(SecurityRequirement(schemes={"bearer": StringList()}))
        return card

    async def _end(self) -> None:
        if self.running:
            await asyncio.wait([run.pump for run in self.running.values()])
        for look in self._looks.values():
            look.cancel()
        if self._looks:
            await asyncio.wait([*self._looks.values()])
        await self.notifier.aclose()
        self.stored.close()

    # Messages.

    async def send(self, agent: str, params: SendMessageRequest, principal: Principal) -> TaskTurn:
        """Begin a task, or give its caller's answer to one. Raises `A2AError`."""
        validate_proto_required_fields(params)
        validate_history_length(params.configuration)
        message = params.message
        check_id("message.messageId", message.message_id)
        check_id("message.contextId", message.context_id)
        push = None
        if params.configuration.HasField("task_push_notification_config"):
            push = params.configuration.task_push_notification_config
            self.check_push(push)
        content = [
            block for number, part in enumerate(message.parts) for block in content_of(part, number)
        ]
        if not content:
            raise InvalidParamsError("message.parts: expected text, data or a file")
        try:
            if message.task_id:
                run = self._continued(agent, message, principal)
            else:
                run = await self._begun(agent, params, content, principal)
        except GatewayError as error:
            kind = InvalidParamsError if error.status < 429 else InternalError
            raise kind(str(error)) from None
        if push is not None:
            self.put_push(run.task.id, push)
        return run

    def _continued(self, agent: str, message: Message, principal: Principal) -> TaskTurn:
        task = self.find(message.task_id, agent, principal)
        if message.context_id and message.context_id != task.context_id:
            raise InvalidParamsError(
                f"message.contextId: the task {task.id} is in the context {task.context_id}, got"
                f" {message.context_id[:80]!r}"
            )
        run = self.running.get(task.id)
        state = TaskState.Name(task.status.state)
        if run is None or not run.questions:
            raise UnsupportedOperationError(
                f"The task {task.id} asks nothing, it is {state}: send a message with the"
                f" contextId {task.context_id!r} and without taskId to continue the conversation"
            )
        run.answer(message)
        return run

    async def _begun(
        self,
        agent: str,
        params: SendMessageRequest,
        content: Sequence[ContentBlock],
        principal: Principal,
    ) -> TaskTurn:
        message = params.message
        context = message.context_id
        conversation = None
        if context:
            session = self.stored.session_of(context, agent, principal)
            if session is not None or self.sessions.store.is_id(context):
                conversation = self.sessions.find(session or context, principal)
                if conversation.record.argv != self.sessions.agents[agent].argv:
                    raise InvalidParamsError(
                        f"message.contextId: the context {context} is of another agent"
                    )
        if conversation is None:
            given = {**MessageToDict(params.metadata), **MessageToDict(message.metadata)}
            wanted = {name: given[name] for name in ("cwd", "model") if given.get(name) is not None}
            for name, value in wanted.items():
                if not isinstance(value, str) or "\0" in value:
                    raise InvalidParamsError(f"message.metadata.{name}: expected text")
            conversation = await self.sessions.new(agent, principal, **wanted)
            if context:
                self.stored.name_context(context, agent, principal, conversation.id)
            else:
                context = conversation.id
        exchange = conversation.start(content, asks=True, fills=True, visits=True)
        task = Task(id=secrets.token_hex(16), context_id=context)
        task.metadata["acp"] = {"sessionId": conversation.id}
        task.status.state = _SUBMITTED if conversation.requests > 1 else _WORKING
        task.status.timestamp.GetCurrentTime()
        run = TaskTurn(self.running, self.stored, self.notifier, agent, principal, task, exchange)
        run.heard(message)
        return run

    def find(self, task_id: str, agent: str, principal: Principal) -> Task:
        """Return a task as it is now. Raises `TaskNotFoundError`."""
        run = self.running.get(task_id)
        if run is not None and run.is_of(agent, principal):
            return run.snapshot()
        return self.stored.get(task_id, agent, principal)

    # Push notifications.

    def check_push(self, config: TaskPushNotificationConfig) -> None:
        """Raise `A2AError` unless a config is possible."""
        if not self.notifier.is_on:
            raise PushNotificationNotSupportedError(
                "The operator of this gateway allows no host for push notifications (--push-host)"
            )
        self.notifier.check(config)

    def put_push(
        self, task_id: str, given: TaskPushNotificationConfig
    ) -> TaskPushNotificationConfig:
        """Store a config, and return it."""
        config = TaskPushNotificationConfig()
        config.CopyFrom(given)
        config.task_id = task_id
        config.id = config.id or task_id
        self.stored.put_push(config)
        return config


class _Facts:
    """What an agent says about itself; None if it could not be started."""

    def __init__(self, about: Implementation | None, commands: Sequence[AvailableCommand]) -> None:
        self.about = about
        self.commands = commands
        self._until = time.monotonic() + _LOOK_AGAIN_S

    @property
    def is_old(self) -> bool:
        """Whether it is time to look again, at an agent that could not be started."""
        return self.about is None and time.monotonic() > self._until


def _error_body(error: GatewayError) -> dict[str, Any]:
    return {"error": {"code": error.status, "message": str(error)}}


class _Caller(User):
    def __init__(self, principal: Principal) -> None:
        self.principal = principal

    @property
    def is_authenticated(self) -> bool:
        return True

    @property
    def user_name(self) -> str:
        return self.principal.name


class _ContextBuilder(ServerCallContextBuilder):
    def build(self, request: Request) -> ServerCallContext:
        headers = {
            name: value for name, value in request.headers.items() if name != "authorization"
        }
        return ServerCallContext(
            user=_Caller(request.scope["accord.principal"]),
            state={"headers": headers},
            requested_extensions=get_requested_extensions(
                request.headers.getlist(HTTP_EXTENSION_HEADER)
            ),
        )


def _principal(context: ServerCallContext) -> Principal:
    assert isinstance(context.user, _Caller)
    return context.user.principal


class _Handler(RequestHandler):
    """The methods of A2A, for one agent."""

    def __init__(self, a2a: A2a, agent: str) -> None:
        self._a2a = a2a
        self._agent = agent

    def _find(self, task_id: str, context: ServerCallContext) -> Task:
        return self._a2a.find(task_id, self._agent, _principal(context))

    async def on_message_send(
        self, params: SendMessageRequest, context: ServerCallContext
    ) -> Task | Message:
        run = await self._a2a.send(self._agent, params, _principal(context))
        if not params.configuration.return_immediately:
            await run.rests.wait()
        return apply_history_length(run.snapshot(), params.configuration)

    async def on_message_send_stream(
        self, params: SendMessageRequest, context: ServerCallContext
    ) -> AsyncGenerator[TaskEvent, None]:
        run = await self._a2a.send(self._agent, params, _principal(context))
        async with aclosing(run.events(until_question=True)) as events:
            async for event in events:
                if isinstance(event, Task):
                    event = apply_history_length(event, params.configuration)
                yield event

    async def on_subscribe_to_task(
        self, params: SubscribeToTaskRequest, context: ServerCallContext
    ) -> AsyncGenerator[TaskEvent, None]:
        task = self._find(params.id, context)
        run = self._a2a.running.get(task.id)
        if run is None:
            raise UnsupportedOperationError(
                f"The task {task.id} does not run here: it is {TaskState.Name(task.status.state)}"
            )
        async with aclosing(run.events()) as events:
            async for event in events:
                yield event

    async def on_get_task(self, params: GetTaskRequest, context: ServerCallContext) -> Task | None:
        validate_history_length(params)
        return apply_history_length(self._find(params.id, context), params)

    async def on_list_tasks(
        self, params: ListTasksRequest, context: ServerCallContext
    ) -> ListTasksResponse:
        validate_history_length(params)
        for run in self._a2a.running.values():
            run.save()
        page = self._a2a.stored.page(params, self._agent, _principal(context))
        for task in page.tasks:
            if not params.include_artifacts:
                task.ClearField("artifacts")
            short = apply_history_length(task, params)
            if short is not task:
                task.CopyFrom(short)
        return page

    async def on_cancel_task(
        self, params: CancelTaskRequest, context: ServerCallContext
    ) -> Task | None:
        task = self._find(params.id, context)
        run = self._a2a.running.get(task.id)
        if run is not None:
            run.exchange.cancel()
            await asyncio.wait([run.pump])
            task = self._find(params.id, context)
        if run is None or task.status.state != TaskState.TASK_STATE_CANCELED:
            raise TaskNotCancelableError(
                f"The task {task.id} is {TaskState.Name(task.status.state)}, and does not run here"
            )
        return task

    # Push notifications.

    async def on_create_task_push_notification_config(
        self, params: TaskPushNotificationConfig, context: ServerCallContext
    ) -> TaskPushNotificationConfig:
        task = self._find(params.task_id, context)
        self._a2a.check_push(params)
        return self._a2a.put_push(task.id, params)

    async def on_get_task_push_notification_config(
        self, params: GetTaskPushNotificationConfigRequest, context: ServerCallContext
    ) -> TaskPushNotificationConfig:
        task = self._find(params.task_id, context)
        for config in self._a2a.stored.pushes(task.id):
            if config.id == params.id:
                return config
        raise TaskNotFoundError(f"The task {task.id} has no config {params.id[:80]!r}")

    async def on_list_task_push_notification_configs(
        self, params: ListTaskPushNotificationConfigsRequest, context: ServerCallContext
    ) -> ListTaskPushNotificationConfigsResponse:
        task = self._find(params.task_id, context)
        return ListTaskPushNotificationConfigsResponse(configs=self._a2a.stored.pushes(task.id))

    async def on_delete_task_push_notification_config(
        self, params: DeleteTaskPushNotificationConfigRequest, context: ServerCallContext
    ) -> None:
        task = self._find(params.task_id, context)
        self._a2a.stored.delete_push(task.id, params.id)

    async def on_get_extended_agent_card(
        self, params: GetExtendedAgentCardRequest, context: ServerCallContext
    ) -> AgentCard:
        raise ExtendedAgentCardNotConfiguredError
