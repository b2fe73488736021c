"""A proxy in one chain: what it overrides becomes handlers of the chain's version."""

from __future__ import annotations

import logging
from typing import Any

from msgspec import Raw

from accord.errors import InternalError, InvalidRequest, RequestError
from accord.mcp.provide import check_tools
from accord.mcp.provider import marked_tools
from accord.proxy.chain_part import ProxyInChain
from accord.proxy.client_requests import ClientRequests
from accord.proxy.hooks import ProxyHooks, overrides_hook
from accord.proxy.ordered import RequestHandler
from accord.proxy.overrides import Overrides, edited_json
from accord.proxy.proxied_sessions import ProxiedSessions
from accord.proxy.proxy_stage import ProxyStage
from accord.proxy.proxy_tools import ProxyTools
from accord.proxy.session_requests import SessionRequests
from accord.proxy.stage import Direction
from accord.proxy.turns import Turns
from accord.proxy.typed_proxy import add_extensions
from accord.proxy.update_hook import UpdateHook
from accord.proxy.versions import proxied_version
from accord.types.validation import require_type
from accord.wire.base import replace
from accord.wire.codec import decoder

log: logging.Logger = logging.getLogger("accord.proxy")

_HOOK_NAMES = tuple(name for name in vars(ProxyHooks) if name[0] != "_" and name != "commands")


class StagedProxyObject:
    """Calls the methods that a `Proxy` overrides."""

    def __init__(self, proxy: ProxyHooks) -> None:
        self._proxy = proxy
        self.name: str = type(proxy).__name__

    async def start(self) -> None:
        """Raise `TypeError` for a tool that cannot be described to an agent."""
        if tools := marked_tools(self._proxy):
            await check_tools(tools)

    def initialize_handler(self) -> RequestHandler | None:
        """Return None: `initialize` is edited, not handled."""
        return None

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

    def overrides(self, version: int, stage: ProxyStage, initialized: Raw) -> tuple[Overrides, ...]:
        """Return the handlers of both directions."""
        proxy = self._proxy
        to_agent, to_client = Overrides(Direction.TO_AGENT), Overrides(Direction.TO_CLIENT)
        has = {name: overrides_hook(proxy, name) for name in (*_HOOK_NAMES, "commands")}
        has["update"] = has["update"] or has["session_update"]
        known = proxied_version(version)
        chain = ProxyInChain(proxy, known, ProxiedSessions(), stage)
        turns = Turns(chain)
        updates = UpdateHook(chain, turns)
        if has["prompt"] or has["update"]:
            turns.add_to(to_agent)
        if has["update"] or has["decide_permission"] or proxy.commands or has["prompt"]:
            updates.add_to(to_client, has)
        offered = decoder(known.types.InitializeResponse)(initialized)
        tools = ProxyTools(proxy, known, stage, offered)
        SessionRequests(chain, turns, tools).add_to(to_agent, has)
        ClientRequests(chain).add_to(to_client, has)
        add_extensions(proxy, ProxyHooks, to_agent, to_client)
        return to_agent, to_client
