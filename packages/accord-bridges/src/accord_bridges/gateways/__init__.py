"""ACP agents behind other protocols, as ASGI applications: `accord gateway`.

`gateway(...)` makes an application. `turns` has the sessions of the agents and the turns of their
callers, `caller_tools` gives the agents the tools of the callers, `app` is who may send a request;
each protocol is a file that translates between its requests and the turns.
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
) -> GatewayApp:
    """Return the application that serves agents by the protocols of `only`.

    `push_hosts` are those that A2A callers may let notify: `HOST`, `HOST:PORT` or `http://HOST`.
    Raises `ValueError` for one that is none.
    """
    from accord_bridges.gateways.app import GatewayApp
    from accord_bridges.gateways.turns import AgentSessions

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

        routes += A2a(sessions, push_hosts=push_hosts, login=not access.insecure).routes()
    return GatewayApp(sessions, routes, access)
