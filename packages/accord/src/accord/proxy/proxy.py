"""`Proxy`, the base class of proxies, and its stage in one chain.

`HookStage` decides what a proxy sees: what it overrides becomes handlers of the chain's version.
`SessionRequests` and `ClientRequests` call the hooks for requests, `ProxyTools` serves the tools of
the proxy to the agent.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from types import NoneType, SimpleNamespace
from typing import Any, Literal, cast

from msgspec import UNSET, Raw

from accord.client.elicitation import UrlElicitationRequest, form_from_schema
from accord.client.events import PermissionRequest, ToolCall
from accord.client.permissions import choose
from accord.connection.tasks import cancel
from accord.errors import (
    DecodeError,
    InternalError,
    InvalidRequest,
    RequestCancelled,
    RequestError,
)
from accord.local.run import run_program
from accord.mcp.provide import check_tools, provide_tools
from accord.mcp.provider import McpProvider, marked_tools
from accord.proxy.conductor import serve_stages
from accord.proxy.handlers import (
    Overrides,
    ProxyStage,
    TypedStage,
    add_extensions,
    edited_json,
    raw_of,
)
from accord.proxy.hooks import (
    ChainPart,
    FileRead,
    FileWrite,
    OpeningSession,
    ProxyHooks,
    ProxyInChain,
    TerminalStart,
    Turns,
    UpdateHook,
    check_proxy_hooks,
    overrides_hook,
)
from accord.proxy.stage import Direction, RawRequest, RawResponse, Stage
from accord.proxy.updates import ProxiedSessions, ProxiedVersion, proxied_version
from accord.roles.proxy import TypedProxy
from accord.transports.base import Transport, TransportFactory, opened
from accord.transports.stdio import stdio
from accord.types.mcp import McpServer, McpServerHttp, McpServerSse, McpServerStdio
from accord.types.permission import PermissionOption
from accord.types.validation import require_type
from accord.wire.base import replace
from accord.wire.codec import decoder, to_builtins
from accord.wire.shared import MessageMcpNotification, MessageMcpRequest

# A typed proxy of one version (`accord.v1.Proxy`, `accord.v2.Proxy`) in a chain.


# The tools of a proxy: its marked methods, as an MCP server of each session (R-PROXY-06).

log: logging.Logger = logging.getLogger("accord.proxy")

_decode = decoder(MessageMcpRequest)


class ProxyTools:
    """Serves the marked methods of a proxy to the sessions of one chain.

    An agent that does not support MCP over ACP gets them over HTTP or stdio; one that supports
    none of them gets no tools.
    """

    def __init__(
        self, proxy: object, version: ProxiedVersion, stage: ProxyStage, initialized: Any
    ) -> None:
        self._methods = marked_tools(proxy)
        self._stage = stage
        agent = cast("Any", SimpleNamespace(initialized=initialized))
        self._transports = version.adapter.on(agent).mcp_transports
        self._provider = McpProvider()
        self._by_session: dict[str, Any] = {}
        if self._methods and not self._transports:
            self._methods = []
            log.warning(
                "! %s: the agent does not get the tools of this proxy: expected that it supports"
                " one of the transports acp, http and stdio of MCP",
                stage.name,
            )
        if self._methods:
            stage.on_mcp_request = self._serve
            stage.on_close.append(self.aclose)

    def __bool__(self) -> bool:
        return bool(self._methods)

    async def open(self, taken: Sequence[str]) -> Any:
        """Serve the tools to a session before it is opened (R-MOA-08)."""
        try:
            return await provide_tools(self._methods, self._provider, self._transports, taken)
        except RequestError:
            raise
        except Exception as exc:
            log.error("! %s: its tools cannot be served: %s", self._stage.name, exc)
            raise InternalError(f"The tools of the proxy {self._stage.name}: {exc}") from exc

    @staticmethod
    def declarations(served: Any) -> Sequence[McpServer]:
        """Return the entries for `mcpServers`."""
        return served.declarations

    async def keep(self, session_id: str, served: Any) -> None:
        """Keep the tools of a session; None stops them."""
        previous = self._by_session.pop(session_id, None)
        if served is not None:
            self._by_session[session_id] = served
        if previous is not None:
            await previous.aclose()

    async def aclose(self) -> None:
        """Stop all tools."""
        for session_id in list(self._by_session):
            await self.keep(session_id, None)

    # Requests of the agent. They do not wait in lanes: a tool can take long.

    def _serve(self, request: RawRequest) -> bool:
        """Serve a request for a server of this proxy; return whether it is one."""
        try:
            message: MessageMcpRequest = _decode(
                b"null" if request.params is UNSET else request.params
            )
        except DecodeError:
            return False
        if message.server_id not in self._provider:
            return False
        task = self._stage.spawn(self._answer(request, message), "accord proxy tool")
        request.on_cancel(lambda: cancel(task))
        return True

    async def _answer(self, request: RawRequest, message: MessageMcpRequest) -> None:
        async def notify(note: MessageMcpNotification) -> None:
            self._stage.agent.notify("mcp/message", raw_of(note))
            await self._stage.agent.wait_for_room()

        try:
            outcome = await self._provider.request(message, notify)
        except asyncio.CancelledError:
            request.fail(RequestCancelled())
            raise
        except RequestError as exc:
            request.fail(exc)
        else:
            request.answer(RawResponse(result=raw_of(outcome)))


# Calls `Proxy.open_session` and `Proxy.close_session`, and adds the slash commands of a proxy.

_Action = Literal["new", "load", "resume", "fork"]
_OPENING: dict[str, _Action] = {
    "new_session": "new",
    "load_session": "load",
    "resume_session": "resume",
    "fork_session": "fork",
}


class SessionRequests(ChainPart):
    """Edits the requests that open and close the sessions of one chain."""

    def __init__(self, chain: ProxyInChain, turns: Turns, tools: ProxyTools) -> None:
        super().__init__(chain)
        self._turns = turns
        self._tools = tools
        self._commands = self._version.editor.commands_to_wire(tuple(self._proxy.commands))

    def add_to(self, to_agent: Overrides, has: dict[str, bool]) -> None:
        """Handle the requests that the proxy needs to see."""
        label = self._stage.name
        needs = ("open_session", "update", "decide_permission", "prompt", "steer")  # its `cwd`
        if self._commands or self._tools or any(has[hook] for hook in needs):
            for call, action in _OPENING.items():
                if (method := self._version.methods.get(call)) is not None:
                    to_agent.add(method, self._opening(action), f"{label}.open_session")
        method = self._version.methods["close_session"]
        to_agent.add(method, self._close, f"{label}.close_session")

    def _opening(self, action: _Action) -> Any:
        async def handle(params: Any, forward: Any) -> Any:
            return await self._open(action, params, forward)

        return handle

    async def _open(self, action: _Action, params: Any, forward: Any) -> Any:
        made = [(_neutral(wire) or wire, wire) for wire in params.mcp_servers]
        servers = {id(server): wire for server, wire in made}
        opening = OpeningSession(
            action=action,
            session_id=None if action == "new" else params.session_id,
            cwd=params.cwd,
            additional_directories=tuple(params.additional_directories),
            mcp_servers=[server for server, _ in made],
            meta=params.meta,
        )
        if action in ("load", "resume"):
            self._sessions[params.session_id].cwd = opening.cwd  # for the replay
        results: list[Any] = []

        async def forward_opening() -> str:
            changed = self._params(params, opening, servers)
            result = await forward(changed)
            session_id = getattr(result, "session_id", None) or params.session_id
            session = self._sessions[session_id]
            session.cwd = opening.cwd
            self._turns.flush(session)
            results.append((session, result))
            return session_id

        served = None
        try:
            if self._tools:
                served = await self._tools.open([server.name for server in opening.mcp_servers])
                opening.mcp_servers += self._tools.declarations(served)
            await self._proxy.open_session(opening, forward_opening)
        except BaseException:
            if served is not None:
                await served.aclose()
            raise
        if not results:
            if served is not None:
                await served.aclose()
            raise InternalError(
                f"{self._stage.name}.open_session has to call forward(), or raise a RequestError"
            )
        session, result = results[-1]
        await self._tools.keep(session.id, served)
        return self._with_commands(session, result)

    def _params(self, params: Any, opening: OpeningSession, servers: dict[int, Any]) -> Any:
        """Return the params with the changes of the proxy."""
        changes: dict[str, Any] = {}
        if opening.cwd != params.cwd:
            changes["cwd"] = opening.cwd
        if list(opening.additional_directories) != list(params.additional_directories):
            changes["additional_directories"] = list(opening.additional_directories)
        if opening.meta != params.meta:
            changes["meta"] = opening.meta
        to_wire = self._version.adapter.server_to_wire
        wire = [servers.get(id(server)) or to_wire(server) for server in opening.mcp_servers]
        if wire != list(params.mcp_servers):
            changes["mcp_servers"] = wire
        return replace(params, **changes) if changes else params

    def _with_commands(self, session: Any, result: Any) -> Any:
        """Add the commands of the proxy: in version 1 an update has them, not the response."""
        if not self._commands:
            return result
        if self._version.number == 1:
            update = self._version.types.AvailableCommandsUpdate(available_commands=self._commands)

            async def send() -> None:
                # After the response. An update of the agent, to which they are added, replaces it.
                if not session.has_commands:
                    self._turns.send(session, update)

            self._stage.spawn(send(), "accord proxy commands")
            return result
        names = {command.name for command in self._commands}
        known = [c for c in result.available_commands if getattr(c, "name", "") not in names]
        return replace(result, available_commands=[*known, *self._commands])

    async def _close(self, params: Any, forward: Any) -> Any:
        results: list[Any] = []

        async def forward_close() -> None:
            results.append(await forward())

        await self._proxy.close_session(params.session_id, forward_close)
        self._sessions.drop(params.session_id)
        await self._tools.keep(params.session_id, None)
        return results[-1] if results else None


def _neutral(wire: Any) -> Any:
    """Return an MCP server as a version-neutral value, None if it has another kind."""
    match type(wire).__name__:
        case "McpServerStdio":
            return McpServerStdio(wire.name, wire.command, tuple(wire.args), _pairs(wire.env))
        case "McpServerHttp":
            return McpServerHttp(wire.name, wire.url, _pairs(wire.headers))
        case "McpServerSse":
            return McpServerSse(wire.name, wire.url, _pairs(wire.headers))
        case _:
            return None


def _pairs(entries: Any) -> dict[str, str]:
    return {entry.name: entry.value for entry in entries}


# Calls what a `Proxy` overrides for the requests of the agent to the client.


class ClientRequests(ChainPart):
    """Handles permission requests, files, terminals and elicitation of one chain."""

    def __init__(self, chain: ProxyInChain) -> None:
        super().__init__(chain)
        self._types = self._version.types

    def add_to(self, to_client: Overrides, has: dict[str, bool]) -> None:
        """Handle what the proxy overrides."""
        name = type(self._proxy).__name__
        handlers = {
            "decide_permission": ("request_permission", self._permission),
            "read_file": ("read_text_file", self._read_file),
            "write_file": ("write_text_file", self._write_file),
            "start_terminal": ("create_terminal", self._terminal),
        }
        for hook, (call, handler) in handlers.items():
            method = self._version.methods.get(call)
            if has[hook] and method is not None:
                to_client.add(method, handler, f"{name}.{hook}")
        if has["elicit_form"] or has["elicit_url"]:
            method = self._version.methods["create_elicitation"]
            to_client.add(method, self._elicitation, self._elicitation_label)

    def _require(self, hook: str, result: object, *kinds: type) -> None:
        """Raise `TypeError` if a method of the proxy did not return one of these types."""
        require_type(f"the result of {type(self._proxy).__name__}.{hook}", result, *kinds)

    # Permissions.

    async def _permission(self, params: Any, forward: Any) -> Any:
        request = self._request(params)
        chosen: list[tuple[PermissionOption | None, Any]] = []

        async def forward_request() -> PermissionOption | None:
            result = await forward()
            option_id = getattr(result.outcome, "option_id", None)
            option = next((each for each in request.options if each.id == option_id), None)
            chosen.append((option, result))
            return option

        try:
            decision = await self._proxy.decide_permission(request, forward_request)
            for option, result in chosen:
                if decision is option:
                    return result  # as the user decided
            option = None if decision is None else choose(request.options, decision)
        except RequestError:
            raise
        except Exception:
            name = type(self._proxy).__name__
            log.exception("! %s.decide_permission failed; the request is rejected", name)
            option = choose(request.options, "reject")
        types = self._types
        outcome = (
            types.CancelledPermissionOutcome()
            if option is None
            else types.SelectedPermissionOutcome(option_id=option.id)
        )
        return types.RequestPermissionResponse(outcome=outcome)

    def _request(self, params: Any) -> PermissionRequest:
        """Return a request with the state of its tool call."""
        session = self._sessions[params.session_id]
        cwd, command, call = session.cwd or "/", None, None
        subject = getattr(params, "subject", params)
        details = getattr(subject, "tool_call", None)
        if details is not None:
            changed = self._version.apply_tool_call(details, session.calls)
            if changed is not None:
                session.keep(changed)
            call = changed or session.tool_call(details.tool_call_id)
        elif isinstance(subject, getattr(self._types, "CommandPermissionSubject", ())):
            command, cwd = subject.command, subject.cwd
            call = session.tool_call(subject.tool_call_id or "")
        title = getattr(params, "title", None)
        return PermissionRequest(
            session_id=params.session_id,
            cwd=cwd,
            title=title if title is not None else _title(call),
            options=tuple(PermissionOption(o.option_id, o.name, o.kind) for o in params.options),
            description=getattr(params, "description", None),
            tool_call=call,
            command=command,
        )

    # Files and terminals.

    async def _read_file(self, params: Any, forward: Any) -> Any:
        request = FileRead(
            session_id=params.session_id, path=params.path, line=params.line, limit=params.limit
        )
        results: list[Any] = []

        async def forward_read(other: FileRead = request) -> str:
            results.append(
                await forward(
                    params
                    if other == request
                    else replace(params, path=other.path, line=other.line, limit=other.limit)
                )
            )
            return results[-1].content

        text = await self._proxy.read_file(request, forward_read)
        self._require("read_file", text, str)
        if not results:
            return self._types.ReadTextFileResponse(content=text)
        last = results[-1]
        return last if text == last.content else replace(last, content=text)

    async def _write_file(self, params: Any, forward: Any) -> Any:
        request = FileWrite(session_id=params.session_id, path=params.path, text=params.content)
        results: list[Any] = []

        async def forward_write(other: FileWrite = request) -> None:
            results.append(
                await forward(
                    params
                    if other == request
                    else replace(params, path=other.path, content=other.text)
                )
            )

        await self._proxy.write_file(request, forward_write)
        return results[-1] if results else None

    async def _terminal(self, params: Any, forward: Any) -> Any:
        types = self._types
        request = TerminalStart(
            session_id=params.session_id,
            command=params.command,
            args=tuple(params.args),
            env={entry.name: entry.value for entry in params.env},
            cwd=params.cwd,
            output_byte_limit=params.output_byte_limit,
        )
        results: list[Any] = []

        async def forward_start(other: TerminalStart = request) -> str:
            changed = params
            if other != request:
                changed = replace(
                    params,
                    command=other.command,
                    args=list(other.args),
                    env=[types.EnvVariable(name=k, value=v) for k, v in other.env.items()],
                    cwd=other.cwd,
                    output_byte_limit=other.output_byte_limit,
                )
            results.append(await forward(changed))
            return results[-1].terminal_id

        terminal_id = await self._proxy.start_terminal(request, forward_start)
        self._require("start_terminal", terminal_id, str)
        if results and results[-1].terminal_id == terminal_id:
            return results[-1]
        return types.CreateTerminalResponse(terminal_id=terminal_id)

    # Elicitation.

    def _elicitation_label(self, params: Any) -> str:
        is_url = isinstance(params, self._types.ElicitationUrlMode)
        return f"{type(self._proxy).__name__}.{'elicit_url' if is_url else 'elicit_form'}"

    async def _elicitation(self, params: Any, forward: Any) -> Any:
        types = self._types
        results: list[tuple[Any, Any]] = []
        accept: dict[str, Any] | None
        session_id = getattr(params, "session_id", None)
        session_id = session_id if isinstance(session_id, str) else None

        async def forward_form() -> Any:
            result = await forward()
            accepted = isinstance(result, types.ElicitationAcceptAction)
            results.append((result.content or {} if accepted else None, result))
            return results[-1][0]

        async def forward_url() -> bool:
            result = await forward()
            results.append((isinstance(result, types.ElicitationAcceptAction), result))
            return results[-1][0]

        match params:
            case types.ElicitationFormMode():
                schema = to_builtins(params.requested_schema)
                form = form_from_schema(params.message, schema, session_id, params.tool_call_id)
                answer = await self._proxy.elicit_form(form, forward_form)
                self._require("elicit_form", answer, Mapping, NoneType)
                accept = None if answer is None else {"content": dict(answer)}
            case types.ElicitationUrlMode():
                request = UrlElicitationRequest(
                    message=params.message,
                    url=params.url,
                    id=params.elicitation_id,
                    done=asyncio.Event(),
                    session_id=session_id,
                    tool_call_id=params.tool_call_id,
                )
                answer = await self._proxy.elicit_url(request, forward_url)
                self._require("elicit_url", answer, bool)
                accept = {} if answer else None
            case _:
                return await forward()
        for known, result in results:
            if answer is known or answer == known:
                return result
        if accept is None:
            return types.ElicitationDeclineAction()
        return types.ElicitationAcceptAction(**accept)


def _title(call: ToolCall | None) -> str:
    return "" if call is None else call.title


# A proxy in one chain: what it overrides becomes handlers of the chain's version.

_HOOK_NAMES = tuple(name for name in vars(ProxyHooks) if name[0] != "_" and name != "commands")


class HookStage(ProxyStage):
    """Calls the methods that a `Proxy` overrides."""

    def __init__(self, proxy: ProxyHooks) -> None:
        is_steered = overrides_hook(proxy, "steer") or not overrides_hook(proxy, "prompt")
        super().__init__(type(proxy).__name__, is_steered=is_steered)
        self._proxy = proxy

    async def start(self) -> None:
        """Raise `TypeError` for a tool that cannot be described to an agent."""
        await super().start()
        if tools := marked_tools(self._proxy):
            await check_tools(tools)

    def edit_initialize(self, params: Raw, version: int) -> Raw:
        """Return the params with the changes of the client's capabilities."""
        number = min(version, 2)
        call = f"client_capabilities_v{number}"
        if number < 1 or not overrides_hook(self._proxy, call):
            return params
        before = decoder(proxied_version(number).types.InitializeRequest)(params)
        return self._with_capabilities(
            params, before, "client_capabilities" if number == 1 else "capabilities", call
        )

    def edit_initialized(self, result: Raw, version: int) -> Raw:
        """Return the result with the changes of the agent's capabilities."""
        if version not in (1, 2):
            raise InvalidRequest(
                f"The proxy {self.name} supports the versions 1 and 2 of the protocol, and the"
                f" chain has version {version}",
                data={"supported": [1, 2], "requested": version},
            )
        call = f"agent_capabilities_v{version}"
        if not overrides_hook(self._proxy, call):
            return result
        before = decoder(proxied_version(version).types.InitializeResponse)(result)
        return self._with_capabilities(
            result, before, "agent_capabilities" if version == 1 else "capabilities", call
        )

    def _with_capabilities(self, text: Raw, before: Any, name: str, call: str) -> Raw:
        offered = getattr(before, name)
        hook = f"{self.name}.{call}"
        try:
            changed = getattr(self._proxy, call)(offered)
            require_type(f"the result of {hook}", changed, offered.__class__)
        except RequestError:
            raise
        except Exception as exc:
            log.exception("! %s failed", hook)
            raise InternalError(f"The proxy failed: {hook} raised an exception") from exc
        if changed is offered:
            return text
        return edited_json(text, before, replace(before, **{name: changed}))

    def describe(self) -> dict[str, list[str]]:
        """Return what is overridden, the tools and the commands."""
        proxy = self._proxy
        return {
            "handles": [name for name in _HOOK_NAMES if overrides_hook(proxy, name)],
            "tools": [tool.__name__ for tool in marked_tools(proxy)],
            "commands": [command.name for command in proxy.commands],
        }

    def overrides(self, version: int, initialized: Raw) -> tuple[Overrides, ...]:
        """Return the handlers of both directions."""
        proxy = self._proxy
        to_agent, to_client = Overrides(Direction.TO_AGENT), Overrides(Direction.TO_CLIENT)
        has = {name: overrides_hook(proxy, name) for name in (*_HOOK_NAMES, "commands")}
        has["update"] = has["update"] or has["session_update"]
        known = proxied_version(version)
        chain = ProxyInChain(proxy, known, ProxiedSessions(), self)
        turns = Turns(chain)
        updates = UpdateHook(chain, turns)
        if has["prompt"] or has["update"]:
            turns.add_to(to_agent)
        if has["steer"]:
            turns.add_steering_to(to_agent)
        if has["update"] or has["decide_permission"] or proxy.commands or has["prompt"]:
            updates.add_to(to_client, has)
        offered = decoder(known.types.InitializeResponse)(initialized)
        tools = ProxyTools(proxy, known, self, offered)
        SessionRequests(chain, turns, tools).add_to(to_agent, has)
        ClientRequests(chain).add_to(to_client, has)
        add_extensions(proxy, ProxyHooks, to_agent, to_client)
        return to_agent, to_client


class Proxy(ProxyHooks):
    """A component between a client and an agent; one class serves both versions.

    Whatever is not overridden passes as the bytes that were received. `forward` passes a request
    on and returns its result; it raises `RequestError` if the other side responds with an error.
    A `RequestError` that a method raises is the response. Any other exception is logged, and the
    response is `Internal error` with the name of the proxy and of the method.

    `v1.Proxy` and `v2.Proxy` have every method of one version, with its own types.
    """

    def __init_subclass__(cls, **more: object) -> None:
        super().__init_subclass__(**more)
        check_proxy_hooks(cls)

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"

    def stage(self) -> Stage:
        """Return a stage with this proxy, for one chain; `accord.chain` calls it."""
        return HookStage(self)

    def run(self, transport: TransportFactory | Transport | None = None) -> None:
        """Be a proxy program until the conductor disconnects, on stdin and stdout by default.

        A program that is not started by a conductor, such as `accord chain`, refuses `initialize`
        with an error that says so (R-PROXY-03). A function is called on the event loop.
        """
        run_proxy(self, transport)


def run_proxy(
    proxy: Proxy | TypedProxy, transport: TransportFactory | Transport | None = None
) -> None:
    """Be a proxy program until the conductor disconnects, like `Proxy.run`.

    It also runs a proxy of one version (`accord.v1.Proxy`, `accord.v2.Proxy`).
    """
    if transport is None:
        transport = stdio(restore=False)

    async def serve() -> None:
        stage = TypedStage(proxy) if isinstance(proxy, TypedProxy) else proxy.stage()
        await serve_stages([stage], await opened(transport))

    run_program(serve())
