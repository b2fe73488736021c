"""Version 2 of the protocol, stable and unstable: its types, its methods, and roles to subclass.

`types` collects the types in reading order: `content` (values), `updates` (what an agent reports),
`client_requests` (what it asks of the client), `session` (setup and prompts) and `initialize`. Each
of these has the rows of its methods; `methods` makes one table of them, and adds the gates and
`SPEC`. `roles` and `proxy_role` are generated from that table; `base` has what it does not say.
Names are those of the schema, fields are in snake case.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from accord.v2 import methods, types
from accord.v2.methods import *
from accord.v2.types import *

if TYPE_CHECKING:
    from accord.v2.proxy_role import Proxy
    from accord.v2.roles import (
        AgentContext,
        AgentRole,
        ClientContext,
        ClientRole,
        MaybeAwaitable,
        RemoteAgent,
        RemoteClient,
    )

__all__: tuple[str, ...] = (
    "AgentContext",
    "AgentRole",
    "ClientContext",
    "ClientRole",
    "MaybeAwaitable",
    "Proxy",
    "RemoteAgent",
    "RemoteClient",
    "run",
)
__all__ += methods.__all__
__all__ += types.__all__

# The types need no event loop. These classes do, and are imported on first use.
_LAZY = {
    "Proxy": "proxy_role",
    **dict.fromkeys(("AgentContext", "AgentRole", "ClientContext", "ClientRole"), "roles"),
    **dict.fromkeys(("MaybeAwaitable", "RemoteAgent", "RemoteClient"), "roles"),
}


def run(agent: AgentRole) -> None:
    """Serve one client on stdin and stdout until it disconnects."""
    import_module("accord.roles.handshake").run(agent)


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_LAZY[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
