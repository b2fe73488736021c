"""ACP agents behind other protocols, as ASGI applications: `accord gateway`.

`gateway(...)` makes an application. `turns` has the sessions of the agents and the turns of their
callers, `caller_tools` gives the agents the tools of the callers, `app` is who may send a request,
`tracing` has the spans of requests and turns; each protocol is a file that translates between its
requests and the turns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from accord.remote.access import Access
    from accord_bridges.gateways.app import GatewayApp, Mount, Routes
    from accord_bridges.gateways.turns import GatewaySettings
    from accord_terminal.toolkit.agent_names import NamedAgent

PROTOCOLS = ("openai", "mcp", "a2a", "ag-ui")

__all__ = ("PROTOCOLS", "gateway")


def gateway(
    agents: Mapping[str, NamedAgent],
    access: Access,
    settings: GatewaySettings,
    *,
    only: Sequence[str] = PROTOCOLS,
    show_tools: bool = False,
    push_hosts: Sequence[str] = (),
    public_url: str | None = None,
) -> GatewayApp:
    """Return the application that serves agents by the protocols of `only`.

    `push_hosts` are those that A2A callers may let notify: `HOST`, `HOST:PORT` or `http://HOST`.
    `public_url` is the address of the gateway for callers, such as that of a proxy with TLS: A2A
    cards have it, and its host is allowed. Raises `ValueError` for values that are none.
    """
    from msgspec.structs import replace

    from accord_bridges.gateways.app import GatewayApp, public_address
    from accord_bridges.gateways.turns import AgentSessions

    if public_url is not None:
        public_url, host = public_address(public_url)
        access = replace(access, hosts=(*access.hosts, host))
    sessions = AgentSessions(agents, settings)
    routes: list[Routes | Mount] = []
    if "openai" in only:
        from accord_bridges.gateways.openai_chat import OpenAiChat
        from accord_bridges.gateways.openai_responses import OpenAiResponses

        kinds = (OpenAiChat, OpenAiResponses)
        routes += (kind(sessions, show_tools=show_tools).routes() for kind in kinds)
    if "mcp" in only:
        from accord_bridges.gateways.mcp_server import McpGateway

        routes.append(McpGateway(sessions).mount())
    if "ag-ui" in only:
        from accord_bridges.gateways.ag_ui import AgUi

        routes.append(AgUi(sessions).routes())
    if "a2a" in only:
        from accord_bridges.gateways.a2a import A2a

        routes += A2a(
            sessions, push_hosts=push_hosts, login=not access.insecure, public_url=public_url
        ).routes()
    return GatewayApp(sessions, routes, access)
