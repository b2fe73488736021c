"""The types of version 2 of the protocol, stable and unstable."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from accord.v2 import methods, types
from accord.v2.methods import *
from accord.v2.types import *

if TYPE_CHECKING:
    from accord.v2.proxy_role import Proxy
    from accord.v2.remote import RemoteAgent, RemoteClient
    from accord.v2.roles import (
        AgentContext,
        AgentRole,
        ClientContext,
        ClientRole,
        MaybeAwaitable,
    )
    from accord.v2.stdio import run

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

# The types need no event loop: these modules do, and are imported on first use.
_LAZY = {
    "Proxy": "proxy_role",
    **dict.fromkeys(("RemoteAgent", "RemoteClient"), "remote"),
    **dict.fromkeys(
        ("AgentContext", "AgentRole", "ClientContext", "ClientRole", "MaybeAwaitable"),
        "roles",
    ),
    "run": "stdio",
}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_LAZY[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
