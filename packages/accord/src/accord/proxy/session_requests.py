"""Calls `Proxy.open_session` and `Proxy.close_session`, and adds the slash commands of a proxy."""

from __future__ import annotations

from typing import Any, Literal

from accord.errors import InternalError
from accord.proxy.chain_part import ChainPart, ProxyInChain
from accord.proxy.overrides import Overrides
from accord.proxy.proxy_tools import ProxyTools
from accord.proxy.requests import OpeningSession
from accord.proxy.turns import Turns
from accord.types.mcp import McpServerHttp, McpServerSse, McpServerStdio
from accord.wire.base import replace

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
        needs = ("open_session", "update", "decide_permission", "prompt")  # they use its `cwd`
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
